"""Tables of links that people have at hand: iblinkinfo's, and ibdiagnet's net_dump. The oracle is
another tool's dump of the same fabric."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from softib.diags.check import check
from softib.errors import UnknownFormat
from softib.fabric.diff import diff
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
        "ibnetdiscover": ("ibnetdiscover",),
        "blocks": ("iblinkinfo",),
        "lines": ("iblinkinfo", "-l"),
        "settings": ("iblinkinfo", "-p"),
        "switches": ("iblinkinfo", "--switches-only"),
        **{name: (name,) for name in ("ibswitches", "ibhosts", "ibnodes", "sminfo")},
    }
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


LEAVES = {0xA0001: 'leaf "A" ==( 4X )==> x', 0xA0002: "MF0;ib-l2:MQM8700/U1"}
SPINE = (0xB0001, "spine (core) #1")
CABLES = [  # node, port, peer, peer's port, width, rate: adapters at half and quarter width, one with two ports, names of any form
    (0xA0001, 1, 0xC0010, 1, "4x", "50"),
    (0xA0001, 2, 0xC0020, 1, "2x", "50"),
    (0xA0001, 3, 0xC0030, 1, "4x", "25"),
    (0xA0002, 4, 0xC0040, 1, "1x", "50"),
    (0xA0002, 9, 0xC0010, 2, "4x", "50"),
    *[(leaf, 20 + j, SPINE[0], 1 + 10 * k + j, "4x", "50") for k, leaf in enumerate(LEAVES) for j in range(3)],
]
NAMES = {
    **LEAVES,
    SPINE[0]: SPINE[1],
    0xC0010: "node 1 mlx5_0",
    0xC0020: 'node"2" : HCA-1',
    0xC0030: "żółw-3 mlx5_0",
    0xC0040: "srv' 4",
}


def net_dump(labels: bool, left_out: tuple[int, ...] = ()) -> str:
    """Our own, with the headings of two versions: ``labels`` of ports as the newer one has them."""
    lines = ["# This database file was automatically generated by IBDIAG", ""]
    ends = [*CABLES, *[(q, n, p, m, w, r) for p, m, q, n, w, r in CABLES]]
    label = lambda node, n: f"1/{n}" if labels and node in (*LEAVES, SPINE[0]) else str(n)
    lid = lambda node, n: (node & 0xFFF) + (n - 1 if node >= 0xC0000 else 0)  # one a port of an adapter
    for switch in (*LEAVES, SPINE[0]):
        if switch in left_out:
            continue
        lines.append(f'"{NAMES[switch]}", Mellanox, {switch:#018x}, LID {switch & 0xFFF}')
        lines.append(
            "# : IB# : Sta : PhysSta : LWA : LSA : Neighbor Guid : N# : NLID : Neighbor Description"
            if labels
            else "# : # : Sta : PhysSta : LWA : LSA : Neighbor Guid : N# : Neighbor LID : Neighbor Description"
        )
        ports = {p: e for n, p, *e in ends if n == switch}
        for n in range(1, 41):
            cells = 'DOWN : POLLING : N/A : N/A :  :  :  : ""'
            if n in ports:
                peer, m, width, rate = ports[n]
                cells = f'ACT : LINK UP : {width} : {rate} : {peer:#018x} : {label(peer, m)} : {lid(peer, m)} : "{NAMES[peer]}"'
            lines.append(f"{label(switch, n)} : {n} : {cells}")
    return "\n".join(lines)


@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("left_out", [(), (SPINE[0],), (0xA0002,)], ids=["whole", "no spine", "no leaf"])
def test_a_net_dump_of_odd_names_widths_and_missing_ends(
    labels: bool, left_out: tuple[int, ...], tmp_path: Path
) -> None:
    """A switch without a section is a switch by its cables, and all that is listed at either end is read."""
    (tmp_path / "x.net_dump").write_text(net_dump(labels, left_out))
    result = registry.read(tmp_path / "x.net_dump")
    assert result.format == "net_dump" and not result.problems
    f = result.fabric
    listed = {*LEAVES, SPINE[0]} - set(left_out)
    wanted = [c for c in CABLES if {c[0], c[2]} & listed]
    assert cables(f) == {frozenset(((a, p), (b, q))) for a, p, b, q, *_ in wanted}
    kinds = {int(g): bool(s) for g, s in zip(f.node_guid, f.is_switch, strict=True)}
    assert kinds == {g: g < 0xC0000 for c in wanted for g in (c[0], c[2])}
    assert {int(g): n for g, n in zip(f.node_guid, f.node_names(), strict=True)} == {g: NAMES[g] for g in kinds}
    width = rates(f)
    bits = {"1x": 1, "4x": 2, "2x": 16}  # LinkWidthActive, IBA 14.2.5.6
    assert all(width[NAMES[a], p][1] == bits[w] for a, p, _, _, w, _ in wanted)


HEADINGS = "# : IB# : Sta : PhysSta : LWA : LSA : Neighbor Guid : N# : NLID : Neighbor Description"


def _section(name: str, guid: int, lines: list[str]) -> str:
    return "\n".join([f'"{name}", Mellanox, {guid:#018x}, LID {guid & 0xFF}', HEADINGS, *lines, ""])


@pytest.mark.parametrize(
    ("cables", "ports"),
    [
        (["1/2/1 : 7"], {3}),  # the label of a switch port: cage 2, port 1, as on the switch that was reached
        (["17 : 7"], {17}),  # no adapter has a port 17
        (["1 : 7", "2 : 7"], {1, 2}),  # one LID for two ports
        (["1 : 7", "2 : 8"], None),  # a LID for each port: an adapter
        (["B184D0F0/0/0/1 : 7"], None),  # a PCI address
        (["1 : 7"], None),
    ],
    ids=str,
)
def test_a_neighbour_without_a_section_is_a_switch_by_what_the_format_gives(
    cables: list[str], ports: set[int] | None, tmp_path: Path
) -> None:
    labels = [f"1/{cage}/{port}" for cage in (1, 2, 3) for port in (1, 2)]
    rows = [f'{label} : {n} : DOWN : POLLING : N/A : N/A : : : : ""' for n, label in enumerate(labels, 1)]
    for n, end in enumerate(cables):
        rows[n] = f'{labels[n]} : {n + 1} : ACT : LINK UP : 4x : 100 : {0xB0001:#018x} : {end} : "peer"'
    (tmp_path / "x.net_dump").write_text(_section("leaf", 0xA0001, rows))
    f = registry.read(tmp_path / "x.net_dump").fabric
    node = f.node_names().index("peer")
    assert bool(f.is_switch[node]) == (ports is not None)
    linked = {int(f.port_num[p]) for p in f.ports_of(node) if f.port_peer[p] >= 0}
    assert linked == (ports or {int(end.split(" :")[0].rpartition("/")[2]) for end in cables})


ADAPTER = """\
CA: node 1 mlx5_0:
      0x00000000000c0011     10    1[  ] ==( 4X        53.125 Gbps Active/  LinkUp)==>       2    1[  ] "leaf" ( )
      0x00000000000c0012     20    2[  ] ==( 4X        53.125 Gbps Active/  LinkUp)==>       2    2[  ] "leaf" ( )
