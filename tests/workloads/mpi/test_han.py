"""HAN: the right sums, who runs it, and what crosses the network."""

from __future__ import annotations

import numpy as np
import pytest

import softib
from softib.errors import InputError
from softib.workloads.mpi.collective import program_of
from softib.workloads.mpi.cost import costs_of
from softib.workloads.mpi.han import SEGMENT
from tests.workloads.mpi.execute import execute, meets

COSTS = costs_of("default")


def made(collective: str, ranks: int, each: int, count: int, **given):
    return program_of(collective, 4 * count, ranks, COSTS, each=each, **{"algorithm": "han", "version": "5.0", **given})


@pytest.mark.parametrize("collective", ["allreduce", "reduce", "bcast"])
@pytest.mark.parametrize(("hosts", "each"), [(2, 2), (3, 4), (5, 3), (8, 2)])
def test_every_contribution_counts_once(
    monkeypatch: pytest.MonkeyPatch, collective: str, hosts: int, each: int
) -> None:
    """Executed on symbols in random orders that the dependencies allow; several segments under way at once."""
    monkeypatch.setattr("softib.workloads.mpi.han.SEGMENT", 16)
    ranks = hosts * each
    for count in (1, 4, 23):
        start = np.zeros((ranks, count, ranks), np.int64)
        start[np.arange(ranks), :, np.arange(ranks)] = 1
        for seed in (0, 1):
            end = execute(made(collective, ranks, each, count)[0], start, seed)
            if collective == "bcast":
                assert (end == start[0]).all()
            else:
                assert (end[: ranks if collective == "allreduce" else 1] == 1).all()


@pytest.mark.parametrize(("hosts", "each"), [(2, 2), (4, 4), (4, 3)])
@pytest.mark.parametrize("count", [1, 60])
def test_blocks_of_all_ranks_come_where_they_belong(hosts: int, each: int, count: int) -> None:
    """All-gather, gather and scatter in two levels; the leaders have an algorithm that turns no buffer round (MPI-4, 6.5 to 6.7)."""
    n = hosts * each
    step = count
    own = np.zeros((n, n * step, n), np.int64)
    for r in range(n):
        own[r, r * step : (r + 1) * step, r] = 1
    everything = np.repeat(np.eye(n, dtype=np.int64), step, axis=0)
    all_at_root = np.zeros_like(own)
    all_at_root[0] = everything
    run = lambda what, start: execute(made(what, n, each, step)[0], start, 1)
    assert (run("allgather", own) == everything).all()
    assert (run("gather", own)[0] == everything).all()
    out = run("scatter", all_at_root)
    assert all((out[r, r * step : (r + 1) * step] == everything[r * step : (r + 1) * step]).all() for r in range(n))


def test_a_barrier_lets_nobody_go_before_the_last_has_come() -> None:
    p = made("barrier", 12, 4, 0)[0]
    meets(p, 12, 0, "")


@pytest.mark.parametrize(
    ("version", "each", "runs"), [("5.0", 4, "han"), ("4.1", 4, ""), ("4.0", 4, ""), ("5.0", 1, "")]
)
def test_5_0_asks_han_first_where_ranks_share_hosts(version: str, each: int, runs: str) -> None:
    """Priorities of coll_han_component.c: 35 in 5.0, 0 in 4.1; tuned's is 30."""
    chosen = made("allreduce", 16, each, 1000, algorithm="", version=version)[1].algorithm
    assert (chosen == "han") is bool(runs)


def test_only_leaders_use_the_network() -> None:
    """What crosses the network does not depend on the ranks of a host."""
    for each in (2, 8):
        s = made("allreduce", 4 * each, each, 8 * SEGMENT // 4)[0].schedule("x")
        from softib.workloads.schedule.schedule import Kind

        across = (s.kind == Kind.SEND) & (s.rank // each != s.peer // each)
        assert set((s.rank[across] % each).tolist()) == {0}
        sent = np.bincount(s.rank[across], s.size[across], minlength=4 * each)
        # Four leaders: a scattering reduction 3 S in all and a gathering 1 S (the root takes part in the first alone), a linear broadcast of 3 S by the root.
        assert sent.sum() == 7 * 8 * SEGMENT
        assert sent.max() == sent[0] == 3.75 * 8 * SEGMENT


@pytest.mark.slow
def test_large_vectors_leave_a_host_by_one_rank_alone() -> None:
    """8 hosts with 16 ranks each, 16 MiB: tuned's ring has 128 ranks that share the adapters, HAN's leaders reduce and broadcast whole vectors, and are slower."""
    tree = softib.generate("fat-tree", radix=8, levels=2)
    at = lambda version: (
        softib.simulate(tree, f"mpi-allreduce:16MiB,ranks-per-host=16,version={version},hosts=0-7").simulated_us
    )
    assert at("5.0") > 1.2 * at("4.1")


@pytest.mark.parametrize(
    ("collective", "given", "says"),
    [
        ("alltoall", {}, "softib's HAN has allreduce, reduce, bcast, allgather"),
        ("allreduce", {"version": "4.0"}, "4.0 has no HAN"),
        ("allreduce", {"each": 1}, "several ranks on each of several hosts"),
        ("bcast", {"each": 16}, "several ranks on each"),
    ],
)
def test_what_han_does_not_run_is_one_line(collective: str, given: dict, says: str) -> None:
    with pytest.raises(InputError, match=says) as refused:
        made(collective, 16, given.pop("each", 4), 10, **given)
    assert "\n" not in str(refused.value)
