"""What replicas exchange: a step without overlap is the step of one replica and NCCL's collectives
of the same bytes, for every layout."""

from __future__ import annotations

from functools import cache

import pytest

import softib
from softib.errors import InputError
from softib.workloads.workload import Workload, parse

SMALL = {
    "layers": 8,
    "hidden": 2048,
    "sequence": 2048,
    "vocabulary": 1000,
    "overlap": "no",
    "achieved": 0.5,
    "flash-attention": "no",
}
DENSE = 12 * 8 * 2048**2 * (1 + 13 / (12 * 2048) + (1000 + 2048) / (12 * 8 * 2048))
"""Narayanan et al. 2021, equation 2."""
NODES = 8


@cache
def fabric(generation: str = "NDR") -> softib.Fabric:
    made = softib.generate("rail-optimized", nodes=NODES, rails=8, radix=32, generation=generation, ufm=False)
    return softib.bring_up(made).fabric


def took(text: str, hosts: list[int] | None = None, generation: str = "NDR") -> float:
    work = parse(text)
    if hosts is not None:
        job = work.jobs[0].model_copy(update={"hosts": hosts})
        work = Workload(work.name, (job,))
    run = softib.simulate(fabric(generation), work)
    assert run.good
    return run.simulated_us


def step(nodes: int, generation: str = "NDR", /, **options: object) -> float:
    text = "training-step:1," + ",".join(f"{k.replace('_', '-')}={v}" for k, v in (SMALL | options).items())
    return took(f"{text},machine=h100", list(range(8 * nodes)), generation)


