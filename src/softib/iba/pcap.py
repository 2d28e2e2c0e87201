"""Captures for Wireshark, whose records are InfiniBand packets from the LRH to the VCRC. All
captures of softib are written by this module.

There are two file formats: *pcap* with nanoseconds (magic 0xa1b23c4d), for one stream of packets,
and *pcapng*, which states the port and the direction of each packet (draft-ietf-opsawg-pcapng). The
link type of both is 197 = LINKTYPE_ERF (Endace's Extensible Record Format). A record has 16 bytes
of time, type, flags and lengths. In a record of type 21, an InfiniBand packet follows; in a record
of type 2, two further bytes and an Ethernet frame follow. The tcpdump project also lists link type
247 = LINKTYPE_INFINIBAND, but Wireshark (4.0) does not read it.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from softib.errors import InputError, os_reason

__all__ = [
    "ERF_SIZE",
    "FILE_HEADER",
    "INBOUND",
    "OUTBOUND",
    "RECORD_HEADER_SIZE",
    "PcapFile",
    "pcap_records",
    "pcapng_head",
    "pcapng_records",
]

MAGIC_NS, LINKTYPE_ERF = 0xA1B23C4D, 197
VERSION, SNAPLEN = (2, 4), 65535
ERF_INFINIBAND, ERF_ETHERNET, ERF_VARYING = 21, 2, 4
ETHERNET_PAD = 2
"""Number of bytes in front of an Ethernet frame in its record: the offset of the capture, and
padding."""
ERF_SIZE, RECORD_HEADER_SIZE = 16, 16
INCLUDED_AT = 8
"""Offset of a record's length, which does not count the record's header."""
BUFFER = 1 << 20
"""Bytes that a capture collects before it writes them without a call of :meth:`PcapFile.flush`."""
NS_PER_S = 10**9
FILE_HEADER = struct.pack("<IHHiIII", MAGIC_NS, *VERSION, 0, 0, SNAPLEN, LINKTYPE_ERF)
"""The first 24 bytes of a pcap file."""
SECTION, INTERFACE, ENHANCED_PACKET = 0x0A0D0D0A, 1, 6
"""Types of blocks in pcapng."""
BYTE_ORDER_MAGIC = 0x1A2B3C4D
IF_NAME, IF_TSRESOL, EPB_FLAGS, END_OF_OPTIONS = 2, 9, 2, 0
"""Codes of options in pcapng's blocks."""
INBOUND, OUTBOUND = 1, 2
"""Direction of a packet, as seen from its port (epb_flags)."""

_ERF = [("erf_time", "<u8"), ("type", "u1"), ("flags", "u1"), ("rlen", ">u2"), ("lost", ">u2"), ("wlen", ">u2")]
"""Fields of an ERF record. ``erf_time``: seconds times 2^32. ``rlen`` and ``wlen``: lengths of the
record and of the packet."""


@cache
def _record(packet_size: int) -> np.dtype:
    """Return the dtype of a pcap record that holds one ERF record."""
    head = [("s", "<u4"), ("ns", "<u4"), ("captured", "<u4"), ("length", "<u4")]
    return np.dtype([*head, *_ERF, ("packet", "u1", (packet_size,))])


@cache
def _block(packet_size: int) -> np.dtype:
    """Return the dtype of a pcapng Enhanced Packet Block that holds one ERF record, with the
    packet's direction as an option."""
    head = [
        ("block", "<u4"),
        ("size", "<u4"),
        ("interface", "<u4"),
        ("high", "<u4"),
        ("low", "<u4"),
        ("captured", "<u4"),
        ("length", "<u4"),
    ]
    tail = [
        ("pad", "u1", (-packet_size % 4,)),
        ("option", "<u2"),
        ("option_size", "<u2"),
        ("direction", "<u4"),
        ("end", "<u4"),
        ("size_again", "<u4"),
    ]
    return np.dtype([*head, *_ERF, ("packet", "u1", (packet_size,)), *tail])


def _fill_erf(records: np.ndarray, packets: np.ndarray, ns: np.ndarray) -> None:
    seconds, rest = np.divmod(ns, np.uint64(NS_PER_S))
    size = packets.shape[1]
    records["captured"] = records["length"] = records["rlen"] = ERF_SIZE + size
    records["erf_time"] = (seconds << np.uint64(32)) | (rest << np.uint64(32)) // np.uint64(NS_PER_S)
    records["type"], records["flags"], records["wlen"] = ERF_INFINIBAND, ERF_VARYING, size
    records["packet"] = packets


def pcap_records(packets: np.ndarray, ns: Any, ethernet: bool = False) -> np.ndarray:
    """Return pcap records (a structured array) of ``packets`` (uint8[n, size]). ``ns`` is the time
    at which they were sent, in nanoseconds since 1970: one number for all, or int64[n]. In the
    file, these bytes follow :data:`FILE_HEADER`. ``ethernet``: the packets are Ethernet frames, not
    InfiniBand packets."""
    if ethernet:
        packets = np.pad(packets, ((0, 0), (ETHERNET_PAD, 0)))
    n, size = packets.shape
    records = np.zeros(n, _record(size))
    records["s"], records["ns"] = np.divmod(np.asarray(ns, np.uint64), np.uint64(NS_PER_S))
    _fill_erf(records, packets, np.asarray(ns, np.uint64))
    if ethernet:
        records["type"], records["wlen"] = ERF_ETHERNET, size - ETHERNET_PAD
    return records


