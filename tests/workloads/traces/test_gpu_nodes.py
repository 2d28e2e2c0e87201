"""Traces whose ranks are GPUs: the same collective as a job of NCCL is the oracle, and data sheets' rates."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

import softib
from softib.errors import InputError
from softib.workloads.nccl.machine import MACHINES

H100 = "NVIDIA H100 80GB HBM3"
MB = 1_000_000


@cache
def rails(nodes: int, generation: str = "NDR") -> softib.Fabric:
    made = softib.generate("rail-optimized", nodes=nodes, rails=8, radix=40, generation=generation, ufm=False)
    return softib.bring_up(made).fabric


@cache
def one_adapter() -> softib.Fabric:
    return softib.generate("fat-tree", radix=16, levels=2, hosts=8, generation="NDR")


def event(at: float, took: float, name: str, stream: int, **args: object) -> dict:
    return {"ph": "X", "cat": "kernel", "name": name, "ts": at, "dur": took, "args": {"stream": stream, **args}}


def call(name: str, octets: int, ranks: list[int], at: float = 1000, stream: int = 20, **more: object) -> dict:
    args = {"Collective name": name, "In msg nelems": octets, "dtype": "Byte", "Group size": len(ranks)}
    return event(at, 5, f"ncclDevKernel_{name}", stream, **args, **{"Process Group Ranks": str(ranks), **more})


def profile(path: Path, world: int, events: list[dict], gpu: str = H100, gpus: int = 8) -> str:
    properties = [{"id": i, "name": gpu} for i in range(gpus)]
    held = {"distributedInfo": {"world_size": world}, "deviceProperties": properties, "traceEvents": events}
    path.write_text(json.dumps(held))
    return str(path)


def took(fabric: softib.Fabric, workload: str) -> float:
    return softib.simulate(fabric, workload).simulated_us


@pytest.mark.parametrize(
    ("name", "job", "whole"),
    [
        ("allreduce", "nccl-all-reduce", 1),
        ("allgather_into_tensor_coalesced", "nccl-all-gather", 32),
        ("reduce_scatter_tensor_coalesced", "nccl-reduce-scatter", 1),
        ("broadcast", "nccl-broadcast", 1),
        ("all_to_all", "nccl-all-to-all", 1),
    ],
)
@pytest.mark.parametrize("octets", [MB, 256 * MB])
def test_a_collective_of_a_trace_takes_what_nccl_takes(tmp_path, name, job, whole, octets):
    """1,000 us of computing, and the collective, on rails and on hosts with one adapter."""
    path = profile(
        tmp_path / "step.json", 32, [event(0, 1000, "gemm", 7), call(name, octets // whole, list(range(32)))]
    )
    alone = took(rails(4), f"{job}:{octets},machine=dgx-h100")
    assert took(rails(4), path) == pytest.approx(1000 + alone, rel=0.01)
    alone = took(one_adapter(), f"{job}:{octets},machine=dgx-h100,hosts=0-3")
    assert took(one_adapter(), path) == pytest.approx(1000 + alone, rel=0.01)


def test_a_node_exchanges_over_nvlink_and_not_through_the_processor(tmp_path):
    """Eight GPUs of one node: 1 GB all-reduced takes at least 2 * 7/8 of it over the data sheet's 450 GB/s, and
    at most a third of what one adapter of 50 GB/s needs."""
    path = profile(tmp_path / "one.json", 8, [call("allreduce", 1000 * MB, list(range(8)))])
    for fabric in (rails(4), one_adapter()):
        run = softib.simulate(fabric, path)
        assert 1.75e3 / 0.45 / 2 < run.simulated_us < 1.75e3 / 0.05 / 3  # NVSwitch reduces: half the bytes
        assert run.to_json()["messages"] == 0


@pytest.mark.parametrize(("peer", "gbytes"), [(1, MACHINES["dgx-h100"].gpu.nvlink_gbytes), (8, 50.0)])
def test_a_message_inside_a_node_is_nvlink_and_between_nodes_the_adapter(tmp_path, peer, gbytes):
    octets, world = 400 * MB, 16
    for rank in range(world):
        held = [event(0, 1, "gemm", 7)]
        held += [call("send", octets, [0, peer], **{"Dst Rank": peer})] if rank == 0 else []
        held += [call("recv", octets, [0, peer], **{"Src Rank": 0})] if rank == peer else []
        held += [call("barrier", 1, list(range(world)), 0, 21)]
        profile(tmp_path / f"p.{rank}.json", world, held)
    time = took(rails(2), f"trace:{tmp_path / 'p.0.json'}")
    assert time - 1000 == pytest.approx(octets / gbytes / 1e3, rel=0.12)


def test_a_group_of_every_second_gpu_uses_every_second_rail(tmp_path):
    """As the same collective on nodes of four GPUs with these adapters."""
    events = [call("allreduce", 256 * MB, list(range(0, 16, 2)))]
    half = took(rails(2), profile(tmp_path / "half.json", 16, events))
    job = {"pattern": "nccl-all-reduce", "size": 256 * MB, "machine": "dgx-h100", "gpus": 4}
    alone = softib.simulate(rails(2), {"jobs": [job | {"hosts": [f"*mlx5_{k}" for k in (0, 2, 4, 6)]}]})
    assert half == pytest.approx(alone.simulated_us, rel=0.01)


def test_the_root_of_a_group_sends_first(tmp_path):
    """From root 8, on the second node, nothing is sent by the last hop to it."""
    events = [call("broadcast", 64 * MB, list(range(24)), **{"Root Rank": 8})]
    run = softib.simulate(
        rails(3),
        profile(tmp_path / "b.json", 24, events),
    )
    rows = run.messages.filter(run.messages["size"] > 1000)
    pairs = {(a.split(" ")[0], b.split(" ")[0]) for a, b in zip(rows["source"], rows["destination"], strict=True)}
    assert pairs == {("node-002", "node-003"), ("node-003", "node-001")}


def test_the_machine_is_the_one_of_the_trace_of_the_job_or_of_the_links(tmp_path):
    events = [call("allreduce", MB, list(range(8)))]
    notes = lambda text: " ".join(softib.simulate(rails(2), text).notes)
    named = profile(tmp_path / "a.json", 8, events, "NVIDIA A100-SXM4-80GB")
    assert "GPUs A100" in notes(named) and "the GPU of the trace, NVIDIA A100-SXM4-80GB" in notes(named)
    assert "GPUs H200" in notes(f"trace:{named},machine=h200")
    unknown = profile(tmp_path / "u.json", 8, events, "Ferranti Mark 1")
    assert "GPUs H100" in notes(unknown) and "assumed from the links" in notes(unknown)


def test_programs_of_gpus_are_not_of_the_loggops_layer_and_must_fit(tmp_path):
    path = profile(tmp_path / "big.json", 64, [call("allreduce", MB, list(range(64)))])
    with pytest.raises(InputError, match="but the hosts have only 16"):
        softib.simulate(rails(2), path)
    fits = profile(tmp_path / "fits.json", 16, [call("allreduce", MB, list(range(16)))])
    with pytest.raises(InputError, match=r"its ranks are GPUs.*use the fluid layer"):
        softib.replay(rails(2), fits)
    goal = tmp_path / "a.goal"
    goal.write_text("num_ranks 1\nrank 0 {\na: calc 5\n}\n")
    with pytest.raises(InputError, match="machine applies only to Chakra traces and profiles"):
        softib.simulate(rails(2), f"trace:{goal},machine=h100")


def test_other_links_leave_the_gpus_of_a_profile(tmp_path):
    path = profile(tmp_path / "c.json", 16, [call("allreduce", 256 * MB, list(range(16)))], "")
    run = softib.simulate(rails(2), path, what_if="generation=HDR")
    alone = softib.simulate(rails(2), f"nccl-all-reduce:{256 * MB},machine=dgx-h100", what_if="generation=HDR")
    assert run.what_if.simulated_us == pytest.approx(alone.what_if.simulated_us, rel=0.01)
    assert alone.what_if.simulated_us > 1.3 * alone.simulated_us
