"""Read ``ibnetdiscover --ports``: one line per port, with both ends of its link::

    CA   134  1 0x7cfe9003003b4bde 4x EDR - SW  1719 10 0x7cfe9003009ce5b0 ( 'o0001 HCA-1' - 'ib-i1l1s01' )
    SW  2052 37 0x506b4b03005c2740 4x ???                                    'ib-i4l1s01'

Source: the output of infiniband-diags' ibnetdiscover. The GUIDs are PortGUIDs (a switch's PortGUID
is its NodeGUID). The file does not contain NodeGUIDs of channel adapters, so each CA port becomes a
separate node.
"""

from __future__ import annotations

import re

from softib.fabric.formats.base import Junk, Problems, shown
from softib.fabric.formats.records import NODE_TYPES, UNKNOWN, Records, parse_lid, parse_rate
from softib.iba.constants import LID_PERMISSIVE, MAX_SWITCH_PORTS

__all__ = ["looks_like", "parse"]

_END = r"(CA|SW|RT)\s++(?:(\d{1,9})\s++)?(\d{1,9})\s++0x([0-9a-fA-F]{1,16})"
_LINE = re.compile(
    rf"\s*+{_END}\s++(\d+x|\?\?)\s*+(\S++)"
    rf"(?:\s*+-\s*+{_END}\s*+(?:\(\s*+'(.*?)'\s*+-\s*+'(.*)'\s*+\)\s*+)?\Z|\s*+'?(.*)\Z)"
)
_CUT = re.compile(r"-\s*(?:CA|SW|RT)\b|\s-\s*\Z")
_QUIET = re.compile(r"\s*(?:#.*)?\Z")


def looks_like(lines: list[str]) -> bool:
    """Return whether the first record has the form of ``--ports``, rather than the plain form."""
    for line in lines:
        if _LINE.match(line):
            return True
        if re.match(r'\s*(?:Switch|Ca|Hca|Rt)\s*\d+\s*"', line):
            return False
    return False


def parse(lines: list[str], problems: Problems) -> Records:
    """Return the records of all lines."""
    reader = _Ports(problems)
    junk = Junk(problems, "a record of ibnetdiscover --ports")
    for number, line in enumerate(lines, 1):
        m = _LINE.match(line)
        if m and not (m[7] is None and m[13] and _CUT.match(m[13])):
            reader.line(number, m)
        elif not _QUIET.match(line):
            junk.add(number, line)
    junk.flush()
    reader.nodes_seen_as_peers()
    return reader.records


class _Ports:
    def __init__(self, problems: Problems):
        self.problems, self.records = problems, Records(file=problems.file)
        self.add_port = self.records.port_adder()
        self.node_of: dict[str, int] = {}
        self.mentioned: dict[str, tuple[str, int, int, str, str, int]] = {}

    def line(self, number: int, m: re.Match[str]) -> None:
        """Read one line: a port, and its peer if the port has a link."""
        name = (m[11] if m[7] else m[13].rstrip().removesuffix("'")) or ""
        node = self._node(m[1], m[4], m[2], name, number)
        portnum = int(m[3])
        self.records.nports[node] = max(self.records.nports[node], min(portnum, MAX_SWITCH_PORTS))
        if not m[7]:
            if not 1 <= portnum <= MAX_SWITCH_PORTS:
                self.problems.add(number, f"port number {portnum} is not 1 to {MAX_SWITCH_PORTS}")
            return
        if m[11] is None:
            self.problems.add(number, f"no names after the peer: {shown(m[0])}")
        code, lanes = parse_rate(f"{m[5]}{m[6]}")
        if not code or not lanes:
            self.problems.add(number, f"link {shown(m[5] + ' ' + m[6])}: unknown width or speed")
        port_lid = parse_lid(m[2], number, self.problems) if m[1] != "SW" else UNKNOWN
        peer = _key(m[7], m[10])
        self.mentioned.setdefault(peer, (m[7], int(m[10], 16), int(m[9]), m[8] or "", m[12] or "", number))
        self.add_port(
            node,
            portnum,
            peer,
            int(m[9]),
            number,
            code,
            lanes,
            port_lid,
            UNKNOWN,
            UNKNOWN if m[1] == "SW" else int(m[4], 16),
            parse_lid(m[8], number, self.problems),
            UNKNOWN if m[7] == "SW" else int(m[10], 16),
            0,
        )

    def _node(self, kind: str, guid: str, lid: str | None, name: str, number: int) -> int:
        key = _key(kind, guid)
        node = self.node_of.get(key)
        if node is None:
            lid0 = parse_lid(lid, number, self.problems) if kind == "SW" else UNKNOWN
            node = self.records.add_node(
                key, NODE_TYPES[kind.lower()], 0, number, desc=name, node_guid=int(guid, 16), lid0=lid0
            )
            self.node_of[key] = node
        return node

    def nodes_seen_as_peers(self) -> None:
        """Add nodes that appear only as peers. The lines of their peers describe them
        completely."""
        for key, (kind, guid, _, lid, name, number) in self.mentioned.items():
            if key not in self.node_of:
                self.problems.add(number, f"{shown(name)} ({guid:#018x}) has no line; known only as a peer")
                self.node_of[key] = self.records.add_node(
                    key,
                    NODE_TYPES[kind.lower()],
                    0,
                    number,
                    desc=name,
                    node_guid=guid,
                    lid0=int(lid) if lid and kind == "SW" and int(lid) <= LID_PERMISSIVE else UNKNOWN,
                )
                self.records.only_a_peer.add(self.node_of[key])


def _key(kind: str, guid: str) -> str:
    return f"{kind} {int(guid, 16):x}"
