"""Reads ibdiagnet2's .db_csv: everything that the fabric answered, attribute by attribute.

Sections used: NODES, LINKS, PORTS (all of PortInfo), EXTENDED_PORT_INFO (FDR10), SWITCHES (SwitchInfo), SM_INFO, PKEY,
PM_INFO (counters), CABLE_INFO (lengths) and PORT_HIERARCHY_INFO (labels). Column names are ibdiagnet2's, read off its files; what each holds
is in :mod:`softib.fabric.formats.db_csv_columns`.

The forwarding tables are not in the file, so LinearFDBTop and MulticastFDBTop stay at their power-up values.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from softib.errors import UnreadableFile
from softib.fabric.columns import COUNTER_NAMES
from softib.fabric.formats.base import Problems, ReadResult
from softib.fabric.formats.csv_sections import NONE, Section, read_sections
from softib.fabric.formats.db_csv_columns import CABLE_LENGTHS, COUNTERS, PORT_INFO, SPEEDS, SWITCH_INFO, split_speeds
from softib.fabric.formats.records import UNKNOWN, Records, bounded_ports
from softib.fabric.formats.resolve import named, to_fabric
from softib.fabric.formats.text import read_lines, shown
from softib.fabric.model import Fabric
from softib.iba.constants import NodeType, PortState
from softib.iba.smp import PortInfo, SwitchInfo

__all__ = ["read"]

_SECTIONS = (
    "NODES",
    "PORTS",
    "EXTENDED_PORT_INFO",
    "LINKS",
    "SWITCHES",
    "SM_INFO",
    "PKEY",
    "PM_INFO",
    "CABLE_INFO",
    "PORT_HIERARCHY_INFO",
)
_NODES = (
    "NodeDesc",
    "NumPorts",
    "NodeType",
    "SystemImageGUID",
    "NodeGUID",
    "PortGUID",
    "DeviceID",
    "revision",
    "VendorID",
)
_LINKS = ("NodeGuid1", "PortNum1", "NodeGuid2", "PortNum2")
MLIDS_MAX = 0x3FFF
_LENGTH = re.compile(r"\s*+(\d{1,6}(?:\.\d{1,6})?)\s*+(km|m|cm)\s*+\Z")
_METRES = {"km": 1000.0, "m": 1.0, "cm": 0.01}


def read(path: Path, *, ibnl_dirs: Any = (), node_name_map: Any = None) -> ReadResult:
    """Read a .db_csv. Raises :class:`UnreadableFile` when there is no readable NODES section."""
    problems = Problems(str(path))
    lines = read_lines(path, problems)
    sections = read_sections(lines, _SECTIONS, problems)
    nodes = sections.get("NODES")
    if nodes is None or not nodes.has(*_NODES) or not nodes.rows:
        raise UnreadableFile(f"{path}: no readable NODES section" + (f"; first: {problems[0]}" if problems else ""))
    records = Records(both_ends_in_one_line=True)
    index = _nodes(records, nodes, problems)
    _links(records, sections.get("LINKS"), index, len(lines), problems)
    switches = sections.get("SWITCHES")
    mlids = 1024
    if switches is not None and switches.has("MCastFDBCap") and switches.rows:
        mlids = int(np.clip(switches.column("MCastFDBCap", problems).max(), mlids, MLIDS_MAX))
    result = to_fabric(records, path, "db_csv", problems, mlids=mlids)
    overlay = _Overlay(result.fabric, problems)
    for name, section in sections.items():
        apply = getattr(overlay, name.lower(), None)
        if apply is not None and section.header:
            apply(section)
    result.fabric.source.records |= overlay.records
    problems.sort(key=lambda p: p.line)
    return named(result, node_name_map)


def _nodes(r: Records, s: Section, problems: Problems) -> dict[int, int]:
    """NODES into records; returns NodeGUID → node."""
    c = {n: s.column(n, problems) for n in ("NumPorts", "NodeType", "DeviceID", "revision", "VendorID")}
    guid, sys_guid = (s.column(n, problems, np.uint64) for n in ("NodeGUID", "SystemImageGUID"))
    index: dict[int, int] = {}
    for i, desc in enumerate(s.text("NodeDesc")):
        line, kind = s.lines[i], int(c["NodeType"][i])
        if kind not in (NodeType.CA, NodeType.SWITCH, NodeType.ROUTER):
            problems.add(line, f"NodeType {kind} of {shown(desc)} is not 1 (CA), 2 (switch) or 3 (router); left out")
            continue
        node = r.add_node(
            f"{int(guid[i]):016x}", kind, bounded_ports(int(c["NumPorts"][i]), line, problems), line, desc=desc,
            node_guid=int(guid[i]), sys_guid=int(sys_guid[i]), vendor_id=int(c["VendorID"][i]) & 0xFFFFFF,
            device_id=int(c["DeviceID"][i]) & 0xFFFF, revision=int(c["revision"][i]) & 0xFFFFFFFF)  # fmt: skip
        index.setdefault(int(guid[i]), node)
    return index


def _links(r: Records, s: Section | None, index: dict[int, int], last: int, problems: Problems) -> None:
    if s is None or not s.has(*_LINKS):
        problems.add(last, "no readable LINKS section: the fabric has no cables")
        return
    add = r.port_adder()
    ends = [
        (s.column(f"NodeGuid{k}", problems, np.uint64).tolist(), s.column(f"PortNum{k}", problems).tolist())
        for k in (1, 2)
    ]
    for i, line in enumerate(s.lines):
        pair = [(guids[i], nums[i]) for guids, nums in ends]
        if not any(guid in index for guid, _ in pair):
            problems.add(line, f"link between nodes that are not in NODES: {pair[0][0]:#018x} and {pair[1][0]:#018x}")
            continue
        for (guid, num), (peer_guid, peer_num) in (pair, pair[::-1]):
            node = index.get(guid)
            if node is not None:
                add(
                    node, num, f"{peer_guid:016x}", peer_num, line, 0, 0, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, 0
                )


class _Overlay:
    """Writes the sections that describe ports and switches over the fabric; one method a section, of its name."""

    def __init__(self, f: Fabric, problems: Problems):
        self.f, self.problems = f, problems
        self.records: set[str] = set()
        self.order = np.argsort(f.node_guid, kind="stable")
        self.sorted_guids = f.node_guid[self.order]

    def ports(self, s: Section) -> None:
        """All of PortInfo."""
        rows, port = self._ports(s, "NodeGuid", "PortNum")
        info = self.f.port_info
        for name, target in PORT_INFO.items():
            if s.has(name):
                wide = target in ("mkey", "gid_prefix")
                self._write(s, name, getattr(PortInfo, target), info, rows, port, np.uint64 if wide else np.int64)
        for name, targets in SPEEDS.items():
            if s.has(name):
                self._speeds(s, name, targets, rows, port)
        if s.has("PortGuid"):
            self._port_guids(s.column("PortGuid", self.problems, np.uint64)[rows], port)
        self._recorded(s, port)

    def _recorded(self, s: Section, port: np.ndarray) -> None:
        for what, names in {"lids": ("LID",), "lmcs": ("LMC",), "states": ("PortState",), "speeds": ("LinkSpeedActv",),
                            "capabilities": ("LinkSpeedSup", "LinkWidthSup")}.items():  # fmt: skip
            if s.has(*names):
                self.records.add(what)
        external = np.flatnonzero(self.f.port_num > 0)
        if np.isin(external, port).all():
            self.records.add("unlinked")

    def _speeds(self, s: Section, name: str, targets: tuple[str, str, str], rows: np.ndarray, port: np.ndarray) -> None:
        value = s.column(name, self.problems)[rows]
        good = value >= 0
        parts, rest = split_speeds(value[good])
        for i in np.flatnonzero(rest):
            line = s.lines[int(rows[good][i])]
            self.problems.add(line, f"PORTS: {name} {int(value[good][i]):#x} has bits of no known speed")
        for target, part in zip(targets, parts, strict=True):
            f = getattr(PortInfo, target)
            f.set(self.f.port_info, part & f.mask, where=port[good])

    def _port_guids(self, guid: np.ndarray, port: np.ndarray) -> None:
        f = self.f
        ca = ~f.is_switch[f.port_node[port]] & (guid > 0)
        f.port_guid[port[ca]] = guid[ca]
        f.guids[f.guid_base[port[ca]]] = guid[ca]

    def extended_port_info(self, s: Section) -> None:
        """Mellanox speeds: bit 0 is FDR10."""
        rows, port = self._ports(s, "NodeGuid", "PortNum")
        for k, name in enumerate(("LinkSpeedSupported", "LinkSpeedEnabled", "LinkSpeedActive")):
            if s.has(name):
                value = s.column(name, self.problems)[rows]
                self.f.port_mlnx_speed[port[value >= 0], k] = value[value >= 0] & 1

    def switches(self, s: Section) -> None:
        """SwitchInfo."""
        rows, node = self._nodes(s, "NodeGUID")
        keep = self.f.is_switch[node]
        rows, switch = rows[keep], self.f.switch_of_node[node[keep]]
        for name, target in SWITCH_INFO.items():
            if s.has(name):
                self._write(s, name, getattr(SwitchInfo, target), self.f.switch_info, rows, switch)

    def sm_info(self, s: Section) -> None:
        """Subnet managers."""
        if not s.has("NodeGUID", "PortNumber", "SmState", "Priority"):
            return
        self.records.add("sm")
        rows, port = self._ports(s, "NodeGUID", "PortNumber")
        c = {n: s.column(n, self.problems)[rows] for n in ("SmState", "Priority")}
        for i, p in enumerate(port.tolist()):
            self.f.source.sms.append({
                "node": int(self.f.port_node[p]), "portnum": int(self.f.port_num[p]),
                "priority": int(c["Priority"][i]), "state": int(c["SmState"][i]),
            })  # fmt: skip

    def pkey(self, s: Section) -> None:
        """P_Key tables."""
        names = ("LocalPortNum", "BlockNum", "Index", "PKey", "Membership")
        if not s.has("NodeGUID", *names):
            return
        rows, port = self._ports(s, "NodeGUID", "LocalPortNum")
        block, at, pkey, full = (s.column(n, self.problems)[rows] for n in names[1:])
        place = block * 32 + at
        good = (place >= 0) & (place < self.f.pkey_cap[port]) & (pkey >= 0)
        for i in np.flatnonzero(~good):
            self.problems.add(
                s.lines[int(rows[i])], f"PKEY: entry {int(place[i])} of a table of {int(self.f.pkey_cap[port[i]])}"
            )
        self.f.pkeys[self.f.pkey_base[port[good]] + place[good]] = (pkey | np.where(full > 0, 0x8000, 0))[good]

    def pm_info(self, s: Section) -> None:
        """Counters; the extended (64-bit) column where there is one."""
        rows, port = self._ports(s, "NodeGUID", "PortNumber")
        quiet = Problems("")  # -1 and N/A: the port does not keep that counter
        for name in COUNTER_NAMES:
            column = next((n for n in COUNTERS[name] if s.has(n)), None)
            if column:
                value = s.column(column, quiet)[rows]
                self.f.counters[name][port[value >= 0]] = value[value >= 0]

    def cable_info(self, s: Section) -> None:
        """Lengths, as the cables' EEPROMs tell them; a length without a unit says nothing."""
        guid = "NodeGuid" if s.has("NodeGuid") else "NodeGUID"
        num = "PortNum" if s.has("PortNum") else "PortNumber"
        rows, port = self._ports(s, guid, num)
        for column in (c for c in CABLE_LENGTHS if s.has(c)):
            texts = s.text(column)
            for i, p in zip(rows.tolist(), port.tolist(), strict=True):
                m = _LENGTH.match(texts[i])
                if m and float(m[1]) > 0 and self.f.port_cable[p] >= 0:
                    self.f.cable_length_m[self.f.port_cable[p]] = float(m[1]) * _METRES[m[2]]
                    self.records.add("lengths")

    def port_hierarchy_info(self, s: Section) -> None:
        """Labels printed on ports."""
        if s.has("NodeGUID", "PortNum", "Label"):
            rows, port = self._ports(s, "NodeGUID", "PortNum")
            labels = s.text("Label")
            self.f.port_label.update(
                {
                    p: labels[i]
                    for i, p in zip(rows.tolist(), port.tolist(), strict=True)
                    if labels[i] not in ("", "N/A")
                }
            )

    # -- finding rows --

    def _nodes(self, s: Section, guid_name: str) -> tuple[np.ndarray, np.ndarray]:
        """(rows of the section, their nodes); rows of unknown nodes are problems."""
        if not s.has(guid_name) or not s.rows:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        guid = s.column(guid_name, self.problems, np.uint64)
        at = np.minimum(np.searchsorted(self.sorted_guids, guid), len(self.sorted_guids) - 1)
        found = self.sorted_guids[at] == guid
        for i in np.flatnonzero(~found):
            self.problems.add(s.lines[int(i)], f"{s.name}: no node of GUID {int(guid[i]):#018x}")
        return np.flatnonzero(found), self.order[at[found]].astype(np.int64)

    def _ports(self, s: Section, guid_name: str, num_name: str) -> tuple[np.ndarray, np.ndarray]:
        """(rows of the section, their ports); rows of ports that the node has not are problems."""
        rows, node = self._nodes(s, guid_name)
        if not len(rows) or not s.has(num_name):
            return rows[:0], node[:0]
        num = s.column(num_name, self.problems)[rows]
        good = (num >= np.where(self.f.is_switch[node], 0, 1)) & (num <= self.f.node_nports[node])
        for i in np.flatnonzero(~good):
            self.problems.add(
                s.lines[int(rows[i])], f"{s.name}: {shown(self.f.node_name(int(node[i])))} has no port {int(num[i])}"
            )
        return rows[good], (self.f.node_base[node[good]] + num[good]).astype(np.int64)

    def _write(self, s: Section, name: str, target: Any, image: np.ndarray, rows: np.ndarray, at: np.ndarray,
               dtype: type = np.int64) -> None:  # fmt: skip
        value = s.column(name, self.problems, dtype)[rows]
        good = (value <= target.mask) & (value >= 0)
        for i in np.flatnonzero(~good & (value != NONE)):
            self.problems.add(
                s.lines[int(rows[i])], f"{s.name}: {name} {int(value[i])} does not fit in {target.bits} bits"
            )
        if name == "PortState":  # 0 = NoChange: base port 0 of some switches answers it
            good &= value >= PortState.DOWN
        target.set(image, value[good].astype(np.uint64), where=at[good])
