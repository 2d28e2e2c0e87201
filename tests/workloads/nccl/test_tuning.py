"""NCCL's choice: known answers, what a user forces, and what is refused in one line."""

from __future__ import annotations

import pytest

from softib.errors import InputError, UnknownName
from softib.workloads.nccl.constants import Collective, Protocol, busbw_factor
from softib.workloads.nccl.law import hops_of, nic_share, predicted_us, threads_gbytes
from softib.workloads.nccl.machine import machine_of
from softib.workloads.nccl.tuning import Choice, choose, expected_us
from softib.workloads.nccl.work import BUFFER, STEPS, work_of
from softib.workloads.parameters import section

A100 = machine_of("dgx-a100")
NODE_V = machine_of("v100").but(gpus=4, nics=2, gpudirect="phb")
NODE_A = A100.but(nics=4, cpu="intel")
NODES = {"node V": NODE_V, "node A": NODE_A, "dgx-a100": A100}
"""ABCI's nodes as its diagrams show them."""


def test_latencies_are_those_of_nccl_s_own_source() -> None:
    """src/graph/tuning.cc of 2.8.4 and 2.30.7 by hand: ring LL, 16 ranks on two nodes."""
    ring = Choice("ring", "ll")  # type: ignore[arg-type]
    small = 1e-9
    assert expected_us(Collective.ALL_REDUCE, ring, 0, A100, 2, "2.8") == pytest.approx(
        3.6 + 28 * 0.47 * 1.8 + 2 * 2.7, abs=small
    )
    assert expected_us(Collective.ALL_REDUCE, ring, 0, A100, 2) == pytest.approx(6.6 + 28 * 2.0 + 2 * 2.7, abs=small)
    tree = Choice("tree", "ll128")  # type: ignore[arg-type]
    assert expected_us(Collective.ALL_REDUCE, tree, 0, A100, 4) == pytest.approx(
        14 + 2 * (7 * 1.25 + 2 * 8.5), abs=small
    )


def test_bandwidths_of_2_8_4_are_those_of_its_source() -> None:
    """tuning.cc and search.cc of 2.8.4 by hand, ABCI's node A on two nodes: 4 channels before they are doubled, 24 GB/s each (tree: 42 inside a node), 16.9 at most
    for LL128, 22.5 for a tree; the tree's correction at 1 MiB is 0.6, and an algorithm's bandwidth half of a tree's, 16/30 of a ring's."""
    a = NODE_A
    at = lambda algorithm, protocol, size: expected_us(
        Collective.ALL_REDUCE, Choice(algorithm, protocol), size, a, 2, "2.8"
    )
    assert at("tree", "ll128", 1 << 20) == pytest.approx(38.9 + (1 << 20) / (4 * 16.9 * 0.5 * 0.6 * 1e3))
    assert at("ring", "ll128", 1 << 20) == pytest.approx(71.2 + (1 << 20) / (4 * 16.9 * 16 / 30 * 1e3))
    assert at("tree", "simple", 1 << 20) == pytest.approx(448 + (1 << 20) / (4 * 22.5 * 0.5 * 0.5 * 1e3))


