"""A run that hosts limit says so: its cause names the limit, faster links change nothing, and lifting the limit does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import softib


def ran(workload: str, generation: str = "HDR", hosts: int = 16, **options: Any) -> softib.Simulation:
    fabric = softib.generate("fat-tree", radix=8, levels=2, hosts=hosts, generation=generation)
    return softib.simulate(fabric, workload, **options)


def causes(run: softib.Simulation) -> set[str]:
    return {p["cause"].partition(": ")[2] for p in run.busy_ports}


@pytest.mark.parametrize("layer", ["static", "fluid", "packet"])
def test_pcie_is_the_limit_that_lanes_lift_and_links_do_not(layer: str) -> None:
    narrow = softib.Record(hosts={"pcie": "gen3x8"})
    run = ran("shift:4MB,k=8", layer=layer, record=narrow)
    assert causes(run) and all("PCIe" in cause for cause in causes(run))
    assert ran("shift:4MB,k=8", "NDR", layer=layer, record=narrow).simulated_us > 0.97 * run.simulated_us
    wide = softib.Record(hosts={"pcie": "gen4x16"})
    assert ran("shift:4MB,k=8", layer=layer, record=wide).simulated_us < 0.5 * run.simulated_us


@pytest.mark.parametrize("layer", ["static", "fluid", "packet"])
def test_a_static_rate_is_the_limit_of_one_queue_pair(layer: str) -> None:
    """20 messages of 1 MB at 20 Gb/s take 8 ms."""
    run = ran("bandwidth:1MB,iterations=20,rate=20", layer=layer)
    assert run.simulated_us == pytest.approx(8000, rel=0.02)
    assert causes(run) and all("at their own rate" in cause for cause in causes(run))


def test_connections_of_gpus_are_a_limit_that_links_do_not_lift() -> None:
    workload = "nccl-all-reduce:256MB,machine=dgx-a100,nics=1,hosts=0-1"
    run, faster = ran(workload, "NDR"), ran(workload, "XDR")
    assert faster.simulated_us > 0.97 * run.simulated_us
    assert causes(run) and all("at their own rate" in cause for cause in causes(run))


def test_rates_that_congestion_control_reduced_are_the_limit() -> None:
    """Without congestion control the same flows on the same hashed paths take less than half of the time."""
    run = ran("permutation:2MB", "EDR", 32, layer="packet", network="roce")
    assert max(p["load"] for p in run.busy_ports) < 0.5
    assert all("congestion control reduced" in p["cause"] for p in run.busy_ports)
    free = ran("permutation:2MB", "EDR", 32, layer="packet", network="roce,cc=none")
    assert free.simulated_us < 0.5 * run.simulated_us


@pytest.mark.parametrize("layer", ["static", "fluid", "packet"])
def test_ports_after_a_cable_that_outlasts_its_credits_name_it(tmp_path: Path, layer: str) -> None:
    """All ports on the path wait for the same credits; none is told to send larger messages."""
    file = tmp_path / "long.yaml"
    file.write_text(
        "{name: long, generation: NDR, topology: {kind: fat-tree, radix: 8, levels: 2, hosts: 16},"
        " cables: {length_m: {host-leaf: 3, leaf-spine: 500}}}"
    )
    run = softib.simulate(file, "bandwidth:8MB,iterations=1,source=host-0001,target=host-0016", layer=layer)
    assert len(run.busy_ports) >= 3 and all("credits" in cause for cause in causes(run))


def test_a_change_without_an_effect_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    """Switches of QDR do not route adaptively: the what-if took 1.00 times as long, in silence."""
    run = ran("permutation:64KB", "QDR", layer="packet", what_if=["engine=updn", "ar=on"])
    run.print()
    assert "Note: ar=on changes nothing: switches of QDR" in capsys.readouterr().out
    assert [v["notes"] for v in run.to_json()["variants"] if v["change"] == "as it is"] == [[]]
