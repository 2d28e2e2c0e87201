"""One law: what a user gets on an idle fabric is the closed law's time, at every size, and faster links never make it slower."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest

import softib
from softib.workloads.nccl.constants import Collective
from softib.workloads.nccl.law import predicted_us
from softib.workloads.nccl.machine import GPUS, machine_of
from softib.workloads.nccl.tuning import choose

SIZES = [1 << 10, 1 << 18, 1 << 25, 1 << 34]


@cache
def fabric(nodes: int, rails: int, generation: str) -> softib.Fabric:
    made = softib.generate("rail-optimized", nodes=nodes, rails=rails, radix=32, generation=generation, ufm=False)
    return softib.bring_up(made).fabric


def took(text: str, nodes: int = 2, rails: int = 8, generation: str = "NDR") -> float:
    run = softib.simulate(fabric(nodes, rails, generation), text)
    assert run.good
    return run.simulated_us


@pytest.mark.parametrize("collective", list(Collective))
@pytest.mark.parametrize(
    ("name", "line", "generation"),
    [
        ("h100", "", "NDR"),
        ("a100", "", "HDR"),
        ("a100", "", "XDR"),
        ("v100", ",gpus=4,gpudirect=phb,gpu-nic=81.6", "EDR"),
        pytest.param("b200", "", "NDR", marks=pytest.mark.slow),
        pytest.param("mi300x", "", "NDR", marks=pytest.mark.slow),
        pytest.param("v100", ",gpus=4,gpudirect=phb,gpu-nic=81.6", "NDR", marks=pytest.mark.slow),
    ],
)
def test_every_size_takes_the_law_s_time(name: str, line: str, generation: str, collective: Collective) -> None:
    m = machine_of(name)
    if line:
        m = m.but(gpus=4, gpudirect="phb", gpu_nic_gbps=81.6)
    for size in SIZES:
        law = predicted_us(collective, choose(collective, size, m, 5), size, m, 5)
        found = took(f"nccl-{collective}:{size},machine={name}{line}", 5, m.nics, generation)
        assert found == pytest.approx(law, rel=0.03), size


def test_no_size_is_a_step() -> None:
    """Two DGX H100: 3,271,557,120 octets took 22 ms and 8 MB more 12 ms, for messages were cut otherwise. Bandwidth does not fall with size, as in NVIDIA's figures of nccl-tests."""
    sizes = [1 << 30, 3_271_557_120, 3_279_945_728, 1 << 32, 1 << 33, 1 << 34]
    times = [took(f"nccl-all-reduce:{s}") for s in sizes]
    assert all(a < b for a, b in pairwise(times))
    rates = [s / t for s, t in zip(sizes, times, strict=True)]
    assert all(a <= b * 1.001 for a, b in pairwise(rates))


@pytest.mark.parametrize("how", ["algorithm=ring,protocol=simple", "algorithm=tree,protocol=simple"])
@pytest.mark.parametrize("size", [1 << 20, 1 << 30])
def test_faster_links_are_never_slower(size: int, how: str) -> None:
    """But for the latencies of the generations' adapters and switches, which differ by less than 1 µs. The algorithm is given: NCCL's own choice goes by the links' rate, and
    need not be the best."""
    times = [took(f"nccl-all-reduce:{size},machine=a100,{how}", 4, 8, g) for g in ("EDR", "HDR", "NDR", "XDR")]
    assert all(a >= b - 1 for a, b in pairwise(times))


def figures(text: str, nodes: int, each: int, generation: str) -> dict:
    return softib.simulate(fabric(nodes, each, generation), text).to_json()["jobs"][0]["nccl"]


@pytest.mark.parametrize(("generation", "gpu"), [("EDR", "V100"), ("HDR", "A100"), ("NDR", "H100"), ("XDR", "B300")])
def test_the_machine_that_is_assumed_follows_the_links_and_stands_in_the_answer(generation: str, gpu: str) -> None:
    """Vendors' nodes of these years: DGX-1 with EDR, DGX A100 with HDR, DGX H100 with NDR, DGX B300 with XDR."""
    found = figures("nccl-all-reduce:1MB", 2, 8, generation)
    assert f"8 GPUs {gpu}" in found["machine"] and "8 adapters" in found["machine"]


