"""Each pattern is what its name says: counted from its messages alone."""

from __future__ import annotations

import numpy as np
import pytest

from softib.errors import InputError, LimitError, UnknownName
from softib.fabric.end_ports import end_ports
from softib.fabric.topologies.registry import generate
from softib.scenario.bring_up import bring_up
from softib.sim import fluid
from softib.workloads.hosts import Hosts, hosts_of
from softib.workloads.registry import patterns
from softib.workloads.units import rate_of, size_of, time_ps_of
from softib.workloads.workload import parse, read

N = 16
FEW = Hosts(np.arange(N) + 3, tuple(f"node-{i:02}" for i in range(N)), np.arange(N) // 4)


def made(text: str, hosts: Hosts = FEW, seed: int = 0):
    m, names = parse(text).messages(hosts, seed)
    m.check(N + 3)
    return m, names


@pytest.fixture(scope="module")
def tree():
    fabric = generate("fat-tree", m=(4, 4), w=(1, 2), p=(1, 1))
    bring_up(fabric)
    return fabric


@pytest.mark.parametrize("seed", range(20))
def test_a_permutation_sends_and_receives_once_and_never_to_itself(seed):
    m, _ = made("permutation:2MB", seed=seed)
    assert (
        sorted(m.src) == sorted(m.dst) == list(range(3, N + 3))
        and (m.src != m.dst).all()
        and (m.size == 2_000_000).all()
    )


def test_two_hosts_permute():
    m, _ = made("permutation:1B,hosts=0-1")
    assert m.src.tolist() == [3, 4] and m.dst.tolist() == [4, 3]


def test_a_shift_is_a_shift():
    m, _ = made("shift:1MB,k=5")
    assert ((m.dst - m.src) % N == 5).all()


def test_an_all_to_all_has_every_pair_once_and_waits_for_its_window():
    m, _ = made("all-to-all:64KB,window=2")
    assert len({(a, b) for a, b in zip(m.src.tolist(), m.dst.tolist(), strict=True)}) == len(m) == N * (N - 1)
    waits = np.repeat(np.arange(len(m)), np.diff(m.first))
    assert (m.src[waits] == m.src[m.needs]).all() and (waits - m.needs == 2 * N).all()
    assert len(made("all-to-all:1B,window=0")[0].needs) == 0


def test_random_pairs_begin_within_their_span():
    m, _ = made("random-pairs:1KB,messages=500,over=10us")
    assert (
        len(m) == 500 and m.start_ps.min() >= 0 and m.start_ps.max() <= 10_000_000 and len(np.unique(m.start_ps)) > 400
    )
    assert (m.src != m.dst).all()


def test_a_bisection_is_a_matching_both_ways():
    m, _ = made("bisection:1MB")
    pairs = set(zip(m.src.tolist(), m.dst.tolist(), strict=True))
    assert len(pairs) == N and all((b, a) in pairs for a, b in pairs)


def test_an_incast_has_one_receiver():
    m, _ = made("incast:64KB,senders=5,target=node-07,count=3")
    assert set(m.dst) == {10} and len(set(m.src)) == 5 and len(m) == 15 and 10 not in m.src
    assert len(made("incast")[0]) == N - 1


def test_a_parking_lot_has_one_sender_a_switch():
    m, _ = made("parking-lot:1MB,target=node-00")
    assert sorted(FEW.switch[m.src - 3].tolist()) == [0, 1, 2, 3] and set(m.dst) == {3}


def test_a_hot_spot_has_victims_with_a_service_level_of_their_own():
    m, names = made("hot-spot:1MB,senders=4,victim-sl=2")
    assert names == ("hot spot", "victims")
    hot, victims = m.job == 0, m.job == 1
    assert set(m.dst[hot]) == {3} and hot.sum() == 4 and victims.sum() == N - 5
    assert not set(m.src[victims]) & set(m.src[hot]) and set(m.sl[victims]) == {2} and set(m.sl[hot]) == {-1}


def test_a_ping_pong_answers_each_message_with_the_next(tree):
    m, _ = parse("latency:2B,iterations=10").messages(hosts_of(tree))
    assert len(m) == 20 and (m.src[1:] == m.dst[:-1]).all()
    outcome = fluid.run(tree, m)
    program_ps = hosts_of(tree).profile.program_ns * 1000  # to see a message, and to post the next one
    assert (outcome.began_ps[1:] == outcome.arrived_ps[:-1] + program_ps).all()


def test_reads_follow_each_other_and_need_no_answer(tree):
    m, _ = parse("latency:2B,iterations=10,opcode=read").messages(hosts_of(tree))
    assert len(m) == 10 and len(set(m.src)) == 1


def test_a_bandwidth_test_keeps_its_depth_under_way(tree):
    m, _ = parse("bandwidth:64KB,iterations=100,tx-depth=8,qps=2").messages(hosts_of(tree))
    outcome = fluid.run(tree, m)
    for line in range(2):
        rows = np.flatnonzero(m.qp == line)
        assert len(rows) == 100
        assert (outcome.began_ps[rows[8:]] >= outcome.completed_ps[rows[:-8]]).all()


def test_a_deep_queue_fills_the_link(tree):
    from tests.sim import oracle

    m, _ = parse("bandwidth:1MB,iterations=100").messages(hosts_of(tree))
    outcome = fluid.run(tree, m)
    rate = max(float(g) for g in oracle.link_rates(tree).values())
    got = m.size.sum() * 8e3 / outcome.end_ps
    assert 0.98 * rate < got < rate


def test_bidirectional_halves_send_against_each_other():
    m, _ = made("bandwidth:64KB,iterations=10,bidirectional=yes")
    assert len(m) == 20 and set(zip(m.src.tolist(), m.dst.tolist(), strict=True)) == {(3, N + 2), (N + 2, 3)}


def test_a_matrix_sends_its_bytes(tmp_path):
    (tmp_path / "m.csv").write_text("source,destination,bytes\nnode-00,node-01,5GB\nnode-02,node-03,10\n")
    m, _ = made(f"matrix:{tmp_path / 'm.csv'}")
    assert m.size.sum() == 5_000_000_010 and len(m) == 4 and m.size.max() <= 1 << 31


def test_the_same_seed_draws_the_same():
    one, two, other = (made("permutation:1B", seed=s)[0] for s in (1, 1, 2))
    assert one.dst.tolist() == two.dst.tolist() != other.dst.tolist()
    assert made("permutation:1B,seed=1", seed=7)[0].dst.tolist() == one.dst.tolist()


@pytest.mark.parametrize("pattern", [name for name, p in patterns().items() if p.job.first_word == "size"])
def test_every_pattern_runs_on_a_real_tree(pattern, tree):
    few = ",iterations=5" if pattern in ("latency", "bandwidth", "message-rate") else ""
    m, _ = parse(f"{pattern}:4KB{few}").messages(hosts_of(tree))
    m.check(len(end_ports(tree)))
    assert fluid.run(tree, m).done and patterns()[pattern].doc


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("permutaton:2MB", "did you mean permutation"),
        ("permutation:0", "must be at least 1"),
        ("permutation:-5", "use for example 2MB"),
        ("permutation:2XB", "use for example 2MB"),
        ("permutation:3GiB", "must be at most 2147483648"),
        ("permutation:2MB,sede=1", "did you mean seed"),
        ("permutation:2MB,seed", "is not an option"),
        ("permutation:2MB,size=1", "occurs twice"),
        ("shift:1MB,k=16", "send to itself"),
        ("shift:1MB,start=10", "use for example 10us"),
        ("shift:1MB,sl=16", "must be at most 15"),
        ("incast:1MB,senders=16", "there are only 15 others"),
        ("incast:1MB,target=node-7", "did you mean node-07"),
        ("permutation:1MB,hosts=0-16", "the fabric has 16 hosts"),
        ("permutation:1MB,hosts=3", "at least two"),
        ("bandwidth:1MB,source=node-00,target=0", "would send to itself"),
        ("bandwidth:1MB,iterations=99999999", "at most 20,000,000"),
        ("permutation:1e400", "use for example 2MB"),
        ("shift:1MB,start=1e400s", "use for example 10us"),
        ("shift:1MB,rate=1e400", "use for example 25"),
        ("mpi-barrier,tree", "'tree' is not an option"),
        ("matrix", "file is missing"),
        ("matrix:/nonexistent.csv", "No such file"),
        ("jobs.yml2", "a file of jobs ends in"),
    ],
)
def test_what_is_wrong_is_one_line_that_says_what_is_right(text, said):
    with pytest.raises((InputError, LimitError)) as error:
        made(text)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_hosts_have_the_order_of_people():
    fabric = generate("fat-tree", m=(12,), w=(1,), p=(1,))
    bring_up(fabric)
    found = hosts_of(fabric)
    assert list(found.name) == sorted(found.name) and len(found) == 12
    assert found.chosen(["0-2", found.name[5], found.name[1]]).tolist() == [0, 1, 2, 5]
    assert (
        found.chosen([f"{found.name[0][:-1]}*"]).tolist() == list(range(12))[: 9 if len(found.name[0]) > 8 else 12][:9]
    )


