"""One fault gets one answer from each form of file. Oracle: the file is written from a list of cables with one known fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from softib.diags.finding import Finding, Severity
from tests.diags.structure.forms import site


def problems(found: list[Finding]) -> list[tuple[str, set[str]]]:
    return [(f.code, {str(p) for p in f.where}) for f in found if f.severity > Severity.INFO]


@pytest.mark.parametrize("form", ["ibnetdiscover", "iblinkinfo"])
@pytest.mark.parametrize("adapter_ports", [1, 2])
def test_a_whole_site_has_no_finding(form: str, adapter_ports: int, tmp_path: Path) -> None:
    assert problems(site(adapter_ports).findings(form, tmp_path)) == []


@pytest.mark.parametrize("host", [2, 14, 64])
@pytest.mark.parametrize("slow_servers", [0, 3])
def test_a_slow_link_among_slower_servers_is_a_warning(host: int, slow_servers: int, tmp_path: Path) -> None:
    """The last servers of each leaf are of a model that ends at EDR: iblinkinfo prints no rate that they could have."""
    s = site()
    for end in [e for e in s.cables if e[0].startswith("leaf") and 4 <= e[1] < 4 + slow_servers]:
        s.join(end, s.cables[end], "EDR")
    slow = (f"host-{host:03} mlx5_0", 1)
    s.join(slow, s.cables[slow], "EDR")
    s.could |= {slow, s.cables[slow]}
    places = {f"{node}[{port}]" for node, port in s.could}
    assert problems(s.findings("iblinkinfo", tmp_path)) == [("link-slow", places)]


@pytest.mark.parametrize("rate", ["EDR", "1x HDR"])
@pytest.mark.parametrize("host", [1, 14, 64])
@pytest.mark.parametrize("form", ["ibnetdiscover", "iblinkinfo"])
def test_a_slow_host_has_the_other_hosts_as_peers_in_a_form_without_device_ids(
    form: str, host: int, rate: str, tmp_path: Path
) -> None:
    s = site()
    end = (f"host-{host:03} mlx5_0", 1)
    s.join(end, s.cables[end], rate)
    places = {f"{node}[{port}]" for node, port in (end, s.cables[end])}
    (found,) = s.findings(form, tmp_path)
    assert (found.code, {str(p) for p in found.where}) == ("link-slower-than-peers", places)


@pytest.mark.parametrize("form", ["ibnetdiscover", "iblinkinfo"])
@pytest.mark.parametrize("slow", ["spine-2", "leaf-3"])
def test_slow_cables_of_one_switch_are_mixed_speeds_in_a_form_without_device_ids(
    form: str, slow: str, tmp_path: Path
) -> None:
    """Switches with 40 ports are of one generation, those with 36 of several. There a leaf with slower uplinks may be an
    older model, but a spine that is one makes the uplinks of each leaf uneven."""
    s = site()
    ends = [e for e in s.cables if e[0] == slow and s.cables[e][0].startswith(("spine", "leaf"))]
    for end in ends:
        s.join(end, s.cables[end], "EDR")
    places = {f"{node}[{port}]" for e in ends for node, port in (e, s.cables[e])}
    if form == "iblinkinfo":
        uneven = [("mixed-link-speeds", places)] if slow == "spine-2" else []
        assert problems(s.findings(form, tmp_path)) == uneven
    s.ports |= {node: 40 for node, count in s.ports.items() if count == 36}
    assert problems(s.findings(form, tmp_path)) == [("mixed-link-speeds", places)]


@pytest.mark.parametrize("form", ["ibnetdiscover", "iblinkinfo"])
@pytest.mark.parametrize(("rate", "severity"), [("EDR", Severity.INFO), ("1x HDR", Severity.WARNING)])
def test_all_hosts_of_a_leaf_at_a_quarter_width_are_a_warning(
    form: str, rate: str, severity: Severity, tmp_path: Path
) -> None:
    """Servers of an older model may all run at EDR; no part has one lane."""
    s = site()
    ends = [("leaf-2", port) for port in range(1, 9)]
    for end in ends:
        s.join(end, s.cables[end], rate)
    found = s.findings(form, tmp_path)
    if form == "iblinkinfo" and rate == "EDR":
        assert problems(found) == []
    else:
        assert [(f.code, f.severity) for f in found] == [("links-below-generation", severity)]


@pytest.mark.parametrize("form", ["ibnetdiscover", "iblinkinfo"])
@pytest.mark.parametrize(("host", "port"), [(1, 2), (8, 1), (11, 2), (20, 1), (32, 2)])
def test_one_port_of_two_without_its_cable_is_named(form: str, host: int, port: int, tmp_path: Path) -> None:
    s = site(adapter_ports=2)
    end = (f"host-{host:03} mlx5_0", port)
    leaf, place = s.cables.pop(end)
    del s.cables[leaf, place]
    found = dict(problems(s.findings(form, tmp_path)))
    assert set(found) == {"unlinked-hca-port"}
    assert found["unlinked-hca-port"] == {f"{end[0]}[{port}]", f"{leaf}[{place}]"}


def test_adapters_that_use_one_port_of_two_are_no_finding(tmp_path: Path) -> None:
    """A quarter of the hosts has one cable by design."""
    s = site(adapter_ports=2)
    for host in range(1, 33, 4):
        leaf = s.cables.pop((f"host-{host:03} mlx5_0", 2))
        del s.cables[leaf]
    for form in ("ibnetdiscover", "iblinkinfo"):
        assert "unlinked-hca-port" not in {f.code for f in s.findings(form, tmp_path)}


@pytest.mark.parametrize("host", [5, 33])
def test_an_adapter_listed_with_its_only_port_down_is_named(host: int, tmp_path: Path) -> None:
    s = site()
    name = f"host-{host:03} mlx5_0"
    del s.cables[s.cables.pop((name, 1))]
    s.down.add(name)
    found = problems(s.findings("iblinkinfo", tmp_path))
    assert [code for code, _ in found] == ["unlinked-hca-port"] and name in found[0][1]
