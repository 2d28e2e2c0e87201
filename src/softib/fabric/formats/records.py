"""A file's nodes and port records as columns, before a fabric is made from them.

Every reader of a dump fills :class:`Records`; :mod:`softib.fabric.formats.resolve` pairs the
records into cables.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

from softib.errors import LimitError
from softib.fabric.formats.base import Problems, octets, shown
from softib.iba.constants import LID_PERMISSIVE, LID_UCAST_MAX, MAX_SWITCH_PORTS, NodeType
from softib.iba.rates import SPEED_BY_NAME, SPEEDS, WIDTH_BITS
from softib.plural import counted

__all__ = [
    "SWITCH_FROM",
    "UNKNOWN",
    "Records",
    "parse_guid",
    "parse_lid",
    "parse_rate",
    "seems_a_switch",
    "speed_of_gbps",
]

SWITCH_FROM = 3
"""Number of cables from which a node that is known only as a peer counts as a switch. Adapters have
one or two ports."""
MOST_PORTS = 4
"""Highest port number that an adapter has."""
UNKNOWN = -1
"""Value of a field that the source does not record."""

_HEX = re.compile(r"(?:0x)?([0-9a-fA-F]{1,16})\Z")
_RATE = re.compile(r"(\d{1,2})x\s*+([A-Za-z]++\d*|[\d.]++)(?:\s*+Gbps)?\Z")


class NodeFields(TypedDict, total=False):
    """Optional fields of a node record; the columns of :class:`Records` have the same names."""

    desc: str
    node_guid: int
    sys_guid: int
    vendor_id: int
    device_id: int
    revision: int
    pkey_cap: int
    external_pkey_cap: int
    guid_cap: int
    lid0: int
    lmc0: int
    enhanced_port0: int


NODE_DEFAULTS: dict[str, int] = {
    "node_guid": UNKNOWN,
    "sys_guid": UNKNOWN,
    "vendor_id": 0,
    "device_id": 0,
    "revision": 0,
    "pkey_cap": 0,
    "external_pkey_cap": 0,
    "guid_cap": 0,
    "lid0": UNKNOWN,
    "lmc0": UNKNOWN,
    "enhanced_port0": UNKNOWN,
}
"""Value of each column if a record does not state the field."""


@dataclass
class Records:
    """Content of a file as columns (lists). ``port_node`` holds indices into ``key``."""

    key: list[str] = field(default_factory=list)
    """Name by which other records refer to the node."""
    node_type: list[int] = field(default_factory=list)
    nports: list[int] = field(default_factory=list)
    desc: list[bytes] = field(default_factory=list)
    node_guid: list[int] = field(default_factory=list)
    """NodeGUID; :data:`UNKNOWN` if the file has none, and then one is generated."""
    sys_guid: list[int] = field(default_factory=list)
    vendor_id: list[int] = field(default_factory=list)
    device_id: list[int] = field(default_factory=list)
    revision: list[int] = field(default_factory=list)
    pkey_cap: list[int] = field(default_factory=list)
    """Table length for :meth:`FabricBuilder.nodes`. In this column and the next two, 0 = not
    stated."""
    external_pkey_cap: list[int] = field(default_factory=list)
    guid_cap: list[int] = field(default_factory=list)
    lid0: list[int] = field(default_factory=list)
    lmc0: list[int] = field(default_factory=list)
    enhanced_port0: list[int] = field(default_factory=list)
    node_line: list[int] = field(default_factory=list)

    port_node: list[int] = field(default_factory=list)
    portnum: list[int] = field(default_factory=list)
    peer: list[str] = field(default_factory=list)
    peer_portnum: list[int] = field(default_factory=list)
    port_line: list[int] = field(default_factory=list)
    speed: list[int] = field(default_factory=list)
    lanes: list[int] = field(default_factory=list)
    lid: list[int] = field(default_factory=list)
    lmc: list[int] = field(default_factory=list)
    port_guid: list[int] = field(default_factory=list)
    peer_lid: list[int] = field(default_factory=list)
    peer_guid: list[int] = field(default_factory=list)
    state: list[int] = field(default_factory=list)

    label: dict[tuple[int, int], str] = field(default_factory=dict)
    """(node, portnum) → text printed on the port."""
    best: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """(node, portnum) → (speed code, lanes) that both ends of its link support, if the source states it."""
    both_ends_in_one_line: bool = False
    """Each record names both ends completely (.lst, .db_csv), so the file need not list a cable
    twice."""

    file: str = ""
    """File name for error messages."""
    switches: int = 0
    count_at: int = LID_UCAST_MAX
    """Number of switch records at which :meth:`add_node` begins to count distinct switches."""

    only_a_peer: set[int] = field(default_factory=set)
    """Nodes known only from their peers' records. It is not reported that they have no records."""
    uncounted: set[int] = field(default_factory=set)
    """Other nodes whose number of ports is not stated by the source."""

    def add_node(self, key: str, node_type: int, nports: int, line: int, **fields: Unpack[NodeFields]) -> int:
        """Append a node and return its index. Raises :class:`LimitError` if the file has more
        switches than a subnet has LIDs."""
        if node_type == NodeType.SWITCH:
            self.switches += 1
            if self.switches > self.count_at:
                self._count_switches()
        self.key.append(key)
        self.node_type.append(node_type)
        self.nports.append(nports)
        self.node_line.append(line)
        self.desc.append(octets(fields.pop("desc", "")))
        for name, value in ({**NODE_DEFAULTS, **fields} if fields else NODE_DEFAULTS).items():
            getattr(self, name).append(value)
        return len(self.key) - 1

    def _count_switches(self) -> None:
        """Reject a file with more switches than a subnet has LIDs (IBA 4.1.3), before tables of 48
        KiB per switch are allocated. Only distinct names count, because a log may repeat one dump
        many times.
        """
        names = {k for k, t in zip(self.key, self.node_type, strict=True) if t == NodeType.SWITCH}
        if len(names) >= LID_UCAST_MAX:
            raise LimitError(
                f"{self.file}: more than {LID_UCAST_MAX} switches; each needs a unicast LID, and a subnet has only "
                f"{LID_UCAST_MAX}"
            )
        self.count_at = self.switches + LID_UCAST_MAX - len(names)

    def port_adder(self) -> Callable[..., None]:
        """Return the function ``add(node, portnum, peer, peer_portnum, line, speed, lanes, lid,
        lmc, port_guid, peer_lid, peer_guid, state)``, which appends a port record. All columns are
        bound to local names for speed, since large files call it for every record."""
        columns: tuple[list[Any], ...] = (
            self.port_node,
            self.portnum,
            self.peer,
            self.peer_portnum,
            self.port_line,
            self.speed,
            self.lanes,
            self.lid,
            self.lmc,
            self.port_guid,
            self.peer_lid,
            self.peer_guid,
            self.state,
        )
        appends = [c.append for c in columns]

        def add(*values: int | str) -> None:
            for append, value in zip(appends, values, strict=True):
                append(value)

        return add