@pytest.mark.parametrize(
    ("machine", "nodes", "found"),
    [
        ("node V", 1, (7.5, 15.3, 11.9, 45.1, 168.0, 58.0, 6.4, 21.0, 21.4, 67.6, 28.8, 84.0)),
        ("node V", 2, (20.0, 3.6, 28.9, 0, 224.0, 13.8, 19.2, 2.6, 40.8, 0, 68.4, 10.3)),
        ("node V", 4, (30.0, 2.2, 45.9, 0, 280.0, 8.3, 40.1, 2.4, 79.6, 0, 147.6, 9.6)),
        ("node A", 1, (11.7, 28.4, 21.9, 84.1, 392.0, 108.1, 10.2, 33.6, 36.6, 115.9, 56.0, 134.3)),
        ("node A", 2, (27.5, 11.8, 38.9, 33.8, 448.0, 45.0, 32.7, 12.8, 71.2, 36.1, 122.8, 51.2)),
        ("node A", 4, (37.5, 8.4, 55.9, 29.3, 504.0, 32.0, 67.2, 10.5, 140.4, 34.9, 256.4, 49.5)),
        ("dgx-a100", 2, (27.5, 11.2, 38.9, 67.6, 448.0, 90.0, 32.7, 12.0, 71.2, 72.1, 122.8, 102.4)),
        ("dgx-a100", 4, (37.5, 9.5, 55.9, 58.6, 504.0, 64.0, 67.2, 9.8, 140.4, 69.8, 256.4, 99.1)),
    ],
)
def test_the_model_is_that_of_nccl_2_8_4_run_on_these_nodes(machine: str, nodes: int, found: tuple[float, ...]) -> None:
    """NCCL 2.8.4's own search and model, compiled without GPUs and given the nodes as ABCI's and NVIDIA's diagrams have them, print µs of latency and GB/s of an all-reduce by
    tree and ring with LL, LL128 and Simple (its line "Latency/AlgBw"). 64 octets are beyond no correction."""
    m, at = NODES[machine], iter(found)
    for algorithm in ("tree", "ring"):
        for protocol in Protocol:
            latency, gbytes = next(at), next(at)
            by = Choice(algorithm, protocol)  # type: ignore[arg-type]
            t0, t1 = (expected_us(Collective.ALL_REDUCE, by, size, m, nodes, "2.8") for size in (0, 64))
            assert t0 == pytest.approx(latency, abs=0.051)
            share = 0.9 if algorithm == "tree" and protocol == Protocol.SIMPLE else 1.0
            if gbytes:
                assert 64 / (t1 - t0) / 1e3 / share == pytest.approx(gbytes, abs=0.051)
            else:
                assert choose(Collective.ALL_REDUCE, 1 << 20, m, nodes, nccl="2.8").protocol != protocol


def test_other_collectives_of_2_8_4_are_those_of_its_source() -> None:
    """tuning.cc of 2.8.4 by hand, one node of 8 A100, 12 channels of 21 GB/s before they are doubled: LL has a third of a ring that does not reduce to all, LL128 18.3 GB/s a
    channel of an all-gather and 15.2 of a reduce-scatter; a ring takes 8/7 of its bandwidth for these."""
    at = lambda c, protocol: expected_us(c, Choice("ring", protocol), 1 << 20, A100, 1, "2.8")  # type: ignore[arg-type]
    octets = (1 << 20) / 1e3
    ring = 235.0
    assert at(Collective.ALL_GATHER, "ll") == pytest.approx(3.6 + 7 * 0.47 + octets / (ring / 3 * 8 / 7))
    assert at(Collective.ALL_REDUCE, "ll") == pytest.approx(3.6 + 14 * 0.47 + octets / (ring / 4 * 8 / 14))
    assert at(Collective.ALL_GATHER, "ll128") == pytest.approx(10 + 7 * 1.9 + octets / (ring * 0.92 * 8 / 7))
    assert at(Collective.REDUCE_SCATTER, "ll128") == pytest.approx(10 + 7 * 1.9 + octets / (12 * 15.2 * 8 / 7))


def test_a_broadcast_s_latency_depends_on_the_order_of_its_rings() -> None:
    """tuning.cc: one hop where all channels pass the GPUs in one order (sameChannels), which one adapter makes; else all, Simple's with the latency of a tree's chunk. Inside a
    node superbench's log shows several orders. So LL128 broadcasts up to half a GB there."""
    at = lambda m, protocol, nodes=1: expected_us(Collective.BROADCAST, Choice("ring", protocol), 0, m, nodes, "2.8")  # type: ignore[arg-type]
    assert at(A100, "simple") == pytest.approx(8.4 + 8 * 28)
    assert at(A100, "ll128") == pytest.approx(10 + 8 * 1.9)
    assert at(A100, "ll", 2) == pytest.approx(3.6 + 16 * 2.7)
    assert at(A100.but(nics=1), "ll", 2) == pytest.approx(3.6 + 2.7)
    assert choose(Collective.BROADCAST, 16 << 20, A100, 1, nccl="2.8").protocol == Protocol.LL128


