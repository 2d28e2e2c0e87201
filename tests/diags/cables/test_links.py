"""Links are judged by what both ends can do and by hosts of their own class: mixed tiers, slow classes, exceptions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from softib.diags.check import check
from softib.diags.finding import Finding, Severity
from softib.fabric.model import Fabric
from softib.fabric.node_finder import find_node
from softib.fabric.plugging import set_active
from softib.fabric.topologies.registry import generate
from softib.iba.rates import SPEED_BY_NAME
from tests.diags.structure.forms import site

EDR, HDR = (SPEED_BY_NAME[n].code for n in ("EDR", "HDR"))
DUMP = frozenset({"speeds"})
"""What an ibnetdiscover file records of links."""


def dumped(**parameters: object) -> Fabric:
    """A two-level tree as a dump tells it: speeds, no capabilities."""
    fabric = generate("fat-tree", radix=32, levels=2, generation="HDR", **parameters)
    fabric.source.format = "ibnetdiscover"
    return fabric


def hosts_on(fabric: Fabric, leaf: int) -> list[int]:
    ports = fabric.port_peer[list(fabric.ports_of(find_node(fabric, f"leaf-{leaf + 1}")))]
    return [int(p) for p in ports[ports >= 0] if not fabric.is_switch[fabric.port_node[p]]]


def run_at(fabric: Fabric, ports: list[int], code: int, lanes: int = 4) -> None:
    set_active(fabric, [*ports, *fabric.port_peer[ports].tolist()], code, lanes)


def warnings(found: list[Finding]) -> list[Finding]:
    return [f for f in found if f.severity > Severity.INFO]


@pytest.mark.parametrize("slow_leaves", range(0, 17, 2))
def test_one_slow_host_is_found_however_mixed_its_tier_is(slow_leaves: int) -> None:
    """Any share of the leaves runs its hosts at EDR; one host that runs at 1x SDR is an exception in all of them."""
    for seed in range(6):
        fabric = dumped()
        rng = np.random.default_rng([seed, slow_leaves])
        for leaf in rng.permutation(32)[:slow_leaves].tolist():
            run_at(fabric, hosts_on(fabric, leaf), EDR)
        port = int(rng.choice(hosts_on(fabric, int(rng.integers(32)))))
        run_at(fabric, [port], 1, 1)
        (found,) = warnings(check(fabric, records=DUMP))
        assert found.code == "link-slower-than-peers"
        assert {str(p) for p in found.where} == {fabric.port_name(port), fabric.port_name(int(fabric.port_peer[port]))}
        assert "1x SDR" in found.message and found.evidence["peers"] in ("EDR", "HDR")


@pytest.mark.parametrize("slow_leaves", [*range(1, 12), 16, 20, *range(22, 32, 2), 31])
@pytest.mark.parametrize("records", [DUMP, DUMP | {"capabilities"}], ids=["parts", "capabilities"])
def test_leaves_of_slower_servers_are_no_warnings_at_any_share(slow_leaves: int, records: frozenset[str]) -> None:
    """Below three quarters nothing was judged, and one leaf fewer brought a warning for each healthy server."""
    fabric = dumped()
    for leaf in range(slow_leaves):
        run_at(fabric, hosts_on(fabric, leaf), EDR)
    found = check(fabric, records=records)
    assert warnings(found) == []
    for f in found:
        assert f.code == "links-below-generation" and f.evidence["links"] == 16 * slow_leaves


@pytest.mark.parametrize("slow", [3, 8, 10])
@pytest.mark.parametrize("records", [DUMP, DUMP | {"capabilities"}], ids=["parts", "capabilities"])
def test_uplinks_of_two_speeds_are_one_warning_at_any_share(slow: int, records: frozenset[str]) -> None:
    """``slow`` of the sixteen uplinks of every leaf run at EDR, though both ends are HDR switches: half a tier is no single exception, and no design."""
    fabric = dumped()
    uplinks = [
        int(fabric.port(find_node(fabric, f"leaf-{leaf}"), 17 + k)) for leaf in range(1, 33) for k in range(slow)
    ]
    run_at(fabric, uplinks, EDR)
    (found,) = warnings(check(fabric, records=records))
    assert found.code == "mixed-link-speeds"
    assert found.evidence["links"] == 32 * slow and found.evidence["faster"] == 32 * (16 - slow)


def test_classes_of_hosts_are_judged_apart() -> None:
    """Storage hosts at EDR by design among compute hosts at HDR; one compute host at EDR is an exception."""
    fabric = dumped()
    storage = [p for leaf in range(32) for p in hosts_on(fabric, leaf)[:2]]
    for i, port in enumerate(storage):
        node = fabric.port_node[port]
        fabric.node_desc[node] = np.frombuffer(f"oss{i:03d} HCA-1".encode().ljust(64, b"\0"), np.uint8)
    run_at(fabric, storage, EDR)
    assert warnings(check(fabric, records=DUMP)) == []
    odd = hosts_on(fabric, 7)[9]
    run_at(fabric, [odd], EDR)
    (found,) = warnings(check(fabric, records=DUMP))
    assert str(found.where[0]) in (fabric.port_name(odd), fabric.port_name(int(fabric.port_peer[odd])))
    assert found.evidence["peers_there"] == 13 == found.evidence["peers_in_all"], "it is no peer of itself"


def test_storage_adapters_of_every_host_are_a_class_of_their_own() -> None:
    """Rail 7 of a pod runs at HDR by design, the others at NDR: only an exception within a rail is one."""
    fabric = generate("rail-optimized", nodes=63)
    names = fabric.node_names()
    rail = [int(fabric.node_base[n]) + 1 for n, name in enumerate(names) if name.endswith("mlx5_7")]
    fabric.source.format = "ibnetdiscover"
    run_at(fabric, rail, HDR)
    assert warnings(check(fabric, records=DUMP)) == []
    run_at(fabric, rail[:1], EDR)
    (found,) = warnings(check(fabric, records=DUMP))
    assert found.evidence["peers"] == "HDR" and names[int(fabric.port_node[rail[0]])] in found.message


@pytest.mark.parametrize("share", [0.12, 0.25, 0.4, 0.6, 0.85])
def test_servers_of_two_rates_side_by_side_are_no_warnings(share: float) -> None:
    """Anywhere on any leaf; one at a rate that nobody else has is found all the same."""
    fabric = dumped()
    ports = np.array([p for leaf in range(32) for p in hosts_on(fabric, leaf)])
    chosen = np.random.default_rng(7).permutation(len(ports))[: int(share * len(ports))]
    run_at(fabric, ports[chosen].tolist(), EDR)
    assert warnings(check(fabric, records=DUMP)) == []
    run_at(fabric, [int(ports[99])], SPEED_BY_NAME["SDR"].code, lanes=1)
    (found,) = warnings(check(fabric, records=DUMP))
    assert found.code == "link-slower-than-peers" and str(found.where[1]) == fabric.port_name(int(ports[99]))


@pytest.mark.parametrize(("managers", "slow", "expected"), [(2, 2, 0), (3, 3, 0), (3, 1, 1), (1, 1, 1)])
def test_management_hosts_on_a_switch_of_their_own_are_a_class_of_their_own(
    managers: int, slow: int, expected: int
) -> None:
    """A netlist without device IDs: nothing but name and place tells an EDR management host from an HDR server. Two or more that agree are a
    choice; one that differs from its like, or stands alone, is an exception."""
    fabric = dumped(hosts=16 * 16 + managers)
    fabric.device_id[:] = 0
    ports = hosts_on(fabric, 16)
    assert len(ports) == managers
    for i, port in enumerate(ports):
        fabric.node_desc[fabric.port_node[port]] = np.frombuffer(f"mgmt-{i + 1}".encode().ljust(64, b"\0"), np.uint8)
    run_at(fabric, ports[:slow], EDR)
    assert [f.code for f in warnings(check(fabric, records=DUMP))] == ["link-slower-than-peers"] * expected


@pytest.mark.parametrize("form", ["ibnetdiscover", "iblinkinfo"])
@pytest.mark.parametrize("spines", [(2,), (1, 3)], ids=str)
def test_slower_spines_are_one_finding_in_every_form(form: str, spines: tuple[int, ...], tmp_path: Path) -> None:
    """Each leaf has uplinks of two rates; ``iblinkinfo`` prints no DeviceID, and 36 ports tell no generation."""
    s = site()
    slow = {end for end in s.cables if end[0] in {f"spine-{i}" for i in spines}}
    slow |= {s.cables[end] for end in slow}
    for end in slow:
        s.rate[end] = "EDR"
    (finding,) = s.findings(form, tmp_path)
    assert (finding.code, finding.severity) == ("mixed-link-speeds", Severity.WARNING)
    assert {(str(p).rsplit("[")[0], p.portnum) for p in finding.where} == slow


def test_a_leaf_of_a_slower_model_mixes_nothing(tmp_path: Path) -> None:
    """All of its uplinks have one rate: its routes share them evenly."""
    s = site()
    for end, peer in list(s.cables.items()):
        if "leaf-3" in (end[0], peer[0]):
            s.rate[end] = "EDR"
    assert "mixed-link-speeds" not in {f.code for f in s.findings("iblinkinfo", tmp_path)}
