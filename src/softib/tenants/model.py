"""Data types of tenants, partitions and members, and the notation of their P_Keys and GUIDs.

A P_Key here is the 15 bits without the membership bit (IBA 10.9.1.1). A GUID is the PortGUID of a host's port or of a
virtual function.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from softib.errors import InputError
from softib.iba.constants import DEFAULT_PKEY
from softib.sm.managers.partitions import DEFAULT_RATE

__all__ = [
    "DEFAULT_BASE",
    "FULL_BIT",
    "MTU_CODES",
    "NO_RATE",
    "RATES",
    "CableEnd",
    "IsolatedPort",
    "Member",
    "Partition",
    "Qos",
    "Tenant",
    "guid_text",
    "members_of",
    "parse_guid",
    "parse_pkey",
    "pkey_text",
    "port_of",
]

FULL_BIT = 0x8000
DEFAULT_BASE = DEFAULT_PKEY & ~FULL_BIT
RATES: dict[float, int] = {
    2.5: 2,
    10: 3,
    30: 4,
    5: 5,
    20: 6,
    40: 7,
    60: 8,
    80: 9,
    120: 10,
    14: 11,
    56: 12,
    112: 13,
    168: 14,
    25: 15,
    100: 16,
    200: 17,
    300: 18,
    28: 19,
    50: 20,
    400: 21,
    600: 22,
    800: 23,
    1200: 24,
}
"""Rate in Gb/s → the code of this rate in paths and multicast groups (IBA 15.2.5.16, table 224)."""
NO_RATE = 2.5
"""UFM's default: no rate is set."""
MTU_CODES = {2: 4, 4: 5}
"""MTU in KiB, as in UFM → its code."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant. ``limit``: maximum number of its partitions. ``ports``: PortGUIDs, as 16 digits, that an operator
    assigned to it; None: its accounts may use any port that belongs to no other tenant.
    """

    name: str
    limit: int = 1024
    ports: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a partition. ``host``: the host name that the client gave when it added the member."""

    full: bool = True
    host: str = ""


@dataclass(frozen=True, slots=True)
class CableEnd:
    """A port at an end of a cable, as it was last read. It is stored because a device with all cables disabled does not
    answer. ``name``: the port in UFM's notation. ``guid``: NodeGUID.
    """

    guid: int
    portnum: int
    name: str
    node_name: str = ""
    system: int = 0

    @property
    def end(self) -> tuple[int, int]:
        """Return NodeGUID and portnum."""
        return self.guid, self.portnum

    def has_name(self, name: str) -> bool:
        """Return whether ``name`` means this port: by its PortGUID as in :attr:`name`, or by its NodeGUID."""
        return port_of(name) in (port_of(self.name), self.end)


@dataclass(frozen=True, slots=True)
class IsolatedPort:
    """A port that the service isolated at the clock time ``at_s``. ``ends``: this port, and the port at the other end
    of its cable.
    """

    at_s: float
    ends: tuple[CableEnd, ...]

    def has(self, end: tuple[int, int]) -> bool:
        """Return whether ``end`` (NodeGUID and portnum) is one of the two ends."""
        return any(one.end == end for one in self.ends)


@dataclass(frozen=True, slots=True)
class Qos:
    """Quality of service of a partition: ``mtu`` in KiB, ``rate`` in Gb/s, and the SL."""

    mtu: int = 2
    sl: int = 0
    rate: float = NO_RATE

    def __post_init__(self) -> None:
        if self.mtu not in MTU_CODES:
            raise InputError(f"mtu_limit {self.mtu} is not valid; use {' or '.join(map(str, MTU_CODES))} (KiB)")
        if not 0 <= self.sl <= 15:
            raise InputError(f"service_level {self.sl} is out of range; use 0 to 15")
        if self.rate not in RATES:
            raise InputError(
                f"rate_limit {self.rate:g} is not a rate; use {', '.join(f'{r:g}' for r in sorted(RATES))}"
            )

    @property
    def group_rate(self) -> float:
        """Return the rate of the IPoIB multicast group in Gb/s; if no rate is set, the default of OpenSM and other
        managers.
        """
        return self.rate if self.rate != NO_RATE else next(r for r, code in RATES.items() if code == DEFAULT_RATE)

    @property
    def codes(self) -> tuple[int, int, int]:
        """Return the codes of MTU and rate, and the SL, for partitions.conf."""
        return MTU_CODES[self.mtu], RATES[self.rate], self.sl


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition. ``tenant``: "" if the partition belongs to the operator. ``index0``: whether members have its P_Key
    at index 0. ``everyone``: only for the default partition ("" for others), the membership of every port that is not
    in ``members``.
    """

    pkey: int
    name: str = ""
    tenant: str = ""
    index0: bool = False
    ip_over_ib: bool = True
    everyone: str = ""
    qos: Qos = field(default_factory=Qos)
    members: Mapping[int, Member] = field(default_factory=dict)

    def with_members(self, members: Mapping[int, Member]) -> Partition:
        """Return the same partition with other members."""
        return replace(self, members=members)

    def membership(self, guid: int) -> int:
        """Return the P_Key in the table of ``guid``, 0 if it is not a member."""
        member = self.members.get(guid)
        full = self.everyone == "full" if member is None else member.full
        if member is None and not self.everyone:
            return 0
        return self.pkey | (FULL_BIT if full else 0)

    def key_of(self, guid: int, manager: int) -> int:
        """Return the P_Key programmed for ``guid``: that of :meth:`membership`, except that the port of the subnet
        ``manager`` is always a full member of the default partition.
        """
        return FULL_BIT | DEFAULT_BASE if self.pkey == DEFAULT_BASE and guid == manager else self.membership(guid)


