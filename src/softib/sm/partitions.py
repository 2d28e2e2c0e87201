"""Partitions as OpenSM's partitions.conf writes them (opensm(8), doc/partition-config.txt).

    Default=0x7fff, ipoib : ALL, SELF=full ;
    storage=0x10, ipoib, rate=16, mtu=5, defmember=limited : 0x0002c903000e0b81=full, ALL_CAS,
        mgid=ff12:401b::1, sl=3 ;

A definition ends with ``;``, ``#`` begins a comment. Numbers of MTU and rate are the specification's codes; an MTU may be
written in octets too. Only the text is read here; who is meant is decided when the subnet is known (``pkey_mgr``).
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field, replace
from typing import Any

from softib.errors import InputError
from softib.iba.rates import MTU_BYTES
from softib.sm.sa.members import FULL, LIMITED

__all__ = ["DEFAULT_PARTITIONS", "KEYWORDS", "Partition", "PartitionGroup", "parse_partitions"]

DEFAULT_BASE = 0x7FFF
KEYWORDS = ("ALL", "ALL_CAS", "ALL_SWITCHES", "ALL_ROUTERS", "SELF")
MEMBERSHIP = {"full": FULL, "limited": LIMITED, "both": FULL | LIMITED}
IPOIB_QKEY = 0x0B1B
DEFAULT_MTU, DEFAULT_RATE, DEFAULT_SCOPE = 4, 3, 2
_FLAGS = {"rate": ("rate", 63), "mtu": ("mtu", 5), "sl": ("sl", 15), "scope": ("scope", 15), "q_key": ("qkey", 0xFFFFFFFF),
          "tclass": ("tclass", 255), "flowlabel": ("flow_label", 0xFFFFF)}  # fmt: skip


@dataclass(frozen=True)
class PartitionGroup:
    """A multicast group that exists as long as its partition; ``mgid`` empty: IPoIB's broadcast group."""

    mgid: bytes = b""
    rate: int = DEFAULT_RATE
    mtu: int = DEFAULT_MTU
    sl: int = 0
    scope: int = DEFAULT_SCOPE
    qkey: int = IPOIB_QKEY
    tclass: int = 0
    flow_label: int = 0


@dataclass
class Partition:
    """``pkey`` without the membership bit; ``members`` are (PortGUID or keyword, LIMITED | FULL bits) in the order of the
    file: what is said later of a port adds to what was said before."""

    name: str
    pkey: int
    index0: bool = False
    ipoib: bool = False
    sl: int = 0
    members: list[tuple[int | str, int]] = field(default_factory=list)
    groups: list[PartitionGroup] = field(default_factory=list)


DEFAULT_PARTITIONS = [
    Partition("Default", DEFAULT_BASE, ipoib=True, members=[("ALL", FULL)], groups=[PartitionGroup()])
]
"""Without a file: everybody is a full member of the default partition, which carries IPoIB."""
WITHOUT_DEFAULT = Partition("Default", DEFAULT_BASE, members=[("ALL", LIMITED), ("SELF", FULL)])
"""A file that does not speak of the default partition: everybody is a limited member, the manager a full one."""


def parse_partitions(text: str, name: str = "partitions.conf") -> list[Partition]:
    """The partitions of a file's ``text``, the default one first; raises :class:`InputError` with file, line and reason."""
    found: list[Partition] = []
    for line, definition in _definitions(text, name):
        partition = _partition(definition, found, f"{name}:{line}")
        same = next((p for p in found if p.pkey == partition.pkey), None)
        if same is None:
            found.append(partition)
        else:  # a partition may be defined in pieces
            same.members += partition.members
            same.groups += partition.groups
            same.ipoib |= partition.ipoib
            same.index0 |= partition.index0
    if not any(p.pkey == DEFAULT_BASE for p in found):
        found.append(replace(WITHOUT_DEFAULT, members=list(WITHOUT_DEFAULT.members), groups=[]))
    return sorted(found, key=lambda p: p.pkey != DEFAULT_BASE)


