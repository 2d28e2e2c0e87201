"""Read counters from separate files: ibdiagnet's ``.pm``, and the output of perfquery and
ibqueryerrors.

Each record begins with a line that names the port::

    Port=1 Lid=0x00b4 GUID=0xb0cf0e0300d33fc0 Device=54002 Port Name=sw-1/U1/P1  .pm; PortGUID (a switch: NodeGUID)
    # Port extended counters: Lid 1719 port 1 (CapMask: 0x5300 …)                     perfquery; found by LID
       GUID 0x7cfe9003009ce5b0 port 2: [SymbolErrorCounter == 7] [PortXmitWait == 9]  ibqueryerrors;
       NodeGUID

and contains ``name=value``, ``Name:....value`` or ``[Name == value]``. If a record has a 32-bit and
a 64-bit form of a counter, the larger value is used, because the narrow counter stops at its
maximum. If a port has two records, the later one is used. Sources: files of ibdiagnet 2.10, the
output of infiniband-diags.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from softib.errors import UnreadableFile
from softib.fabric.counters import COUNTER_NAMES, DETAIL_COUNTERS
from softib.fabric.formats.base import Problem, Problems, read_lines, shown
from softib.fabric.model import Fabric
from softib.plural import counted

__all__ = ["read_counters"]

_PM = re.compile(r"Port=(\d{1,3}) Lid=0x[0-9a-fA-F]{1,4} GUID=0x([0-9a-fA-F]{1,16})\b")
_PERFQUERY = re.compile(r"# Port[\w ]{0,60} counters: Lid (\d{1,5}) port (\d{1,3})\b")
_QUERYERRORS = re.compile(r"[ \t]+GUID 0x([0-9a-fA-F]{1,16}) port (\d{1,3}|ALL):(.*)")
_FIELD = re.compile(r"(\w{1,60})(?:=|:\.*+)[ \t]*+(0x[0-9a-fA-F]{1,16}|\d{1,20})[ \t]*\Z")
_BRACKET = re.compile(r"\[(\w{1,60}) == (\d{1,20})\b")
ALL_PORTS = 255

_ALIASES = {
    "linkdowncounter": "link_downed_counter",
    "portxmitdiscard": "port_xmit_discards",
    "excessivebuffererrors": "excessive_buffer_overrun_errors",
    "portmalformedpkterrors": "port_malformed_packet_errors",
    "portdlidmappingerrors": "port_dlid_mapping_errors",
    "xmtwait": "port_xmit_wait",
}


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


_NAMES = {_plain(n): n for n in (*COUNTER_NAMES, *(DETAIL_COUNTERS.names or ()))} | _ALIASES
"""Counter name in lower case, without underscores → name of the fabric's counter."""


SEVERAL = -2
"""Returned for a LID that several ports have: the fabric has two subnets, or a fault."""


class _Finder:
    """Find a port by the identifiers of each of the three formats. -1 means that the fabric has no
    such port."""

    def __init__(self, f: Fabric):
        self.f = f
        ends = f.end_ports()
        self.node = {int(g): i for i, g in reversed(list(enumerate(f.node_guid.tolist())))}
        ca = ends[f.port_num[ends] > 0]
        self.port_guid = dict(zip(f.port_guid[ca].tolist(), ca.tolist(), strict=True))
        self.lid: dict[int, int] = {}
        for lid, port in zip(f.lid[ends].tolist(), ends.tolist(), strict=True):
            self.lid[lid] = SEVERAL if lid in self.lid else port

    def by_guid(self, guid: int, portnum: int) -> int:
        """Return the port with this NodeGUID and portnum, or the CA port with this PortGUID."""
        port = self.port_guid.get(guid, -1)
        if port >= 0 and int(self.f.port_num[port]) == portnum:
            return port
        node = self.node.get(guid, -1)
        return self._of(node, portnum)

    def by_lid(self, lid: int, portnum: int) -> int:
        """Find the port ``portnum`` of the node that has an end port with this LID."""
        port = self.lid.get(lid, -1) if lid else -1
        return self._of(int(self.f.port_node[port]), portnum) if port >= 0 else port

    def _of(self, node: int, portnum: int) -> int:
        if (
            node < 0
            or not 0 <= portnum <= int(self.f.node_nports[node])
            or (portnum == 0 and not self.f.is_switch[node])
        ):
            return -1
        return int(self.f.port(node, portnum))