def seems_a_switch(ports: Iterable[tuple[int, int]]) -> bool:
    """Return whether a node known only as a peer is a switch. ``ports`` are the (port number, LID)
    of each of its cables; LID 0 is unknown. It is a switch if it has at least :data:`SWITCH_FROM`
    cables, a port number above :data:`MOST_PORTS`, or the same LID at several ports. (Each port of
    an adapter has a different LID.)"""
    cables = list(ports)
    several = len({number for number, lid in cables if lid}) > 1 and len({lid for _, lid in cables}) == 1
    return several or len(cables) >= SWITCH_FROM or any(number > MOST_PORTS for number, _ in cables)


def parse_guid(text: str) -> int:
    """Parse a GUID of up to 16 hexadecimal digits, or return :data:`UNKNOWN`."""
    m = _HEX.match(text.strip())
    return int(m[1], 16) if m else UNKNOWN


def parse_lid(text: str | None, line: int, problems: Problems, base: int = 10) -> int:
    """Parse a LID; return :data:`UNKNOWN` for an empty field. More than 16 bits are a problem. A
    LID beyond the unicast range is kept, so that findings can distinguish it from LID 0: ibdiagnet
    and ibnetdiscover print 65535, the permissive LID, for a port whose LID no subnet manager has
    set.
    """
    if not text:
        return UNKNOWN
    try:
        lid = int(text, base) if len(text) <= 12 else UNKNOWN
    except ValueError:
        problems.add(line, f"LID {shown(text)} is not a number")
        return UNKNOWN
    if 0 <= lid <= LID_PERMISSIVE:
        return lid
    problems.add(line, f"LID {shown(text)} is not a unicast LID (1 to {LID_UCAST_MAX}); left unassigned")
    return UNKNOWN


def speed_of_gbps(text: str) -> int:
    """Return the speed code of a lane rate in the form of infiniband-diags and ibdiagnet: exact, or
    rounded as Linux does (``2.5``, ``14.0625``, ``14``, ``100``). 0 if the rate is unknown."""
    try:
        value = float(text)
    except ValueError:
        return 0
    return next((s.code for s in SPEEDS if min(abs(s.lane_gbps - value), abs(s.kernel_rate / 10 - value)) < 0.01), 0)


@functools.lru_cache(maxsize=1024)
def parse_rate(text: str) -> tuple[int, int]:
    """Return (speed code, lanes) of a rate like ``4xHDR``, ``4x FDR10`` or ``2x53.125 Gbps``.
    Unknown values are 0."""
    m = _RATE.match(text.strip())
    if not m:
        return 0, 0
    lanes = int(m[1]) if int(m[1]) in WIDTH_BITS else 0
    named = SPEED_BY_NAME.get(m[2].upper())
    return (named.code if named else speed_of_gbps(m[2])), lanes


def bounded_ports(nports: int, line: int, problems: Problems) -> int:
    """Return ``nports`` if a node can have that many ports. Otherwise report a problem and return
    0; the number then follows from the records."""
    if 0 <= nports <= MAX_SWITCH_PORTS:
        return nports
    problems.add(
        line, f"{counted(nports, 'port')}: a node has at most {MAX_SWITCH_PORTS}; only ports in records are kept"
    )
    return 0


NODE_TYPES = {
    "switch": NodeType.SWITCH,
    "sw": NodeType.SWITCH,
    "ca": NodeType.CA,
    "hca": NodeType.CA,
    "rt": NodeType.ROUTER,
    "router": NodeType.ROUTER,
}
"""Lower-case names of node types in the formats → node type."""
