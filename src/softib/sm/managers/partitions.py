"""Partitions in the format of OpenSM's partitions.conf (opensm(8), doc/partition-config.txt), and
memberships as columns (IBA 10.9.3).

    Default=0x7fff, ipoib : ALL, SELF=full ;
    storage=0x10, ipoib, rate=16, mtu=5, defmember=limited : 0x0002c903000e0b81=full, ALL_CAS,
        mgid=ff12:401b::1, sl=3 ;

A definition ends with ``;``. ``#`` begins a comment. ``mgid=`` and its flags end with their line.
MTU and rate are given as codes of the specification; the MTU may also be given in bytes. This
module only reads the text; ``pkey_mgr`` finds the ports when the subnet is known. Values that
OpenSM would silently replace or ignore, and files that it would reject, are errors here
(:mod:`softib.sm.options.opensm_partitions` has OpenSM's rules).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Container
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from softib.errors import InputError
from softib.iba.rates import MTU_BYTES

__all__ = [
    "DEFAULT_BASE",
    "DEFAULT_PARTITIONS",
    "DEFAULT_RATE",
    "FULL",
    "KEYWORDS",
    "LIMITED",
    "Members",
    "Partition",
    "PartitionGroup",
    "parse_changes",
    "parse_partitions",
    "partition_problems",
]


LIMITED, FULL = 1, 2
FULL_BIT = 0x8000
BASE = 0x7FFF


@dataclass
class Members:
    """``pkey`` uint16[partitions] without the membership bit, the preferred partition first;
    ``state`` uint8[partitions, ends]: bits LIMITED and FULL; ``sl`` uint8[partitions]."""

    pkey: np.ndarray
    state: np.ndarray
    sl: np.ndarray

    @classmethod
    def of_default(cls, ends: int) -> Members:
        """Return memberships in which all ends are full members of the default partition."""
        return cls(np.array([BASE], np.uint16), np.full((1, ends), FULL, np.uint8), np.zeros(1, np.uint8))

    def common(self, source: np.ndarray, target: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (P_Key, SL) of each pair of ends, with the P_Key as in the source's table. P_Key
        -1 = the two have no partition in common.

        ``wanted`` int64[n] is the required P_Key (its membership bit is ignored), -1 = any.
        """
        pkey, sl = np.full(len(source), -1), np.zeros(len(source), np.uint8)
        open_ = np.arange(len(source))
        for row, base in enumerate(self.pkey.tolist()):
            if not len(open_):
                break
            of, at = self.state[row, source[open_]], self.state[row, target[open_]]
            fits = (of > 0) & (at > 0) & (((of | at) & FULL) > 0)
            fits &= (wanted[open_] < 0) | ((wanted[open_] & BASE) == base)
            rows = open_[fits]
            pkey[rows] = base | np.where(of[fits] & FULL, FULL_BIT, 0)
            sl[rows] = self.sl[row]
            open_ = open_[~fits]
        return pkey, sl

    def has(self, end: int, pkey: int) -> bool:
        """Return whether the end is a member of this partition (full if the P_Key is full)."""
        rows = np.flatnonzero(self.pkey == (pkey & BASE))
        if not len(rows):
            return False
        state = int(self.state[rows[0], end])
        return bool(state & FULL) if pkey & FULL_BIT else state > 0


DEFAULT_BASE = 0x7FFF
KEYWORDS = ("ALL", "ALL_CAS", "ALL_SWITCHES", "ALL_ROUTERS", "SELF")
MEMBERSHIP = {"full": FULL, "limited": LIMITED, "both": FULL | LIMITED}
IPOIB_QKEY = 0x0B1B
DEFAULT_MTU, DEFAULT_RATE, DEFAULT_SCOPE = 4, 3, 2
_FLAGS = {
    "rate": ("rate", 63),
    "mtu": ("mtu", 5),
    "sl": ("sl", 15),
    "scope": ("scope", 15),
    "q_key": ("qkey", 0xFFFFFFFF),
    "tclass": ("tclass", 255),
    "flowlabel": ("flow_label", 0xFFFFF),
}


@dataclass(frozen=True)
class PartitionGroup:
    """A multicast group that exists as long as its partition. Empty ``mgid``: the broadcast group
    of IPoIB."""

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
    """``pkey`` does not include the membership bit. ``members`` are (PortGUID or keyword, LIMITED |
    FULL bits) in the order of the file; a later entry for a port replaces an earlier one.
    ``stated``: the numeric flags that the head of the definition states, without defaults.
    ``chosen``: the file states no P_Key, so softib chose one."""

    name: str
    pkey: int
    index0: bool = False
    ipoib: bool = False
    sl: int = 0
    members: list[tuple[int | str, int]] = field(default_factory=list)
    groups: list[PartitionGroup] = field(default_factory=list)
    stated: dict[str, int] = field(default_factory=dict)
    chosen: bool = False


