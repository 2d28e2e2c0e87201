"""Read the output of ``iblinkinfo`` (infiniband-diags). Its form is blocks, or with ``-l`` one line
per link::

    Switch: 0x0250f1b000000800 spine-1:
              10    2[  ] ==( 4X   106.25 Gbps Active/  LinkUp)==>    3    5[  ] "leaf-2" ( )
    0x0250f1b000000700 "   leaf-8"   9   5[  ] ==( 4X  …)==>  0x0250f1b000000800   10   8[  ] "spine-1" ( )

Blocks identify a peer by LID, port and description, lines by GUID. GUIDs of adapters are PortGUIDs.
The text has no NodeGUIDs, so the PortGUID of an adapter's first port is used. Some nodes appear
only as peers (with ``--switches-only`` or ``-S``, or after a partial scan). Such a node is a switch
if three cables lead to it, or two to one LID, or one to a port number above 4; otherwise it is an
adapter. Source: iblinkinfo.c of infiniband-diags.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softib.fabric.formats.base import Junk, Problems, ReadResult, read_lines, shown
from softib.fabric.formats.records import (
    SWITCH_FROM,
    UNKNOWN,
    Records,
    parse_guid,
    parse_lid,
    seems_a_switch,
    speed_of_gbps,
)
from softib.fabric.formats.resolve import named, to_fabric
from softib.iba.constants import NodeType, PortState
from softib.iba.rates import SPEED_BY_NAME, WIDTH_BITS

__all__ = ["read"]

_HEAD = re.compile(r"\s*(?:Switch:?\s++(0x[0-9a-fA-F]{1,16})\s(.*?)|(CA|RT|Router|HCA):\s(.*?)):?\s*\Z")
_LINE = re.compile(
    r"\s*+(?:(?P<guid>0x[0-9a-fA-F]{1,16})\s++)?(?:\"\s*+(?P<name>.*?)\s*\"\s++)?(?P<lid>\d{1,5})\s++(?P<port>\d{1,3})\[[^\]]{0,6}\]\s*+"
    r"==\(\s*+(?:(?P<lanes>\d{1,2})X\s++(?P<speed>\S.*?)\s++)?(?P<state>\w+)/\s*+\w+\s*+\)(?:\s*+\([^)]*+\))?==>\s*+"
    r"(?:(?P<peer_guid>0x[0-9a-fA-F]{1,16})\s++)?(?:(?P<peer_lid>\d{1,5})\s++(?P<peer_port>\d{1,3}))?\[[^\]]{0,6}\]\s*+\"(?P<peer>.*)\"\s*+\((?P<could>.*)\)\s*\Z"
)
_COULD = re.compile(r"Could be (?:(?P<lanes>\d{1,2})X(?![\w.])|(?P<speed>[^()]*?))\s*(?=Could be|\Z)")
_QUIET = re.compile(r"\s*(?:#.*)?\Z")
_STATES = {
    "Down": PortState.DOWN,
    "Init": PortState.INIT,
    "Initialize": PortState.INIT,
    "Armed": PortState.ARMED,
    "Active": PortState.ACTIVE,
}


@dataclass
class _Row:
    """A line of the text: the row of its node, and the identifiers of its peer."""

    node: int
    line: int
    part: re.Match[str]


def read(path: Path, *, ibnl_dirs: Any = (), node_name_map: Any = None) -> ReadResult:
    """Read the text. Raises :class:`UnreadableFile` if no line can be read."""
    problems = Problems(str(path))
    work, junk = _Reader(problems), Junk(problems, "a line of iblinkinfo")
    for number, line in enumerate(read_lines(path, problems), 1):
        if match := _LINE.match(line):
            work.port(number, match)
        elif head := _HEAD.match(line):
            work.head(number, head)
        elif not _QUIET.match(line):
            junk.add(number, line)
    junk.flush()
    work.finish()
    return named(to_fabric(work.records, path, "iblinkinfo", problems), node_name_map)


class _Reader:
    """Collect nodes from headings and lines. Peers are resolved at the end of the text."""

    def __init__(self, problems: Problems):
        self.problems, self.records = problems, Records(file=problems.file)
        self.add_port = self.records.port_adder()
        self.rows: list[_Row] = []
        self.of_guid: dict[int, int] = {}
        self.of_lid: dict[int, set[int]] = {}
        self.of_name: dict[str, set[int]] = {}
        self.current = -1

    def head(self, number: int, match: re.Match[str]) -> None:
        """Read a heading: ``Switch: GUID NAME:`` or ``CA: NAME:``."""
        guid, switch, kind, other = match.groups()
        if guid is not None:
            self.current = self.of_guid.get(parse_guid(guid), -1)
            if self.current < 0:
                self.current = self._node(number, NodeType.SWITCH, parse_guid(guid), switch)
        else:
            self.current = self._node(number, NodeType.ROUTER if kind[0] == "R" else NodeType.CA, UNKNOWN, other)

    def port(self, number: int, m: re.Match[str]) -> None:
        """Read a port line in either form, below a heading or complete in itself."""
        guid = parse_guid(m["guid"] or "")
        if m["name"] is not None:
            node = self.of_guid.get(guid, -1)
            last = self.rows[-1] if self.rows else None
            if node < 0 and last and last.part["name"] == m["name"] and int(last.part["port"]) < int(m["port"]):
                node = self.of_guid[guid] = last.node  # the PortGUID of an adapter's next port
            elif node < 0:
                node = self._node(number, NodeType.CA, guid, m["name"])
        elif self.current >= 0:
            node = self.current
            if self.records.node_guid[node] == UNKNOWN and guid != UNKNOWN:
                self.records.node_guid[node] = guid
            if guid != UNKNOWN:
                self.of_guid.setdefault(guid, node)
        else:
            self.problems.add(number, "a port without a heading: skipped")
            return
        lid = parse_lid(m["lid"], number, self.problems)
        if lid > 0:
            self.of_lid.setdefault(lid, set()).add(node)
        self.records.nports[node] = max(self.records.nports[node], int(m["port"]))
        self.rows.append(_Row(node, number, m))

    def _node(self, number: int, kind: int, guid: int, name: str) -> int:
        node = self.records.add_node(str(len(self.records.key)), kind, 0, number, desc=name.strip(), node_guid=guid)
        if guid != UNKNOWN:
            self.of_guid[guid] = node
        self.of_name.setdefault(name.strip(), set()).add(node)
        return node

    def finish(self) -> None:
        """Set the types of nodes without a heading, then add a record for each linked port."""
        r = self.records
        ports: dict[int, set[int]] = {}
        for row in self.rows:
            ports.setdefault(row.node, set()).add(int(row.part["port"]))
        for node, portnums in ports.items():
            if self.rows and r.node_type[node] == NodeType.CA and len(portnums) >= SWITCH_FROM:
                r.node_type[node] = NodeType.SWITCH
        linked = [row for row in self.rows if row.part["peer_port"]]
        peers = [self._peer(row) for row in linked]
        self._only_peers(linked, peers)
        for row, peer in zip(linked, peers, strict=True):
            self._record(row, peer)
        r.uncounted = {node for node, kind in enumerate(r.node_type) if kind != NodeType.SWITCH}
        for row, peer in (
            zip(linked, peers, strict=True) if any("Could be" in row.part["could"] for row in linked) else ()
        ):
            for end in ((row.node, int(row.part["port"])), (peer, int(row.part["peer_port"]))):
                r.best[end] = max(r.best.get(end, (0, 0)), _best(row.part))
        for row in self.rows:
            if r.node_type[row.node] == NodeType.SWITCH:
                r.lid0[row.node] = parse_lid(row.part["lid"], row.line, Problems(""))

    def _peer(self, row: _Row) -> int:
        """Return the row of the peer node, -1 if the text has no record of it."""
        m = row.part
        if m["peer_guid"]:
            return self.of_guid.get(parse_guid(m["peer_guid"]), -1)
        same = self.of_lid.get(int(m["peer_lid"]), set()) if int(m["peer_lid"]) else set()
        names = self.of_name.get(m["peer"].strip(), set())
        both = same & names or same or names
        return next(iter(both)) if len(both) == 1 else -1

    def _only_peers(self, linked: list[_Row], peers: list[int]) -> None:
        """Add the nodes that appear only as peers. They are identified by GUID, or if it is
        missing, by LID and name."""
        of: dict[tuple[int, int, str], list[int]] = {}
        for i, row in enumerate(linked):
            if peers[i] < 0:
                m = row.part
                guid = parse_guid(m["peer_guid"] or "")
                of.setdefault((guid, 0 if guid != UNKNOWN else int(m["peer_lid"]), m["peer"].strip()), []).append(i)
        for (guid, lid, name), rows in of.items():
            ends = [(int(linked[i].part["peer_port"]), int(linked[i].part["peer_lid"])) for i in rows]
            kind = NodeType.SWITCH if seems_a_switch(ends) else NodeType.CA
            lid = lid or (ends[0][1] if len({peer_lid for _, peer_lid in ends}) == 1 else 0)
            node = self._node(linked[rows[0]].line, kind, guid, name)
            self.records.only_a_peer.add(node)
            if kind == NodeType.SWITCH and lid:
                self.records.lid0[node] = lid
            for i in rows:
                peers[i] = node
                m = linked[i].part
                self.records.nports[node] = max(self.records.nports[node], int(m["peer_port"]))
                self._back(linked[i], node)

    def _back(self, row: _Row, node: int) -> None:
        """Add the record of the peer's port, which the text does not list."""
        m, r = row.part, self.records
        lid = parse_lid(m["peer_lid"], row.line, self.problems) if r.node_type[node] != NodeType.SWITCH else UNKNOWN
        speed, lanes = _rate(m)
        self.add_port(
            node,
            int(m["peer_port"]),
            r.key[row.node],
            int(m["port"]),
            row.line,
            speed,
            lanes,
            lid,
            UNKNOWN,
            parse_guid(m["peer_guid"] or ""),
            UNKNOWN,
            UNKNOWN,
            int(_STATES.get(m["state"], 0)),
        )

    def _record(self, row: _Row, peer: int) -> None:
        m, r = row.part, self.records
        speed, lanes = _rate(m)
        if not speed or not lanes:
            self.problems.add(
                row.line, f"{shown((m['lanes'] or '') + 'X ' + (m['speed'] or ''))}: unknown speed or width"
            )
        switch = r.node_type[row.node] == NodeType.SWITCH
        lid = UNKNOWN if switch else parse_lid(m["lid"], row.line, self.problems)
        guid = UNKNOWN if switch else parse_guid(m["guid"] or "")
        self.add_port(
            row.node,
            int(m["port"]),
            r.key[peer],
            int(m["peer_port"]),
            row.line,
            speed,
            lanes,
            lid,
            UNKNOWN,
            guid,
            UNKNOWN,
            UNKNOWN,
            int(_STATES.get(m["state"], 0)),
        )


def _rate(m: re.Match[str]) -> tuple[int, int]:
    """Return (speed code, lanes); 0 for unknown values."""
    lanes = int(m["lanes"]) if m["lanes"] and int(m["lanes"]) in WIDTH_BITS else 0
    return _code(m["speed"] or ""), lanes


def _code(speed: str) -> int:
    """Return the code of ``53.125 Gbps``, ``FDR10`` or both; 0 if unknown."""
    parts = speed.upper().replace("(", " ").replace(")", " ").split()
    code = next((SPEED_BY_NAME[w].code for w in parts if w in SPEED_BY_NAME), 0)
    return code or (speed_of_gbps(parts[0]) if parts else 0)


def _best(m: re.Match[str]) -> tuple[int, int]:
    """Return (speed code, lanes) that both ends support: those after ``Could be``, otherwise the
    active ones."""
    speed, lanes = _rate(m)
    for could in _COULD.finditer(m["could"]):
        best, wide = _code(could["speed"] or ""), int(could["lanes"] or 0)
        speed, lanes = max(speed, best), max(lanes, wide if wide in WIDTH_BITS else 0)
    return speed, lanes
