"""How OpenSM 3.3.23 reads partitions.conf (opensm(8), ``-P``).

A definition without a readable P_Key, or a member that is not a PortGUID, is an error: OpenSM
rejects the whole file and uses its default, in which every port is a full member of 0x7fff. With
OpenSM's default log level, all other mistakes are silently replaced or ignored. Lines are read into
one buffer, so the text after the end of a definition may be the rest of an earlier, longer line.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from softib.foreign_text import shown
from softib.sm.managers.partitions import DEFAULT_BASE, IP_SIGNATURES, KEYWORDS
from softib.sm.options.opensm_line import MOST_OCTETS, LineBuffer, strtoul

__all__ = ["PartitionRemark", "PartitionsRead", "as_opensm_reads_partitions"]

MEMBERSHIPS = ("full", "both", "limited")
FLAGS = ("mtu", "rate", "scope", "Q_Key", "TClass", "sl", "FlowLabel", "ipoib", "defmember")
"""Flags in the order in which OpenSM compares them with a word, or with the beginning of a word."""
GROUP_FLAGS = FLAGS[:7]
CODES = {"mtu": (4, 1, 5), "rate": (3, 2, 22)}
"""For each code: the default of a group, and the smallest and largest value."""
LOWEST = 0x40
"""If this bit is set in an MTU or rate, the selector becomes 3: the lowest value of the subnet's
ports."""
CARRIAGE_RETURN = "lines end with CR LF, and OpenSM reads a CR after ';' as a definition; use only LF"
UNWRITTEN = (
    "after this line OpenSM reads uninitialised memory, and may drop the whole file; end the line "
    "with one ';' after a port, or after a flag of the group (mgid=…, sl=0 ;)"
)
LINK_LOCAL = 2
"""The scope of a group without the flag."""


@dataclass(frozen=True)
class PartitionRemark:
    """A statement that OpenSM does not use as written. ``drops``: OpenSM rejects the whole file
    because of it."""

    line: int
    text: str
    drops: bool = False


@dataclass
class PartitionsRead:
    """``pkeys``: the P_Keys that have members (without the membership bit), with OpenSM's names;
    ``remarks``: statements that OpenSM does not use as written, by line."""

    pkeys: dict[int, str] = field(default_factory=lambda: {DEFAULT_BASE: "Default"})
    remarks: list[PartitionRemark] = field(default_factory=list)

    @property
    def dropped(self) -> PartitionRemark | None:
        """The first error, after which OpenSM reads no further; None if there is none."""
        return next((r for r in self.remarks if r.drops), None)


def as_opensm_reads_partitions(text: str) -> PartitionsRead:
    """Read ``text`` as OpenSM does, but continue after the first error, so that the remarks cover
    every mistake."""
    reader = _Reader()
    for number, line in enumerate(text.encode().split(b"\n"), 1):
        whole = line + b"\n"
        for first in range(0, len(whole), MOST_OCTETS):
            if first:
                reader.remark(f"more than {MOST_OCTETS} bytes; OpenSM reads the rest as a separate line")
            reader.line(number, whole[first : first + MOST_OCTETS])
    if not reader.defined and not reader.read.remarks:
        reader.remark("the file defines no partition", drops=True)
    reader.read.pkeys = {k: name for k, name in reader.read.pkeys.items() if k in reader.peopled}
    return reader.read


class _Drop(Exception):
    """Raised if OpenSM's parser rejects a definition."""


class _Definition:
    """The definition that is being read. After its header, it may continue over several lines."""

    def __init__(self, line: int) -> None:
        self.line, self.pkey = line, 0
        self.ipoib = False
        self.codes = {name: usual for name, (usual, _, _) in CODES.items()} | {"scope": 0}