def pcapng_blocks(packets: np.ndarray, ns: Any, interface: Any, direction: Any) -> np.ndarray:
    """Return Enhanced Packet Blocks of ``packets`` (uint8[n, size]) sent at ``ns``. ``interface``
    and ``direction`` (:data:`INBOUND`, :data:`OUTBOUND`) are numbers or columns."""
    n, size = packets.shape
    blocks = np.zeros(n, _block(size))
    at = np.asarray(ns, np.uint64)
    blocks["block"], blocks["interface"] = ENHANCED_PACKET, interface
    blocks["size"] = blocks["size_again"] = blocks.dtype.itemsize
    blocks["high"], blocks["low"] = at >> np.uint64(32), at & np.uint64(0xFFFFFFFF)
    blocks["option"], blocks["option_size"], blocks["direction"] = EPB_FLAGS, 4, direction
    _fill_erf(blocks, packets, at)
    return blocks


def pcapng_head(interfaces: Sequence[str]) -> bytes:
    """Return a section header, and one interface description per name. The link type is ERF, with
    times in nanoseconds."""
    section = struct.pack("<IHHq", BYTE_ORDER_MAGIC, 1, 0, -1)
    parts = [_wrapped(SECTION, section)]
    for name in interfaces:
        options = _option(IF_NAME, name.encode()) + _option(IF_TSRESOL, bytes([9])) + _option(END_OF_OPTIONS, b"")
        parts.append(_wrapped(INTERFACE, struct.pack("<HHI", LINKTYPE_ERF, 0, SNAPLEN) + options))
    return b"".join(parts)


def pcapng_records(
    groups: Sequence[tuple[np.ndarray, np.ndarray]],
    ns: np.ndarray,
    interface: np.ndarray,
    direction: np.ndarray,
) -> bytes:
    """Return the blocks of packets of several sizes, in the order of the columns ``ns``, ``interface``
    and ``direction``. Each group is (rows of the columns, their packets as uint8[rows, size]). All
    groups together contain each row exactly once. In the file, these bytes follow
    :func:`pcapng_head`."""
    size = np.zeros(len(ns), np.int64)
    for rows, packets in groups:
        size[rows] = _block(packets.shape[1]).itemsize
    begin = np.cumsum(size) - size
    out = np.zeros(int(size.sum()), np.uint8)
    for rows, packets in groups:
        blocks = pcapng_blocks(packets, ns[rows], interface[rows], direction[rows])
        octets = blocks.view(np.uint8).reshape(len(rows), -1)
        out[begin[rows][:, None] + np.arange(octets.shape[1])] = octets
    return out.tobytes()


def _wrapped(kind: int, body: bytes) -> bytes:
    size = 12 + len(body)
    return struct.pack("<II", kind, size) + body + struct.pack("<I", size)


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


class PcapFile:
    """A pcap capture that readers may follow while it is written. Each call writes packets of one
    size. It raises :class:`InputError` with a one-line message if the file cannot be written; the
    file then ends with the last complete packet. After :meth:`close` or :meth:`abandon`, calls have
    no effect."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        self._waiting, self._waiting_size = [FILE_HEADER], 0
        try:
            self._file: Any = open(self.path, "wb", buffering=0)  # noqa: SIM115 – open as long as this object
        except OSError as error:
            raise self._wrong(error) from None
        self._drain()

    @property
    def is_open(self) -> bool:
        """Return whether the capture still accepts packets."""
        return self._file is not None

    def write(self, packets: np.ndarray, ns: Any, ethernet: bool = False) -> None:
        """Write ``packets`` (uint8[n, size]) that were sent at ``ns`` (see
        :func:`pcap_records`)."""
        self.put(pcap_records(packets, ns, ethernet).tobytes())

    def put(self, octets: bytes) -> None:
        """Write records that are already encoded."""
        if self._file is None:
            return
        self._waiting.append(octets)
        self._waiting_size += len(octets)
        if self._waiting_size >= BUFFER:
            self.flush()

    def flush(self) -> None:
        """Make the written packets visible to readers. This is cheap enough to call often."""
        if self._file is not None and self._waiting:
            self._drain()

    def close(self) -> None:
        """Complete the file and close it."""
        self.flush()
        self.abandon()

    def abandon(self) -> None:
        """Stop writing. Errors of the file are ignored."""
        file, self._file = self._file, None
        with contextlib.suppress(OSError):
            if file is not None:
                file.close()

    def _drain(self) -> None:
        """Write the waiting bytes. If a regular file takes only some of them, cut it after the last
        complete record."""
        octets, written = b"".join(self._waiting), 0
        self._waiting, self._waiting_size = [], 0
        try:
            while written < len(octets):
                written += self._file.write(memoryview(octets)[written:])
        except OSError as error:
            with contextlib.suppress(OSError):  # a pipe has no position
                self._file.truncate(self._file.tell() - written + _complete(octets, written))
            raise self._wrong(error) from None

    def _wrong(self, error: OSError) -> InputError:
        return InputError(f"{self.path}: {os_reason(error)}")


def _complete(octets: bytes, written: int) -> int:
    """Return the size of the complete records within the first ``written`` bytes of pcap records; 0 for
    a part of a file's header."""
    end = 0
    while end + RECORD_HEADER_SIZE <= written:
        size = RECORD_HEADER_SIZE + int.from_bytes(octets[end + INCLUDED_AT :][:4], "little")
        if end + size > written:
            break
        end += size
    return end
