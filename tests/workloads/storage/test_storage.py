"""Storage: octets are conserved, queue depths hold, barriers hold, and rates are those of links and
devices."""

from __future__ import annotations

import numpy as np
import pytest

import softib
from softib.errors import InputError, LimitError
from softib.fabric.topologies.registry import generate
from softib.scenario.bring_up import bring_up
from softib.sim import fluid, packet
from softib.sim.messages import REQUEST_OCTETS, Opcode, without_reads
from softib.workloads.hosts import Hosts, hosts_of
from softib.workloads.storage.nvmeof import COMMAND, RESPONSE
from softib.workloads.workload import parse, read
from tests.sim import oracle

N = 16
FEW = Hosts(np.arange(N), tuple(f"node-{i:02}" for i in range(N)), np.arange(N) // 4)
IDLE = "device=memory,client-time=0,target-time=0"


def made(text: str, hosts: Hosts = FEW):
    m, _ = parse(text).messages(hosts)
    m.check(N)
    return m


@pytest.fixture(scope="module")
def star():
    """Eight hosts on one switch: any relabelling of them is the same fabric."""
    fabric = generate("fat-tree", m=(8,), w=(1,), p=(1,))
    bring_up(fabric)
    return fabric


def data_of(m):
    """Rows that carry data alone."""
    return np.flatnonzero(~m.computes & (m.size != COMMAND) & (m.size != RESPONSE))


@pytest.mark.parametrize("operation", ["read", "write"])
@pytest.mark.parametrize("more", ["", ",protocol=rdma", ",in-capsule=0"])
def test_every_octet_of_every_client_moves_once(operation, more):
    if more == ",in-capsule=0" and operation == "read":
        more = ""
    m = made(f"storage:3000000,operation={operation},targets=12-15,stripe=300000,block=700000,bursts=2{more}")
    rows = data_of(m)
    assert m.size[rows].sum() == 12 * 3_000_000 * 2
    from_client = m.src[rows] < 12
    ends = np.where(from_client, m.src[rows], m.dst[rows])
    assert set(np.bincount(ends, m.size[rows])[:12]) == {6_000_000.0}


def test_stripes_go_round_all_targets_evenly():
    m = made("storage:4MiB,targets=12-15,stripe=1MiB,operation=write,protocol=rdma")
    assert (np.bincount(m.dst, m.size, minlength=N)[12:] == 12 << 20).all()
    one = made("storage:4MiB,targets=12-15,stripe-count=1,operation=write,protocol=rdma")
    assert (np.bincount(one.dst, one.size, minlength=N)[12:] == 3 * (4 << 20)).all()
    assert all(len(set(one.dst[(one.src == c) & ~one.computes])) == 1 for c in range(12))


def test_requests_are_cut_at_stripes_and_blocks():
    m = made("storage:10,block=4,stripe=3,hosts=0,targets=1-2,operation=write,protocol=rdma")
    assert m.size.tolist()[1:] == [3, 1, 2, 2, 1, 1] and m.dst.tolist()[1:] == [1, 2, 2, 1, 1, 2]


def test_a_small_write_travels_with_its_command():
    m = made("storage:8KiB,block=4KiB,operation=write,hosts=0,targets=1")
    assert sorted(m.size[~m.computes].tolist()) == [RESPONSE, RESPONSE, COMMAND + 4096, COMMAND + 4096]
    fetched = made("storage:8KiB,block=4KiB,operation=write,hosts=0,targets=1,in-capsule=0")
    assert (fetched.opcode[fetched.size == 4096] == Opcode.READ).all() and (
        fetched.src[fetched.size == 4096] == 1
    ).all()


@pytest.mark.parametrize("operation", ["read", "write"])
def test_no_more_requests_are_under_way_than_the_queue_is_deep(star, operation):
    m, _ = parse(f"storage:1MiB,block=64KiB,queue-depth=3,operation={operation}").messages(hosts_of(star))
    out = fluid.run(star, m)
    asks, answers = m.size == COMMAND, m.size == RESPONSE
    for client in np.unique(m.src[asks]):
        begun = np.sort(out.began_ps[asks & (m.src == client)])
        ended = np.sort(out.arrived_ps[answers & (m.dst == client)])
        assert len(begun) == 16 and (begun[3:] >= ended[:-3]).all() and (begun[3:6] < ended[-1]).all()


def test_one_request_at_a_time_takes_its_processors_its_device_and_the_network(star):
    """Little's law with one under way: the rate is one over the time of a request."""
    m, _ = parse("storage:64KiB,block=4KiB,queue-depth=1,hosts=0,targets=1").messages(hosts_of(star))
    each_us = fluid.run(star, m).end_ps / 1e6 / 16
    known = 80 + 5 + 5 + 4096 * 8 / (8 * 54.4e3)
    assert known < each_us < known + 4


def test_a_target_serves_no_faster_than_its_devices(star):
    m, _ = parse("storage:8MiB,device-rate=20,targets=0").messages(hosts_of(star))
    assert fluid.run(star, m).end_ps / 1e12 == pytest.approx(7 * (8 << 20) * 8 / 20e9, rel=0.02)


def two_jobs(tmp_path, first: str, second: str, layer: str) -> dict[str, dict]:
    """What each of two jobs of clients 0-2 and 3-5 took."""
    file = tmp_path / "w.yaml"
    lines = (
        f"- {{pattern: storage, name: {n}, hosts: {h}, {more}}}"
        for n, h, more in (("a", "0-2", first), ("b", "3-5", second))
    )
    file.write_text("\n".join(["jobs:", *lines]))
    fabric = softib.generate("fat-tree", m=(8,), w=(1,), p=(1,))
    return {row["job"]: row for row in softib.simulate(fabric, read(file), layer=layer).to_json()["jobs"]}


@pytest.mark.parametrize("layer", ["fluid", "packet"])
@pytest.mark.parametrize("operation", ["read", "write"])
def test_jobs_that_share_a_target_share_its_devices(tmp_path, layer, operation):
    """Two jobs of three clients each on one target: together its devices' rate, each half of it;
    with a target each all of it. One that moves half as much ends when it has had as much as the
    other one, which has all from then on."""
    of = f"size: 4MiB, block: 256KiB, device_rate: 20, operation: {operation}"
    ps = 3 * (4 << 20) * 8 / 20e9 * 1e6
    shared = two_jobs(tmp_path, f"{of}, targets: 7", f"{of}, targets: 7", layer)
    assert [shared[j]["ended_us"] for j in "ab"] == pytest.approx([2 * ps, 2 * ps], rel=0.03)
    apart = two_jobs(tmp_path, f"{of}, targets: 6", f"{of}, targets: 7", layer)
    assert [apart[j]["ended_us"] for j in "ab"] == pytest.approx([ps, ps], rel=0.03)
    uneven = two_jobs(tmp_path, f"{of}, targets: 7", f"{of.replace('4MiB', '2MiB')}, targets: 7", layer)
    assert [uneven[j]["ended_us"] for j in "ab"] == pytest.approx([1.5 * ps, ps], rel=0.06)


@pytest.mark.parametrize("layer", ["fluid", "packet"])
@pytest.mark.parametrize("operation", ["read", "write"])
def test_a_target_serves_no_more_requests_than_its_processors_do(tmp_path, layer, operation):
    """Small requests of six clients in two jobs: 200,000 a second of a target, whoever asks; on two
    targets by stripes twice as many."""
    of = f"size: 1MiB, block: 4KiB, device: memory, target_iops: 200000, operation: {operation}, stripe: 4KiB"
    for targets, together in (("[7]", 200_000), ("[6, 7]", 400_000)):
        took = two_jobs(tmp_path, f"{of}, targets: {targets}", f"{of}, targets: {targets}", layer)
        for job in took.values():
            assert job["requests"]["per_s"] == pytest.approx(together / 2, rel=0.03)


@pytest.mark.parametrize("layer", ["fluid", "packet"])
def test_clients_of_striped_targets_have_the_sum_of_their_rates(tmp_path, layer):
    """N:M: six clients over two targets of 10 Gb/s each move 20 Gb/s."""
    of = "size: 6MiB, block: 256KiB, stripe: 256KiB, device_rate: 10, operation: write"
    one = two_jobs(tmp_path, f"{of}, targets: [6, 7]", f"{of}, targets: [6, 7]", layer)
    assert max(j["ended_us"] for j in one.values()) == pytest.approx(6 * (6 << 20) * 8 / 20e9 * 1e6, rel=0.04)


@pytest.mark.parametrize("clients", [1, 4])
def test_reads_of_many_targets_share_the_links_of_the_clients(star, clients):
    """Incast of reads: striped over the other hosts, a client gets what its own link carries."""
    text = f"storage:8MiB,hosts=0-{clients - 1},targets={clients}-7,{IDLE}"
    m, _ = parse(text).messages(hosts_of(star))
    rate = max(float(g) for g in oracle.link_rates(star).values())
    took = {layer.__name__: layer.run(star, m).end_ps for layer in (fluid, packet)}
    for ps in took.values():
        assert 1 < ps / ((8 << 20) * 8e3 / rate) < 1.06, took


def test_nobody_leaves_a_barrier_before_the_last_has_come(star):
    m, _ = parse("checkpoint:1MiB,rounds=2,compute=50us,targets=7").messages(hosts_of(star))
    out = fluid.run(star, m)
    asks = np.sort(out.began_ps[m.size == COMMAND])
    answers = np.sort(out.arrived_ps[m.size == RESPONSE])
    compute = m.computes & (m.delay_ps == 50_000_000)
    begun, ended = np.sort(out.began_ps[compute]), np.sort(out.completed_ps[compute])
    assert len(asks) == len(answers) == 14 and len(begun) == 14
    assert asks[0] >= ended[6], "all computed before the first writes"
    assert begun[7] >= answers[6], "all is written before the first computes again"
    assert asks[7] >= ended[-1]


@pytest.mark.parametrize("network", ["infiniband", "tcp"])
def test_requests_are_timed_from_command_to_answer(network):
    """One at a time: the mean of their times is one over their rate, less the client's 5 us between
    two; and Little's law with four."""
    fabric = softib.generate("fat-tree", m=(8,), w=(1,), p=(1,))
    text = "storage:1MiB,block=64KiB,operation=write,hosts=0,targets=1,queue-depth="
    (one,) = softib.simulate(fabric, text + "1", layer="packet", network=network).to_json()["jobs"]
    asked = one["requests"]
    assert asked["requests"] == 16 and 25 < asked["p50_us"] <= asked["p99_us"]
    assert asked["per_s"] * (asked["p50_us"] + 5) * 1e-6 == pytest.approx(1, rel=0.04)
    (four,) = softib.simulate(fabric, text + "4", layer="packet", network=network).to_json()["jobs"]
    assert asked["per_s"] < four["requests"]["per_s"] <= 4 * asked["per_s"]
    assert "requests" not in softib.simulate(fabric, "shift:1MB").to_json()["jobs"][0]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_a_barrier_of_any_number_of_hosts_makes_all_wait_for_the_slowest(n):
    from softib.workloads.storage.rows import Rows, barrier

    rows = Rows()
    entered = rows.compute(np.arange(n), np.arange(n), np.arange(n))
    barrier(rows, np.arange(n), entered)
    part = rows.part()
    needs: dict[int, set[int]] = {}
    for row, need in sorted(zip(part.waits.tolist(), part.needs.tolist(), strict=True)):
        needs.setdefault(row, set()).update({need}, needs.get(need, set()))
    last = range(len(part.src) - n, len(part.src))
    assert all(set(range(n)) <= needs[row] for row in last)


@pytest.mark.parametrize("layer", ["fluid", "packet"])
def test_a_relabelled_target_takes_as_long(star, layer):
    fabric = softib.generate("fat-tree", m=(8,), w=(1,), p=(1,))
    took = {
        t: softib.simulate(fabric, f"storage:2MiB,targets={t},block=256KiB,operation=write", layer=layer).simulated_us
        for t in (0, 3, 7)
    }
    assert max(took.values()) / min(took.values()) < (1 + 1e-9 if layer == "fluid" else 1.01), took


@pytest.mark.parametrize("layer", ["fluid", "packet"])
def test_the_order_of_jobs_in_a_file_does_not_matter(tmp_path, layer):
    lines = [
        "- {pattern: storage, name: data, size: 2MiB, hosts: 0-3, targets: 6, sl: 0}",
        "- {pattern: checkpoint, name: save, size: 1MiB, hosts: 0-3, targets: 7}",
        "- {pattern: all-to-all, name: training, size: 128KiB, hosts: 0-5}",
    ]
    fabric, took = softib.generate("fat-tree", m=(8,), w=(1,), p=(1,)), []
    for order in ((0, 1, 2), (2, 0, 1)):
        file = tmp_path / "w.yaml"
        file.write_text("\n".join(["jobs:", *(lines[i] for i in order)]))
        rows = softib.simulate(fabric, read(file), layer=layer).to_json()["jobs"]
        took.append({row["job"]: row["ended_us"] for row in rows})
    close = 1e-9 if layer == "fluid" else 0.03
    assert took[0] == pytest.approx(took[1], rel=close)


def test_sockets_ask_for_what_they_read():
    m = made("storage:8MiB,operation=write,hosts=0-3,targets=12-13")
    asked = without_reads(m)
    asked.check(N)
    reads = np.flatnonzero(m.opcode == Opcode.READ)
    assert len(asked) == len(m) + len(reads) and not (asked.opcode == Opcode.READ).any()
    assert (asked.src[reads] == m.dst[reads]).all() and asked.size.sum() == m.size.sum() + REQUEST_OCTETS * len(reads)
    for row, ask in zip(reads.tolist(), range(len(m), len(asked)), strict=True):
        assert asked.needs[asked.first[row] : asked.first[row + 1]].tolist() == [ask]
        assert (
            asked.needs[asked.first[ask] : asked.first[ask + 1]].tolist()
            == m.needs[m.first[row] : m.first[row + 1]].tolist()
        )
    assert without_reads(asked) is asked


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("storage:1MB,targets=0-15", "all 16 hosts are targets"),
        ("storage:1MB,targets=", "no host is a target"),
        ("storage:1MB,targets=99", "the fabric has 16 hosts"),
        ("storage:1MB,targets=14-15,stripe-count=3", "stripe-count 3 on 2 targets"),
        ("storage:1MB,opcode=read", "its protocol determines the messages"),
        ("storage:1MB,operation=reed", "'read' or 'write'"),
        ("storage:1MB,protocol=rdma,device-time=1us", "leave device-time out"),
        ("storage:1MB,protocol=rdma,target-iops=5", "leave target-iops out"),
        ("storage:1MB,target-iops=0", "must be at least 1"),
        ("storage:1MB,device=memory,device-rate=4", "leave device-rate out"),
        ("storage:1MB,in-capsule=99999", "must be at most 16384"),
        ("storage:1TB,block=1", "at most 20,000,000"),
        ("storage:9999PB", "must be at most"),
        ("storage:1MB,queue-depth=0", "must be at least 1"),
        ("checkpoint:1MB,compute=5", "use for example 10us"),
        ("checkpoint:1MB,round=5", "did you mean rounds"),
        ("checkpoint:1TB,rounds=1000", "at most 20,000,000"),
        ("storage:1MB,fabric=other", "an option of jobs in a file"),
    ],
)
def test_what_is_wrong_is_one_line(text, said):
    with pytest.raises((InputError, LimitError)) as error:
        made(text)
    assert said in str(error.value) and "\n" not in str(error.value)