def _definitions(text: str, name: str) -> list[tuple[int, str]]:
    """(line where it begins, text) of each definition."""
    out, current, begun = [], "", 0
    for number, line in enumerate(text.splitlines(), 1):
        rest = line.split("#")[0]
        while ";" in rest:
            piece, _, rest = rest.partition(";")
            if (current + piece).strip():
                out.append((begun or number, (current + piece).strip()))
            current, begun = "", 0
        if rest.strip():
            begun = begun or number
            current += rest + " "
    if current.strip():
        raise InputError(f"{name}:{begun}: a partition that does not end; put ; behind its last port")
    return out


def _partition(text: str, before: list[Partition], where: str) -> Partition:
    head, colon, body = text.partition(":")
    if not colon:
        raise InputError(f"{where}: no ':' between the partition and its ports; write such as storage=0x10 : ALL ;")
    words = [w.strip() for w in head.split(",")]
    name, _, number = (w.strip() for w in words[0].partition("="))
    pkey = _number(number, 0xFFFF, f"{where}: P_Key") & 0x7FFF if number else _pkey_for(name, before)
    if not pkey:
        raise InputError(f"{where}: P_Key {number} is not possible; P_Keys are 0x1 to 0x7fff")
    partition, member = Partition(name, pkey), LIMITED
    flags: dict[str, int] = {}
    for word in filter(None, words[1:]):
        key, _, value = (w.strip() for w in word.partition("="))
        if key.lower() == "indx0":
            partition.index0 = True
        elif key.lower() == "ipoib":
            partition.ipoib = True
        elif key.lower() == "defmember":
            member = _membership(value, where)
        else:
            flags.update(_flag(key, value, where))
    partition.sl = flags.get("sl", 0)
    if partition.ipoib:
        partition.groups.append(replace(PartitionGroup(), **dict[str, Any](flags)))
    _properties(partition, body, member, where)
    return partition


def _properties(partition: Partition, body: str, member: int, where: str) -> None:
    """Ports and multicast groups behind the colon."""
    group: dict[str, Any] | None = None
    for word in filter(None, (w.strip() for w in re.split(r"[,\s]+", re.sub(r"\s*=\s*", "=", body)))):
        key, _, value = word.partition("=")
        if key.lower() == "mgid":
            group = {"mgid": _mgid(value, where)}
            partition.groups.append(PartitionGroup(**group))
        elif group is not None and key.lower() in _FLAGS:
            group |= _flag(key, value, where)
            partition.groups[-1] = replace(PartitionGroup(), **group)
        else:
            bits = _membership(value, where) if value else member
            partition.members.append((_port(key, where), bits))


def _port(word: str, where: str) -> int | str:
    if word.upper() in KEYWORDS:
        return word.upper()
    return _number(word, (1 << 64) - 1, f"{where}: port")


def _pkey_for(name: str, before: list[Partition]) -> int:
    if name.lower() == "default":
        return DEFAULT_BASE
    used = {p.pkey for p in before}
    return next(k for k in range(1, DEFAULT_BASE + 1) if k not in used)


def _membership(word: str, where: str) -> int:
    if word.lower() not in MEMBERSHIP:
        raise InputError(f"{where}: {word!r} is no membership; there are full, limited and both")
    return MEMBERSHIP[word.lower()]


def _flag(key: str, value: str, where: str) -> dict[str, int]:
    if key.lower() not in _FLAGS:
        raise InputError(f"{where}: {key!r} is not known; a partition has indx0, ipoib, defmember, {', '.join(_FLAGS)}")
    name, most = _FLAGS[key.lower()]
    if key.lower() == "scope":  # a list: OpenSM makes a group for each; the first is ours
        value = value.split()[0] if value.split() else value
    if key.lower() == "mtu" and value.isdigit() and int(value) in MTU_BYTES.values():
        value = str(next(code for code, octets in MTU_BYTES.items() if octets == int(value)))
    return {name: _number(value, most, f"{where}: {key}")}


def _number(text: str, most: int, what: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        raise InputError(f"{what}: {text!r} is no number") from None
    if not 0 <= value <= most:
        raise InputError(f"{what}: {text} is too large; the most is {most:#x}")
    return value


def _mgid(text: str, where: str) -> bytes:
    try:
        mgid = ipaddress.IPv6Address(text).packed
    except ValueError:
        raise InputError(f"{where}: {text!r} is no MGID; write it as an IPv6 address, such as ff12:401b::1") from None
    if mgid[0] != 0xFF:
        raise InputError(f"{where}: {text} is no multicast GID; those begin with ff")
    return mgid
