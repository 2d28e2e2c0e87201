"""Read ``ibdiagnet2.net_dump``: every port of every switch, and the peer at the other end of its
cable::

    "MF0;leaf01:MQM8700/U1", Mellanox, 0x0c42a10300aa0000, LID 1
      #     : IB# : Sta : PhysSta : … : LSA : … : Neighbor Guid      : N# : NLID : Neighbor Description
      1/1/1 : 1   : ACT : LINK UP : … : 100 : … : 0x0c42a10300aa1000 : 1  : 11   : "m-3001 HCA-1"

Columns are found by their headings, because both differ between versions of ibdiagnet. A switch
port has a label (``1/1/1``: ASIC, cage and port), and its line also states its number. The number
of an adapter's port is the last number of its label (``B184D0F0/0/0/1``: PCI address and port). The
format does not state node types. Every switch has a section, so a neighbour without a section is an
adapter, or a switch that the scan did not reach. The form of its port labels shows which. If the
labels are plain numbers, the neighbour is a switch if three cables lead to it, or two to one LID,
or one to a port number above 4. The GUID of a neighbour is its NodeGUID.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softib.fabric.formats.base import Junk, Problems, ReadResult, complain_if_not_closed, read_lines, shown
from softib.fabric.formats.records import UNKNOWN, Records, parse_guid, parse_lid, parse_rate, seems_a_switch
from softib.fabric.formats.resolve import named, to_fabric
from softib.foreign_text import NAME
from softib.foreign_text import shown as on_one_line
from softib.iba.constants import NodeType, PortState
from softib.plain_values import whole_number

__all__ = ["read"]

_HEAD = re.compile(r"\s*\"(.*)\"\s*,\s*(.*?)\s*,\s*(0x[0-9a-fA-F]{1,16})\s*,\s*LID\s+(\d{1,6})\s*\Z")
_PCI = re.compile(r"[0-9A-Fa-f]{5,8}\Z")
"""First part of an adapter port's label: its PCI address."""
_QUIET = re.compile(r"\s*(?:#.*|-+)?\Z")
_STATES = {
    "ACT": PortState.ACTIVE,
    "ARM": PortState.ARMED,
    "INI": PortState.INIT,
    "INIT": PortState.INIT,
    "DOWN": PortState.DOWN,
}
_HEADINGS = {
    "label": ("#",),
    "port": ("ib#", "#"),
    "state": ("sta",),
    "width": ("lwa",),
    "speed": ("lsa",),
    "guid": ("neighbor guid",),
    "peer_port": ("n#",),
    "lid": ("nlid", "neighbor lid"),
    "peer": ("neighbor description",),
}
"""Meaning of a column → its possible headings. If two columns have the same heading (``#``), the
first is the label and the last the number."""


@dataclass
class _Port:
    """A port with a link. Its cells are keyed by the names in :data:`_HEADINGS`."""

    node: int
    number: int
    line: int
    cell: dict[str, str]


def read(path: Path, *, ibnl_dirs: Any = (), node_name_map: Any = None) -> ReadResult:
    """Read the file. Raises :class:`UnreadableFile` if no line of it can be read."""
    problems = Problems(str(path))
    lines = read_lines(path, problems)
    work, junk = _Reader(problems), Junk(problems, "a line of ibdiagnet2.net_dump")
    for number, line in enumerate(lines, 1):
        if head := _HEAD.match(line):
            work.switch(number, head)
        elif "neighbor guid" in line.lower():
            work.columns = _columns(line)
        elif not _QUIET.match(line) and not work.port(number, line):
            junk.add(number, line)
    junk.flush()
    complain_if_not_closed(lines, problems)
    work.finish()
    return named(to_fabric(work.records, path, "net_dump", problems), node_name_map)


def _columns(line: str) -> dict[str, int]:
    heads = [h.strip().lower() for h in line.split(":")]
    columns = {}
    for name, titles in _HEADINGS.items():
        at = [i for i, h in enumerate(heads) if h in titles]
        if at:
            columns[name] = at[-1] if name == "port" else at[0]
    return columns | {"": len(heads)}


def _is_a_switch(ends: list[_Port]) -> bool:
    """Return whether a neighbour without a section is a switch. The cables that lead to it
    decide."""
    labels = [one.cell.get("peer_port", "").split("/") for one in ends]
    if any(_PCI.match(parts[0]) for parts in labels):
        return False
    if any(len(parts) > 1 for parts in labels):
        return True
    numbers = (whole_number(parts[0]) or 0 for parts in labels)
    lids = (whole_number(one.cell.get("lid", "")) or 0 for one in ends)
    return seems_a_switch(zip(numbers, lids, strict=True))


