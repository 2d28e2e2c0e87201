"""Tables of links that people have at hand: iblinkinfo's, and ibdiagnet's net_dump. The oracle is
another tool's dump of the same fabric."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from softib.errors import UnknownFormat
from softib.fabric.faults.inject import remove_cable, slow_link
from softib.fabric.formats import registry
from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from softib.iba.devices import is_aggregation_node
from softib.scenario.bring_up import bring_up
from tests.live.serving import Serving, run

DUMP = "sequoia-ndr-ibdiagnet/data__ibdiagnet2__ibdiagnet2"


def cables(f: Fabric, by_name: bool = False) -> set[frozenset[tuple[object, int]]]:
    """Every cable by (NodeGUID or name, port number) of its ends."""
    ends = f.cable_port[(f.cable_port >= 0).all(axis=1)]
    node = [f.node_name(n) for n in range(f.sizes.nodes)] if by_name else f.node_guid.tolist()
    return {frozenset((node[f.port_node[p]], int(f.port_num[p])) for p in cable) for cable in ends.tolist()}


def rates(f: Fabric) -> dict[tuple[str, int], tuple[int, int]]:
    """Speed and width of each linked port by name."""
    from softib.fabric.power_up import active_speed_codes
    from softib.iba.smp import PortInfo

    code, width = active_speed_codes(f.port_info, f.port_mlnx_speed), PortInfo.link_width_active.get(f.port_info)
    return {
        (f.node_name(int(f.port_node[p])), int(f.port_num[p])): (int(code[p]), int(width[p]))
        for p in np.flatnonzero(f.linked)
    }


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory, stock) -> dict[str, Path]:
    """What stock tools print of one fabric: three tiers, one cable gone, adapters with two ports, a
    slower link."""
    folder = tmp_path_factory.mktemp("printed")
    f = generate("fat-tree", radix=4, levels=3, generation="HDR")
    remove_cable(f, f"{f.node_name(int(f.switch_node[0]))}[1]")
    slow_link(f, f"{f.node_name(int(f.switch_node[1]))}[2]", speed="EDR")
    bring_up(f)
    served = Serving(f)
    commands = {
        "ibnetdiscover": ("ibnetdiscover",), "blocks": ("iblinkinfo",), "lines": ("iblinkinfo", "-l"),
        "settings": ("iblinkinfo", "-p"), "switches": ("iblinkinfo", "--switches-only"),
        **{name: (name,) for name in ("ibswitches", "ibhosts", "ibnodes", "sminfo")},
    }  # fmt: skip
    made = {}
    try:
        for name, (program, *options) in commands.items():
            code, said = run(folder, served.environment(), stock(program), *options)
            assert code == 0 or name == "sminfo", said
            made[name] = folder / name
            made[name].write_text("".join(x for x in said.splitlines(True) if not x.startswith("ibwarn:")))
    finally:
        served.stop()
    return made


@pytest.mark.stock
@pytest.mark.parametrize("form", ["blocks", "lines", "settings", "switches"])
def test_iblinkinfo_is_ibnetdiscover(form: str, printed: dict[str, Path]) -> None:
    expected, found = registry.read(printed["ibnetdiscover"]), registry.read(printed[form])
    assert found.format == "iblinkinfo" and not found.problems
    a, b = expected.fabric, found.fabric
    assert cables(a, True) == cables(b, True) and len(cables(b)) == b.sizes.cables
    assert rates(a) == rates(b)
    of = lambda f: {
        f.node_name(int(n)): (int(f.node_guid[n]), int(f.lid[f.node_base[n]]), int(f.node_nports[n]))
        for n in f.switch_node
    }
    assert of(a) == of(b)
    lids = lambda f: {f.port_name(int(p)): int(f.lid[p]) for p in np.flatnonzero(f.linked & ~f.is_switch[f.port_node])}
    assert lids(a) == lids(b)
    guids = lambda f: {
        f.port_name(int(p)): int(f.port_guid[p]) for p in np.flatnonzero(f.linked & ~f.is_switch[f.port_node])
    }
    if form != "switches":
        assert guids(a) == guids(b)


@pytest.mark.stock
def test_lists_without_cables_say_what_to_run(printed: dict[str, Path]) -> None:
    for name in ("ibswitches", "ibhosts", "ibnodes"):
        with pytest.raises(UnknownFormat, match=f"{name}.*has no cables; run ibnetdiscover"):
            registry.read(printed[name])


def test_net_dump_is_the_ibnetdiscover_of_its_run(shared_data: Path) -> None:
    """A real fabric of 9 switches: the same cables by GUID, the same names and rates."""
    a, b = (registry.read(shared_data / f"{DUMP}.{suffix}") for suffix in ("ibnetdiscover", "net_dump"))
    assert b.format == "net_dump" and not b.problems
    assert cables(a.fabric) == cables(b.fabric)
    assert set(a.fabric.node_names()) == set(b.fabric.node_names()) and rates(a.fabric) == rates(b.fabric)
    assert is_aggregation_node(a.fabric.node_desc).sum() == is_aggregation_node(b.fabric.node_desc).sum() == 7


@pytest.mark.parametrize("name", ["sm", "rnc2", "nodes_info", "log", "pkey", "vports"])
def test_other_files_of_ibdiagnet_are_named(name: str, shared_data: Path) -> None:
    with pytest.raises(UnknownFormat, match=r"give ibdiagnet2\.db_csv"):
        registry.read(shared_data / f"{DUMP}.{name}")


def test_a_damaged_table_keeps_what_can_be_read(tmp_path: Path, shared_data: Path) -> None:
    """Every fifth port of a real net_dump is not a number, one switch has no heading: the lines are
    named, the rest stands."""
    lines = (shared_data / f"{DUMP}.net_dump").read_text().split("\n")
    ports = [i for i, line in enumerate(lines) if re.match(r"\s+\d+/\d+/\d+ +: \d+ +: ACT", line)]
    for i in ports[::5]:
        lines[i] = re.sub(r"(: )\d+( +: ACT)", r"\1x\2", lines[i], count=1)
    (tmp_path / "x").write_text("\n".join(lines))
    result = registry.read(tmp_path / "x")
    assert {p.line for p in result.problems} >= {i + 1 for i in ports[::5]}
    whole = registry.read(shared_data / f"{DUMP}.net_dump")
    assert cables(result.fabric) < cables(whole.fabric)