def pkey_text(pkey: int) -> str:
    """Return the P_Key in UFM's notation, for example ``0x5``."""
    return f"{pkey:#x}"


def guid_text(guid: int) -> str:
    """Return the GUID as 16 hexadecimal digits."""
    return f"{guid:016x}"


_HEX = re.compile(r"(?:0[xX])?([0-9a-fA-F]{1,18})")


def parse_pkey(text: object) -> int:
    """Return the 15 bits of a P_Key: hexadecimal digits with or without ``0x``; the membership bit
    is ignored. Raises :class:`InputError` for values outside 0x1 to 0x7fff."""
    digits = _HEX.fullmatch(text) if isinstance(text, str) else None
    value = int(digits[1], 16) if digits else -1
    if not 0 <= value <= 0xFFFF or not value & DEFAULT_BASE:
        raise InputError(f"pkey {str(text)[:24]!r} is not valid; use a hexadecimal P_Key of 0x1 to 0x7fff")
    return value & DEFAULT_BASE


def members_of(listed: Iterable[tuple[int, Member]]) -> dict[int, Member]:
    """Return members by GUID. Raises :class:`InputError` if a GUID has two memberships."""
    out: dict[int, Member] = {}
    for guid, member in listed:
        if out.setdefault(guid, member).full != member.full:
            raise InputError(f"GUID {guid_text(guid)} is given as a full and as a limited member; remove one")
    return out


def port_of(name: str) -> tuple[int, int] | None:
    """Return the GUID and number of a port whose name in UFM is ``GUID_NUMBER``; None for other text."""
    guid, _, number = name.strip().rpartition("_")
    try:
        port = int(guid, 16), int(number)
    except ValueError:
        return None
    return port if 0 <= port[0] < 1 << 64 else None


def parse_guid(text: object) -> int:
    """Return a GUID: 16 hexadecimal digits with or without ``0x``, or in groups of two or four
    separated by colons. Raises :class:`InputError`."""
    digits = _HEX.fullmatch(text.replace(":", "")) if isinstance(text, str) else None
    if digits is None or len(digits[1]) != 16 or not int(digits[1], 16):
        raise InputError(
            f"GUID {str(text)[:32]!r} is not valid; use 16 hexadecimal digits, for example 0002c903000e0b72"
        )
    return int(digits[1], 16)
