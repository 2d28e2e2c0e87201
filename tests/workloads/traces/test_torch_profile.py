"""Profiles of PyTorch: the sizes and the order that they say, and hostile files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import softib
from softib.errors import InputError
from softib.workloads.schedule.schedule import Kind, matched
from softib.workloads.traces.forms import read_trace
from softib.workloads.workload import Workload

RANKS = 8
HERE = Path(__file__).parents[3] / "examples" / "small.yaml"


def kernel(at: float, took: float, name: str = "gemm", stream: int = 7, **args) -> dict:
    return {"ph": "X", "cat": "kernel", "name": name, "ts": at, "dur": took, "args": {"stream": stream, **args}}


def all_reduce(at: float, took: float, elements: int, ranks: object = list(range(RANKS)), **changed) -> dict:
    """As PyTorch 2.4 and newer write it (torch/csrc/distributed/c10d/ParamCommsUtils.hpp)."""
    args = {"Collective name": "allreduce", "In msg nelems": elements, "Out msg nelems": elements, "Group size": 8}
    args |= {"dtype": "Float", "Process Group Name": "0", "Process Group Ranks": str(ranks), **changed}
    return kernel(at, took, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20, **args)


def step(elements: int) -> list[dict]:
    """160 us of computing with a pause of 10, an all-reduce beside which 400 us are computed, and 30 us that wait for both."""
    compute = [kernel(1000, 100), kernel(1110, 50), kernel(1160, 400), kernel(2060, 30, "adam")]
    return [{"ph": "M", "name": "process_name"}, *compute, all_reduce(1160, 900, elements)]


def written(path: Path, events: list[dict], world: int = RANKS) -> Path:
    text = json.dumps({"distributedInfo": {"rank": 0, "world_size": world}, "traceEvents": events})
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def end_us(path: Path) -> float:
    return softib.simulate(HERE, path).simulated_us


def test_a_ring_carries_what_the_profile_says_and_a_rank_computes_what_it_computed(tmp_path):
    """All-reduce of 4 MB on 8 ranks: 2 * 7 / 8 of it from each rank (Patarasuk, Yuan 2009)."""
    s = read_trace(written(tmp_path / "step.json", step(1_000_000)), 16)
    matched(s)
    assert (s.ranks, s.octets) == (RANKS, 2 * (RANKS - 1) * 4_000_000)
    assert s.compute_ps.sum() == RANKS * (160 + 400 + 30) * 10**6


def test_communication_stays_beside_the_computing_that_it_overlapped(tmp_path):
    """With a small all-reduce the step takes its computing; with a large one what is before and behind
    it, and the all-reduce alone."""
    alone = end_us(written(tmp_path / "alone.json", [all_reduce(0, 1, 25_000_000)]))
    assert alone > 1000
    assert end_us(written(tmp_path / "large.json", step(25_000_000))) == pytest.approx(160 + alone + 30, rel=1e-3)
    assert end_us(written(tmp_path / "small.json", step(1))) == pytest.approx(160 + 400 + 30, rel=1e-3)


@pytest.mark.parametrize(
    ("group", "peers"),
    [
        ([0, 1, 2, 3], [{0, 1, 2, 3}, {4, 5, 6, 7}]),
        ([0, 4], [{0, 4}, {1, 5}, {2, 6}, {3, 7}]),
        ("[0, 2, ...]", [{0, 2, 4, 6}, {1, 3, 5, 7}]),
    ],
)
def test_the_profile_of_one_rank_is_that_of_all_with_their_groups(tmp_path, group, peers):
    """Tensor and data parallel ranks of Megatron: neighbours, and equal distances; PyTorch shortens
    long lists."""
    s = read_trace(written(tmp_path / "one.json", [all_reduce(0, 9, 1000, group, **{"Group size": 4})]), 16)
    sends = s.kind == Kind.SEND
    pairs = {frozenset(p) for p in zip(s.rank[sends].tolist(), s.peer[sends].tolist(), strict=True)}
    assert pairs and all(any(pair <= members for members in peers) for pair in pairs)
    assert set().union(*pairs) == set(range(RANKS))


def test_profiles_of_all_ranks_are_read_together_packed_or_not(tmp_path):
    for rank in range(2):
        events = [kernel(0, 100 * (rank + 1)), all_reduce(200, 9, 1000, [0, 1], dtype="BFloat16")]
        written(tmp_path / f"job.{rank}.json.gz", events, 2)
    s = read_trace(tmp_path / "job.0.json.gz")
    assert (s.ranks, s.octets) == (2, 2 * 2000)
    assert s.compute_ps.sum() == 2 * 200 * 10**6, "what ran and what nothing ran"


def test_messages_between_stages_are_messages(tmp_path):
    for rank, (name, peer) in enumerate((("send", {"Dst Rank": 1}), ("recv", {"Src Rank": 0}))):
        event = all_reduce(0, 9, 500, [0, 1], **{"Collective name": name, **peer})
        written(tmp_path / f"p.{rank}.json", [event], 2)
    s = read_trace(tmp_path / "p.0.json")
    matched(s)
    assert (s.octets, int((s.kind == Kind.SEND).sum())) == (2000, 1)


HOSTILE = {
    "no kernel has": [kernel(0, 1)],
    "without Collective name": [kernel(0, 1, "ncclKernel_AllReduce_RING_LL_Sum_float")],
    "event 1 is not one": [{"ph": "X", "cat": "kernel", "name": "x", "dur": 1}],
    "a time of nan": [kernel(float("nan"), 1)],
    "args are no mapping": [{**kernel(0, 1), "args": [1]}],
    "is no size": [all_reduce(0, 1, -1)],
    "of dtype Quaternion": [all_reduce(0, 1, 5, dtype="Quaternion")],
    "'allsort' is not one that softib knows": [all_reduce(0, 1, 5, **{"Collective name": "allsort"})],
    "does not divide 8 ranks evenly": [all_reduce(0, 1, 5, [0, 1, 5])],
    "give the profiles of all ranks": [all_reduce(0, 1, 5, **{"Collective name": "send", "Dst Rank": 1})],
}


@pytest.mark.parametrize("message", HOSTILE)
def test_what_is_no_profile_is_one_line_with_the_file(tmp_path, message):
    path = written(tmp_path / "bad.json", HOSTILE[message])
    with pytest.raises(InputError, match=message) as error:
        read_trace(path, 16)
    assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)


def test_a_profile_alone_is_a_workload(tmp_path):
    for name in ("step.json", "step.json.gz"):
        text = str(written(tmp_path / name, step(1)))
        assert Workload.of(text).jobs[0].file == text


def test_a_job_larger_than_the_fabric_is_refused(tmp_path):
    with pytest.raises(InputError, match="a job of 64 ranks, but the hosts have only 16"):
        read_trace(written(tmp_path / "big.json", step(1), 64), 16)
    (tmp_path / "list.json").write_text('{"traceEvents": {}}')
    with pytest.raises(InputError, match="traceEvents are no list"):
        read_trace(tmp_path / "list.json")