class _Reader:
    def __init__(self) -> None:
        self.read = PartitionsRead()
        self.text = LineBuffer()
        self.number, self.generated = 0, 0
        self.broadcast = set[tuple[int, int]]()
        """P_Key and scope of the IPoIB groups."""
        self.written = dict[int, str]()
        """P_Key → its name in its first definition of the file."""
        self.names = {"Default": DEFAULT_BASE}
        self.peopled = {DEFAULT_BASE}
        self.definition: _Definition | None = None
        self.returned = False
        """Whether a CR at the end of a line has been reported."""
        self.defined = False

    def remark(self, text: str, drops: bool = False) -> None:
        self.read.remarks.append(PartitionRemark(self.number, text, drops))

    def line(self, number: int, octets: bytes) -> None:
        """Read one line, or one piece of a long line."""
        self.number, text = number, self.text
        text.put(octets)
        at = 0
        while True:
            if at > text.written:
                self.remark(UNWRITTEN)
                return
            at = text.skip(at)
            if not text.octets[at]:
                return
            end = text.cut(b";", at)
            try:
                at = self._piece(at)
            except _Drop as why:
                rest = "; the text read here is left from an earlier line" if at > text.end else ""
                if str(why) != CARRIAGE_RETURN or not self.returned:
                    self.remark(f"{why}{rest}", drops=True)
                self.returned |= str(why) == CARRIAGE_RETURN
                self.definition, at = None, end + 1
                if rest:
                    return
            if end < 0:
                return
            self.definition = None

    def _piece(self, at: int) -> int:
        """Read a definition, or a line of it; return the position after it."""
        if self.text.octets[at] in b"\0\t\n":
            at += 1
        if self.definition is None:
            whole = self.text.string(at)
            if self.text.cut(b":", at) < 0:
                if whole.strip(" \t\n") == "\r":
                    raise _Drop(CARRIAGE_RETURN)
                raise _Drop(f"{_quoted(whole)} is not a definition: no ':' follows its flags on the line")
            at = self._header(at)
        self.defined = True
        return self._members(at)

    def _header(self, at: int) -> int:
        new = _Definition(self.number)
        comma = self.text.cut(b",", at) >= 0
        name, pkey, at = self.text.token(at)
        while comma:
            comma = self.text.cut(b",", at) >= 0
            flag, value, at = self.text.token(at)
            self._flag(new, new.codes, flag, value, FLAGS)
        if pkey is None and name[:1].isdigit():
            name, pkey = "", name
        new.pkey = self._pkey(name, pkey)
        if new.ipoib and self._codes(new.codes, "the partition's IPoIB group"):
            self.broadcast |= {(new.pkey, scope) for scope in _scopes(new.codes)}
        self.definition = new
        return at

    def _pkey(self, name: str, text: str | None) -> int:
        pkeys = self.read.pkeys
        value, rest = strtoul(text or "")
        if text is not None and (rest or not text):
            raise _Drop(f"P_Key {_quoted(text)} is not a number")
        pkey = value & DEFAULT_BASE
        if value > 0xFFFF and pkey:
            full = f"full members hold {pkey | 0x8000:#x}"
            self.remark(f"P_Key {text} has more than 16 bits; OpenSM uses {pkey:#x} ({full})")
        if not pkey:
            same = self.names.get(name, 0)
            pkey = same or self._free()
            how = "the P_Key of the partition with the same name" if same else "the lowest free P_Key"
            if text is not None or (name.lower() == "default" and not same):
                self.remark(f"P_Key {text or '(none)'} of {_quoted(name)} is not usable; OpenSM uses {pkey:#x}, {how}")
        elif name and name != self.written.get(pkey, name):
            self.remark(f"P_Key {pkey:#x} belongs to {_quoted(pkeys[pkey])}; OpenSM adds the members there")
        self.written.setdefault(pkey, name)
        self.names.setdefault(pkeys.setdefault(pkey, name or f"{pkey:04x}"), pkey)
        return pkey

    def _free(self) -> int:
        while self.generated < DEFAULT_BASE - 1:
            self.generated += 1
            if self.generated not in self.read.pkeys:
                return self.generated
        raise _Drop("no P_Key is free")

    def _flag(
        self, new: _Definition, codes: dict[str, int], flag: str, text: str | None, names: tuple[str, ...]
    ) -> None:
        """Interpret a flag of a partition or group, and its value, as OpenSM does."""
        name = flag if flag == "indx0" and names is FLAGS else next((k for k in names if k.startswith(flag)), "")
        if name == "indx0" or (not flag and text is None):
            return
        value, rest = strtoul(text or "")
        if not name:
            self.remark(f"flag {_quoted(flag)} is unknown; OpenSM ignores it")
        elif name == "ipoib":
            new.ipoib = True
        elif name == "defmember":
            if text is None or not any(m.startswith(text) for m in MEMBERSHIPS):
                self.remark(f"defmember={_quoted(text)} is not a membership; OpenSM ignores it")
        elif text is None:
            self.remark(f"{name} has no value; OpenSM ignores it")
        elif name in CODES:
            codes[name] = value & 0xFFFFFFFF
            if rest.strip() or not text:
                self.remark(f"{name}={_quoted(text)} is not a number; OpenSM uses {codes[name]}")
        else:
            self._number(codes, name, text, value, rest)

    def _number(self, codes: dict[str, int], name: str, text: str, value: int, rest: str) -> None:
        most = {"scope": 15, "sl": 15, "FlowLabel": 0xFFFFF, "TClass": 0xFF, "Q_Key": 0xFFFFFFFF}[name]
        if name in ("TClass", "Q_Key"):
            if value > most or rest or not text:
                self.remark(
                    f"{name}={_quoted(text)} is not a number from 0 to {most:#x}; OpenSM uses {value & most:#x}"
                )
        elif value > most or (name == "scope" and not value) or (name != "scope" and (not text or rest[:1].strip())):
            self.remark(f"{name}={_quoted(text)} is not a valid value; OpenSM ignores it")
        elif name == "scope":
            codes["scope"] |= 1 << value
        elif rest:
            self.remark(
                f"{name}={_quoted(text)} has text after the number; OpenSM uses {value}, ignores the rest of the line"
            )

    def _codes(self, codes: dict[str, int], group: str) -> bool:
        """Interpret MTU and rate of a group. Return False if OpenSM does not create the group."""
        makes = True
        for name, (_, least, most) in CODES.items():
            value, code = codes[name], codes[name] & 0x3F
            if value & LOWEST:
                self.remark(
                    f"{name}={value} is not a valid code; OpenSM creates {group} with the lowest {name} of all ports"
                )
            elif not least <= code <= most:
                makes = False
                self.remark(
                    f"{name}={value} is not a valid code; OpenSM does not create {group} (codes are {least} to {most})"
                )
            elif value != code:
                self.remark(f"{name}={value} is not a valid code; OpenSM creates {group} with {code}")
        return makes

    def _members(self, at: int) -> int:
        """Parse the members of a partition: ports and groups; a group ends its line."""
        comma = True
        while comma:
            comma = self.text.cut(b",", at) >= 0
            name, flag, at = self.text.token(at)
            if name == "mgid":
                return self._group(at, flag or "")
            self._member(name, flag)
        return at

    def _going_on(self) -> str:
        """Return a reference to the definition if it began on an earlier line."""
        begun = self.definition.line if self.definition else self.number
        return f"; the definition of line {begun} continues here, without a ';' above" if begun < self.number else ""

    def _member(self, name: str, flag: str | None) -> None:
        if not name or "NONE".startswith(name):
            return
        keyword = next((k for k in KEYWORDS if k.startswith(name)), "")
        if not keyword:
            guid, rest = strtoul(name)
            if not guid or rest:
                raise _Drop(f"{_quoted(name)} is not a PortGUID{self._going_on() or ' and not a keyword'}")
        elif keyword != name:
            self.remark(f"member {_quoted(name)}: OpenSM uses {keyword}{self._going_on()}")
        if self.definition:
            self.peopled.add(self.definition.pkey)
        fits = flag is None or any(m.startswith(flag) for m in MEMBERSHIPS) or "limited".startswith(flag.lower())
        if not fits:
            self.remark(f"{_quoted(name)}={_quoted(flag)} is not a membership; OpenSM uses limited")

    def _group(self, at: int, text: str) -> int:
        assert self.definition is not None
        try:
            mgid = ipaddress.IPv6Address(text).packed
        except ValueError:
            mgid = b"\0"
        if mgid[0] != 0xFF:
            self.remark(f"mgid {_quoted(text)} is not a multicast GID; OpenSM logs it, creates no group and continues")
            return at
        codes = dict(self.definition.codes)
        before = len(self.read.remarks) if at > self.text.end else None  # the rest of earlier lines
        comma = True
        while comma:
            comma = self.text.cut(b",", at) >= 0
            flag, value, at = self.text.token(at)
            self._flag(self.definition, codes, flag, value, GROUP_FLAGS)
        del self.read.remarks[len(self.read.remarks) if before is None else before :]
        pkey = int.from_bytes(mgid[4:6], "big")
        if mgid[2:4] in IP_SIGNATURES:
            if pkey not in (0, self.definition.pkey) and text != "ff12:401b:ffff::ffff:ffff":
                self.remark(f"mgid {text} lacks P_Key {self.definition.pkey:#x} (or 0); OpenSM creates no group")
                return at
            differ = [name for name in CODES if codes[name] != self.definition.codes[name]]
            if differ:
                self.remark(f"mgid {text}: {' and '.join(differ)} differ from the partition's; OpenSM creates no group")
                return at
            if any((self.definition.pkey, scope) not in self.broadcast for scope in _scopes(codes)):
                self.remark(f"mgid {text}: no IPoIB group (flag ipoib) in its scope; OpenSM does not create it")
                return at
        if self._codes(codes, f"group {text}") and mgid[1] & 15 not in _scopes(codes):
            scopes = ", ".join(f"ff{mgid[1] >> 4:x}{scope:x}" for scope in _scopes(codes))
            self.remark(f"mgid {text}: OpenSM creates it in the scope of the flag scope ({scopes}…), by default 2")
        return at


def _scopes(codes: dict[str, int]) -> list[int]:
    return [scope for scope in range(16) if codes["scope"] >> scope & 1] or [LINK_LOCAL]


def _quoted(text: str | None) -> str:
    text = text or ""
    return repr(shown(text.strip(" \t\n"))[:40])