DEFAULT_PARTITIONS = [
    Partition("Default", DEFAULT_BASE, ipoib=True, members=[("ALL", FULL)], groups=[PartitionGroup()])
]
"""The partitions if there is no file: only the default partition, which has IPoIB, and of which all
ports are full members."""
BEFORE_FILE: list[tuple[int | str, int]] = [("ALL", LIMITED), ("SELF", FULL)]
"""The default partition if the file does not define it: all ports are limited members, and the
manager's port is a full member."""
IP_SIGNATURES = (b"\x40\x1b", b"\x60\x1b")
"""Bytes 2-3 of the MGIDs of IPv4 and IPv6 (RFC 4391, 4); the P_Key follows."""


def parse_partitions(text: str, name: str = "partitions.conf") -> list[Partition]:
    """Return the partitions of a file's ``text``, the default one first; raises :class:`InputError`
    with file, line and reason."""
    partitions, problems = _read(text, name)
    if problems:
        raise problems[0]
    default = next((p for p in partitions if p.pkey == DEFAULT_BASE), None)
    if default is None:
        partitions.append(Partition("Default", DEFAULT_BASE, members=list(BEFORE_FILE)))
    else:
        default.members[:0] = BEFORE_FILE
    return sorted(partitions, key=lambda p: p.pkey != DEFAULT_BASE)


def parse_changes(text: str, name: str, taken: Container[int] = ()) -> list[Partition]:
    """Return only the partitions in ``text``, in the format of partitions.conf. A partition without
    ports in ``text`` is to be removed. A partition without a P_Key gets one that is not in
    ``taken``. Raises :class:`InputError` with file, line and reason."""
    partitions, problems = _read(text, name, taken)
    if problems:
        raise problems[0]
    return partitions


def partition_problems(text: str, name: str = "partitions.conf") -> list[str]:
    """Return the first mistake in each definition, with file and line; empty if
    :func:`parse_partitions` accepts the file."""
    return [str(why) for why in _read(text, name)[1]]


def _read(text: str, name: str, taken: Container[int] = ()) -> tuple[list[Partition], list[InputError]]:
    partitions, problems = list[Partition](), list[InputError]()
    of_pkey: dict[int, Partition] = {}
    for line, definition, ended in _definitions(text):
        try:
            if not ended:
                raise InputError(f"{name}:{line}: the partition has no end; add ; after its last port")
            partition = _partition(definition, partitions, f"{name}:{line}", taken)
        except InputError as why:
            problems.append(why)
            continue
        same = of_pkey.setdefault(partition.pkey, partition)
        if same is partition:
            partitions.append(partition)
        else:  # several definitions may contribute to one partition
            same.members += partition.members
            same.groups += partition.groups
            same.stated = partition.stated | same.stated
            same.ipoib |= partition.ipoib
            same.index0 |= partition.index0
    return partitions, problems


def _definitions(text: str) -> list[tuple[int, str, bool]]:
    """Yield (first line, text, whether it ends) of each definition."""
    out, current, begun = [], "", 0
    for number, line in enumerate(text.splitlines(), 1):
        rest = line.split("#")[0]
        while ";" in rest:
            piece, _, rest = rest.partition(";")
            if (current + piece).strip():
                out.append((begun or number, (current + piece).strip(), True))
            current, begun = "", 0
        if rest.strip():
            begun = begun or number
            current += rest + "\n"
    return [*out, (begun, current, False)] if current.strip() else out


def _partition(text: str, before: list[Partition], where: str, taken: Container[int] = ()) -> Partition:
    head, colon, body = text.partition(":")
    if not colon:
        raise InputError(f"{where}: no ':' between the partition and its ports; use for example storage=0x10 : ALL ;")
    fields = [w.strip() for w in head.split(",")]
    name, _, number = (w.strip() for w in fields[0].partition("="))
    if not number and name[:1].isdigit():  # the text is only a P_Key
        name, number = "", name
    pkey = _number(number, 0xFFFF, f"{where}: P_Key") & 0x7FFF if number else _pkey_for(name, before, taken)
    if not pkey:
        raise InputError(f"{where}: P_Key {number or 'of no number'} is not valid; use 0x1 to 0x7fff")
    partition, member = Partition(name, pkey, chosen=not number and pkey != DEFAULT_BASE), LIMITED
    flags, scopes = dict[str, int](), list[int]()
    for word in filter(None, fields[1:]):
        key, _, value = (w.strip() for w in word.partition("="))
        if key.lower() == "indx0":
            partition.index0 = True
        elif key.lower() == "ipoib":
            partition.ipoib = True
        elif key.lower() == "defmember":
            member = _membership(value, where)
        else:
            _group_flag(flags, scopes, key, value, where)
    partition.sl = flags.get("sl", 0)
    partition.stated = dict(flags)
    if partition.ipoib:
        group = PartitionGroup(**dict[str, Any](flags))
        partition.groups += [replace(group, scope=s) for s in scopes or [DEFAULT_SCOPE]]
    defmember = re.match(r"\s*defmember\s*=\s*(\w+)\s*:", body)
    if defmember:  # opensm(8) allows it after a second colon too
        member, body = _membership(defmember[1], where), body[defmember.end() :]
    _properties(partition, body, member, (flags, scopes), where)
    return partition