@pytest.mark.parametrize(
    ("reader", "text", "value"),
    [
        (size_of, "2MB", 2e6),
        (size_of, "64 KiB", 65536),
        (size_of, "4096", 4096),
        (size_of, "1e6", 1e6),
        (time_ps_of, "10us", 10**7),
        (time_ps_of, "1.5 ms", 15 * 10**8),
        (time_ps_of, "0", 0),
        (time_ps_of, "2s", 2 * 10**12),
        (rate_of, "25", 25),
        (rate_of, "25Gb/s", 25),
        (rate_of, "500 Mb/s", 0.5),
    ],
)
def test_units(reader, text, value):
    assert reader(text) == value


FILE = """name: storage beside training
jobs:
- {pattern: all-to-all, size: 1MB, hosts: 0-7, name: training}
- pattern: incast
  size: 64KB
  hosts: [8-15]
  sl: 1
  start: 10us
"""


def test_a_file_of_jobs(tmp_path):
    (tmp_path / "w.yaml").write_text(FILE)
    work = read(tmp_path / "w.yaml")
    m, names = work.messages(FEW)
    assert names == ("training", "incast") and work.name == "storage beside training"
    assert (m.job == 0).sum() == 56 and (m.start_ps[m.job == 1] == 10**7).all() and set(m.sl[m.job == 1]) == {1}
    assert set(m.src[m.job == 1]) | set(m.dst[m.job == 1]) == set(range(11, 19))
    assert not set(m.qp[m.job == 0]) & set(m.qp[m.job == 1])


