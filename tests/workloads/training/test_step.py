"""A training step: published parameters and operations, the laws of pipelines, overlap, and what does not divide."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import softib
from softib.errors import InputError
from softib.workloads.hosts import Hosts, hosts_of
from softib.workloads.training.job import figures_of
from softib.workloads.training.model import Layout, Transformer
from softib.workloads.training.step import order_of
from softib.workloads.workload import parse

GPT3 = Transformer(96, 12288, 2048, 51200)


def test_gpt_3_has_175_billion_parameters() -> None:
    """Narayanan et al. 2021, table 1: 174.6 billion; Brown et al. 2020: 175."""
    assert GPT3.parameters == pytest.approx(174.6e9, rel=1e-3)
    assert Transformer(105, 20480, 2048, 51200).parameters == pytest.approx(529.6e9, rel=0.002)
    assert Transformer(128, 25600, 2048, 51200).parameters == pytest.approx(1008.0e9, rel=0.002)


def test_operations_are_those_of_the_paper() -> None:
    """Narayanan et al. 2021, equation 3: 96 B s l h² (1 + s/6h + V/16lh), activations computed again."""
    again = Transformer(96, 12288, 2048, 51200, recompute=True)
    b, s, layers, h, v = 1536, 2048, 96, 12288, 51200
    assert again.flops(b) == pytest.approx(
        96 * b * s * layers * h**2 * (1 + s / (6 * h) + v / (16 * layers * h)), rel=1e-9
    )
    # Six operations a parameter and token without that (Kaplan et al. 2020), but for attention.
    assert GPT3.flops(1) / (6 * GPT3.parameters * 2048) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(("stages", "micro"), [(1, 1), (1, 5), (4, 4), (4, 9), (8, 3)])
def test_every_micro_batch_goes_forth_and_back_once(stages: int, micro: int) -> None:
    for stage in range(stages):
        order = order_of(stage, stages, micro)
        assert sorted(order) == sorted([(b, k) for b in (False, True) for k in range(micro)])
        assert all(order.index((False, k)) < order.index((True, k)) for k in range(micro))
        in_flight = np.cumsum([-1 if backward else 1 for backward, _ in order])
        assert in_flight.max() <= min(stages - stage, micro)  # what 1F1B is for: activations of so many at most


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


def test_the_bubble_of_a_pipeline() -> None:
    """(p - 1) / m of the ideal time (Narayanan et al. 2021, 2.2.1), where communication is next to nothing: one GPU a stage would need no tensor parallel;
    here the ratio of two numbers of micro-batches takes what is common away."""
    few, many = (step(4, **SMALL, pipeline=4, batch=m)["step_us"] for m in (4, 32))
    assert (few / 4) / (many / 32) == pytest.approx((1 + 3 / 4) / (1 + 3 / 32), rel=0.02)


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


@pytest.mark.parametrize(("text", "says"), [
    ("training-step:1,tensor=3,batch=4", "are no whole replicas"),
    ("training-step:1,tensor=8,batch=7", "a batch of 7 is not whole"),
    ("training-step:1,experts=8,top-k=9,batch=32", "a token goes to 9 experts, and a layer has 8"),
    ("training-step:1,tensor=8,batch=4,tflops=inf", "tflops: 'inf'"),
    ("training-step:1,tensor=8,pipeline=4,layers=30,batch=8", "30 layers are not whole for 4 stages"),
    ("training-step:1,tensor=8,expert=2,batch=8", "expert 2 takes experts"),
    ("training-step:1,achieved=2", "achieved"),
])  # fmt: skip
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
    """Rajbhandari et al. 2020, section 7: stages 1 and 2 move as much as an all-reduce, stage 3 half as much again; stage 2 sums up after each of two micro-batches, and stage 3 does all of it
    for each."""
    plain = crossed(4, **SMALL, batch=4)
    assert [crossed(4, **SMALL, batch=4, zero=z) / plain for z in (1, 2, 3)] == pytest.approx([1, 1, 1.5], rel=1e-3)
    assert [crossed(4, **SMALL, batch=8, zero=z) / plain for z in (0, 1, 2, 3)] == pytest.approx(
        [1, 1, 1.5, 3], rel=1e-3
    )


@pytest.mark.slow
def test_zero_costs_what_cannot_be_hidden() -> None:
    """The new weights of stage 1 come when all gradients are summed up; stage 3 is never faster than stage 2, and prefetching weights never slower than not."""
    took = {
        (z, o): step(4, **SMALL, batch=4, zero=z, overlap=o)["step_us"] for z in (0, 1, 2, 3) for o in ("yes", "no")
    }
    assert took[1, "yes"] == took[2, "yes"] >= took[0, "yes"]
    assert took[3, "yes"] >= took[2, "yes"]
    assert all(took[z, "no"] >= took[z, "yes"] for z in (0, 1, 2, 3))
    with pytest.raises(InputError, match="ZeRO stage 2 with 2 stages of a pipeline"):
        step(4, **SMALL, batch=4, zero=2, pipeline=2)


def test_sequence_parallel_splits_each_all_reduce_in_two() -> None:
    """Korthikanti et al. 2023, 4.2: as many octets, and one launch more: never faster, by less than the tensor collectives alone."""
    plain, split = (step(2, **SMALL, batch=4, **{"sequence-parallel": s})["step_us"] for s in ("no", "yes"))
    assert plain < split < 1.5 * plain


def test_groups_that_do_not_fit_into_a_node_are_named() -> None:
    """Their collectives are no messages, so no link of the fabric makes them faster: a comparison of generations must say so."""
    fabric = softib.generate("fat-tree", radix=4, levels=2, generation="EDR")
    small = "training-step:1,layers=8,hidden=512,batch=64,nics=1,gpus={g},tensor={t}"
    found = softib.simulate(fabric, small.format(g=2, t=4))
    assert found.notes == (
        "tensor groups of 4 GPUs do not fit into a node of 2: their all-reduces are time, by adapters of 100 Gb/s, not messages on this fabric",
    )
    assert softib.simulate(fabric, small.format(g=4, t=4)).notes == ()
