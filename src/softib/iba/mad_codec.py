"""Encode and decode single communication management MADs and SA MADs, from their declarations in
``iba``.

One Python integer holds the whole structure. A connection needs five of these MADs. With NumPy,
each field would take ten times as long.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from softib.iba.cm import CLASS_VERSION, MESSAGES
from softib.iba.constants import MAD_SIZE, Method
from softib.iba.structure import Structure

__all__ = ["CM_CLASS", "CmMessage", "Head", "cm_mad", "codec", "head_of", "parse_cm"]

CM_CLASS = 0x07
"""MgmtClass of communication management (IBA 13.4.4)."""
_HEAD = struct.Struct(">BBBBHHQHHI")
HEAD_SIZE = 24
_NAMES = ("base", "klass", "version", "method", "status", "specific", "tid", "attr", "_reserved", "modifier")


class Codec:
    """Converts between the bytes and the fields of one structure. Byte arrays are of type
    ``bytes``."""

    def __init__(self, structure: type[Structure]):
        self.size = structure.size
        bits = self.size * 8
        self._fields = {}
        for f in structure.named():
            octets = f.width // 8 if f.count > 1 or f.is_text else 0
            self._fields[f.name] = (bits - f.offset - f.width, (1 << f.width) - 1, octets)

    def pack(self, **values: Any) -> bytes:
        """Return the bytes of the structure. If a value is wider than its field, its high bits are
        lost; byte arrays are padded with zeros."""
        whole = 0
        for name, value in values.items():
            shift, mask, octets = self._fields[name]
            if octets:
                value = int.from_bytes(value[:octets].ljust(octets, b"\0"), "big")
            whole |= (value & mask) << shift
        return whole.to_bytes(self.size, "big")

    def unpack(self, octets: bytes) -> dict[str, Any]:
        """Return all named fields of a structure at the beginning of ``octets``."""
        whole = int.from_bytes(octets[: self.size], "big")
        fields: dict[str, Any] = {}
        for name, (shift, mask, size) in self._fields.items():
            value = (whole >> shift) & mask
            fields[name] = value.to_bytes(size, "big") if size else value
        return fields


_codecs: dict[type[Structure], Codec] = {}


def codec(structure: type[Structure]) -> Codec:
    """Return the codec of ``structure``, which is created when it is first needed."""
    cached = _codecs.get(structure)
    if cached is None:
        cached = _codecs[structure] = Codec(structure)
    return cached


class Head:
    """The fields of a MADHeader (IBA 13.4.3)."""

    __slots__ = _NAMES

    def __init__(self, mad: bytes):
        (
            self.base,
            self.klass,
            self.version,
            self.method,
            self.status,
            self.specific,
            self.tid,
            self.attr,
            self._reserved,
            self.modifier,
        ) = _HEAD.unpack_from(mad)


def head_of(klass: int, version: int, method: int, tid: int, attr: int, modifier: int = 0) -> bytes:
    """Return the 24 bytes of a MADHeader."""
    return _HEAD.pack(1, klass, version, method, 0, 0, tid, attr, 0, modifier)


def cm_mad(attr: int, tid: int, modifier: int = 0, **fields: Any) -> bytes:
    """Return a complete communication management MAD. ``attr`` is a
    :class:`~softib.iba.cm.CmAttr`."""
    body = codec(MESSAGES[attr]).pack(**fields)
    return (head_of(CM_CLASS, CLASS_VERSION, Method.SEND, tid, attr, modifier) + body).ljust(MAD_SIZE, b"\0")


class CmMessage(NamedTuple):
    """A message of communication management."""

    head: Head
    fields: dict[str, Any]


def parse_cm(mad: bytes) -> CmMessage | None:
    """Return the header and the fields of ``mad``, or None if it is not a known message of this
    class."""
    head = Head(mad)
    if head.klass != CM_CLASS or head.version != CLASS_VERSION or head.attr not in MESSAGES:
        return None
    return CmMessage(head, codec(MESSAGES[head.attr]).unpack(mad[HEAD_SIZE:]))
