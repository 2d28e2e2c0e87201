"""MPI as a workload: users' options, bad input, and what must not change."""

from __future__ import annotations

import numpy as np
import pytest

from softib.errors import InputError, LimitError
from softib.sim.fluid import run
from softib.sim.messages import Opcode
from softib.sim.paths import Plane
from softib.workloads.hosts import hosts_of
from softib.workloads.mpi_jobs import MPI
from softib.workloads.workload import parse
from tests.sim.packet.fabrics import star, tree


def end_us(text: str, fabric) -> float:
    m, _ = parse(text).messages(hosts_of(fabric))
    out = run(Plane(fabric), m, judge=False)
    assert out.ok if hasattr(out, "ok") else (out.completed_ps < 1 << 62).all()
    return out.end_ps / 1e6


@pytest.mark.parametrize("kind", MPI)
def test_every_pattern_runs(kind):
    pattern = kind.model_fields["pattern"].default
    assert end_us(f"{pattern}:64KiB", star(6)) > 0


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "mpi-allreduce:8KB,ranks=13",
            r"13 ranks; 6 hosts with 1 each take 6; use more on each with ranks-per-host=3",
        ),
        ("mpi-allreduce:8KB,algorithm=tree", "no algorithm of allreduce named 'tree'"),
        ("mpi-allreduce:8KB,version=3.1", "version: '3.1'"),
        ("mpi-allreduce:8KB,machine=cray", "machine: 'cray'"),
        ("mpi-allreduce:8KB,rails=4", "6 ports are not hosts with 4 rails each"),
        ("mpi-allreduce:99999999999999", "size: '99999999999999'"),
        ("mpi-allreduce:8KB,ranks=1", "it needs at least two"),
        ("mpi-latency:8KB,ranks=3", "mpi-latency is between 2 ranks; there are 3"),
        ("mpi-allgatherv:8KB", "no workload pattern named 'mpi-allgatherv'; did you mean mpi-allgather"),
        ("mpi-allreduce:8KB,opcode=read", "opcode is the library's choice"),
    ],
)
def test_bad_input_is_one_line(text, what):
    with pytest.raises(InputError, match=what) as caught:
        parse(text).messages(hosts_of(star(6)))
    assert "\n" not in str(caught.value)


def test_a_barrier_has_options_and_no_size():
    star6 = star(6)
    assert end_us("mpi-barrier,ranks=2", star6) < end_us("mpi-barrier,ranks=6", star6) == end_us("mpi-barrier", star6)


def test_a_segment_that_is_given_counts_in_the_limit():
    with pytest.raises(LimitError, match="more than 30,000,000 operations"):
        parse("mpi-reduce:64MB,segment=1").messages(hosts_of(star(6)))


def test_too_many_operations_are_refused_before_they_are_made():
    with pytest.raises(LimitError, match=r"alltoall by .* of 54,000 ranks is more than 30,000,000 operations"):
        parse("mpi-alltoall:1MB,ranks-per-host=9000").messages(hosts_of(star(6)))


def test_ranks_relabelled_on_a_symmetric_fabric_take_the_same_time():
    """Hosts of one switch are alike: whichever is rank 0, and in whatever order they come."""
    fabric = star(8)
    for what in ("mpi-allreduce:4KiB", "mpi-alltoall:1KiB", "mpi-bcast:100KiB"):
        assert end_us(what, fabric) == end_us(f"{what},hosts=7+3+5+1+0+2+6+4", fabric)


def test_the_order_of_jobs_changes_nothing():
    from softib.workloads.workload import Workload

    a, b = parse("mpi-allreduce:64KiB,hosts=0-3").jobs[0], parse("mpi-alltoall:64KiB,hosts=4-7").jobs[0]
    ends = []
    for jobs in ((a, b), (b, a)):
        m, names = Workload("both", jobs).messages(hosts_of(star(8)))
        out = run(Plane(star(8)), m, judge=False)
        ends.append({n: int(out.completed_ps[m.job == k].max()) for k, n in enumerate(names)})
    assert ends[0] == ends[1]


@pytest.mark.parametrize("what", ["mpi-allreduce:16KiB", "mpi-allgather:16KiB", "mpi-alltoall:16KiB", "mpi-barrier:1"])
def test_more_ranks_change_the_result(what):
    times = [end_us(f"{what},ranks={n},version=4.0", star(16)) for n in (2, 4, 8, 16)]
    assert times == sorted(set(times))


def test_ranks_on_one_host_and_on_several_are_not_the_same():
    """(2, 8) and (8, 2) hosts and ranks differ, and memory is faster than the network for small messages."""
    two, eight = (
        end_us("mpi-allreduce:64,ranks=16,ranks-per-host=8", tree(8, 2)),
        end_us("mpi-allreduce:64,ranks=16,ranks-per-host=2", tree(8, 2)),
    )
    assert two < eight


def test_rails_share_what_is_large():
    """Two rails take half as long for 4 MiB, and no less for 8 octets."""
    one, two = star(2), star(4)
    assert end_us("mpi-latency:4MiB,rails=2", two) == pytest.approx(end_us("mpi-latency:4MiB", one) / 2, rel=0.05)
    assert end_us("mpi-latency:8,rails=2", two) == end_us("mpi-latency:8", one)


def test_a_rendezvous_before_a_later_eager_message_of_the_same_pair():
    """RTS and FIN do not stand behind what their rank sends later: no message waits for ever."""
    from softib.workloads.schedule.builder import Builder
    from softib.workloads.schedule.messages import part_of
    from softib.workloads.schedule.overheads import Overheads
    from softib.workloads.schedule.schedule import Kind

    b = Builder(2)
    big, small = b.message(Kind.SEND, 0, 1, 1 << 20, 1), b.message(Kind.SEND, 0, 1, 8, 2)
    b.need(small, big)
    second, first = b.message(Kind.RECV, 1, 0, 1 << 20, 1), b.message(Kind.RECV, 1, 0, 8, 2)
    b.need(first, second)
    back = b.message(Kind.SEND, 1, 0, 1 << 20, 3)
    b.need(back, first)
    b.message(Kind.RECV, 0, 1, 1 << 20, 3)
    part, _ = part_of(b.schedule("x"), np.array([0, 1]), Overheads(eager_limit=1024))
    assert (part.opcode == Opcode.READ).sum() == 2
    from softib.sim.messages import messages

    order = np.argsort(part.waits, kind="stable")
    head = np.concatenate([[0], np.cumsum(np.bincount(part.waits, minlength=len(part.src)))])
    made = messages(
        part.src,
        part.dst,
        part.size,
        qp=part.qp,
        opcode=part.opcode,
        delay_ps=part.delay_ps,
        first=head,
        needs=part.needs[order],
    )
    assert (run(Plane(star(2)), made, judge=False).completed_ps < 1 << 60).all()


def test_ranks_of_a_host_reduce_before_the_switches_do():
    """Binomial trees of 2, 4 and 8 ranks have one, two and three levels, each as long; the operations of the switches are the same."""
    import softib

    tree = softib.generate("fat-tree", radix=8, levels=2, generation="HDR", aggregation_nodes=True)
    took = [
        softib.simulate(tree, f"mpi-allreduce:256,algorithm=sharp,ranks-per-host={each}").simulated_us
        for each in (1, 2, 4, 8)
    ]
    levels = np.diff(took).tolist()
    assert levels[0] > 0.5 and levels == pytest.approx([levels[0]] * 3)
