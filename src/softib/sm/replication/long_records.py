"""Records that are too long for one MAD. They are compressed and split into pieces. The first piece
contains the length and the CRC of the whole record, so that a copy with a missing or outdated piece
is not used.

A new master can keep routes and SLs only if it knows the SLs that the previous master assigned to
paths. They are copied if there are at most :data:`MOST` pairs of switch and end port; this limit
also applies to the proof of table changes. In a larger subnet, a new master does not have them.
Partitions are copied as JSON. The location of an absent host is a single short record.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator

import numpy as np

from softib.iba.constants import LID_UCAST_MAX
from softib.sm.managers.partitions import Partition, PartitionGroup
from softib.sm.managers.ucast_cache import EndLocations
from softib.sm.tables.lft_plan import CHECKED
from softib.sm.tables.sl_history import GivenSls, SlHistory

__all__ = [
    "ABSENT",
    "LARGEST",
    "MOST",
    "SlPieces",
    "absent",
    "cut",
    "joined",
    "partition_pieces",
    "read_absent",
    "read_partitions",
    "read_sls",
    "sl_octets",
]


PIECE = 160
WHOLE_HEAD = struct.Struct(">II")
LARGEST = 1 << 26
"""Largest number of bytes before compression."""


def cut(octets: bytes) -> list[bytes]:
    """Return pieces of at most 160 bytes."""
    packed = zlib.compress(octets, 1)
    whole = WHOLE_HEAD.pack(len(packed), zlib.crc32(packed)) + packed
    return [whole[i : i + PIECE] for i in range(0, len(whole), PIECE)]


def joined(pieces: list[bytes]) -> bytes | None:
    """Return the bytes that :func:`cut` split, from all pieces in order; None if there are no
    pieces, or if one is missing or damaged."""
    whole = b"".join(pieces)
    if len(whole) < WHOLE_HEAD.size:
        return None
    length, crc = WHOLE_HEAD.unpack_from(whole)
    packed = whole[WHOLE_HEAD.size : WHOLE_HEAD.size + length]
    if len(packed) != length or zlib.crc32(packed) != crc:
        return None
    try:
        reader = zlib.decompressobj()
        octets = reader.decompress(packed, LARGEST)
    except zlib.error:
        return None
    return octets if reader.eof else None


MOST = CHECKED
SLS_HEAD = struct.Struct(">HIIB")
ABSENT = struct.Struct(">QBBHBB")
"""Record of an absent CA port: NodeGUID and port of its switch, its own portnum, its LID and LMC,
and whether it is a compute node."""
SL2VL_DIMENSIONS, MOST_LMC = 4, 7


def sl_octets(sls: SlHistory) -> bytes:
    """Return the bytes that :func:`read_sls` reads; empty if no SLs are known, or if there are too many."""
    if not sls.known or sls.sl2vl is None or max(sls.masks.size, sls.sl2vl.size) > MOST:
        return b""
    shape = sls.sl2vl.shape
    return b"".join(
        (
            SLS_HEAD.pack(sls.every, *sls.masks.shape, len(shape)),
            struct.pack(f">{len(shape)}I", *shape),
            np.ascontiguousarray(sls.sl2vl, np.uint8).tobytes(),
            sls.switches.astype(">u8").tobytes(),
            sls.ends.astype(">u8").tobytes(),
            sls.masks.astype(">u2").tobytes(),
        )
    )


def read_sls(pieces: list[bytes]) -> GivenSls | None:
    """Return the SLs of a copy; None if it has none or they are damaged."""
    octets = joined(pieces)
    if octets is None or len(octets) < SLS_HEAD.size:
        return None
    every, switches, ends, dimensions = SLS_HEAD.unpack_from(octets)
    at = SLS_HEAD.size + 4 * dimensions
    if not 1 <= dimensions <= SL2VL_DIMENSIONS or len(octets) < at:
        return None
    shape = struct.unpack_from(f">{dimensions}I", octets, SLS_HEAD.size)
    entries = int(np.prod(shape, dtype=object))
    rows = 0 if not switches * ends else switches + ends
    if shape[-1] != 16 or len(octets) != at + entries + 8 * rows + 2 * switches * ends:
        return None
    sl2vl = np.frombuffer(octets, np.uint8, entries, at).reshape(shape)
    guids = np.frombuffer(octets, ">u8", rows, at + entries).astype(np.uint64)
    masks = np.frombuffer(octets, ">u2", switches * ends, at + entries + 8 * rows).astype(np.uint16)
    return GivenSls(
        every, guids[:switches], guids[switches:], masks.reshape(switches if rows else 0, ends if rows else 0), sl2vl
    )


class SlPieces:
    """Pieces of the SLs; they are split again only after a change."""

    def __init__(self) -> None:
        self._octets, self._pieces = b"", list[bytes]()

    def of(self, sls: SlHistory) -> list[bytes]:
        """Return the records in pieces that fit into MADs; empty if there is nothing to send."""
        octets = sl_octets(sls)
        if octets != self._octets:
            self._octets, self._pieces = octets, cut(octets) if octets else []
        return self._pieces


def absent(locations: EndLocations, here: set[int]) -> Iterator[tuple[int, bytes]]:
    """Yield PortGUID and record of each stored CA port that is not in the subnet."""
    away = np.flatnonzero(~np.isin(locations.guid, np.fromiter(here, np.uint64, len(here))))
    for i in away.tolist():
        where = locations.switch_guid[i], locations.port[i], locations.portnum[i], locations.lid[i], locations.lmc[i]
        yield int(locations.guid[i]), ABSENT.pack(*map(int, where), bool(locations.compute[i]))


def read_absent(records: Iterable[tuple[int, bytes]]) -> EndLocations:
    """Return the locations in these records."""
    rows = [(guid, *ABSENT.unpack(value)) for guid, value in records if len(value) == ABSENT.size]
    rows = [r for r in rows if r[4] > 0 and r[5] <= MOST_LMC and r[4] + (1 << r[5]) - 1 <= LID_UCAST_MAX]
    guid, switch, port, portnum, lid, lmc, compute = zip(*rows, strict=True) if rows else ((),) * 7
    return EndLocations(
        np.array(guid, np.uint64),
        np.array(switch, np.uint64),
        np.array(port, np.uint8),
        np.array(portnum, np.uint8),
        np.array(lid, np.uint16),
        np.array(lmc, np.uint8),
        np.array(compute, np.bool_),
    )


def partition_pieces(partitions: Iterable[Partition]) -> list[bytes]:
    """Return the partitions in pieces of at most 160 bytes."""
    plain = [
        [
            p.name,
            p.pkey,
            p.index0,
            p.ipoib,
            p.sl,
            p.members,
            [[g.mgid.hex(), g.rate, g.mtu, g.sl, g.scope, g.qkey, g.tclass, g.flow_label] for g in p.groups],
        ]
        for p in partitions
    ]
    return cut(json.dumps(plain, separators=(",", ":")).encode())


def read_partitions(pieces: list[bytes]) -> tuple[Partition, ...] | None:
    """Return the partitions from all pieces in order; None if there are no pieces, or if one is
    missing or damaged."""
    text = joined(pieces)
    if text is None:
        return None
    try:
        plain = json.loads(text)
        return tuple(
            Partition(
                name,
                pkey,
                index0,
                ipoib,
                sl,
                [(who, bits) for who, bits in members],
                [PartitionGroup(bytes.fromhex(g[0]), *g[1:]) for g in groups],
            )
            for name, pkey, index0, ipoib, sl, members, groups in plain
        )
    except (ValueError, TypeError):
        return None
