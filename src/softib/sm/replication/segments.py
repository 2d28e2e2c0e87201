"""Octets too many for one record: compressed, in pieces that each fit; the first has length and CRC
of the whole, so that a copy in which one is missing or old is none."""

from __future__ import annotations

import struct
import zlib

__all__ = ["LARGEST", "cut", "joined"]

PIECE = 160
HEAD = struct.Struct(">II")
LARGEST = 1 << 26
"""Octets at most, before they are compressed."""


def cut(octets: bytes) -> list[bytes]:
    """Pieces of at most 160 octets."""
    packed = zlib.compress(octets, 1)
    whole = HEAD.pack(len(packed), zlib.crc32(packed)) + packed
    return [whole[i : i + PIECE] for i in range(0, len(whole), PIECE)]


def joined(found: list[bytes]) -> bytes | None:
    """What :func:`cut` cut, of all pieces in order; None where there are none, or where one is
    missing or damaged."""
    whole = b"".join(found)
    if len(whole) < HEAD.size:
        return None
    length, crc = HEAD.unpack_from(whole)
    packed = whole[HEAD.size : HEAD.size + length]
    if len(packed) != length or zlib.crc32(packed) != crc:
        return None
    try:
        reader = zlib.decompressobj()
        octets = reader.decompress(packed, LARGEST)
    except zlib.error:
        return None
    return octets if reader.eof else None
