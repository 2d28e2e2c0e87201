"""What a message costs by how it goes: MPI_Send and MPI_Isend, fragments, thresholds, ranks of one host (UCX 1.9 and Open MPI 4.0.5)."""

from __future__ import annotations

import numpy as np
import pytest

from softib.analysis.simulation.replay import replay
from softib.sim.fluid import run
from softib.sim.messages import Opcode
from softib.sim.paths import Plane
from softib.workloads.hosts import hosts_of
from softib.workloads.mpi.collective import program_of
from softib.workloads.mpi.cost import costs_of
from softib.workloads.mpi.program import Data, Program
from softib.workloads.schedule.messages import part_of
from softib.workloads.schedule.overheads import Overheads
from tests.sim.packet.fabrics import star
from tests.workloads.programs import on_hosts

ONE, TWO = np.array([0]), np.array([1])


def one_message(octets: int, blocking: bool, receiver: np.ndarray = TWO):
    """Rank 0 sends to rank 1."""
    p = Program(2)
    p.send(ONE, receiver, Data.of(0, octets, 1), blocking=blocking)
    p.receive(receiver, ONE, Data.of(0, octets, 1))
    return p.schedule("one message")


def end_ns(octets: int, blocking: bool = True, hosts: tuple[int, ...] = (0, 1), each: int = 1, **cost: float) -> float:
    made, ended = on_hosts(one_message(octets, blocking), star(2), hosts, each, **cost)
    return float(run(Plane(star(2)), made, judge=False).arrived_ps[ended].max()) / 1000


@pytest.mark.parametrize(
    ("octets", "blocking", "reads"),
    [
        (16 << 10, False, 0),
        (32 << 10, False, 1),
        (32 << 10, True, 0),
        (128 << 10, True, 0),
        ((256 << 10) - 1, True, 0),
        (256 << 10, True, 1),
    ],
)
def test_isend_meets_early_and_send_at_256_kib(octets, blocking, reads):
    """UCX_RNDV_SEND_NBR_THRESH=256k is for ucp_tag_send_nbr, which MPI_Send takes; MPI_Isend has the threshold that UCX computes."""
    part, _ = part_of(one_message(octets, blocking), np.array([0, 1]), costs_of("default").overheads)
    assert (part.opcode == Opcode.READ).sum() == reads


def test_eager_messages_keep_to_one_rail_and_rendezvous_takes_two():
    """UCX_MAX_EAGER_RAILS=1, UCX_MAX_RNDV_RAILS=2."""
    rails = np.array([[0, 1], [2, 3]])
    eager, late = (
        part_of(one_message(128 << 10, blocking), np.array([0, 2]), costs_of("default").overheads, rails)[0]
        for blocking in (True, False)
    )
    assert (eager.opcode == Opcode.SEND).sum() == 1 and (late.opcode == Opcode.READ).sum() == 2


def test_only_a_send_that_is_not_blocking_goes_without_a_copy():
    cost = {"copy_ps": 1000.0, "zcopy_above": 1024}
    copied = end_ns(4096, True, **cost)
    assert copied - end_ns(4096, False, **cost) == pytest.approx(4096)
    assert end_ns(1024, True, **cost) == end_ns(1024, False, **cost)


@pytest.mark.parametrize(("name", "above"), [("fetch_ns", "bounce_above"), ("behind_ns", "fragment")])
def test_latencies_begin_above_their_thresholds(name, above):
    more = lambda octets: end_ns(octets, **{above: 512, name: 100.0}) - end_ns(octets, **{above: 512})
    assert (round(more(512)), round(more(513))) == (0, 100)


def test_a_sender_copies_further_fragments_while_the_first_is_on_its_way():
    """The receiver does not wait for them, the sender's next operation does."""
    cost = {"copy_ps": 1000.0, "fragment": 8192}
    arrived = lambda rest: end_ns(64 << 10, copies_rest=rest, **cost)
    p = Program(2)
    p.send(ONE, TWO, Data.of(0, 64 << 10, 1))
    p.send(ONE, TWO, Data.of(0, 8, 1))
    p.receive(TWO, ONE, Data.of(0, 64 << 10, 1))
    p.receive(TWO, ONE, Data.of(0, 8, 1))
    ends = []
    for rest in (False, True):
        made, ended = on_hosts(p.schedule("two"), star(2), [0, 1], copies_rest=rest, **cost)
        ends.append(run(Plane(star(2)), made, judge=False).arrived_ps[ended][1])
    assert arrived(True) - arrived(False) <= 56 << 10
    assert ends[1] - ends[0] == (56 << 10) * 1000


def test_writing_to_a_rank_of_the_same_host_takes_the_senders_processor():
    """Two messages leave one after another; what both take to be seen runs side by side."""
    p = Program(3)
    for to in (1, 2):
        p.send(ONE, np.array([to]), Data.of(0, 1000, 1))
        p.receive(np.array([to]), ONE, Data.of(0, 1000, 1))
    made, ended = on_hosts(p.schedule("two"), star(2), [0], 3, memory_ns=500.0, memory_ps=100.0, send_ns=10.0)
    ends = run(Plane(star(2)), made, judge=False).arrived_ps[ended] // 1000
    assert ends.tolist() == [110, 220, 610, 720]


def test_layers_agree_on_ranks_of_one_host():
    """Two messages of a pair, the second behind the first: in the fluid layer and by LogGOPS."""
    p = Program(2)
    for _ in range(2):
        p.send(ONE, TWO, Data.of(0, 1000, 1))
        p.receive(TWO, ONE, Data.of(0, 1000, 1))
    s, cost = p.schedule("two"), {"memory_ns": 500.0, "memory_ps": 100.0, "send_ns": 10.0}
    made, ended = on_hosts(s, star(2), [0], 2, **cost)
    fluid = run(Plane(star(2)), made, judge=False).arrived_ps[ended]
    host = np.full(2, hosts_of(star(2)).end[0])
    assert fluid.tolist() == replay(Plane(star(2)), s, host, Overheads(**cost)).outcome.ended_ps.tolist()


def test_only_reductions_take_the_time_of_a_call():
    """Scratch buffers; a broadcast has none."""
    costs = costs_of("default")
    computes = lambda what: int((program_of(what, 8, 4, costs, version="4.0")[0].schedule("x").compute_ps > 0).sum())
    assert computes("bcast") == computes("barrier") == 0 < computes("allreduce")


def test_without_costs_a_verbs_program_is_as_it_was():
    """What GOAL and Chakra traces take: no limit of MPI's."""
    part, _ = part_of(one_message(1 << 20, True), np.array([0, 1]), Overheads(eager_limit=1024))
    assert (part.opcode == Opcode.READ).sum() == 1