class _Reader:
    """Collect the switches from their headings. Neighbours are resolved at the end of the file."""

    def __init__(self, problems: Problems):
        self.problems, self.records = problems, Records(file=problems.file)
        self.add_port = self.records.port_adder()
        self.columns: dict[str, int] = {}
        self.of_guid: dict[int, int] = {}
        self.of_label: dict[tuple[int, str], int] = {}
        self.of_any: dict[str, int] = {}
        self.ports: list[_Port] = []
        self.current = -1

    def switch(self, number: int, match: re.Match[str]) -> None:
        """Read a heading: ``"NAME", VENDOR, GUID, LID N``."""
        guid = parse_guid(match[3])
        lid = parse_lid(match[4], number, self.problems)
        self.current = self.records.add_node(
            match[3], NodeType.SWITCH, 0, number, desc=match[1], node_guid=guid, lid0=lid
        )
        self.of_guid.setdefault(guid, self.current)

    def port(self, number: int, line: str) -> bool:
        """Read the line of a port; return False if the line does not describe a port."""
        cells = [c.strip() for c in line.split(":", self.columns.get("", 1) - 1)]
        if self.current < 0 or len(cells) < self.columns.get("", 99):
            return False
        cell = {name: cells[at] for name, at in self.columns.items() if name}
        port = whole_number(cell.get("port", ""))
        if port is None or port > 255:
            return False
        self.records.nports[self.current] = max(self.records.nports[self.current], port)
        self.of_label[self.current, cell.get("label", "")] = port
        self.of_any.setdefault(cell.get("label", ""), port)
        if "/" in cell.get("label", ""):
            self.records.label[self.current, port] = on_one_line(cell["label"], NAME)
        if cell.get("guid", "").startswith("0x"):
            self.ports.append(_Port(self.current, port, number, cell))
        return True

    def finish(self) -> None:
        """Add the adapters, then a record for each end of each cable."""
        r = self.records
        ends: dict[int, list[_Port]] = {}
        for one in self.ports:
            ends.setdefault(parse_guid(one.cell["guid"]), []).append(one)
        for one in self.ports:
            guid = parse_guid(one.cell["guid"])
            if guid not in self.of_guid:
                kind = NodeType.SWITCH if _is_a_switch(ends[guid]) else NodeType.CA
                self.of_guid[guid] = r.add_node(
                    one.cell["guid"], kind, 0, one.line, desc=one.cell.get("peer", "").strip('"'), node_guid=guid
                )
                if kind == NodeType.SWITCH:
                    r.lid0[self.of_guid[guid]] = parse_lid(one.cell.get("lid"), one.line, self.problems)
                r.only_a_peer.add(self.of_guid[guid])
        for one in self.ports:
            peer = self.of_guid[parse_guid(one.cell["guid"])]
            number = self._number(peer, one)
            if number is None:
                self.problems.add(
                    one.line, f"port {shown(one.cell.get('peer_port', ''))} of its neighbour is not listed"
                )
                continue
            self._record(one, peer, number)

    def _number(self, peer: int, one: _Port) -> int | None:
        label = one.cell.get("peer_port", "")
        if self.records.node_type[peer] == NodeType.SWITCH:
            if peer not in self.records.only_a_peer:
                return self.of_label.get((peer, label), whole_number(label))
            if label in self.of_any:  # all switches of a fabric use the same labels for their ports
                return self.of_any[label]
        return whole_number(label.rpartition("/")[2])

    def _record(self, one: _Port, peer: int, number: int) -> None:
        r = self.records
        speed, lanes = parse_rate(f"{one.cell.get('width', '')}{one.cell.get('speed', '')}")
        if not speed:
            self.problems.add(
                one.line,
                f"{shown(one.cell.get('width', '') + ' ' + one.cell.get('speed', ''))}: unknown speed or width",
            )
        state = int(_STATES.get(one.cell.get("state", ""), 0))
        self.add_port(
            one.node,
            one.number,
            r.key[peer],
            number,
            one.line,
            speed,
            lanes,
            UNKNOWN,
            UNKNOWN,
            UNKNOWN,
            UNKNOWN,
            UNKNOWN,
            state,
        )
        if peer not in r.only_a_peer:
            return
        r.nports[peer] = max(r.nports[peer], number)
        switch = r.node_type[peer] == NodeType.SWITCH
        lid = UNKNOWN if switch else parse_lid(one.cell.get("lid"), one.line, self.problems)
        self.add_port(
            peer,
            number,
            r.key[one.node],
            one.number,
            one.line,
            speed,
            lanes,
            lid,
            UNKNOWN,
            UNKNOWN,
            UNKNOWN,
            UNKNOWN,
            state,
        )