Switch: 0x00000000000a0001 leaf:
           2    1[  ] ==( 4X        53.125 Gbps Active/  LinkUp)==>      10    1[  ] "node 1 mlx5_0" ( )
           2    2[  ] ==( 4X        53.125 Gbps Active/  LinkUp)==>      20    2[  ] "node 1 mlx5_0" ( )
           2    3[  ] ==(                Down/ Polling)==>             [  ] "" ( )
"""


def test_two_ports_of_an_adapter_are_one_node_in_both_forms(tmp_path: Path) -> None:
    """With -l each line has the PortGUID of its port, and no heading holds them together. Between iblinkinfo and a source with
    NodeGUIDs and numbers of ports, neither is a difference."""
    (tmp_path / "blocks").write_text(ADAPTER)
    head = {"C": '0x00000000000c001{} "   node 1 mlx5_0" ', "S": '0x00000000000a0001 "   leaf" '}
    lines = [
        re.sub(r"^ +(0x\S+)? +", head[kind].format(n + 1), line)
        .replace("==>       2 ", "==>  0x00000000000a0001   2 ")
        .replace(f"==>      {10 * n + 10} ", f"==>  0x00000000000c001{n + 1}  {10 * n + 10} ")
        for kind, block in zip("CS", ADAPTER.split("Switch:"), strict=True)
        for n, line in enumerate(block.splitlines()[1:])
    ]
    (tmp_path / "lines").write_text("\n".join(lines))
    (tmp_path / "whole").write_text(
        'vendid=0x2c9\ndevid=0xd2f2\nswitchguid=0xa0001(a0001)\nSwitch\t3 "S-00000000000a0001"\t\t# "leaf" base port 0 lid 2 lmc 0\n'
        '[1]\t"H-00000000000c0010"[1](c0011)\t\t# "node 1 mlx5_0" lid 10 4xHDR\n[2]\t"H-00000000000c0010"[2](c0012)\t\t# "node 1 mlx5_0" lid 20 4xHDR\n\n'
        'vendid=0x2c9\ndevid=0x101b\ncaguid=0xc0010\nCa\t2 "H-00000000000c0010"\t\t# "node 1 mlx5_0"\n'
        '[1](c0011)\t"S-00000000000a0001"[1]\t\t# lid 10 lmc 0 "leaf" lid 2 4xHDR\n[2](c0012)\t"S-00000000000a0001"[2]\t\t# lid 20 lmc 0 "leaf" lid 2 4xHDR\n'
    )
    blocks, per_line, whole = (registry.read(tmp_path / name).fabric for name in ("blocks", "lines", "whole"))
    assert cables(blocks, True) == cables(per_line, True) == cables(whole, True) and per_line.sizes.nodes == 2
    kinds = {c.kind for c in (*diff(whole, blocks), *diff(per_line, whole))}
    assert not kinds & {"node-guid", "node-ports", "node-added", "node-removed", "cable-moved"}, kinds


def one_switch(lid: int = 150, port: int = 2, could: str = " ") -> str:
    """The block of a switch with hosts, and two cables to one spine."""
    line = "   7 {:4}[  ] ==( 4X  53.125 Gbps Active/  LinkUp)==>  {:5} {:4}[  ] {} ( )\n"
    hosts = [line.format(n, 20 + n, 1, f'"cn{n} HCA-1"') for n in range(1, 9)]
    if could.strip():
        hosts[4] = hosts[4].replace("4X  53.125", "1X  25.78125").replace("( )", f"({could})")
    spine = [line.format(9, 150, 1, '"ib-s1"'), line.format(10, lid, port, '"ib-s1"')]
    return "".join(["Switch: 0xb8599f0300000010 ib-l1:\n", *hosts, *spine])


@pytest.mark.parametrize(("lid", "port", "switches"), [(150, 2, 2), (151, 2, 1), (0, 2, 1)])
def test_two_cables_to_one_lid_lead_to_a_switch(lid: int, port: int, switches: int, tmp_path: Path) -> None:
    """Each port of an adapter has a LID, a switch has one (IBA 4.1.3)."""
    (tmp_path / "x.txt").write_text(one_switch(lid, port))
    f = registry.read(tmp_path / "x.txt").fabric
    assert int(f.is_switch.sum()) == switches and f.sizes.cables == 10
    assert "duplicate-lid" not in {x.code for x in check(f)}


@pytest.mark.parametrize("could", ["Could be 4X Could be 53.125 Gbps", "Could be 4X", "Could be 53.125 Gbps", " "])
@pytest.mark.parametrize("ends", ["switch", "both"])
def test_what_a_link_could_be_is_what_its_ends_support(could: str, ends: str, tmp_path: Path) -> None:
    text = one_switch(could=could)
    if ends == "both":
        rate, said = ("1X  25.78125", could) if could.strip() else ("4X  53.125", " ")
        for n in range(1, 9):
            now, says = (rate, said) if n == 5 else ("4X  53.125", " ")
            text += (
                f"CA: cn{n} HCA-1:\n   0x{0xC0 + n:016x} {20 + n} 1[  ] ==( {now} Gbps Active/  LinkUp)==>"
                f'   7 {n}[  ] "ib-l1" ({says})\n'
            )
    (tmp_path / "x.txt").write_text(text)
    found = {(x.code, str(x.where)) for x in check(registry.read(tmp_path / "x.txt").fabric)}
    codes = {"link-slow" if "Gbps" in could else "link-narrow"} if could.strip() else set()
    assert {x[0] for x in found} == codes
    assert all("cn5" in str(x[1:]) for x in found)