@pytest.mark.parametrize(
    ("version", "same_as"), [("2.8.4", "2.8"), ("2.10.3", "2.8"), ("2.27", "2.30"), ("2.40", "2.30")]
)
def test_other_versions_take_the_nearer_constants(version: str, same_as: str) -> None:
    at = lambda v: [str(choose(Collective.ALL_REDUCE, 1 << k, A100, 2, nccl=v)) for k in range(8, 30)]
    assert at(version) == at(same_as)
    h100 = machine_of("h100")
    assert str(choose(Collective.ALL_REDUCE, 1 << 30, h100, 1, nccl="2.8")) == "nvls simple"  # 2.8.4 has no Hopper


def test_each_further_channel_takes_as_long_again() -> None:
    """ncclKernel of 2.8.4: channels fetch their work from host memory."""
    v, ring = section("nccl"), Choice("ring", "ll")  # type: ignore[arg-type]
    launch = [hops_of(ring, A100, 2, v, channels).launch for channels in (1, 2, 3)]
    assert launch[1] - launch[0] == pytest.approx(launch[2] - launch[1]) == pytest.approx(v["channel"])


@pytest.mark.parametrize(("gpu", "times"), [("h100", 36.7 / 20), ("b200", 40 / 20)])
def test_threads_of_newer_gpus_move_what_nccl_s_tables_say(gpu: str, times: float) -> None:
    """perChMaxRingLL128Bws of tuning.cc (2.30.7): 20 GB/s of Ampere, 36.7 of Hopper, 40 of Blackwell; llMaxBws inside a node 87.7, 141, 282 GB/s."""
    v, at = section("nccl"), lambda m, p: threads_gbytes(Choice("ring", p), m, 1, section("nccl"))  # type: ignore[arg-type]
    new = machine_of(gpu)
    assert at(new, "ll128") / at(A100, "ll128") == pytest.approx(times)
    assert at(new, "ll") * new.gpu.channels == pytest.approx({"h100": 141.0, "b200": 282.0}[gpu])
    assert v["ll128_share"] < 1


def test_a_slice_goes_out_when_it_is_whole() -> None:
    """netSendProxy of 2.8.4 posts what the threads have filled: half the adapter's rate adds what the slice then takes longer, though threads fill it as fast as before."""
    by, v = Choice("tree", "ll"), section("nccl")  # type: ignore[arg-type]
    size, slow = 1 << 14, A100.but(nic_gbps=100.0)
    work = work_of(Collective.ALL_REDUCE, by, size, A100, 4)
    at = [predicted_us(Collective.ALL_REDUCE, by, size, m, 4) for m in (A100, slow)]
    share = nic_share(by, slow, work, v)
    assert at[1] - at[0] == pytest.approx(4 * work.chunks[0][0] / 2 / (share * 1e3), rel=0.01)


def test_small_ones_take_trees_and_large_ones_rings() -> None:
    kinds = [str(choose(Collective.ALL_REDUCE, 1 << k, A100, 16)) for k in (3, 20, 33)]
    assert kinds[0] == "tree ll" and kinds[2].startswith("ring")
    assert kinds[1].startswith("tree")


def test_nvls_serves_large_all_reduces_inside_a_node_of_h100s() -> None:
    """DGX H100 inside: NVLS beats the ring (NCCL 2.18 and later)."""
    assert str(choose(Collective.ALL_REDUCE, 1 << 30, machine_of("dgx-h100"), 1)) == "nvls simple"


