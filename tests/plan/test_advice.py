"""When Ethernet is enough: the statements of engineers' guides, with their numbers."""

from __future__ import annotations

import pytest

import softib


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [
        ({"hosts": 1, "kind": "training"}, "ethernet"),  # one node: NVLink
        ({"hosts": 1, "gpus": 8, "kind": "training"}, "ethernet"),
        ({"hosts": 500, "kind": "independent"}, "ethernet"),  # embarrassingly parallel
        ({"hosts": 15}, "ethernet"),  # below about 16 nodes
        ({"hosts": 100, "kind": "service"}, "ethernet"),
        ({"hosts": 7, "gpus": 56, "kind": "training"}, "either"),  # below 64 GPUs: cost
        (
            {"hosts": 32, "gpus": 256, "kind": "training", "step_ms": 300.0},
            "infiniband",
        ),  # gradients every few hundred ms
        ({"hosts": 128, "gpus": 1024, "kind": "training"}, "infiniband"),  # 1,000+ GPUs
        ({"hosts": 48, "kind": "mpi", "calls_a_second": 3000.0}, "infiniband"),  # thousands of MPI_Allreduce a second
        ({"hosts": 40, "kind": "storage"}, "infiniband"),  # parallel file systems with RDMA
    ],
)
def test_the_statements_hold(facts, verdict):
    assert softib.advise(softib.Facts(**facts)).verdict == verdict


def test_a_workload_adds_its_messages_and_what_its_time_depends_on():
    """Messages of 8 bytes wait for latency and not for bandwidth; of 8 MiB for bandwidth and not for latency."""
    small, large = (
        softib.advise(softib.Facts(hosts=4), f"shift:{size}", networks=("NDR",)).messages for size in (8, 8 << 20)
    )
    assert (small.mean_bytes, large.mean_bytes) == (8, 8 << 20)
    assert small.sensitivity["latency"]["double"] > 1.5 > 1.01 > small.sensitivity["bandwidth"]["half"]
    assert large.sensitivity["bandwidth"]["half"] > 1.5 > 1.01 > large.sensitivity["latency"]["double"]


def test_facts_alone_name_what_decides():
    assert any("workload" in note for note in softib.advise(softib.Facts(hosts=20)).notes)
    assert not softib.advise(softib.Facts(hosts=1)).notes


def test_a_storage_network_beside_the_compute_network_is_named():
    advice = softib.advise(softib.Facts(hosts=64, storage="ethernet", existing="infiniband"))
    assert any("bottleneck" in reason.reason for reason in advice.reasons)


@pytest.mark.parametrize(
    ("fact", "verdict"),
    [
        ({"storage": "infiniband"}, "infiniband"),
        ({"storage": "ethernet"}, "either"),
        ({"existing": "infiniband"}, "infiniband"),
        ({"existing": "ethernet"}, "ethernet"),
        ({"calls_a_second": 20.0}, "either"),
        ({"step_ms": 5000.0}, "either"),
        ({"staff": False}, "either"),
        ({"tenants": 3}, "either"),
    ],
)
def test_every_stated_fact_has_a_reason(fact, verdict):
    """40 nodes are neither few nor many, so that the added fact alone speaks."""
    before, after = softib.advise(softib.Facts(hosts=40)), softib.advise(softib.Facts(hosts=40, **fact))
    added = [r for r in after.reasons if r not in before.reasons]
    assert len(added) == 1 and not added[0].decides
    assert after.verdict == verdict


def test_a_training_job_uses_the_gpus_of_all_its_hosts():
    """200 hosts x 8 = 1,600 GPUs; 64 x 8 = 512, which exchange gradients every 100 ms."""
    many = softib.advise(softib.Facts(hosts=200, kind="training"))
    assert many.verdict == "infiniband" and many.reasons[0].reason.startswith("1,600 GPUs")
    often = softib.advise(softib.Facts(hosts=64, kind="training", step_ms=100.0), gpus_per_host=8)
    assert often.verdict == "infiniband" and often.reasons[0].reason.startswith("512 GPUs")


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"hosts": 0}, "at least one node"),
        ({"hosts": 4, "kind": "hpc"}, "hpc"),
        ({"hosts": 4, "storage": "fibre"}, "fibre"),
    ],
)
def test_what_cannot_be_advised_on_is_one_line(facts, why):
    with pytest.raises(softib.InputError, match=why):
        softib.advise(softib.Facts(**facts))


def test_work_for_the_money_is_a_reason_that_decides():
    """If no rule decides, the reasons name both networks and the ratio of completion time times price."""
    advice = softib.advise(softib.Facts(hosts=20), "shift:4KiB", networks=("NDR", "roce"))
    ib, eth = advice.to_json()["networks"]
    cost = {n["network"]: n["completion_us"] * (n["price"]["low"] + n["price"]["high"]) for n in (ib, eth)}
    better, worse = sorted(cost, key=lambda name: cost[name])
    (reason,) = (r for r in advice.reasons if r.decides)
    assert reason.verdict == advice.verdict == {"NDR": "infiniband", "roce": "ethernet"}[better]
    assert reason.reason.startswith(f"{better} does {cost[worse] / cost[better] - 1:.0%} more work")


@pytest.mark.parametrize("workload", ["multicast:2048", "aggregation:4096"])
def test_workloads_that_the_simulated_ethernet_cannot_run_say_so(workload):
    networks = softib.advise(softib.Facts(hosts=8), workload, networks=("NDR", "roce", "tcp")).to_json()["networks"]
    assert networks[0]["completion_us"] > 0
    for ethernet in networks[1:]:
        assert ethernet["completion_us"] is None and "needs InfiniBand" in ethernet["why"]
