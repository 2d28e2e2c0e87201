"""A training step: published parameters and operations, the laws of pipelines, overlap, and what
does not divide."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import softib
from softib.errors import InputError
from softib.workloads.hosts import Hosts, hosts_of
from softib.workloads.nccl.machine import GPUS
from softib.workloads.parameters import section
from softib.workloads.training.compute import Processor
from softib.workloads.training.job import figures_of
from softib.workloads.training.model import Layout, Transformer
from softib.workloads.training.pipeline import order_of
from softib.workloads.workload import parse

GPT3 = Transformer(96, 12288, 2048, 51200)


def test_gpt_3_has_175_billion_parameters() -> None:
    """Narayanan et al. 2021, table 1: 174.6 billion; Brown et al. 2020: 175."""
    assert GPT3.parameters == pytest.approx(174.6e9, rel=1e-3)
    assert Transformer(105, 20480, 2048, 51200).parameters == pytest.approx(529.6e9, rel=0.002)
    assert Transformer(128, 25600, 2048, 51200).parameters == pytest.approx(1008.0e9, rel=0.002)


def test_operations_are_those_of_the_paper() -> None:
    """Narayanan et al. 2021, equation 3: 96 B s l h² (1 + s/6h + V/16lh), activations computed
    again."""
    again = Transformer(96, 12288, 2048, 51200, recompute=True)
    b, s, layers, h, v = 1536, 2048, 96, 12288, 51200
    assert again.flops(b) == pytest.approx(
        96 * b * s * layers * h**2 * (1 + s / (6 * h) + v / (16 * layers * h)), rel=1e-9
    )
    # Six operations a parameter and token without that (Kaplan et al. 2020), but for attention.
    assert GPT3.flops(1) / (6 * GPT3.parameters * 2048) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(
    ("stages", "micro", "chunks"),
    [
        (1, 1, 1),
        (1, 5, 1),
        (4, 4, 1),
        (4, 9, 1),
        (8, 3, 1),
        (4, 8, 2),
        (2, 2, 3),
        (4, 4, 2),
        (8, 16, 4),
    ],
)
def test_every_micro_batch_goes_forth_and_back_once(stages: int, micro: int, chunks: int) -> None:
    for stage in range(stages):
        order = order_of(stage, stages, micro, chunks)
        every = [(b, c, k) for b in (False, True) for c in range(chunks) for k in range(micro)]
        assert sorted(order) == sorted(every)
        assert all(order.index((False, c, k)) < order.index((True, c, k)) for _, c, k in every)
        in_flight = np.cumsum([-1 if backward else 1 for backward, _, _ in order])
        # what 1F1B is for: activations of so many at most; with chunks more (Narayanan et al. 2021, 2.2.2)
        most = stages - stage if chunks == 1 else 2 * (stages - stage) - 1 + (chunks - 1) * stages
        assert in_flight.max() <= min(most, micro * chunks)


@cache
def fabric(nodes: int) -> softib.Fabric:
    return softib.bring_up(softib.generate("rail-optimized", nodes=nodes, rails=8, radix=32, ufm=False)).fabric


def step(nodes: int, **options: object) -> dict[str, float]:
    text = "training-step:1," + ",".join(f"{k}={v}" for k, v in options.items())
    run = softib.simulate(fabric(nodes), text)
    assert run.good
    hosts = hosts_of(fabric(nodes).arrays)
    return figures_of(parse(text).jobs[0], hosts.name, np.arange(len(hosts)), hosts.gbps, run.simulated_us)


def test_results_have_the_step() -> None:
    run = softib.simulate(fabric(2), "training-step:1,layers=8,hidden=2048,tensor=8,batch=16")
    found = run.to_json()["jobs"][0]["training"]
    assert found["gpus"] == 16 and found["step_us"] == pytest.approx(run.simulated_us, rel=1e-3)


SMALL = {"layers": 8, "hidden": 2048, "sequence": 2048, "vocabulary": 1000, "tensor": 8}


@pytest.mark.parametrize("chunks", [1, 2])
def test_the_bubble_of_a_pipeline(chunks: int) -> None:
    """(p - 1) / m of the ideal time, with v chunks a v-th of it (Narayanan et al. 2021, 2.2.1 and
    2.2.2), where communication is next to nothing: one GPU a stage would need no tensor parallel;
    here the ratio of two numbers of micro-batches takes what is common away."""
    few, many = (step(4, **SMALL, pipeline=4, batch=m, interleave=chunks, achieved=0.2)["step_us"] for m in (4, 32))
    assert (few / 4) / (many / 32) == pytest.approx((1 + 3 / 4 / chunks) / (1 + 3 / 32 / chunks), rel=0.03)


def test_overlap_hides_gradients() -> None:
    hidden, shown = (step(4, **{**SMALL, "hidden": 4096}, batch=16, overlap=o)["step_us"] for o in ("yes", "no"))
    assert hidden < shown


def test_slow_adapters_make_a_longer_step_and_efficiency_is_a_share() -> None:
    near, far = (step(4, **SMALL, batch=16, overlap="no", gpudirect=g) for g in ("pix", "off"))
    assert near["step_us"] < far["step_us"]
    assert 0 < far["efficiency"] < near["efficiency"] < 1
    assert near["gpu_hours_per_step"] == pytest.approx(32 * near["step_us"] / 3.6e9)


def test_more_gpus_take_less_time_for_one_batch_and_are_less_efficient() -> None:
    found = [step(nodes, **SMALL, batch=64) for nodes in (2, 4, 8)]
    assert found[0]["step_us"] > found[1]["step_us"] > found[2]["step_us"]
    assert found[0]["efficiency"] > found[2]["efficiency"]


def test_experts_have_more_parameters_and_all_to_alls() -> None:
    dense = step(2, **{**SMALL, "tensor": 1}, batch=512)
    experts = step(2, **{**SMALL, "tensor": 1}, batch=512, experts=8, expert=8, top_k=1)
    assert experts["parameters"] > 4 * dense["parameters"]
    assert experts["step_us"] > dense["step_us"]  # the same operations, and two all-to-alls a layer each way


def test_scaling_is_a_curve_over_gpus() -> None:
    found = softib.scaling(
        fabric(8), "training-step:1,layers=8,hidden=2048,tensor=8,batch=16,vocabulary=1000", [16, 32, 64]
    )
    assert [row["gpus"] for row in found] == [16, 32, 64]
    assert [row["batch"] for row in found] == [16, 32, 64]  # weak scaling: each replica keeps its work
    assert found[0]["relative"] == 1.0 and all(0.5 < row["relative"] <= 1.001 for row in found)
    strong = softib.scaling(
        fabric(8), "training-step:1,layers=8,hidden=2048,tensor=8,batch=64,vocabulary=1000", [16, 64], weak=False
    )
    assert strong[1]["step_us"] < strong[0]["step_us"]


HOSTS = Hosts(np.arange(4), tuple(f"h{i}" for i in range(4)), np.zeros(4, np.int64))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("training-step:1,tensor=3,batch=4", "are not a whole number of replicas"),
        ("training-step:1,tensor=8,batch=7", "a batch of 7 is not whole"),
        ("training-step:1,experts=8,top-k=9,batch=32", "a token goes to 9 experts, but a layer has only 8"),
        ("training-step:1,tensor=8,batch=4,tflops=inf", "tflops: 'inf'"),
        ("training-step:1,tensor=8,pipeline=4,layers=30,batch=8", "30 layers are not whole for 4 stages"),
        ("training-step:1,tensor=8,expert=2,batch=8", "expert 2 needs experts"),
        ("training-step:1,achieved=2", "achieved"),
    ],
)
def test_what_does_not_divide_is_one_line(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as refused:
        parse(text).messages(HOSTS)
    assert "\n" not in str(refused.value)


def test_a_layout_orders_ranks_as_megatron_does() -> None:
    lay = Layout.of(64, 8, 2, 1, 32, 1, GPT3)
    assert (lay.data, lay.micro_batches, lay.gpus) == (4, 8, 64)
    shared, experts = lay.gradients(GPT3)
    assert shared == pytest.approx(GPT3.parameters / 16) and experts == 0


def crossed(nodes: int, **options: object) -> int:
    """Octets of messages between nodes."""
    text = "training-step:1," + ",".join(f"{k}={v}" for k, v in options.items())
    run = softib.simulate(fabric(nodes), text)
    assert run.good
    table = run.messages.filter(run.messages["source"] != run.messages["destination"])
    return int(table["size"].sum())


@pytest.mark.slow
def test_octets_of_zero_are_those_of_the_paper() -> None:
    """Rajbhandari et al. 2020, section 7: stages 1 and 2 move as much as an all-reduce, stage 3
    half as much again; stage 2 sums up after each of two micro-batches, and stage 3 does all of it
    for each."""
    plain = crossed(4, **SMALL, batch=4)
    assert [crossed(4, **SMALL, batch=4, zero=z) / plain for z in (1, 2, 3)] == pytest.approx([1, 1, 1.5], rel=1e-3)
    assert [crossed(4, **SMALL, batch=8, zero=z) / plain for z in (0, 1, 2, 3)] == pytest.approx(
        [1, 1, 1.5, 3], rel=1e-3
    )


@pytest.mark.slow
def test_zero_costs_what_cannot_be_hidden() -> None:
    """With the optimizer left out, of which ZeRO divides the time. The new weights of stage 1 come
    when all gradients are summed up; stage 3 is never faster than stage 2, and prefetching weights
    never slower than not."""
    took = {
        (z, o): step(4, **SMALL, batch=4, zero=z, overlap=o, achieved=0.5)["step_us"]
        for z in (0, 1, 2, 3)
        for o in ("yes", "no")
    }
    assert took[1, "yes"] == took[2, "yes"] >= took[0, "yes"]
    assert took[3, "yes"] >= took[2, "yes"]
    assert all(took[z, "no"] >= took[z, "yes"] for z in (0, 1, 2, 3))
    with pytest.raises(InputError, match="ZeRO stage 2 with 2 stages of a pipeline"):
        step(4, **SMALL, batch=4, zero=2, pipeline=2)


def test_sequence_parallel_splits_each_all_reduce_in_two() -> None:
    """Korthikanti et al. 2023, 4.2: as many octets, and one launch more: never faster, by less than
    the tensor collectives alone."""
    plain, split = (step(2, **SMALL, batch=4, **{"sequence-parallel": s})["step_us"] for s in ("no", "yes"))
    assert plain < split < 1.5 * plain


def test_collectives_of_groups_that_span_nodes_are_messages() -> None:
    """An all-reduce by a ring of n ranks in as many nodes sends 2 (n - 1) / n of its octets over
    each of n links, so n all-reduces' octets in all are 2 (n - 1) times; an all-to-all n - 1 of n
    shares of each (nccl-tests, PERFORMANCE.md). Two of a layer each way, activations of 2 bytes."""
    small = {"layers": 4, "hidden": 2048, "sequence": 2048, "vocabulary": 1000, "zero": 0, "nics": 8, "gpus": 1}
    act = 2 * 2048 * 2048
    alone, shared = (crossed(4, **small, batch=4, tensor=t) for t in (1, 4))
    gradients = 2 * 3 * 2 * (12 * 4 * 2048**2 * (1 + 13 / (12 * 2048) + 3048 / (12 * 4 * 2048)))
    assert alone == pytest.approx(gradients, rel=0.01)
    assert shared == pytest.approx(4 * 4 * 4 * 2 * 3 * act, rel=0.07)  # LL128: 16 octets for 15
    experts = crossed(4, **small, batch=4, experts=4, expert=4, top_k=1)
    rest = gradients - 2 * 3 * 2 * 8 * 4 * 2048**2  # what all share is summed up; experts are in one place
    assert experts - rest == pytest.approx(4 * 4 * 4 * 3 / 4 * act, rel=0.01)


@pytest.mark.parametrize("what", [{"tensor": 4}, {"experts": 4, "expert": 4, "top_k": 1}])
def test_faster_links_shorten_the_step_of_groups_that_span_nodes(what: dict[str, int]) -> None:
    """Their collectives were time by the machine's adapters once, and no what-if of the links
    changed them."""
    line = ",".join(
        f"{k.replace('_', '-')}={v}" for k, v in ({"layers": 4, "batch": 4, "gpus": 1, "nics": 8} | what).items()
    )
    text = f"training-step:1,machine=a100,{line}"
    run = softib.simulate(fabric(4), text, what_if="generation=EDR")
    assert run.what_if.simulated_us > 1.3 * run.simulated_us


# Ten products and kernels of one layer on an A100 of 40 GB: EleutherAI's cookbook,
# benchmarks/sizing/sample_results (transformer.out, bmm.out). Rows, columns, depth, count, TFLOP/s.
PRODUCTS = [
    (8192, 12288, 4096, 1, 241.6),
    (8192, 4096, 4096, 1, 234.9),
    (8192, 16384, 4096, 1, 241.1),
    (8192, 4096, 16384, 1, 252.8),
    (8192, 51200, 4096, 1, 255.4),
    (2048, 2048, 256, 64, 130.2),
    (2048, 256, 2048, 64, 219.0),
    (1024, 1024, 1024, 128, 227.3),
    (1024, 1024, 2048, 128, 243.3),
]


def test_products_take_as_long_as_published() -> None:
    """Rates from 130 to 255 TFLOP/s: the mean of all nine within 4 %, none off by more than 8."""
    gpu = replace(GPUS["A100"], memory_gbytes=1555.0)
    on = Processor(gpu, section("gpu"))
    off = [2 * m * n * k * c / on.product_us(m, n, k, c) / 1e6 / rate - 1 for m, n, k, c, rate in PRODUCTS]
    assert np.mean(np.abs(off)) < 0.04 and max(np.abs(off)) < 0.08


def test_a_step_is_made_of_its_parts() -> None:
    """Compute, tensor collectives, bubble and the rest add up, and a GPU's rate is the formula's
    operations over the time."""
    found = step(4, **SMALL, pipeline=4, batch=16)
    parts = [found[k] for k in ("compute_us", "tensor_us", "expert_us", "bubble_us", "rest_us")]
    assert sum(parts) == pytest.approx(found["step_us"], rel=1e-6) and min(parts[:2] + parts[3:]) > 0
    flops = Transformer(8, 2048, 2048, 1000).flops(16)
    assert found["tflops_per_gpu"] == pytest.approx(flops / 32 / found["step_us"] / 1e6)


def test_lists_cost_a_copy_for_each_rank_and_collective() -> None:
    """DeepSpeed 0.3.13: three gathers of each of 16 matrices make two views and a copy for each of 32 ranks, and the last
    gather of 34 vectors three views and a copy, a copy at 6 us (Wu et al.) and a view at 1 us, with nothing beside them.
    Buffers that are zeroed and copied, and an all-reduce instead of a reduce-scatter, are less than a sixth here."""
    line = "training-step:1,layers=4,hidden=1024,zero=3,recompute=yes,overlap=no,batch=32"
    flat, lists = (softib.simulate(fabric(4), f"{line}{more}").simulated_us for more in ("", ",gather-lists=yes"))
    of_ranks = 32 * (3 * 16 * (2 * 1.0 + 6.0) + 34 * (3 * 1.0 + 6.0))
    assert of_ranks < lists - flat < of_ranks * 7 / 6
    with pytest.raises(softib.InputError, match="gather-lists needs ZeRO stage 3"):
        softib.simulate(fabric(4), "training-step:1,gather-lists=yes")


@pytest.mark.parametrize(("zero", "each"), [(0, 16), (1, 2 + 2 + 12 / 64), (2, 2 + 14 / 64), (3, 16 / 64)])
def test_a_model_that_the_memory_does_not_hold_is_named(zero: int, each: float) -> None:
    """ZeRO paper, figure 1: 7.5 billion parameters on 64 replicas take 120, 31.4, 16.6 and 1.9 GB of each GPU with stages 0 to 3, at 16 bytes each; an A100 has 80 GB."""
    line = f"training-step:1,machine=a100,layers=36,hidden=4096,vocabulary=51200,gradient-bytes=2,batch=64,zero={zero}"
    run = softib.simulate(fabric(8), line, layer="fluid")
    parameters = run.to_json()["jobs"][0]["training"]["parameters"]
    assert parameters == pytest.approx(7.5e9, rel=0.02)
    needed = {0: 120, 1: 31.4, 2: 16.6, 3: 1.9}[zero]
    assert parameters * each / 1e9 == pytest.approx(needed, rel=0.02)
    named = [note for note in run.notes if "Adam's states" in note]
    assert bool(named) == (needed > 80) and all(f"take {parameters * each / 1e9:.0f} GB" in note for note in named)