def _properties(
    partition: Partition, body: str, member: int, flags: tuple[dict[str, int], list[int]], where: str
) -> None:
    """Parse the ports and multicast groups after the colon. A group ends with its line. It
    inherits the partition's ``flags`` and scopes unless it sets its own."""
    for line in re.sub(r"\s*=\s*", "=", body).split("\n"):
        fields = [w for w in re.split(r"[,\s]+", line) if w]
        for i, word in enumerate(fields):
            key, _, value = word.partition("=")
            if key.lower() == "mgid":
                partition.groups += _groups(partition, _mgid(value, where), fields[i + 1 :], flags, where)
                break
            if key.upper() != "NONE":
                partition.members.append((_port(key, where), _membership(value, where) if value else member))


def _groups(
    partition: Partition, mgid: bytes, fields: list[str], flags: tuple[dict[str, int], list[int]], where: str
) -> list[PartitionGroup]:
    """Return ``mgid`` with its flags: one group for each scope. IP groups have the rate and MTU of
    the broadcast group, and contain the partition's P_Key."""
    group_flags, scopes = {k: v for k, v in flags[0].items() if k != "tclass"}, list[int]()
    for word in fields:
        key, _, value = word.partition("=")
        _group_flag(group_flags, scopes, key, value, where)
    if mgid[2:4] in IP_SIGNATURES:
        for name in ("rate", "mtu"):
            have, wanted = group_flags.get(name), flags[0].get(name)
            if have != wanted:
                raise InputError(
                    f"{where}: an IP group's {name} is that of its partition's broadcast group; remove {name}="
                )
        mgid_pkey = int.from_bytes(mgid[4:6], "big")
        if mgid_pkey and mgid_pkey & 0x7FFF != partition.pkey:
            raise InputError(
                f"{where}: the MGID has P_Key {mgid_pkey:#x} and the partition {partition.pkey:#x}; set it to 0"
            )
        mgid = mgid[:4] + (partition.pkey | 0x8000).to_bytes(2, "big") + mgid[6:]
        group_flags["qkey"] = group_flags.get("qkey") or IPOIB_QKEY
    group = PartitionGroup(mgid=mgid, **dict[str, Any]({"qkey": 0, **group_flags}))
    within = scopes or flags[1]
    if not within:
        return [replace(group, scope=mgid[1] & 15)]
    return [replace(group, mgid=bytes((0xFF, mgid[1] & 0xF0 | s)) + mgid[2:], scope=s) for s in within]


def _port(word: str, where: str) -> int | str:
    if word.upper() in KEYWORDS:
        return word.upper()
    try:
        int(word, 0)
    except ValueError:
        known = ", ".join(sorted(KEYWORDS))
        raise InputError(
            f"{where}: {word!r} is not a port; use a PortGUID ('ibstat -p' on the node prints it), or {known}"
        ) from None
    return _number(word, (1 << 64) - 1, f"{where}: port")


def _pkey_for(name: str, before: list[Partition], taken: Container[int]) -> int:
    if name.lower() == "default":
        return DEFAULT_BASE
    same = next((p.pkey for p in before if name and p.name == name), 0)
    if same:
        return same
    used = {p.pkey for p in before}
    return next((k for k in range(1, DEFAULT_BASE) if k not in used and k not in taken), 0)


def _membership(word: str, where: str) -> int:
    """Return the membership for a word or its beginning ("limi"), as in OpenSM."""
    for name, bits in MEMBERSHIP.items():
        if word and name.startswith(word.lower()):
            return bits
    raise InputError(f"{where}: {word!r} is not a membership; use full, limited or both")


def _group_flag(flags: dict[str, int], scopes: list[int], key: str, value: str, where: str) -> None:
    """Parse one ``mgroup_flag`` of the file; ``scope`` may occur several times."""
    if key.lower() not in _FLAGS:
        raise InputError(f"{where}: unknown keyword {key!r}; use indx0, ipoib, defmember, {', '.join(_FLAGS)}")
    name, most = _FLAGS[key.lower()]
    if name == "mtu":
        value = {str(octets): str(int(code)) for code, octets in MTU_BYTES.items()}.get(value, value)
    number = _number(value, most, f"{where}: {key}")
    if name in ("scope", "mtu", "rate") and not number:
        raise InputError(f"{where}: {key}={value} is out of range; use 1 or more")
    if name == "scope":
        scopes.append(number)
    else:
        flags[name] = number


def _number(text: str, most: int, where: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        raise InputError(f"{where}: {text!r} is not a number") from None
    if not 0 <= value <= most:
        raise InputError(f"{where}: {text} is too large; use at most {most:#x}")
    return value


def _mgid(text: str, where: str) -> bytes:
    try:
        mgid = ipaddress.IPv6Address(text).packed
    except ValueError:
        raise InputError(f"{where}: {text!r} is not an MGID; use an IPv6 address, for example ff12:401b::1") from None
    if mgid[0] != 0xFF:
        raise InputError(f"{where}: {text} is not a multicast GID; those begin with ff")
    return mgid
