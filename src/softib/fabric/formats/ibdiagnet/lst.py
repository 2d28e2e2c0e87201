"""Read ibdiagnet's .lst: one line per link that describes both ends; **every number is
hexadecimal**::

    { CA Ports:01 SystemGUID:5c25… NodeGUID:5c25… PortGUID:5c25… VenID:000002c9 DevID:1021 Rev:00000000
      {node-15 mlx5_1} LID:000c PN:01 } { SW Ports:41 … LID:0014 PN:0f } PHY=4x LOG=ACT SPD=100

(``Ports:41`` is 65 ports.) Source: files of ibdiagnet 1.x and 2. In version 1 (ibutils) each link
is listed twice, once from each end, the DeviceID is the upper half of eight digits, and ``CA-SM``
marks the port of the master SM. In version 2 each link is listed once, and SPD is in Gb/s per lane.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from softib.fabric.formats.base import Junk, Problems, ReadResult, complain_if_not_closed, octets, read_lines, shown
from softib.fabric.formats.records import (
    NODE_TYPES,
    UNKNOWN,
    Records,
    bounded_ports,
    parse_guid,
    parse_lid,
    speed_of_gbps,
)
from softib.fabric.formats.resolve import named, to_fabric
from softib.iba.constants import NodeType, PortState
from softib.iba.devices import DEVICES
from softib.iba.rates import WIDTH_BITS
from softib.plural import counted

__all__ = ["read"]

_END = (
    r"\{\s*+(CA|SW|RT)(-SM)?\s++Ports:([0-9A-Fa-f]{1,4})\s+SystemGUID:(\w+)\s+NodeGUID:(\w+)\s+PortGUID:(\w+)\s+"
    r"VenID:([0-9A-Fa-f]{1,8})\s+DevID:([0-9A-Fa-f]{1,8})\s+Rev:([0-9A-Fa-f]{1,8})\s+\{(.*?)\}\s+"
    r"LID:([0-9A-Fa-f]*)\s+PN:([0-9A-Fa-f]{1,4})\s*\}"
)
_LINE = re.compile(rf"\s*{_END}\s*{_END}\s*PHY=(\d{{1,2}}|\?+)x\s+LOG=(\w+)(?:\s+SPD=([\d.]+))?\s*\Z")
_QUIET = re.compile(r"\s*(?:#.*)?\Z")
_FIELDS = 12
_STATES = {"ACT": PortState.ACTIVE, "ARM": PortState.ARMED, "INI": PortState.INIT, "DWN": PortState.DOWN}
_MASTER = 3


def read(path: Path, *, ibnl_dirs: Any = (), node_name_map: Any = None) -> ReadResult:
    """Read a .lst. Raises :class:`UnreadableFile` if no line of it can be read."""
    problems = Problems(str(path))
    lines = read_lines(path, problems)
    reader = _Lst(problems)
    junk = Junk(problems, "a link record of ibdiagnet's .lst")
    for number, line in enumerate(lines, 1):
        m = _LINE.match(line)
        if m:
            reader.line(number, m.groups())
        elif not _QUIET.match(line):
            junk.add(number, line)
    junk.flush()
    complain_if_not_closed(lines, problems)
    reader.distrust_node_types()
    result = to_fabric(reader.records, path, "lst", problems, records=frozenset({"sm"} if reader.sms else ()))
    index = {int(g): i for i, g in reversed(list(enumerate(result.fabric.node_guid.tolist())))}
    result.fabric.source.sms = [
        {"node": index[guid], "portnum": num, "priority": None, "state": _MASTER}
        for guid, num in reader.sms
        if guid in index
    ]
    return named(result, node_name_map)


class _End(NamedTuple):
    """One end of a link."""

    node: int
    portnum: int
    lid: int
    port_guid: int
    key: str
    """NodeGUID in hex, by which records name the node."""


class _Lst:
    def __init__(self, problems: Problems):
        self.problems, self.records = problems, Records(both_ends_in_one_line=True, file=problems.file)
        self.add_port = self.records.port_adder()
        self.node_of: dict[str, int] = {}
        self.sms: list[tuple[int, int]] = []

    def line(self, number: int, g: tuple[str | None, ...]) -> None:
        """Add one link: a record from each of its ends."""
        ends = [self._end(number, g[:_FIELDS]), self._end(number, g[_FIELDS : 2 * _FIELDS])]  # type: ignore[arg-type]
        lanes = int(g[24]) if g[24] and g[24].isdigit() and int(g[24]) in WIDTH_BITS else 0
        if not lanes:
            self.problems.add(number, f"PHY={shown(g[24] or '')}: unknown width")
        code = speed_of_gbps(g[26]) if g[26] else 0
        if g[26] and not code:
            self.problems.add(number, f"SPD={shown(g[26])}: unknown speed")
        state = _STATES.get(g[25] or "", 0)
        if not state:
            self.problems.add(number, f"LOG={shown(g[25] or '')}: unknown port state")
        for end, peer in (ends, ends[::-1]):
            port_lid = UNKNOWN if self.records.node_type[end.node] == NodeType.SWITCH else end.lid
            self.add_port(
                end.node,
                end.portnum,
                peer.key,
                peer.portnum,
                number,
                code,
                lanes,
                port_lid,
                UNKNOWN,
                end.port_guid,
                peer.lid,
                peer.port_guid,
                int(state),
            )

    def _end(self, number: int, g: tuple[str, ...]) -> _End:
        """Return one end of a link; a node that is new is added."""
        kind, sm, nports, sys_guid, node_guid, port_guid, vendor, device, revision, desc, lid_text, num = g
        key = node_guid.lower()
        lid = parse_lid(lid_text, number, self.problems, 16)
        node = self.node_of.get(key)
        r = self.records
        dev = _device(device)
        if node is None:
            guid = parse_guid(node_guid)
            if guid == UNKNOWN:
                self.problems.add(number, f"NodeGUID {shown(node_guid)} is not hexadecimal; using a generated one")
            node = self.node_of[key] = r.add_node(
                key,
                NODE_TYPES[kind.lower()],
                bounded_ports(int(nports, 16), number, self.problems),
                number,
                desc=desc,
                node_guid=guid,
                sys_guid=parse_guid(sys_guid),
                vendor_id=int(vendor, 16) & 0xFFFFFF,
                device_id=dev,
                revision=int(revision, 16),
                lid0=lid if kind == "SW" else UNKNOWN,
            )
        else:
            if r.node_type[node] != NODE_TYPES[kind.lower()] or (r.nports[node] and r.nports[node] != int(nports, 16)):
                self.problems.add(
                    number,
                    f"{shown(desc)} is a {kind} of {counted(int(nports, 16), 'port')} here, but not in line "
                    f"{r.node_line[node]}",
                )
            if r.desc[node] != octets(desc):
                self.problems.add(
                    number,
                    f"{node_guid} is called {shown(desc)} here, {shown(r.desc[node])} in line {r.node_line[node]}",
                )
            # In old files, only the first end states the DeviceID.
            r.device_id[node] = r.device_id[node] or dev
            r.revision[node] = r.revision[node] or int(revision, 16)
        if sm and (parse_guid(node_guid), int(num, 16)) not in self.sms:
            self.sms.append((parse_guid(node_guid), int(num, 16)))
        return _End(node, int(num, 16), lid, parse_guid(port_guid), key)

    def distrust_node_types(self) -> None:
        """Turn each CA that has the DeviceID of a switch into a switch, because ibdm's simulations
        print CA for every node."""
        r = self.records
        for i, device in enumerate(r.device_id):
            part = DEVICES.get(device)
            if part and part.kind == "switch" and r.node_type[i] == NodeType.CA:
                r.node_type[i] = NodeType.SWITCH
                self.problems.add(
                    r.node_line[i],
                    f"{shown(r.desc[i])} is listed as CA, but DeviceID {device:#06x} is a "
                    f"switch ({part.name}); read as a switch",
                )


def _device(text: str) -> int:
    """Return the DeviceID: all of four digits, or the upper half of eight digits (ibdiagnet 1)."""
    value = int(text, 16)
    return value >> 16 if value > 0xFFFF else value
