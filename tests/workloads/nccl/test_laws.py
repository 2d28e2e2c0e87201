"""Laws over random configurations of GPUs, adapters, links and algorithms: 100 of them in the default run, 1,000 in ``make test-all``."""

from __future__ import annotations

import numpy as np
import pytest

from softib.workloads.hosts import Hosts
from softib.workloads.nccl import work
from softib.workloads.nccl.constants import ALGORITHMS, PROTOCOLS, Algorithm, Collective
from softib.workloads.nccl.flows import flows_of
from softib.workloads.nccl.job import run_of
from softib.workloads.nccl.law import predicted_us
from softib.workloads.nccl.machine import GPUS, MACHINES, Machine
from softib.workloads.nccl.net_ib import Run
from softib.workloads.nccl.tuning import Choice, choose, possible
from softib.workloads.nccl.work import work_of
from softib.workloads.parameters import section
from softib.workloads.workload import parse

SECTION = section("nccl")
SEEDS = [*range(100), *(pytest.param(s, marks=pytest.mark.slow) for s in range(100, 1000))]


def drawn(seed: int) -> tuple[Collective, Choice, int, Machine, int]:
    """A collective, what it runs by, bytes, the machine and how many of it: whatever NCCL can run."""
    rng = np.random.default_rng(seed)
    pick = lambda values: list(values)[int(rng.integers(len(list(values))))]
    gpus = pick([1, 2, 4, 8])
    machine = pick(MACHINES.values()).but(
        gpus=gpus,
        nics=pick([n for n in (1, 2, 4, 8) if n <= max(gpus, 1)]),
        nic_gbps=pick([100.0, 200.0, 400.0, 800.0]),
        gpudirect=pick(["pix", "phb", "sys", "off"]),
        cpu=pick(["intel", "amd"]),
        hosts=1,
    )
    nodes = int(rng.integers(2, 33))
    collective = pick([c for c in Collective if c != Collective.SEND_RECV])
    fits = [a for a in ALGORITHMS[collective] if a in (Algorithm.RING, Algorithm.TREE, Algorithm.P2P)]
    algorithm = pick(fits)
    size = int(2 ** rng.uniform(10, 34))
    return collective, Choice(algorithm, pick(PROTOCOLS[algorithm])), size, machine, nodes


def law(c: Collective, by: Choice, size: int, m: Machine, nodes: int) -> float:
    return predicted_us(c, by, size, m, nodes, SECTION)


def unshared(c: Collective, by: Choice, size: int, m: Machine, nodes: int) -> float:
    """The law where a channel costs no launch and NVLink is not shared."""
    return predicted_us(c, by, size, m.but(gpu=m.gpu.but(nvlink_gbytes=1e6)), nodes, SECTION.but(channel=0.0))


