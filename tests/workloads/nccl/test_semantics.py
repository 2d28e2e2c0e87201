"""Every collective by every algorithm, executed on symbols: each rank ends with what the collective promises, each contribution exactly once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from softib.workloads.nccl.algorithms import plan_of
from softib.workloads.nccl.constants import ALGORITHMS, Algorithm, Collective, Protocol
from softib.workloads.nccl.machine import GPUS, Machine
from softib.workloads.nccl.plan import Plan
from softib.workloads.nccl.trees import ROOT, double_tree
from softib.workloads.nccl.tuning import Choice
from softib.workloads.nccl.work import Work
from tests.workloads.nccl.symbolic import execute, topological

WORK = Work(2, 512, ((4096, 1), (1000, 1)))
CASES = [
    (c, a, nodes, gpus, sharp)
    for c, known in ALGORITHMS.items()
    for a in known
    for nodes, gpus, sharp in (
        (1, 2, False),
        (1, 8, False),
        (2, 1, False),
        (2, 8, True),
        (3, 3, True),
        (5, 4, False),
        (8, 1, False),
        (13, 1, False),
    )
    if not (a == Algorithm.PAT and gpus > 1)
    and not (a == Algorithm.COLLNET and (nodes < 2 or not sharp))
    and not (a == Algorithm.NVLS and (gpus < 2 or (nodes > 1 and (not sharp or c != Collective.ALL_REDUCE))))
    and not (a == Algorithm.NVLS_TREE and (nodes < 2 or gpus < 2))
]


def plan(c: Collective, a: Algorithm, nodes: int, gpus: int, sharp: bool, size: int = 40_000) -> Plan:
    machine = Machine("test", GPUS["H100"], gpus, max(1, gpus // 2), 400.0, sharp=sharp)
    return plan_of(c, Choice(a, Protocol.SIMPLE), size, machine, nodes, WORK)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[1]}-{c[2]}x{c[3]}{'-sharp' if c[4] else ''}")
def test_each_contribution_arrives_exactly_once(case: tuple[Collective, Algorithm, int, int, bool]) -> None:
    c, a, nodes, gpus, sharp = case
    made = plan(c, a, nodes, gpus, sharp)
    n = made.ranks
    assert len(topological(made)) == len(made), "transfers wait for each other in a circle"
    blocks = np.unique(made.blocks).tolist()
    everything = Counter(dict.fromkeys(range(n), 1))
    for last_first in (False, True):  # any order that the dependencies allow has the same end
        state = execute(made, c, last_first=last_first)
        for block in blocks:
            ranks, wanted = list(range(n)), everything
            if c == Collective.REDUCE_SCATTER:
                ranks = [block % n]
            elif c in (Collective.ALL_GATHER, Collective.BROADCAST):
                wanted = Counter({0 if c == Collective.BROADCAST else block % n: 1})
            elif c == Collective.ALL_TO_ALL:
                ranks, wanted = [block % n], Counter({block // n: 1})
            elif c == Collective.SEND_RECV:
                ranks, wanted = [(block + 1) % n], Counter({block: 1})
            assert all(state[r, block] == wanted for r in ranks)


@pytest.mark.parametrize("collective", [Collective.ALL_GATHER, Collective.REDUCE_SCATTER])
@pytest.mark.parametrize("a", [Algorithm.RING, Algorithm.PAT])
def test_every_rank_has_a_share_of_its_own(collective: Collective, a: Algorithm) -> None:
    made = plan(collective, a, 6, 1, False)
    assert set((np.unique(made.blocks) % 6).tolist()) == set(range(6))


@pytest.mark.parametrize(("nodes", "gpus"), [(2, 8), (8, 2), (3, 5)])
def test_a_ring_puts_2_n_minus_1_shares_on_each_link(nodes: int, gpus: int) -> None:
    """Octets per link of an all-reduce by a ring: 2(n-1)/n S (Patarasuk, Yuan 2009)."""
    n = nodes * gpus
    size = n * 2 * (4096 + 1000)
    made = plan(Collective.ALL_REDUCE, Algorithm.RING, nodes, gpus, False, size)
    for channel in range(2):
        rows = made.channel == channel
        on_link = np.bincount(made.src[rows] * n + made.dst[rows], made.octets[rows])
        assert set(on_link[on_link > 0].tolist()) == {2 * (n - 1) / n * size / 2}


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 9, 12, 31, 64, 100])
def test_each_rank_is_inner_in_one_tree_and_leaf_in_the_other(n: int) -> None:
    """Sanders, Speck, Träff 2009: so both directions of every link are used; depth stays logarithmic."""
    inner = []
    for parents in double_tree(n):
        assert parents.count(ROOT) == 1
        for v in range(n):
            hops, at = 0, v
            while parents[at] != ROOT:
                at, hops = parents[at], hops + 1
                assert hops <= n.bit_length() + 1
        children = Counter(p for p in parents if p != ROOT)
        assert max(children.values(), default=0) <= 2
        inner.append(set(children))
    assert inner[0] & inner[1] <= ({0} if n % 2 else set())  # an odd number shifts, and NCCL's rank 0 is in both


@pytest.mark.parametrize("collective", [Collective.ALL_GATHER, Collective.REDUCE_SCATTER])
@pytest.mark.parametrize("n", [2, 3, 8, 13, 64])
def test_pat_takes_the_logarithm_of_steps_and_moves_no_more_than_a_ring(collective: Collective, n: int) -> None:
    work = Work(1, 512, ((4096, 1),))
    made = plan_of(
        collective, Choice(Algorithm.PAT, Protocol.SIMPLE), n * 4096, Machine("t", GPUS["A100"], 1, 1, 200.0), n, work
    )
    level = np.zeros(len(made), int)
    for i in topological(made):
        level[i] = 1 + max((level[k] for k in made.needs[made.first[i] : made.first[i + 1]]), default=0)
    assert level.max() == (n - 1).bit_length()
    assert set(np.bincount(made.src, made.octets).tolist()) == {(n - 1) * 4096.0}


@pytest.mark.parametrize(("nodes", "gpus"), [(1, 4), (2, 8), (5, 4)])
def test_a_tree_in_turn_hands_nothing_down_before_all_is_up(nodes: int, gpus: int) -> None:
    """LL and Simple of NCCL 2.8.4: the root's first result leaves when the last chunk of the channel has arrived; and the sum is right."""
    machine = Machine("test", GPUS["A100"], gpus, max(1, gpus // 2), 200.0)
    made = plan_of(
        Collective.ALL_REDUCE, Choice(Algorithm.TREE, Protocol.SIMPLE, serial=True), 40_000, machine, nodes, WORK
    )
    place = np.empty(len(made), np.int64)
    place[topological(made)] = np.arange(len(made))
    for channel in np.unique(made.channel):
        here = made.channel == channel
        assert place[here & made.adds].max() < place[here & ~made.adds].min()
    state = execute(made, Collective.ALL_REDUCE)
    assert all(held == Counter(dict.fromkeys(range(made.ranks), 1)) for held in state.values())


@pytest.mark.parametrize("gpus", [2, 4, 8])
def test_nvls_puts_on_nvlink_what_the_formula_says(gpus: int) -> None:
    """A GPU gives the NVSwitch all its data and its sum, S (1 + 1/n), and takes its share of the sum and all others' shares, S; a ring gives 2 (n - 1) / n S."""
    size = 64 << 20
    machine = Machine("test", GPUS["H100"], gpus, gpus, 400.0)
    made = plan_of(Collective.ALL_REDUCE, Choice(Algorithm.NVLS, Protocol.SIMPLE), size, machine, 1)
    gives = np.bincount(made.src, made.octets, minlength=gpus + 1)[:gpus]
    takes = np.bincount(made.dst, made.octets, minlength=gpus + 1)[:gpus]
    assert gives.mean() == pytest.approx(size * (1 + 1 / gpus), rel=0.01)
    assert takes.mean() == pytest.approx(size, rel=0.01)