@pytest.mark.parametrize("text", ["nccl-all-reduce:1MB", "training-step:1,layers=2,batch=32"])
def test_adapters_slower_than_the_links_stand_in_the_answer(text: str) -> None:
    """A DGX B200 has ConnectX-7, 400 Gb/s, also on links of XDR; a DGX B300 has ConnectX-8."""
    notes = lambda gpu: " ".join(softib.simulate(fabric(2, 8, "XDR"), f"{text},machine={gpu}").notes)
    assert "the links carry 800 Gb/s, the adapters of dgx-b200 400 Gb/s" in notes("b200")
    assert "the links carry" not in notes("b300")


def test_every_gpu_of_the_catalogue_names_the_vendor_s_node() -> None:
    for name in GPUS:
        found = figures(f"nccl-all-reduce:1GB,machine={name.lower()}", 2, 8, "NDR")
        assert f"GPUs {name}" in found["machine"] and found["busbw_gbytes"] > 10


def test_an_nvlink_domain_of_72_gpus_is_one_node() -> None:
    """GB200 NVL72: 18 hosts of 4 GPUs share NVLink, so their all-reduce crosses no adapter and beats that of 9 nodes of 8 (NVIDIA's data sheet: 1.8 TB/s a GPU)."""
    rack = figures("nccl-all-reduce:1GB,machine=gb200-nvl72", 18, 4, "NDR")
    nodes = figures("nccl-all-reduce:1GB,machine=b200,gpus=4", 18, 4, "NDR")
    assert (rack["nodes"], rack["ranks"]) == (1, 72) == (1, nodes["ranks"])
    assert rack["busbw_gbytes"] > 2 * nodes["busbw_gbytes"]


def test_more_detail_of_the_machine_changes_what_it_says() -> None:
    """What GPUs and an adapter exchange bounds the bus bandwidth of nodes: as many adapters times this (osu_mbw_mr between GPUs)."""
    slow = figures("nccl-all-reduce:4GB,machine=a100,gpu-nic=80", 2, 8, "HDR")
    assert slow["busbw_gbytes"] == pytest.approx(8 * 80 / 8, rel=0.03) and "80 Gb/s between" in slow["machine"]
    old, new = (figures(f"nccl-all-reduce:64MiB,machine=a100,nccl={v}", 2, 8, "HDR") for v in ("2.8.4", "2.30.7"))
    assert (old["nccl"], new["nccl"]) == ("2.8.4", "2.30.7") and old["took_us"] != new["took_us"]


@pytest.mark.parametrize("name", ["dgx-h100", "dgx-h200", "dgx-b200"])
@pytest.mark.parametrize("parameters", [860e6, 2e9, 8e9])
def test_a_rail_s_gradients_take_as_long_on_more_nodes(name: str, parameters: float) -> None:
    """One GPU of each node, one adapter: each node sends 2 (n - 1) / n of the bytes, which grows with the nodes. The
    buckets are Megatron-LM's, a million gradients for each replica; between LL128 and Simple there is a fifth."""
    rail, before = machine_of(name).part(1, 1), 0.0
    for nodes in (8, 16, 32, 64, 128, 256, 512, 1024, 2048):
        buckets = min(8, max(1, round(parameters / max(40e6, 1e6 * nodes))))
        size = int(2 * parameters / buckets)
        took = buckets * predicted_us(
            Collective.ALL_REDUCE, choose(Collective.ALL_REDUCE, size, rail, nodes), size, rail, nodes
        )
        assert took > before / 1.2, (nodes, buckets)
        before = max(before, took)


def test_rails_of_few_gpus_have_four_channels_from_hopper_on() -> None:
    """src/graph/connect.cc of NCCL: "Use 4 compute channels per search channel to reach peak BW on <8 PPN"."""
    h100, a100 = machine_of("dgx-h100"), machine_of("dgx-a100")
    parts = ((1, 1), (4, 4), (8, 8))
    assert [h100.part(*part).channels(4) for part in parts] == [4, 16, 16]
    assert [a100.part(*part).channels(4) for part in parts] == [2, 8, 16]
