"""Collectives on fabrics: against the law, invariances, and what is refused."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest

import softib
from softib.errors import InputError
from softib.workloads.hosts import Hosts
from softib.workloads.nccl.constants import Algorithm, Collective, Protocol
from softib.workloads.nccl.job import run_of
from softib.workloads.nccl.law import predicted_us
from softib.workloads.nccl.machine import GPUS, Machine, machine_of
from softib.workloads.nccl.net_ib import nodes_of
from softib.workloads.nccl.tuning import Choice, choose
from softib.workloads.workload import parse

RING = Choice(Algorithm.RING, Protocol.SIMPLE)


@cache
def rails(nodes: int, each: int = 8) -> softib.Fabric:
    made = softib.generate("rail-optimized", nodes=nodes, rails=each, radix=32, generation="HDR", ufm=False)
    return softib.bring_up(made).fabric


@cache
def ndr() -> softib.Fabric:
    return softib.generate("rail-optimized", nodes=4, rails=8, radix=32, ufm=False, aggregation_nodes=True)


def took(nodes: int, text: str, each: int = 8, layer: str = "fluid") -> float:
    run = softib.simulate(rails(nodes, each), text, layer=layer)
    assert run.good
    return run.simulated_us


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("algorithm=tree,protocol=ll", marks=pytest.mark.slow),
        "algorithm=tree,protocol=ll128",
        "algorithm=ring,protocol=ll128",
        "algorithm=ring,protocol=simple",
        "algorithm=tree,protocol=simple",
    ],
)
@pytest.mark.parametrize("size", ["64KB", "16MB"])
@pytest.mark.parametrize("detail", ["chunks", "flows"])
def test_an_idle_fabric_takes_the_law_s_time(how: str, size: str, detail: str) -> None:
    """Chunk by chunk and by flows, the fluid layer says what the closed law says, within a seventh."""
    text = f"nccl-all-reduce:{size},machine=dgx-a100,{how},detail={detail}"
    job = parse(text).jobs[0]
    by = dict(x.split("=") for x in how.split(","))
    law = predicted_us(
        Collective.ALL_REDUCE,
        Choice(Algorithm(by["algorithm"]), Protocol(by["protocol"])),
        job.size,
        machine_of("dgx-a100"),
        4,
    )
    assert took(4, text) == pytest.approx(law, rel=1 / 7)


@pytest.mark.parametrize("nodes", [1, 2, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("size", [8192, 1 << 18, 1 << 20])
def test_what_nccl_chooses_takes_the_law_s_time(nodes: int, size: int) -> None:
    """Trees by LL and LL128 hand lines on as they come, chunk by chunk too: what a user gets is what is compared with measurements."""
    m = machine_of("dgx-a100")
    law = predicted_us(Collective.ALL_REDUCE, choose(Collective.ALL_REDUCE, size, m, nodes), size, m, nodes)
    assert took(nodes, f"nccl-all-reduce:{size},machine=dgx-a100") == pytest.approx(law, rel=0.05)


@pytest.mark.parametrize(
    ("nodes", "how"),
    [
        (1, "algorithm=nvls"),
        pytest.param(4, "algorithm=nvls,sharp=yes", marks=pytest.mark.slow),
        pytest.param(4, "algorithm=nvls-tree", marks=pytest.mark.slow),
        (4, "algorithm=collnet,sharp=yes"),
    ],
)
@pytest.mark.parametrize("detail", ["chunks", "flows"])
def test_switches_that_add_up_take_the_law_s_time(nodes: int, how: str, detail: str) -> None:
    text = f"nccl-all-reduce:64MiB,machine=dgx-h100,{how},detail={detail},hosts=0-{8 * nodes - 1}"
    m = machine_of("dgx-h100").but(sharp="sharp" in how)
    by = choose(Collective.ALL_REDUCE, 64 << 20, m, nodes, algorithm=how.split(",")[0].split("=")[1])
    found = softib.simulate(ndr(), text).simulated_us
    assert found == pytest.approx(predicted_us(Collective.ALL_REDUCE, by, 64 << 20, m, nodes), rel=0.3)


def test_messages_of_a_ring_carry_what_the_law_says() -> None:
    """2(n-1)/n S leaves each node by its rails; headers aside."""
    run = softib.simulate(
        rails(4), "nccl-all-reduce:16MiB,machine=dgx-a100,algorithm=ring,protocol=simple,detail=chunks"
    )
    sent = int(
        run.messages["size"]
        .to_numpy()[run.messages["source"].to_numpy() != run.messages["destination"].to_numpy()]
        .sum()
    )
    assert sent == pytest.approx(4 * 2 * 31 / 32 * (16 << 20), rel=1e-3)


def test_results_have_the_bandwidths_of_nccl_tests() -> None:
    run = softib.simulate(rails(2), "nccl-all-reduce:1GB,machine=dgx-a100,algorithm=ring,protocol=simple")
    found = run.to_json()["jobs"][0]["nccl"]
    assert found["ranks"] == 16 and found["algorithm"] == "ring"
    assert found["algbw_gbytes"] == pytest.approx(1e9 / (run.simulated_us * 1e3), rel=1e-3)
    assert found["busbw_gbytes"] == pytest.approx(found["algbw_gbytes"] * 1.875)
    assert 170 < found["busbw_gbytes"] < 192  # two DGX A100 reach 188.5 at their best (N3)


def test_two_nodes_of_eight_and_eight_of_two_differ_as_the_network_says() -> None:
    """16 GPUs each: small ones cross the network more often on eight nodes, so they take longer; large ones by a ring are bound by a node's adapters, of
    which eight nodes of two have a quarter each (ASTRA-sim's bug list: (2,8) and (8,2) disagree)."""
    a100 = machine_of("dgx-a100")
    few, many = a100, a100.but(gpus=2, nics=2)
    at = lambda m, nodes, size: predicted_us(Collective.ALL_REDUCE, RING, size, m, nodes)
    assert at(many, 8, 8) > at(few, 2, 8)
    assert at(many, 8, 1 << 30) / at(few, 2, 1 << 30) == pytest.approx(4, rel=0.1)
    # With the same adapters for each node both are bound alike.
    wide = a100.but(gpus=2, nics=8)
    assert at(wide, 8, 1 << 32) == pytest.approx(at(few, 2, 1 << 32), rel=0.05)


@pytest.mark.parametrize("size", [8, 1 << 16, 1 << 20, 1 << 26, 1 << 32])
def test_more_gpus_change_the_result(size: int) -> None:
    """32 and 64 GPUs are not one (ASTRA-sim's bug list): each doubling of nodes takes longer."""
    m = machine_of("dgx-h100")
    for by in (RING, Choice(Algorithm.TREE, Protocol.LL)):
        found = [predicted_us(Collective.ALL_REDUCE, by, size, m, nodes) for nodes in (2, 4, 8, 16, 32)]
        assert all(a < b for a, b in pairwise(found))


def test_relabelled_nodes_take_the_same_on_a_symmetric_fabric() -> None:
    text = "nccl-all-reduce:1MB,machine=dgx-a100,algorithm=ring,protocol=simple"
    plain = took(4, f"{text},hosts=0-31")
    turned = took(4, f"{text},hosts=16-23+0-7+24-31+8-15")
    assert turned == pytest.approx(plain, rel=1e-9)


def test_the_order_of_jobs_does_not_matter() -> None:
    from softib.workloads.workload import Workload

    jobs = [
        parse(f"nccl-all-reduce:{size},machine=dgx-a100,hosts={where}").jobs[0]
        for size, where in (("4MB", "0-15"), ("1MB", "16-31"))
    ]
    ends = []
    for order in (jobs, jobs[::-1]):
        run = softib.simulate(rails(4), Workload("two", tuple(order)))
        ends.append(sorted(j["nccl"]["took_us"] for j in run.to_json()["jobs"]))
    assert ends[0] == pytest.approx(ends[1], rel=1e-9)


def test_the_same_input_gives_the_same_bytes() -> None:
    text = "nccl-all-to-all:1MB,machine=dgx-a100"
    a, b = (softib.simulate(rails(2), text)._run.outcome.arrived_ps for _ in range(2))
    assert (a == b).all()


@pytest.mark.slow
def test_packets_agree_with_flows() -> None:
    text = "nccl-all-reduce:1MB,machine=dgx-a100,algorithm=ring,protocol=simple"
    assert took(2, text, layer="packet") == pytest.approx(took(2, text), rel=0.1)


@pytest.mark.parametrize(("level", "share"), [("phb", 0.7), ("sys", 0.4), ("off", 0.5)])
@pytest.mark.parametrize("detail", ["chunks", "flows"])
def test_all_connections_of_an_adapter_share_the_way_to_it(level: str, share: float, detail: str) -> None:
    """A node inside a tree sends to two children and to a parent, and is a leaf of the other tree: twice the vector goes through its adapter, at 25 GB/s times the share."""
    found = softib.simulate(
        rails(8, 1),
        f"nccl-all-reduce:64MB,machine=dgx-a100,nics=1,algorithm=tree,protocol=simple,gpudirect={level},detail={detail}",
    ).to_json()["jobs"][0]["nccl"]
    assert 0.6 * share * 25 < 2 * found["algbw_gbytes"] <= share * 25


@cache
def faster(nodes: int, each: int) -> softib.Fabric:
    """XDR: links of 100 GB/s."""
    made = softib.generate("rail-optimized", nodes=nodes, rails=each, radix=32, generation="XDR", ufm=False)
    return softib.bring_up(made).fabric


def busiest_gbytes(run: softib.Simulation) -> float:
    """GB/s that the busiest adapter sends or receives on its links while ``run`` lasts."""
    a, b, size = (run.messages[c].to_numpy() for c in ("source", "destination", "size"))
    away = a != b
    sums = [np.bincount(np.unique(side[away], return_inverse=True)[1], size[away].astype(float)) for side in (a, b)]
    return float(max(x.max() for x in sums)) / (run.simulated_us * 1e3)


@pytest.mark.parametrize("nodes", [2, 3, 4, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("what", "most"),
    [
        ("all-reduce:32MB,machine=dgx-a100,algorithm=tree,protocol=simple", 25),
        ("all-reduce:16MB,machine=a100,gpu-nic=77.92,algorithm=tree,protocol=simple", 10.3),
        ("all-reduce:4MB,machine=dgx-a100,algorithm=ring,protocol=ll128", 25),
        ("all-reduce:4MB,machine=a100,algorithm=ring,protocol=simple,gpudirect=sys", 10),
        ("all-reduce:32MB,machine=dgx-h100,algorithm=nvls-tree", 50),
        ("all-gather:4MB,machine=dgx-a100,algorithm=pat,gpus=1", 25),
        ("all-to-all:4MB,machine=dgx-a100", 25),
        ("send-recv:4MB,machine=dgx-a100", 25),
        ("reduce-scatter:4MB,machine=v100,gpu-nic=81.6", 10.3),
    ],
)
@pytest.mark.parametrize("detail", ["chunks", "flows"])
def test_links_faster_than_the_adapters_carry_no_more_than_these(
    nodes: int, what: str, most: float, detail: str
) -> None:
    """A law: an adapter of the machine bounds what all its connections carry in either direction, however fast the fabric's links are."""
    found = busiest_gbytes(softib.simulate(faster(nodes, 1), f"nccl-{what},nics=1,detail={detail}"))
    assert 0 < found <= most


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [2, 4])
def test_packets_of_faster_links_carry_no_more_than_the_adapters(nodes: int) -> None:
    text = "nccl-all-reduce:1MB,machine=dgx-a100,nics=1,algorithm=tree,protocol=simple,detail=chunks"
    assert 0 < busiest_gbytes(softib.simulate(faster(nodes, 1), text, layer="packet")) <= 25


def test_sends_and_receives_take_the_adapter_s_time_behind_faster_links() -> None:
    """One GPU of a node sends to the next node, so it has the whole adapter; all of an all-to-all together have it, too."""
    for what in ("send-recv:64MB", "all-to-all:64MB"):
        text = f"nccl-{what},machine=dgx-a100,nics=1,detail="
        chunks, flows = (softib.simulate(faster(2, 1), text + d).simulated_us for d in ("chunks", "flows"))
        assert chunks == pytest.approx(flows, rel=0.05)


def test_gpudirect_is_a_matter_of_the_way_to_the_adapter() -> None:
    """Behind one PCIe switch is best, across two processors worse than by one root complex, and small ones pay for the bounce (NCCL's PATH levels)."""
    base = machine_of("dgx-a100")
    at = lambda level, size: predicted_us(Collective.ALL_REDUCE, RING, size, base.but(gpudirect=level), 2)
    large = {level: at(level, 1 << 30) for level in ("pix", "phb", "sys", "off")}
    assert large["pix"] < large["phb"] < large["sys"]
    assert large["pix"] < large["off"]
    assert at("pix", 8) < at("phb", 8) < at("sys", 8) < at("off", 8)


def test_adapters_of_a_node_begin_alike() -> None:
    names = ("node-1 mlx5_0", "node-1 mlx5_1", "node-2 mlx5_0", "node-2 mlx5_1", "ufm-1 mlx5_0")
    assert nodes_of(names, np.arange(5), None).tolist() == [[0, 1], [2, 3]]
    assert nodes_of(names, np.arange(4), 4).tolist() == [[0, 1, 2, 3]]
    assert nodes_of(("a", "b", "c"), np.arange(3), None).tolist() == [[0], [1], [2]]


def test_gpus_use_the_nearest_adapter() -> None:
    assert [machine_of("a100").but(nics=4).nic_of(g) for g in range(8)] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [Machine("m", GPUS["A100"], 2, 8, 200.0).nic_of(g) for g in range(2)] == [0, 4]


HOSTS = Hosts(np.arange(8), tuple(f"h{i}" for i in range(8)), np.zeros(8, np.int64))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nccl-all-reduce:1MB,nics=3", "8 adapters are not whole nodes of 3"),
        ("nccl-all-reduce:1MB,algorithm=pat", "NCCL has no all-reduce by pat"),
        ("nccl-broadcast:1MB,algorithm=tree", "NCCL has no broadcast by tree"),
        ("nccl-all-reduce:1MB,protocol=ll256", "no NCCL protocol named"),
        ("nccl-all-reduce:1MB,machine=dgx-2", "no machine named"),
        ("nccl-all-reduce:1MB,rate=10", "has no option rate"),
        ("nccl-all-reduce:1MB,nccl=3.1", "use for example 2.19.3"),
        ("nccl-all-reduce:1MB,gpus=5000", "1 to 1,024"),
    ],
)
def test_what_does_not_fit_is_one_line(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as refused:
        parse(text).messages(HOSTS)
    assert "\n" not in str(refused.value)


def test_sizes_that_overflow_are_refused() -> None:
    with pytest.raises(InputError, match="size"):
        parse("nccl-all-reduce:2000TB")


@pytest.mark.parametrize("collective", ["send-recv", "all-to-all"])
def test_sends_beyond_2_gib_run_too(collective: str) -> None:
    """Sizes up to 1 TiB are promised; a queue pair sends 2 GiB at once."""
    made, _ = parse(f"nccl-{collective}:1TiB,nics=4,machine=dgx-a100,gpus=4").messages(HOSTS)
    made.check(8)
    with pytest.raises(InputError, match="use detail=flows"):
        parse(f"nccl-{collective}:1TiB,nics=4,machine=dgx-a100,gpus=4,detail=chunks").messages(HOSTS)


def test_a_collective_beyond_2_gib_runs() -> None:
    made, _ = parse("nccl-all-reduce:64GiB,nics=4,machine=dgx-a100,gpus=4").messages(HOSTS)
    made.check(8)
    assert int(made.size.max()) <= 1 << 31


def test_what_nccl_would_take_is_taken() -> None:
    job = parse("nccl-all-reduce:1MB,nics=4,gpus=4,machine=dgx-a100").jobs[0]
    run = run_of(job, HOSTS.name, np.arange(8))
    assert run.by == choose(Collective.ALL_REDUCE, 10**6, machine_of("dgx-a100").but(gpus=4, nics=4), 2)


@pytest.mark.parametrize("detail", ["chunks", "flows"])
def test_one_process_launches_its_gpus_one_after_another(detail: str) -> None:
    """8 GPUs of a process take 34 us for any small collective (superbench's logs), large ones what the GPUs take."""
    at = lambda size, each: took(
        1, f"nccl-all-reduce:{size},machine=dgx-a100,nccl=2.8,per-process={each},detail={detail},hosts=0-7"
    )
    assert at("8", 1) < 20
    assert at("8", 8) == pytest.approx(34, rel=0.03)
    assert at("256MB", 8) == at("256MB", 1)