@pytest.mark.parametrize(
    ("machine", "nodes", "sharp", "published"),
    [
        ("dgx-a100", 2, False, 192),
        ("dgx-h100", 16, False, 380),
        ("dgx-h100", 16, True, 480),
        ("dgx-h100", 1, False, 480),
    ],
)
def test_published_peaks_of_bus_bandwidth(machine: str, nodes: int, sharp: bool, published: float) -> None:
    """NVIDIA's figures for 8 GiB and more, none of which was fitted to, within 20 %: H100's rates follow from links and NCCL's efficiencies."""
    m = machine_of(machine).but(sharp=sharp)
    size = 8 << 30
    took = predicted_us(Collective.ALL_REDUCE, choose(Collective.ALL_REDUCE, size, m, nodes), size, m, nodes)
    assert size / took / 1e3 * busbw_factor(Collective.ALL_REDUCE, 8 * nodes) == pytest.approx(published, rel=0.2)


def test_ll128_only_where_gpu_and_nic_share_a_pcie_switch() -> None:
    far = A100.but(gpudirect="phb")
    assert choose(Collective.ALL_REDUCE, 1 << 22, A100, 2, algorithm="ring").protocol == Protocol.LL128
    assert choose(Collective.ALL_REDUCE, 1 << 22, far, 2, algorithm="ring").protocol != Protocol.LL128


@pytest.mark.parametrize(
    ("collective", "given", "says"),
    [
        (Collective.BROADCAST, {"algorithm": "tree"}, "NCCL has no broadcast by tree; it has ring"),
        (
            Collective.ALL_REDUCE,
            {"algorithm": "nvls", "protocol": "ll"},
            "nvls does not run with ll; it runs with simple",
        ),
        (Collective.ALL_REDUCE, {"algorithm": "collnet"}, "CollNet needs switches that reduce"),
        (Collective.ALL_GATHER, {"algorithm": "pat"}, "PAT needs one GPU per node"),
        (Collective.ALL_REDUCE, {"algorithm": "nvls"}, "the NVSwitches of A100 cannot reduce"),
        (Collective.ALL_TO_ALL, {"protocol": "ll"}, "only with simple"),
    ],
)
def test_what_nccl_does_not_run_is_one_line(collective: Collective, given: dict[str, str], says: str) -> None:
    with pytest.raises(InputError, match=says) as refused:
        choose(collective, 1 << 20, A100, 2, **given)
    assert "\n" not in str(refused.value)


def test_a_protocol_alone_is_taken_by_the_algorithms_that_run_with_it() -> None:
    """NCCL_PROTO=LL leaves rings and trees (PROTOCOLS above: CollNet and NVLS have Simple alone)."""
    assert str(choose(Collective.ALL_REDUCE, 1 << 30, A100, 2, protocol="ll")) == "ring ll"
    assert choose(Collective.ALL_REDUCE, 1 << 30, machine_of("h100"), 1, protocol="simple").protocol == "simple"


def test_unknown_names_have_the_near_ones() -> None:
    with pytest.raises(UnknownName, match="ring"):
        choose(Collective.ALL_REDUCE, 8, A100, 2, algorithm="rink")
    with pytest.raises(UnknownName, match="h100"):
        machine_of("dgx-h10")


@pytest.mark.parametrize("p", ["ll", "ll128", "simple"])
@pytest.mark.parametrize("size", [1, 4096, 10**6, 123_456_789, 2**31])
def test_the_cut_covers_the_data_once(p: str, size: int) -> None:
    by = Choice("ring", p)  # type: ignore[arg-type]
    work = work_of(Collective.ALL_REDUCE, by, size, A100, 2)
    held = sum(octets * loops for octets, loops in work.chunks) * work.channels * 16
    assert size <= held < size + work.channels * 16
    assert max(octets for octets, _ in work.chunks) <= BUFFER[Protocol(p)] // STEPS * 4


def test_bus_bandwidth_as_nccl_tests_count_it() -> None:
    assert busbw_factor(Collective.ALL_REDUCE, 16) == 1.875
    assert busbw_factor(Collective.ALL_GATHER, 4) == 0.75
    assert busbw_factor(Collective.BROADCAST, 4) == 1