@pytest.mark.parametrize(
    ("wrong", "line", "said"),
    [
        ("pattern: incst", 4, "did you mean incast"),
        ("patterm: incast", 4, "needs its pattern"),
        ("size: 64KB", 5, "size"),
        ("start: 10", 8, "use for example 10us"),
    ],
)
def test_errors_in_a_file_have_their_line(tmp_path, wrong, line, said):
    key = wrong.split(":")[0].replace("patterm", "pattern")
    text = FILE.replace("  size: 64KB\n", "  size: 0\n") if key == "size" else FILE
    rows = text.splitlines()
    if key != "size":
        at = next(i for i, r in enumerate(rows) if i >= 3 and r.strip(" -").startswith(f"{key}:"))
        rows[at] = rows[at][: len(rows[at]) - len(rows[at].lstrip(" -"))] + wrong
    (tmp_path / "w.yaml").write_text("\n".join(rows))
    with pytest.raises(InputError) as error:
        read(tmp_path / "w.yaml")
    assert f"w.yaml:{line}:" in str(error.value) and said in str(error.value)


def test_an_unknown_key_and_an_unknown_host_are_named(tmp_path):
    (tmp_path / "w.yaml").write_text("jbs: []\njobs: [{pattern: shift}]\n")
    with pytest.raises(InputError, match="did you mean jobs"):
        read(tmp_path / "w.yaml")
    with pytest.raises(UnknownName, match="node-99"):
        made("shift:1MB,hosts=node-99")


def test_a_multicast_has_one_source_and_its_group():
    m, _ = made("multicast:1000,receivers=5,count=3,source=node-02")
    assert len(m) == 3 and (m.src == 5).all() and (m.group == 1).all() and len(m.groups) == 1
    members = m.groups[0].members
    assert len(members) == 5 and 5 not in members and m.groups[0].mlid == 0, "a manager gives it an MLID"
    everybody = made("multicast")[0].groups[0].members
    assert sorted(everybody) == list(range(4, N + 3))
    with pytest.raises(InputError, match="15 others"):
        made("multicast:8,receivers=99")


def test_an_aggregation_is_an_all_reduce_that_a_fabric_makes_messages_of():
    m, names = made("aggregation:8KB,tree=streaming,hosts=0-3,start=2us")
    assert len(m) == 0 and names == ("aggregation",) and len(m.reductions) == 1
    r = m.reductions[0]
    assert r.hosts.tolist() == [3, 4, 5, 6] and (r.size, r.streaming, r.start_ps) == (8000, True, 2_000_000)
    with pytest.raises(InputError, match="over RC"):
        made("aggregation:8,opcode=read")