def opened(c: Collective, by: Choice, size: int, m: Machine, nodes: int) -> float:
    """The law where any size opens all channels with all threads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work, "THRESHOLD", dict.fromkeys(work.THRESHOLD, 0))
        return law(c, by, size, m, nodes)


@pytest.mark.parametrize("seed", [*SEEDS, 2881, 5627, 5991])
def test_more_never_takes_less(seed: int) -> None:
    """With the algorithm given: time grows with bytes and with nodes, and falls with the rate of the adapters and with adapters. (NCCL's own choice is an input that may break this: it goes by
    its model, not by what is fastest.) NCCL opens channels by size, each with a launch of its own: where twice the bytes are fewer for each channel, and so for each adapter, they may take less; and it
    cuts smaller chunks for deeper trees, which fill sooner. Of an all-to-all the bytes between nodes are a share of the same vector.

    A ring with LL opens a channel, and all its threads, for a number of bytes of each rank: one node more may close some, and four channels on four adapters are faster than five.

    NCCL also opens more channels for more adapters and, from Hopper on, for links of 48 GB/s. Each has a launch, and a smaller share of NVLink while chunks pass a node: without these two the order holds."""
    c, by, size, m, nodes = drawn(seed)
    took = law(c, by, size, m, nodes)
    slack = SECTION["channel"] * m.channels(nodes)  # a larger size opens channels
    each = [s / work_of(c, by, s, m, nodes).channels for s in (size, 2 * size)]
    if each[1] >= each[0]:
        assert law(c, by, 2 * size, m, nodes) >= took * (1 - 1e-9) - slack
    cut = [work_of(c, by, size, m, n).chunks[0][0] for n in (nodes, nodes + 1)]
    if c != Collective.ALL_TO_ALL and (by.algorithm == Algorithm.RING or cut[0] == cut[1]):
        now, then = (work_of(c, by, size, m, n) for n in (nodes, nodes + 1))
        of = law if (now.channels, now.threads) == (then.channels, then.threads) else opened
        assert of(c, by, size, m, nodes + 1) >= of(c, by, size, m, nodes) * (1 - 1e-9) - slack
    better = [m.but(nic_gbps=2 * m.nic_gbps), *([m.but(nics=2 * m.nics)] if 2 * m.nics <= m.gpus else [])]
    for other in better:
        if law(c, by, size, other, nodes) > took * (1 + 1e-9):
            assert other.channels(nodes) > m.channels(nodes)
            assert unshared(c, by, size, other, nodes) <= unshared(c, by, size, m, nodes) * (1 + 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_only_the_choice_makes_more_bytes_take_less(seed: int) -> None:
    """With NCCL's own choice twice the bytes may take less where it changes its mind: algorithm and protocol are inputs, and with either of the two choices given the order is back. (Or a channel has
    fewer bytes, as in the test above.)"""
    c, _, size, m, nodes = drawn(seed)
    if c == Collective.ALL_TO_ALL:
        return
    by = [choose(c, s, m, nodes) for s in (size, 2 * size)]
    times = [law(c, b, s, m, nodes) for b, s in zip(by, (size, 2 * size), strict=True)]
    if times[1] >= times[0] * (1 - 1e-9):
        return
    for b in by:
        each = [s / work_of(c, b, s, m, nodes).channels for s in (size, 2 * size)]
        slack = SECTION["channel"] * m.channels(nodes)
        assert law(c, b, 2 * size, m, nodes) >= law(c, b, size, m, nodes) - slack or each[1] < each[0]
    assert by[0] != by[1] or each[1] < each[0] or times[1] >= times[0] - slack


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_faster_than_the_wires(seed: int) -> None:
    """What leaves a node takes at least its bytes over the links of all its adapters: all-reduce by a ring 2 (n - 1) / n of the vector in n ranks, all-gather and reduce-scatter (n - 1) / n, a broadcast
    all of it (nccl-tests, PERFORMANCE.md)."""
    c, by, size, m, nodes = drawn(seed)
    n = m.gpus * nodes
    shares = {
        Collective.ALL_REDUCE: 2 * (n - 1) / n if by.algorithm == Algorithm.RING else 1.0,
        Collective.BROADCAST: 1.0,
        Collective.ALL_TO_ALL: m.gpus * (n - m.gpus) / n / n,
    }
    least = shares.get(c, (n - 1) / n) * size / (m.nics * m.nic_gbps / 8 * 1e3)
    assert law(c, by, size, m, nodes) >= least


@pytest.mark.parametrize("seed", SEEDS)
def test_flows_take_the_law_s_time_on_idle_adapters(seed: int) -> None:
    """What the fluid layer runs: flows that begin at once and together take the law's time, within 3 % (``detail=auto``)."""
    idle_flows_take_the_law_s_time(*drawn(seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_flows_of_nvswitches_and_pat_take_the_law_s_time(seed: int) -> None:
    """Nodes of Hopper and later with 1 to 8 adapters: five nodes with two adapters took half as long again by a tree of NVLS, since each adapter was in one of the two trees."""
    _, _, size, m, nodes = drawn(seed)
    m = m.but(gpu=GPUS["H100"], gpus=8, nics=(1, 2, 4, 8)[seed % 4])
    for c in (Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER):
        for by in possible(c, m, nodes, "2.30"):
            if by.algorithm in (Algorithm.NVLS_TREE, Algorithm.PAT):
                idle_flows_take_the_law_s_time(c, by, size, m, nodes)


def idle_flows_take_the_law_s_time(c: Collective, by: Choice, size: int, m: Machine, nodes: int) -> None:
    run = Run(c, by, size, m, np.arange(nodes * m.nics).reshape(nodes, m.nics), SECTION)
    flows = flows_of(run)
    octets = np.bincount(flows.connection, flows.size.astype(float)) if len(flows.src) else np.zeros(1)
    rate = (
        flows.rate_gbps[np.unique(flows.connection, return_index=True)[1]] / 8 * 1e3 if len(flows.src) else np.ones(1)
    )
    longest = float((octets / rate).max())
    assert flows.begin_us + longest == pytest.approx(law(c, by, size, m, nodes), rel=0.03, abs=2 * SECTION["wire"])


@pytest.mark.parametrize("seed", SEEDS)
def test_names_do_not_matter(seed: int) -> None:
    """Renamed nodes run by the same algorithm, with the same flows under the new names."""
    _, _, size, m, nodes = drawn(seed)
    job = parse(f"nccl-all-reduce:{size},machine=a100,gpus={m.gpus}").jobs[0]
    hosts = lambda word: Hosts(
        np.arange(nodes * m.nics), tuple(f"{word}{n:03} p{k}" for n in range(nodes) for k in range(m.nics)), np.zeros(0)
    )
    one, two = (run_of(job, hosts(word).name, np.arange(nodes * m.nics)) for word in ("a", "zz-"))  # type: ignore[arg-type]
    assert one.by == two.by == choose(Collective.ALL_REDUCE, size, one.machine, nodes)
    a, b = flows_of(one), flows_of(two)
    assert (a.size == b.size).all() and (a.src == b.src).all() and a.begin_us == b.begin_us
