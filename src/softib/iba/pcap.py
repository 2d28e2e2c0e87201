"""Captures that Wireshark reads: a pcap file whose records are InfiniBand packets from the LRH to the VCRC.

pcap with nanoseconds (magic 0xa1b23c4d) and link type 197 = LINKTYPE_ERF, whose records of type 21 hold InfiniBand packets
behind 16 bytes: time, type, flags, lengths (Endace's Extensible Record Format). The plain link type 247 =
LINKTYPE_INFINIBAND stands in the tcpdump project's list, but Wireshark (4.0) does not read it.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

import numpy as np

__all__ = ["ERF_SIZE", "FILE_HEADER", "RECORD_HEADER_SIZE", "pcap_records"]

MAGIC_NS, LINKTYPE_ERF = 0xA1B23C4D, 197
VERSION, SNAPLEN = (2, 4), 65535
ERF_INFINIBAND, ERF_VARYING = 21, 4
ERF_SIZE, RECORD_HEADER_SIZE = 16, 16
NS_PER_S = 10**9
FILE_HEADER = struct.pack("<IHHiIII", MAGIC_NS, *VERSION, 0, 0, SNAPLEN, LINKTYPE_ERF)
"""The first 24 bytes of a capture."""


@cache
def _record(packet_size: int) -> np.dtype:
    """A record of pcap that holds one of ERF. ``erf_time``: seconds times 2^32; ``rlen``, ``wlen``: of record and packet."""
    return np.dtype(
        [
            ("s", "<u4"), ("ns", "<u4"), ("captured", "<u4"), ("length", "<u4"),
            ("erf_time", "<u8"), ("type", "u1"), ("flags", "u1"), ("rlen", ">u2"), ("lost", ">u2"), ("wlen", ">u2"),
            ("packet", "u1", (packet_size,)),
        ]
    )  # fmt: skip


def pcap_records(packets: np.ndarray, ns: Any) -> np.ndarray:
    """Records (a structured array) of ``packets`` (uint8[n, size]) sent at ``ns``, nanoseconds since 1970: one number for
    all, or int64[n]. Write its bytes behind :data:`FILE_HEADER`."""
    n, size = packets.shape
    records = np.zeros(n, _record(size))
    seconds, rest = np.divmod(np.asarray(ns, np.uint64), np.uint64(NS_PER_S))
    records["s"], records["ns"] = seconds, rest
    records["captured"] = records["length"] = records["rlen"] = ERF_SIZE + size
    records["erf_time"] = (seconds << np.uint64(32)) | (rest << np.uint64(32)) // np.uint64(NS_PER_S)
    records["type"], records["flags"], records["wlen"] = ERF_INFINIBAND, ERF_VARYING, size
    records["packet"] = packets
    return records
