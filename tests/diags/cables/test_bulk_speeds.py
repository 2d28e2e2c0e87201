"""Links that are slow in bulk: a tier, a third of it, a leaf's uplinks; and a single one that no peer tells of. Oracle: the planted ports."""

from __future__ import annotations

import numpy as np
import pytest

from softib.diags.check import check
from softib.diags.finding import Severity
from softib.fabric.model import Fabric
from softib.fabric.plugging import set_active
from softib.fabric.topologies.registry import generate
from softib.iba.rates import SPEED_BY_NAME

RECORDS = {"capabilities": None, "device-ids": frozenset({"speeds"})}
"""What tells what ends can do: capabilities that ports state, or the parts alone (an ibnetdiscover file)."""


def site(generation: str, how: str, **parameters: int) -> Fabric:
    fabric = generate("fat-tree", **{"radix": 24, "levels": 2, **parameters}, generation=generation)
    if RECORDS[how] is not None:
        fabric.source.format = "ibnetdiscover"
    return fabric


def tier(fabric: Fabric, name: str) -> np.ndarray:
    made = fabric.source.generator
    return fabric.cable_port[np.flatnonzero(np.array(made["tiers"])[made["cable_tier"]] == name)]


def names(fabric: Fabric, cables: np.ndarray) -> set[str]:
    return {fabric.port_name(int(p)) for p in cables.ravel()}


@pytest.mark.parametrize("how", RECORDS)
@pytest.mark.parametrize(
    "generation",
    ["FDR", pytest.param("EDR", marks=pytest.mark.slow), pytest.param("HDR", marks=pytest.mark.slow), "NDR"],
)
@pytest.mark.parametrize(
    ("part", "severity"), [("all", Severity.INFO), ("third", Severity.WARNING), ("leaf", Severity.WARNING)]
)
def test_half_width_in_bulk_is_one_finding_with_every_port(
    how: str, generation: str, part: str, severity: Severity
) -> None:
    fabric = site(generation, how)
    uplinks = tier(fabric, "leaf-spine")
    chosen = {"all": uplinks, "third": uplinks[::3], "leaf": uplinks[12:23]}[part]
    set_active(fabric, chosen.ravel().tolist(), SPEED_BY_NAME[generation].code, 2)
    (found,) = check(fabric, records=RECORDS[how])
    assert found.severity == severity and found.evidence["links"] == len(chosen)
    assert {str(p) for p in found.where} == names(fabric, chosen)
    assert str(len(chosen)) in found.message and f"2x {generation}" in found.message


@pytest.mark.parametrize("how", RECORDS)
@pytest.mark.parametrize("hosts", [1, 3, 100])
def test_an_adapter_at_4x_sdr_is_found_among_peers_and_alone(how: str, hosts: int) -> None:
    """ConnectX-5 on 4xSDR: a quarter of what both ends can do is no variant of a part."""
    fabric = site("EDR", how, hosts=hosts)
    cable = tier(fabric, "host-leaf")[0]
    set_active(fabric, cable.tolist(), SPEED_BY_NAME["SDR"].code, 4)
    (found,) = check(fabric, records=RECORDS[how])
    assert found.severity == Severity.WARNING and {str(p) for p in found.where} == names(fabric, cable)
    assert "SDR" in found.message and "EDR" in found.message


@pytest.mark.parametrize("how", RECORDS)
def test_all_hosts_far_below_their_parts_are_a_warning(how: str) -> None:
    fabric = site("HDR", how)
    links = tier(fabric, "host-leaf")
    set_active(fabric, links.ravel().tolist(), SPEED_BY_NAME["SDR"].code, 4)
    (found,) = check(fabric, records=RECORDS[how])
    assert found.severity == Severity.WARNING and len(found.where) == 2 * len(links)
