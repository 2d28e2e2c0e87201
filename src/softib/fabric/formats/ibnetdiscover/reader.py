"""Read ibnetdiscover text and ibsim netlists, which have the same syntax: a node line, then one
line for each of its cabled ports::

    switchguid=0x2c903007b78b0(2c903007b78b0)
    Switch  36 "S-0002c903007b78b0"         # "MF0;sw226:SX6036/U1" enhanced port 0 lid 19 lmc 0
    [1]     "S-b8599f0300fc6de4"[3]         # "MF0;sw95:MQM8700/U1" lid 13 4xFDR
    [3]     "H-e41d2d03005cf34c"[1](e41d2d03005cf34c)       # "host HCA-1" lid 3 4xFDR

Sources: the output of infiniband-diags' ibnetdiscover (also with ``-g`` and ``-f``) and of
ibdiagnet2 (port labels in parentheses, ``[1](1/1/1)``), and the comments in ibsim's example nets. A
netlist has no remarks after ``#``. It has node names instead of GUIDs, and ``w= s= e=`` (enabled
width and speeds as PortInfo bits).
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

from softib.fabric.formats.base import Junk, Problems, ReadResult, complain_if_not_closed, read_lines, shown
from softib.fabric.formats.ibnetdiscover import ports
from softib.fabric.formats.records import (
    NODE_TYPES,
    UNKNOWN,
    Records,
    bounded_ports,
    parse_guid,
    parse_lid,
    parse_rate,
)
from softib.fabric.formats.resolve import named, to_fabric
from softib.iba.constants import NodeType
from softib.iba.rates import LANES_BY_BIT, SPEEDS

__all__ = ["read"]

# Blanks are matched possessively (*+), so that a malicious line with thousands of blanks takes
# linear time.
GUID_NAME = 10
"""Minimum number of digits in a name like ``S-2c903007`` that counts as a GUID. ibnetdiscover
writes 16 digits; ``S-0001`` in a netlist is a name."""
_NODE = re.compile(r'\s*+(Switch|Ca|Hca|Rt|Router)\s*+(\d{1,9})\s*+"([^"]*+)"\s*+(.*)', re.IGNORECASE)
_NODE_TEXT = re.compile(
    r'#\s*+(?:"(.*)"|(?!")(.*?))(?:\s*+(?:(base|enhanced)\s*+)?port\s*+0)?'
    r"(?:\s*+lid\b\s*+(?!lmc)(\S{0,20}))?(?:\s*+lid\s*+(?=lmc))?(?:\s*+lmc\b\s*+(\d*+))?(?:\s*+\(scp\))?\s*+\Z"
)
_PORT = re.compile(
    r'\s*+\[\s*+(\d{1,9})\s*+\]((?:\s*+(?:\[[^\]"]*+\]|\([^)"]*+\)))*)\s*+"([^"]*+)"'
    r"(?:\s*+\[\s*+(\d{1,9})\s*+\])?((?:\s*+(?:\[[^\]]*+\]|\([^)]*+\)))*)\s*+(.*)"
)
_PORT_TEXT = re.compile(
    r'#\s*+(?:lid\s*+((?!lmc)[^\s"]{1,20})?\s*+lmc\s*+(\d++)?\s*+)?"(.*)"\s*+(?:lid(?:\s++(?!\d+x|\?\?)([^\s"]++))?)?'
    r"\s*+((?:\d++x|\?\?)\s*+(?:\d[\d.]*+(?:\s*+Gbps)?|[A-Za-z]++\d*+|\?++)|)"
    r"((?:\s*+(?:[a-z]++=[^\s=]++|slot \d++|\(scp\)))*)\s*+\Z"
)
_ASSIGN = re.compile(r"\s*+([a-z]++)\s*+[=+]\s*+([^\s(#]*+)(?:\(([^)]*+)\))?")
_OPTION = re.compile(r"([A-Za-z]+)=(\S+)")
_EXT = re.compile(r"\[\s*+ext\s*+(\d{1,9})\s*+\]")
_PAREN = re.compile(r"\(([^)]*)\)")
_QUIET = re.compile(r"\s*(?:#.*|Non-Chassis Nodes.*|Chassis \d+.*)?\Z")
_IDS = {"vendid": 24, "devid": 16, "sysimgguid": 64}
_GUIDS = ("switchguid", "caguid", "rtguid", "hcaguids", "hcaguid", "switchguids")


def read(path: Path, *, ibnl_dirs: Any = (), node_name_map: Any = None) -> ReadResult:
    """Read ibnetdiscover output (plain, ``-g``, ``-f``, ``-p``) or an ibsim netlist.

    Raises :class:`UnreadableFile` if there is no node record.
    """
    problems = Problems(str(path))
    lines = read_lines(path, problems)
    if ports.looks_like(lines):
        records = ports.parse(lines, problems)
        return named(
            to_fabric(records, path, "ibnetdiscover", problems, records=frozenset({"unlinked"})), node_name_map
        )
    reader = _Netlist(problems)
    reader.parse(lines)
    format = "ibnetdiscover" if reader.has_guids else "ibsim"
    if format == "ibnetdiscover":
        reader.complain_of_bare_records(lines)
    return named(to_fabric(reader.records, path, format, problems), node_name_map)


class _Netlist:
    """State of the parser: the attribute lines since the last node, and the current node."""

    def __init__(self, problems: Problems):
        self.problems, self.records = problems, Records(file=problems.file)
        self.add_port = self.records.port_adder()
        self.node, self.is_switch = UNKNOWN, False
        self.ids: dict[str, tuple[int, str, int]] = {}
        self.prefix = ""
        self.default_rate = (0, 0)
        self.has_guids = False
        self.bare: list[int] = []

    def parse(self, lines: list[str]) -> None:
        """Fill the records from all lines."""
        junk = Junk(self.problems, "a record of ibnetdiscover or ibsim")
        port = _PORT.match
        for number, line in enumerate(lines, 1):
            m = port(line)
            if m:
                self._port(number, m)
            elif not self._other(number, line):
                junk.add(number, line)
        junk.flush()
        for name, (_, _, number) in self.ids.items():
            self.problems.add(number, f"{name} has no node record after it: the file may be truncated here")
        self._last_line(lines)
        complain_if_not_closed(lines, self.problems)

    def _other(self, number: int, line: str) -> bool:
        """Read a line that is not a port record. Return False if the line is unknown."""
        m = _NODE.match(line)
        if m:
            self._node(number, m)
            return True
        if _QUIET.match(line):
            return True
        m = _ASSIGN.match(line)
        return bool(m) and self._assign(number, m[1], m[2], m[3], line)  # type: ignore[index]

    def _assign(self, number: int, name: str, value: str, second: str | None, line: str) -> bool:
        if name in _IDS or name in _GUIDS:
            name = "guid" if name in _GUIDS else name
            if name in self.ids:
                self.problems.add(
                    self.ids[name][2], f"{name} is repeated in line {number}: a node record is missing in between"
                )
            self.ids[name] = (parse_guid(value), value if second is None else f"{value}({second})", number)
        elif name in ("width", "speed", "extspeed"):
            self.default_rate = _bits({name[0]: value}, self.default_rate)
        elif name == "module" and line.count('"') == 2:
            self.prefix = line.split('"')[1] + "#"
        else:
            return False
        return True

    def _node(self, number: int, m: re.Match[str]) -> None:
        node_type = NODE_TYPES[m[1].lower()]
        key, rest = self._key(m[3]), m[4]
        nports = bounded_ports(int(m[2]), number, self.problems)
        text = _NODE_TEXT.match(rest) if rest else None
        if rest and not text:
            self.problems.add(number, f"cannot read the text after the node's name: {shown(rest)}")
        desc, port0, lid, lmc = (
            (text[1] or text[2] or "", text[3], text[4], text[5]) if text else ("", None, None, None)
        )
        self.node = self.records.add_node(
            key,
            node_type,
            nports,
            number,
            desc=desc or m[3],
            node_guid=self._node_guid(number, m[3]),
            sys_guid=self._id("sysimgguid"),
            vendor_id=max(self._id("vendid"), 0),
            device_id=max(self._id("devid"), 0),
            lid0=parse_lid(lid, number, self.problems),
            lmc0=_lmc(lmc, number, self.problems),
            enhanced_port0=UNKNOWN if port0 is None else int(port0 == "enhanced"),
        )
        self.is_switch = node_type == NodeType.SWITCH
        self.ids = {}

    def _id(self, name: str) -> int:
        """Return the value of an attribute line above the node line. It is UNKNOWN if the line is
        absent, or if its value is unusable (then a problem is reported)."""
        if name not in self.ids:
            return UNKNOWN
        value, text, number = self.ids[name]
        if value == UNKNOWN:
            self.problems.add(number, f"{name} {shown(text)} is not hexadecimal")
        elif value >> _IDS[name]:
            self.problems.add(number, f"{name} {shown(text)} has more than {_IDS[name]} bits")
            return UNKNOWN
        return value

    def _node_guid(self, number: int, name: str) -> int:
        """Return the GUID of a node: the one in its name (``S-…``), which other records use, or
        otherwise that of ``switchguid=`` and similar keys."""
        named = parse_guid(name[2:]) if name[:2] in ("S-", "H-", "R-") and len(name) >= GUID_NAME else UNKNOWN
        stated, text, line = self.ids.get("guid", (UNKNOWN, "", 0))
        if text and stated == UNKNOWN:
            self.problems.add(
                line, f"GUID {shown(text)} is not hexadecimal" + ("; using a generated one" if named < 0 else "")
            )
        if named != UNKNOWN:
            self.has_guids = True
            if stated not in (UNKNOWN, named) and not self._is_ibdiagnets(stated, text, named):
                self.problems.add(
                    line,
                    f"GUID {shown(text)} differs from the record's name {shown(name)}; "
                    "the name, which other records use, is kept",
                )
            return named
        if name[:2] in ("S-", "H-", "R-") and len(name) >= GUID_NAME and not text:
            self.problems.add(number, f"name {shown(name)} holds no hexadecimal GUID; using a generated one")
        return stated

    def _is_ibdiagnets(self, stated: int, text: str, named: int) -> bool:
        """Return whether the line is ``switchguid=SYSTEM(NODE)``: ibdiagnet writes the
        SystemImageGUID where ibnetdiscover writes the NodeGUID. The two differ on the chips of a
        director."""
        system = self.ids.get("sysimgguid", (UNKNOWN, "", 0))[0]
        return stated == system and parse_guid(text.partition("(")[2].rstrip(")")) == named

    def _port(self, number: int, m: re.Match[str]) -> None:
        if self.node == UNKNOWN:
            self.problems.add(number, f"port record before any node record: {shown(m[0])}")
            return
        local, name, peer_num, after, rest = m[2], m[3], m[4], m[5], m[6]
        label, port_guid = "", UNKNOWN
        if local:
            label, port_guid = self._local_texts(local, number)
        peer_guid = UNKNOWN
        if after:
            texts = _PAREN.findall(after)
            if texts and texts[-1].strip() and name[:2] != "S-":
                peer_guid = parse_guid(texts[-1])
                if peer_guid == UNKNOWN:
                    self.problems.add(number, f"port GUID {shown(texts[-1])} is not hexadecimal")
        lid = lmc = peer_lid = UNKNOWN
        code, lanes = self.default_rate
        if rest:
            code, lanes, lid, lmc, peer_lid = self._port_text(number, rest)
        else:
            self.bare.append(number)
        if label:
            self.records.label[self.node, int(m[1])] = label
        self.add_port(
            self.node,
            int(m[1]),
            self._key(name),
            int(peer_num) if peer_num else 1,
            number,
            code,
            lanes,
            lid,
            lmc,
            port_guid,
            peer_lid,
            peer_guid,
            0,
        )

    def _local_texts(self, local: str, number: int) -> tuple[str, int]:
        """Return (label, PortGUID) from the text after the port number: ``[ext 3]``, ``(1/1/1)``,
        ``(1)(guid)`` or ``(guid)``."""
        texts = [*_EXT.findall(local), *_PAREN.findall(local)]
        guid = UNKNOWN
        if texts and texts[-1] and not self.is_switch:
            last = texts.pop()
            guid = parse_guid(last)
            if guid == UNKNOWN:
                self.problems.add(number, f"port GUID {shown(last)} is not hexadecimal")
        return texts[0].strip() if texts else "", guid

    def _port_text(self, number: int, rest: str) -> tuple[int, int, int, int, int]:
        """Return (speed, lanes, local LID, local LMC, peer's LID) from the text after the peer."""
        if not rest.startswith("#"):
            return *self._plain_rate(number, rest), UNKNOWN, UNKNOWN, UNKNOWN
        m = _PORT_TEXT.match(rest)
        if not m and not self.has_guids and '"' not in rest:
            return *self.default_rate, UNKNOWN, UNKNOWN, UNKNOWN  # the text is a comment of a netlist
        if not m:
            self.problems.add(number, f"cannot read the text after the peer: {shown(rest)}")
            return 0, 0, UNKNOWN, UNKNOWN, UNKNOWN
        problems = self.problems
        if m[5]:
            code, lanes = parse_rate(m[5])
            if m[6] and "speed=" in m[6]:
                code = parse_rate(f"1x{m[6].split('speed=')[1].split()[0]}")[0] or code
            if not code or not lanes:
                problems.add(number, f"link {shown(m[5])}: unknown width or speed")
        else:
            code, lanes = _bits(dict(_OPTION.findall(m[6])), self.default_rate) if m[6] else self.default_rate
            self.bare.append(number)
        return (
            code,
            lanes,
            parse_lid(m[1], number, problems),
            _lmc(m[2], number, problems),
            parse_lid(m[4], number, problems),
        )

    def _plain_rate(self, number: int, rest: str) -> tuple[int, int]:
        """Return speed and lanes of netlist options: ``4xDDR`` or ``w=3 s=7 e=1``."""
        options = dict(_OPTION.findall(rest))
        if options:
            return _bits(options, self.default_rate)
        code, lanes = parse_rate(rest.split("#")[0])
        if not code or not lanes:
            self.problems.add(number, f"cannot read the text after the peer: {shown(rest)}")
        return code, lanes

    def _key(self, name: str) -> str:
        return self.prefix + name if self.prefix and "#" not in name else name

    def complain_of_bare_records(self, lines: list[str]) -> None:
        """Report port records without width and speed. ibnetdiscover always writes both, so the
        record was truncated or edited."""
        for number in self.bare:
            self.problems.add(number, f"no link width and speed: {shown(lines[number - 1])}")

    def _last_line(self, lines: list[str]) -> None:
        # "4xFDR" without a line end may be a truncated "4xFDR10".
        if lines[-1].rstrip().endswith("xFDR"):
            self.problems.add(len(lines), "the file ends without a line end: it may be truncated here")


def _lmc(text: str | None, number: int, problems: Problems) -> int:
    if not text:
        return UNKNOWN
    if len(text) == 1 and int(text) <= 7:
        return int(text)
    problems.add(number, f"LMC {shown(text)} is not 0 to 7")
    return UNKNOWN


def _bits(options: dict[str, str], default: tuple[int, int]) -> tuple[int, int]:
    """Return the speed code and the lanes of ibsim's enabled bits. Of each field, the best enabled
    value is used."""
    code, lanes = default
    values = {}
    for name, text in options.items():
        with contextlib.suppress(ValueError):
            values[name] = int(text[:10], 0)
    if "w" in values:
        lanes = max((n for bit, n in LANES_BY_BIT.items() if values["w"] & bit), default=lanes)
    best = [
        s.code
        for s in SPEEDS
        if (s.speed_bit and not s.mlnx_bit and values.get("s", 0) & s.speed_bit) or values.get("e", 0) & s.ext_bit
    ]
    return (max(best) if best else code), lanes
