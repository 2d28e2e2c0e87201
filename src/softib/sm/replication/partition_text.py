"""Partitions as text that fits into records: JSON, compressed, in pieces; the first has length and CRC of the whole."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable

from softib.sm.partitions import Partition, PartitionGroup

__all__ = ["pieces", "read"]

PIECE = 160
HEAD = struct.Struct(">II")
LARGEST = 1 << 26
"""Octets of text at most."""


def pieces(partitions: Iterable[Partition]) -> list[bytes]:
    """At most 160 octets each."""
    plain = [
        [p.name, p.pkey, p.index0, p.ipoib, p.sl, p.members,
         [[g.mgid.hex(), g.rate, g.mtu, g.sl, g.scope, g.qkey, g.tclass, g.flow_label] for g in p.groups]]
        for p in partitions
    ]  # fmt: skip
    text = zlib.compress(json.dumps(plain, separators=(",", ":")).encode())
    whole = HEAD.pack(len(text), zlib.crc32(text)) + text
    return [whole[i : i + PIECE] for i in range(0, len(whole), PIECE)]


def read(found: list[bytes]) -> tuple[Partition, ...] | None:
    """Partitions of all pieces in order; None where there are none, or where one is missing or damaged."""
    whole = b"".join(found)
    if len(whole) < HEAD.size:
        return None
    length, crc = HEAD.unpack_from(whole)
    text = whole[HEAD.size : HEAD.size + length]
    if len(text) != length or zlib.crc32(text) != crc:
        return None
    try:
        plain = json.loads(zlib.decompressobj().decompress(text, LARGEST))
        return tuple(
            Partition(name, pkey, index0, ipoib, sl, [(who, bits) for who, bits in members],
                      [PartitionGroup(bytes.fromhex(g[0]), *g[1:]) for g in groups])
            for name, pkey, index0, ipoib, sl, members, groups in plain
        )  # fmt: skip
    except (ValueError, TypeError, zlib.error):
        return None