def read_counters(path: str | Path, fabric: Fabric) -> list[Problem]:
    """Read the file's counters into ``fabric`` (``counters``, ``detail_counters``), and add
    ``counters`` to its recorded attributes.

    Return the problems. Raises :class:`UnreadableFile` if no record belongs to a port of the
    fabric.
    """
    problems = Problems(str(path))
    finder, taken, records = _Finder(fabric), 0, 0
    lines = read_lines(Path(path), problems)
    for number, header, port, values in _records(lines, finder, problems):
        records += 1
        if port is None:
            continue  # the record holds sums over all ports of a node
        if port < 0:
            why = (
                "several ports of the fabric have this LID (two subnets?), use a tool that prints GUIDs (ibqueryerrors)"
                if port == SEVERAL
                else "the fabric has no such port"
            )
            problems.add(number, f"{why}: {shown(header)}")
            continue
        taken += 1
        for name, value in values.items():
            column = fabric.counters if name in COUNTER_NAMES else fabric.detail_counters
            column[name][port] = np.uint64(value)
    if not taken:
        raise UnreadableFile(f"{problems.file}: {_why_none(lines, records)}")
    fabric.source.records |= {"counters"}
    return sorted(problems, key=lambda p: p.line)


def _why_none(lines: list[str], records: int) -> str:
    """Return the reason why a file has no counters of this fabric."""
    if records:
        return f"none of its {counted(records, 'record')} belongs to a port of this fabric"
    nameless = [n for n, line in enumerate(lines, 1) if (m := _FIELD.match(line)) and _plain(m[1]) in _NAMES]
    if nameless:  # LDMS' ibnet sampler and other programs keep only this part of perfquery's output
        return (
            f"line {nameless[0]}: counters without a port; put perfquery's header line before them: '# "
            f"Port extended counters: Lid 12 port 1'"
        )
    return "no counters of ibdiagnet (.pm), perfquery or ibqueryerrors in it"


_Record = tuple[int, str, int | None, dict[str, int]]


def _records(lines: list[str], finder: _Finder, problems: Problems) -> Iterator[_Record]:
    """Yield (line, header, port, counters). Port None means that the record is for all ports of a
    node."""
    now: _Record | None = None
    for number, line in enumerate(lines, 1):
        header = _header(line, finder)
        if header is not None:
            if now is not None:
                yield now
            port, rest = header
            now = (number, line, port, {})
            _take(now[3], _BRACKET.findall(rest), number, problems)
        elif now is not None:
            m = _FIELD.match(line)
            if m:
                _take(now[3], [(m[1], m[2])], number, problems)
    if now is not None:
        yield now


def _take(into: dict[str, int], fields: list[tuple[str, str]], number: int, problems: Problems) -> None:
    for word, text in fields:
        plain = _plain(word)
        name = _NAMES.get(plain) or _NAMES.get(plain.removesuffix("extended"))
        if name is None:
            continue
        value = int(text, 16 if text[:2] == "0x" else 10)
        if value >> 64:
            problems.add(number, f"{word} {text} has more than 64 bits")
        else:
            into[name] = max(into.get(name, 0), value)


def _header(line: str, finder: _Finder) -> tuple[int | None, str] | None:
    """If the line begins a record, return (port, rest of the line)."""
    if m := _PM.match(line):
        return finder.by_guid(int(m[2], 16), int(m[1])), ""
    if m := _PERFQUERY.match(line):
        return (None if int(m[2]) == ALL_PORTS else finder.by_lid(int(m[1]), int(m[2]))), ""
    if m := _QUERYERRORS.match(line):
        return (None if m[2] == "ALL" else finder.by_guid(int(m[1], 16), int(m[2]))), m[3]
    return None
