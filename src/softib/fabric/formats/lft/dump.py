"""Read forwarding tables from every dump format of the stock tools, and write them in the format of
dump_lfts.

Readable formats: dump_lfts.sh, dump_fts, ibroute and ``opensm -D`` (``Unicast lids [0x0-0x1c] of
switch Lid 3 guid 0x… (name):``); OpenSM's osm.fdbs and opensm.fdbs (``Switch 0x…``, ``LID : Port :
Hops : Optimal``); and the flit simulator's ``.fdbs`` (one row of zero-based ports per switch; a
second file, with ``.ini`` appended to the name, names the switch of each row). A table belongs to
the switch with its GUID; if the heading has no GUID, to the switch with its name, otherwise with
its LID. All entries of known switches are kept. Problems are: tables of unknown switches, switches
without a table, ports beyond NumPorts and LIDs beyond the table (both left out), LIDs that no port
of the fabric has, a LID that occurs twice in one table (the first entry is used), and a table whose
stated number of entries is wrong.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from softib.errors import UnreadableFile
from softib.fabric.formats.base import Problem, Problems
from softib.fabric.formats.lft.parse import Dump, Section, hcas_of, looks_like_omnet, parse_dump, read_hcas, read_omnet
from softib.fabric.model import Fabric
from softib.fabric.subnets import subnet_of
from softib.iba.constants import LFT_NO_ROUTE, NodeType
from softib.input_files import text_content
from softib.plural import counted, plural
from softib.whole_files import write_file

__all__ = ["LidsOfFile", "TablesOfFile", "read_lfts", "read_lids", "write_fabric_lfts", "write_lfts"]


class TablesOfFile(NamedTuple):
    """The forwarding tables of a file."""

    lft: np.ndarray
    """uint8[switches, lft_cap]: the output port, with switches in the fabric's order; 255 = no
    route."""
    problems: list[Problem]


class LidsOfFile(NamedTuple):
    """The LIDs that a file of forwarding tables states."""

    lids: np.ndarray
    """uint16[ports]; 0 = the file states no LID."""
    problems: list[Problem]


def read_lfts(path: str | Path, fabric: Fabric) -> TablesOfFile:
    """Return the tables of the switches of ``fabric``. Raises :class:`UnreadableFile` if the file
    cannot be read, or has no table of a switch of ``fabric``.
    """
    got = text_content(path, kind="dump of tables")
    data = got.data
    problems = Problems(str(path))
    if got.flaw:
        problems.add(max(data.count(b"\n"), 1), got.flaw)
    if looks_like_omnet(data):
        dump, owner = read_omnet(data, Path(path), fabric, problems)
    else:
        dump = parse_dump(data, problems)
        owner = np.array([_owner(s, fabric, problems) for s in dump.sections], np.int64)
    if not len(dump.sections):
        raise UnreadableFile(
            f"{problems.file}: contains no forwarding table; a table begins with 'Unicast lids [' or 'Switch 0x…'"
        )
    if not (owner >= 0).any():
        raise UnreadableFile(
            f"{problems.file}: contains {counted(len(dump.sections), 'table')}, but of no switch of "
            f"{fabric.name or 'this fabric'}; use a dump of this fabric"
        )
    lft = _fill(dump, owner, fabric, problems)
    _check_totals(dump, problems)
    for switch in np.flatnonzero(~np.isin(np.arange(fabric.sizes.switches), owner)):
        problems.add(0, f"no table of switch {fabric.node_name(int(fabric.switch_node[switch]))}")
    return TablesOfFile(lft, sorted(problems, key=lambda p: p.line))


_DESTINATION = re.compile(
    r"^0x([0-9a-fA-F]{1,4}) +\d{1,3} *[:#] *\(?(?:Channel Adapter|Switch|Router) portguid "
    r"+(?:0x([0-9a-fA-F]{1,16})|guid)\s*:\s*(.*?)\)?\s*$",
    re.MULTILINE,
)

LIDS_WITHIN = 8 << 20
"""Number of characters that :func:`read_lids` reads. A table of all 49,151 unicast LIDs is shorter,
so the rest of the dump has no new LIDs."""


def read_lids(path: str | Path, fabric: Fabric) -> LidsOfFile:
    """Return the LIDs of destinations in a dump by dump_lfts. They are needed for fabrics whose
    file has no LIDs (netlists, ``.topo``). A destination is found by PortGUID, or otherwise by name
    if exactly one node has this name; the LID then belongs to port 0 of a switch, or the first
    linked port of a CA. The flit simulator's tables have no LIDs; its ``.hcas`` file has them.
    """
    data = text_content(path, kind="dump of tables").data
    if not data.strip():
        raise UnreadableFile(f"{path}: the file is empty; give a dump of tables")
    if looks_like_omnet(data):
        return LidsOfFile(*read_hcas(hcas_of(Path(path)), fabric))
    text = data.decode("utf-8", "replace")
    problems = Problems(str(path))
    # LID, PortGUID and name → line; two subnets may use the same LID
    destinations: dict[tuple[str | None, ...], int] = {}
    newest, passed, line = 0, 0, 1
    for match in _DESTINATION.finditer(text):
        if match.groups() not in destinations:
            newest = match.start()
            line += text.count("\n", passed, newest)
            passed = newest
            destinations[match.groups()] = line
        elif match.start() - newest > LIDS_WITHIN:
            break
    out = np.zeros(fabric.sizes.ports, np.uint16)
    ends = fabric.end_ports()
    by_guid: dict[int, list[int]] = {}
    by_name: dict[str, list[int]] = {}
    for port in ends.tolist():
        by_guid.setdefault(int(fabric.port_guid[port]), []).append(port)
        by_name.setdefault(fabric.node_name(int(fabric.port_node[port])), []).append(port)
    for (hex_lid, guid, quoted), at_line in destinations.items():
        lid, name = int(hex_lid or "", 16), (quoted or "").strip("'\"")
        ports = by_guid.get(int(guid, 16), []) if guid else []
        ports = ports if len(ports) == 1 else by_name.get(name, [])
        if len(ports) == 1 and not out[ports[0]]:
            out[ports[0]] = lid
        else:
            problems.add(
                at_line, f"LID {lid} belongs to {name!r}, which is {counted(len(ports), 'port')} of the fabric"
            )
    return LidsOfFile(out, list(problems))


def _owner(section: Section, fabric: Fabric, problems: Problems) -> int:
    """Return the row of the section's switch in the switch arrays. -1 = the fabric has no such
    switch, -2 = the section is not a unicast table."""
    if not section.unicast:
        return -2
    if section.guid is not None:
        hits = np.flatnonzero(fabric.node_guid[fabric.switch_node] == np.uint64(section.guid))
        called = f"GUID {section.guid:#018x}"
    elif section.name:
        hits = np.array([s for s, n in enumerate(fabric.switch_node) if fabric.node_name(int(n)) == section.name], int)
        called = f"name {section.name!r}"
    else:
        lids = fabric.lid[fabric.node_base[fabric.switch_node]]
        hits = np.flatnonzero(lids == section.lid) if section.lid else np.zeros(0, int)
        called = f"LID {section.lid}" if section.lid else "neither GUID nor name nor LID"
    if len(hits) == 1:
        return int(hits[0])
    owners = f"{counted(len(hits), 'switch')} {plural(len(hits), 'has', 'have')}" if len(hits) else "no switch has"
    problems.add(section.line, f"{owners} {called}: this table is skipped")
    return -1


def _fill(dump: Dump, owner: np.ndarray, fabric: Fabric, problems: Problems) -> np.ndarray:
    lft = np.full((fabric.sizes.switches, fabric.sizes.lft_cap), LFT_NO_ROUTE, np.uint8)
    switch = np.where(dump.section >= 0, owner[np.maximum(dump.section, 0)], -3).astype(np.int32)
    for i in np.flatnonzero(switch == -3):
        problems.add(int(dump.line[i]), "an entry before any table's heading: its switch is unknown")
    in_fabric = switch >= 0
    node = fabric.switch_node[np.where(in_fabric, switch, 0)]
    nports = fabric.node_nports[node]
    routed = in_fabric & (dump.portnum != LFT_NO_ROUTE)
    beyond_cap = in_fabric & ((dump.lid >= fabric.sizes.lft_cap) | (dump.lid == 0) & (dump.portnum != LFT_NO_ROUTE))
    beyond_ports = routed & ~beyond_cap & (dump.portnum > nports)
    for i in np.flatnonzero(beyond_cap):
        problems.add(int(dump.line[i]), f"LID {int(dump.lid[i])} is not between 1 and {fabric.sizes.lft_cap - 1}")
    for i in np.flatnonzero(beyond_ports):
        name = fabric.node_name(int(node[i]))
        problems.add(
            int(dump.line[i]), f"{name} has no port {int(dump.portnum[i])}; its ports are 0 to {int(nports[i])}"
        )
    rows = np.flatnonzero(routed & ~beyond_cap & ~beyond_ports)
    switch, lid, portnum, line = switch[rows], dump.lid[rows], dump.portnum[rows], dump.line[rows]
    # Entries are written in reverse, so that the first of two entries for one LID wins. The copies
    # are needed because NumPy processes a reversed view in memory order.
    lft[switch[::-1].copy(), lid[::-1].copy()] = portnum[::-1].copy()
    conflicting = np.flatnonzero(lft[switch, lid] != portnum)
    if len(conflicting):
        key = switch.astype(np.int64) << 16 | lid
        concerned = np.flatnonzero(np.isin(key, key[conflicting]))
        keys, first = np.unique(key[concerned], return_index=True)
        first_line = line[concerned[first[np.searchsorted(keys, key[conflicting])]]]
        for k, earlier in zip(conflicting.tolist(), first_line.tolist(), strict=True):
            used = int(lft[switch[k], lid[k]])
            problems.add(int(line[k]), f"LID {int(lid[k])} has port {used} at line {earlier}; that one is used")
    _unknown_lids(lid, line, fabric, problems)
    return lft


def _unknown_lids(lid: np.ndarray, line: np.ndarray, fabric: Fabric, problems: Problems) -> None:
    """Report each unknown LID once. Nothing is reported for a fabric without LIDs (a plan, a
    netlist)."""
    ends = fabric.end_ports()
    base, lmc = fabric.lid[ends].astype(np.int64), fabric.lmc[ends].astype(np.int64)
    if not base.any():
        return
    has = np.zeros((1 << 16) + 128, bool)
    for extra in range(1 << int(lmc.max())):
        in_range = (base > 0) & (extra < (1 << lmc))
        has[base[in_range] + extra] = True
    values, first, times = np.unique(lid, return_index=True, return_counts=True)
    for value, at, n in zip(values, first, times, strict=True):
        if not has[value]:
            problems.add(
                int(line[at]),
                f"LID {int(value)}: {counted(int(n), 'switch')} {plural(int(n), 'routes', 'route')} to it, but no "
                f"port of the fabric has it",
            )


def _check_totals(dump: Dump, problems: Problems) -> None:
    have = np.bincount(dump.section[dump.section >= 0], minlength=len(dump.sections))
    for section, n in zip(dump.sections, have, strict=True):
        if section.unicast and section.total is not None and section.total[1] != n:
            line, stated = section.total
            problems.add(
                line,
                f"the dump says {counted(stated, 'LID')}, {int(n)} are in the table that begins at line {section.line}",
            )


def write_lfts(fabric: Fabric, lft: np.ndarray, path: str | Path) -> None:
    """Write the tables ``uint8[switches, n]`` in the format of dump_lfts. :func:`read_lfts` reads
    the same tables from the file. Raises :class:`InputError` if the path cannot be written.
    """
    switch_lid = fabric.lid[fabric.node_base[fabric.switch_node]]
    subnet, ends = subnet_of(fabric), fabric.end_ports()
    numbers = subnet[fabric.node_base[fabric.switch_node]].tolist()
    destinations = {
        number: _destinations(fabric, ends[subnet[ends] == number], lft.shape[1]) for number in set(numbers)
    }
    lead = [f"0x{lid:04x} " for lid in range(lft.shape[1])]
    ports = [f"{p:03d}" for p in range(256)]

    def write(part: Path) -> None:
        with open(part, "w", encoding="utf-8", newline="\n") as out:
            for switch, node in enumerate(fabric.switch_node.tolist()):
                used, destination = np.flatnonzero(lft[switch] != LFT_NO_ROUTE), destinations[numbers[switch]]
                entries = zip(used.tolist(), lft[switch][used].tolist(), strict=True)
                out.write(
                    f"Unicast lids [0x0-0x{int(used.max(initial=0)):x}] of switch Lid {int(switch_lid[switch])} "
                    f"guid 0x{int(fabric.node_guid[node]):016x} ({fabric.node_name(node)}):\n"
                    "  Lid  Out   Destination\n       Port     Info \n"
                )
                out.write("".join([lead[i] + ports[p] + destination[i] for i, p in entries]))
                out.write(f"{len(used)} valid lids dumped \n")

    write_file(path, write)


def write_fabric_lfts(fabric: Fabric, path: str | Path) -> list[str]:
    """Write the current tables of ``fabric``; this is the registry's writer. Return a note if the
    fabric has no tables."""
    write_lfts(fabric, fabric.lft, path)
    if (fabric.lft != LFT_NO_ROUTE).any():
        return []
    return [
        (
            "the source holds no forwarding tables, so the dump is empty; use softib route --dump to compute and write "
            "them"
        )
    ]


def _destinations(fabric: Fabric, ends: np.ndarray, n: int) -> list[str]:
    """Return, for each LID of one subnet, the description of its end port in ``ends``, in the form
    of infiniband-diags."""
    kind_names = {NodeType.CA: "Channel Adapter", NodeType.SWITCH: "Switch", NodeType.ROUTER: "Router"}
    out = [" : (path unknown)\n"] * n
    lids, lmc = fabric.lid, fabric.lmc
    for port in ends.tolist():
        lid, node = int(lids[port]), int(fabric.port_node[port])
        if lid:
            kind = kind_names.get(NodeType(int(fabric.node_type[node])), "Unknown node type")
            text = f" : ({kind} portguid 0x{int(fabric.port_guid[port]):016x}: '{fabric.node_name(node)}')\n"
            for copy in range(lid, min(lid + (1 << int(lmc[port])), n)):
                out[copy] = text
    return out