def collective(
    kind: str, octets: float, members: list[int], generation: str = "NDR", machine: str = "dgx-h100"
) -> float:
    """``octets`` among the GPUs ``members``, each with an adapter of its own, as a user would ask
    for it."""
    each = len([m for m in members if m // 8 == members[0] // 8])
    return took(f"nccl-{kind}:{round(octets)},gpus={each},nics={each},machine={machine}", members, generation)


def stage_0(tensor: int, data: int, apart: int = 1) -> list[int]:
    """Ranks of the first data-parallel group, numbered tensor, data, pipeline (Megatron-LM)."""
    return [tensor * d for d in range(0, data, apart)]


@pytest.mark.parametrize(
    ("tensor", "pipeline", "element"),
    [
        (1, 1, 2),
        (1, 1, 4),
        (2, 1, 2),
        (4, 1, 4),
        (8, 1, 2),
        (8, 2, 2),
        (8, 4, 4),
    ],
)
def test_a_step_is_one_replica_s_and_the_all_reduce(tensor: int, pipeline: int, element: int) -> None:
    """Gradients of a rank: its share of the parameters. All adapters of a node take part, through
    whichever GPUs the group has there."""
    gpus = 8 * NODES
    data = gpus // (tensor * pipeline)
    options = {"tensor": tensor, "pipeline": pipeline}
    whole = step(NODES, **options, batch=4 * data, gradient_bytes=element)
    alone = took(
        "training-step:1,"
        + ",".join(f"{k}={v}" for k, v in (SMALL | options).items())
        + f",batch=4,gpus={min(8, tensor * pipeline)}",
        list(range(8 * max(1, tensor * pipeline // 8))),
    )
    exchanged = collective("all-reduce", DENSE * element / (tensor * pipeline), stage_0(tensor, data))
    assert whole == pytest.approx(alone + exchanged, rel=2e-3)


@pytest.mark.parametrize(("tensor", "pipeline"), [(4, 2), (2, 2), (1, 8), (2, 16)])
def test_gradients_of_twice_the_bytes_cost_what_the_all_reduce_does(tensor: int, pipeline: int) -> None:
    """Replicas that are not whole nodes: their other messages are the same in both runs."""
    data = 8 * NODES // (tensor * pipeline)
    options = {"tensor": tensor, "pipeline": pipeline, "batch": 2 * data, "layers": 16}
    long, short = (step(NODES, **options, gradient_bytes=b) for b in (4, 2))
    layers = 12 * 16 * 2048**2 * (1 + 13 / (12 * 2048) + (1000 + 2048) / (12 * 16 * 2048))
    large, small = (collective("all-reduce", layers * b / (tensor * pipeline), stage_0(tensor, data)) for b in (4, 2))
    assert long - short == pytest.approx(large - small, rel=2e-3)


@pytest.mark.parametrize("generation", ["HDR", "NDR", "XDR"])
def test_the_law_holds_on_links_slower_and_faster_than_the_adapters(generation: str) -> None:
    compute = 3 * 64 * 24 * 8 * 2048**3 * (1 + 1 / 6) + 6 * 64 * 2048 * 2048 * 1000
    whole = step(NODES, generation, tensor=1, batch=64)
    exchanged = collective("all-reduce", 2 * DENSE, list(range(64)), generation)
    assert whole == pytest.approx(compute / 64 / (989e12 * 0.5) * 1e6 + exchanged, rel=2e-3)


@pytest.mark.parametrize("expert", [2, 8, 16])
def test_experts_are_summed_up_among_the_replicas_that_have_them(expert: int) -> None:
    """Lepikhin et al. 2021: MLPs of 8 h² parameters. Ranks ``expert`` apart have the same; the rest
    of the model is everyone's. The all-to-alls are the same without the exchange."""
    experts = 16 * 8 * 8 * 2048**2
    shared = DENSE - experts / 16
    options = {"experts": 16, "expert": expert, "top_k": 1, "tensor": 1}
    whole, less = (step(NODES, **options, batch=64, gradient_bytes=b) for b in (4, 2))
    reduce = lambda element: (
        collective("all-reduce", shared * element, list(range(64)))
        + collective("all-reduce", experts / expert * element, stage_0(1, 64, expert))
    )
    assert whole - less == pytest.approx(reduce(4) - reduce(2), rel=0.01)


def test_zero_sends_what_its_stages_exchange() -> None:
    """Rajbhandari et al. 2020: stages 1 and 2 a reduce-scatter of gradients and an all-gather of
    weights, in 4 and 2 bytes here; stage 3 gathers for the forward and for the backward pass, and
    where activations are computed again once more, each of four matrices a layer by itself
    (DeepSpeed 0.3.13, partition_parameters.py). Nothing overlaps."""
    everyone = list(range(64))
    scatter = collective("reduce-scatter", 4 * DENSE, everyone)
    gather = collective("all-gather", 2 * DENSE, everyone)
    compute = step(NODES, tensor=1, batch=64) - collective("all-reduce", 2 * DENSE, everyone)
    found = {z: step(NODES, tensor=1, batch=64, zero=z, gradient_bytes=4) - compute for z in (1, 2, 3)}
    assert found[1] == pytest.approx(scatter + gather, rel=2e-3)
    assert found[2] == pytest.approx(scatter + gather, rel=2e-3)
    matrices = 4 * 8
    one = lambda kind, octets: matrices * collective(kind, octets * DENSE / matrices, everyone)
    sharded = one("reduce-scatter", 4) + 2 * one("all-gather", 2)
    assert found[3] == pytest.approx(sharded, rel=5e-3)
    twice = step(NODES, tensor=1, batch=128, zero=3, gradient_bytes=4) - 2 * compute
    assert twice == pytest.approx(2 * sharded, rel=5e-3)
    again = {z: step(NODES, tensor=1, batch=64, zero=z, gradient_bytes=4, recompute="yes") for z in (2, 3)}
    assert again[3] - again[2] == pytest.approx(sharded + one("all-gather", 2) - (scatter + gather), rel=2e-2)


def test_a_cnn_is_its_parameters_and_operations() -> None:
    """ResNet-50: 25.6 million parameters (He et al. 2016), 4.1 thousand million multiplications and
    additions forward, three times as many of both passes."""
    text = "training-step:1,parameters=25.6M,operations=24.6G,batch=4096,overlap=no,gradient-bytes=4"
    exchanged = collective("all-reduce", 4 * 25.6e6, list(range(64)))
    assert took(text) == pytest.approx(64 * 24.6e9 / (989e12 * 0.5) * 1e6 + exchanged, rel=2e-3)
    assert took(text.replace("overlap=no", "overlap=yes")) < took(text)


def test_two_groups_of_an_adapter_share_it() -> None:
    """Node A of ABCI has two GPUs for each of four adapters. With tensor=2 both use it at once, so
    two all-reduces of half the bytes take about as long as one of all bytes."""
    made = softib.bring_up(softib.generate("rail-optimized", nodes=4, rails=4, radix=16, generation="XDR", ufm=False))
    at = lambda text: softib.simulate(made.fabric, text).simulated_us
    big = "training-step:1,layers=8,hidden=8192,sequence=2048,machine=a100,overlap=no,batch=32,achieved=0.5"
    compute = lambda text: softib.simulate(made.fabric, text.replace("batch=32", "batch=64")).simulated_us - at(text)
    shared, alone = (at(f"{big},tensor={t}") - compute(f"{big},tensor={t}") for t in (2, 1))
    assert shared == pytest.approx(alone, rel=0.1)


@pytest.mark.parametrize("generation", ["NDR", "XDR"])
def test_groups_of_one_adapter_take_as_long_as_all_their_bytes(generation: str) -> None:
    """Eight GPUs and one adapter a node: T groups, each with 1 / T of the bytes at 1 / T of the
    rate."""
    made = softib.bring_up(softib.generate("fat-tree", radix=4, levels=2, generation=generation))
    at = lambda text: softib.simulate(made.fabric, text).simulated_us
    base = "training-step:1,layers=8,hidden=4096,vocabulary=1000,overlap=no,nics=1,batch=64,achieved=0.5"
    parameters = 12 * 8 * 4096**2 * (1 + 13 / (12 * 4096) + (1000 + 4096) / (12 * 8 * 4096))
    for tensor in (2, 4):
        longer = at(f"{base},tensor={tensor},gradient-bytes=4") - at(f"{base},tensor={tensor}")
        one = [at(f"nccl-all-reduce:{round(parameters * b / tensor)},nics=1,gpus={8 // tensor}") for b in (2, 4)]
        assert longer == pytest.approx(tensor * (one[1] - one[0]), rel=0.01)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("training-step:1,parameters=1e6,batch=64", "needs both parameters and operations"),
        ("training-step:1,parameters=1e6,operations=1e9,tensor=8,batch=64", "tensor is for transformers"),
        ("training-step:1,gradient-bytes=3", "gradient-bytes"),
    ],
)
def test_what_is_refused_is_one_line(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as refused:
        softib.simulate(fabric(), text)
    assert "\n" not in str(refused.value)


def test_replicas_that_fill_no_whole_nodes_are_exchanged() -> None:
    """Two stages of twelve replicas on three nodes: a stage has eight GPUs of one node and four of
    another, through whose adapters it goes."""
    whole = step(3, tensor=1, pipeline=2, batch=48)
    even = step(4, tensor=1, pipeline=2, batch=64)
    assert whole > even


def test_stages_of_six_gpus_are_partly_in_one_node() -> None:
    """Four stages of six replicas on three nodes: of the second stage two GPUs are in the node of
    the first, and hand activations on by NVLink."""
    text = "training-step:1,layers=8,hidden=2048,vocabulary=1000,pipeline=4,batch=24"
    hosts = list(range(24))
    work = parse(text)
    job = work.jobs[0].model_copy(update={"hosts": hosts})
    run = softib.simulate(fabric(), Workload("partly", (job,)))
    assert run.good
    handed = run.messages.filter(run.messages["size"] == 2 * 4096 * 2048)
    # Stages 0-1, 1-2, 2-3 are GPUs 0-5, 6-11, 12-17 and 18-23 of nodes of eight: 12 of 18 pairs
    # cross, four times forth and four times back.
    pairs = sum((r // 8) != ((r + 6) // 8) for r in range(18))
    assert len(handed) == pairs * 4 * 2
