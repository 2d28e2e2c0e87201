"""The datagrams between ibsim's server and its preload library, declared once (linux-rdma/ibsim,
include/ibsim.h), and the buffers from and to which they are received and sent.

Two channels, both of datagrams: *control* (80 bytes, native byte order, each request followed by its answer) and
*data* (288 bytes, big endian, one MAD each). This module speaks the protocol of Debian 12's
``libumad2sim.so`` (ibsim-utils 0.10).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from softib.iba.constants import MAD_SIZE, Method, MgmtClass
from softib.iba.notice import ClassPortInfo
from softib.iba.perf import CapMask2
from softib.iba.smp import CLASS_AT, DATA_AT, METHOD_AT, MadHeader
from softib.jit import table
from softib.live.exchange_kernels import BATCH
from softib.mad.batch import MadBatch

__all__ = [
    "CONTROL_SIZE",
    "FRAME",
    "FRAME_SIZE",
    "MAGIC",
    "NODE_ID_SIZE",
    "ClientInfo",
    "Control",
    "ControlType",
    "IbsimBuffers",
    "buffers_of",
    "frames_of",
]

MAGIC = 0xDEADBEEF
BODY_SIZE = 64
NODE_ID_SIZE = 32
_HEAD = struct.Struct("=4I")
_INFO = struct.Struct(f"=3I{NODE_ID_SIZE}s")
CONTROL_SIZE = _HEAD.size + BODY_SIZE

FRAME = np.dtype(
    [
        ("dlid", ">u2"),
        ("pad0", ">u2"),
        ("slid", ">u2"),
        ("pad1", ">u2"),
        ("dqp", ">u4"),
        ("sqp", ">u4"),
        ("status", ">u4"),
        ("pad2", ">u4"),
        ("length", ">u8"),
        ("mad", np.uint8, (MAD_SIZE,)),
    ]
)
"""A data datagram. ibsim declares the LIDs as 32-bit fields; the LID is in the first two bytes.
"""
FRAME_SIZE = FRAME.itemsize


class ControlType(IntEnum):
    """Types of control messages. ERROR occurs only in answers."""

    ERROR = 0
    CONNECT = 1
    DISCONNECT = 2
    GET_PORT = 3
    GET_VENDOR = 4
    GET_GID = 5
    GET_GUID = 6
    GET_NODEINFO = 7
    GET_PORTINFO = 8
    SET_ISSM = 9
    GET_PKEYS = 10


@dataclass(frozen=True)
class Control:
    """One control message. ``length`` is the number of bytes of ``body`` that are used."""

    client: int
    type: int
    length: int
    body: bytes

    @classmethod
    def parse(cls, message: bytes) -> Control | None:
        """Return the message; None if ``message`` is not a control message (wrong size or magic)."""
        if len(message) != CONTROL_SIZE:
            return None
        magic, client, kind, length = _HEAD.unpack_from(message)
        return cls(client, kind, length, message[_HEAD.size :]) if magic == MAGIC else None

    def answer(self, body: bytes) -> bytes:
        """Return the answer to this message, with another body."""
        return _HEAD.pack(MAGIC, self.client, self.type, self.length) + body.ljust(BODY_SIZE, b"\0")[:BODY_SIZE]

    def refuse(self) -> bytes:
        """Return the answer that refuses this message: type 0."""
        return _HEAD.pack(MAGIC, self.client, ControlType.ERROR, self.length) + self.body


@dataclass(frozen=True)
class ClientInfo:
    """The body of CONNECT. In the request, ``id`` is the client's pid (UDP: its data port); in the answer, it is the
    client's number."""

    id: int
    qp: int
    issm: int
    node: bytes

    @classmethod
    def parse(cls, body: bytes) -> ClientInfo:
        """Parse the 44 bytes; the node's name ends at its first NUL."""
        number, qp, issm, node = _INFO.unpack_from(body)
        return cls(number, qp, issm, node.split(b"\0")[0])

    def pack(self) -> bytes:
        """Return the 44 bytes. A node name that is too long is truncated, as the client would do."""
        return _INFO.pack(self.id, self.qp, self.issm, self.node[: NODE_ID_SIZE - 1])


PROMISE_AT = DATA_AT + ClassPortInfo.cap_mask2.byte
LOST = int(CapMask2.ADDITIONAL_EXTENDED_COUNTERS) << 5
"""The bit of ClassPortInfo that announces the 64-bit error counters of PortCountersExtended. The stock library loses
the last 32 bytes of every MAD, and with them some of these counters. So this bit is cleared in the PerfMgt
ClassPortInfo that its clients receive. It is in the word at ``PROMISE_AT``, where CapabilityMask2 is above the 5 bits
of RespTimeValue."""


def frames_of(batch: MadBatch) -> np.ndarray:
    """Return uint8[n, 288]: the datagrams (:data:`FRAME`) that deliver ``batch``; they do not
    contain SL and P_Key index."""
    frames = np.zeros(len(batch), FRAME)
    for name in ("dlid", "slid", "dqp", "sqp", "status", "mad"):
        frames[name] = getattr(batch, name)
    frames["length"] = MAD_SIZE
    mad = frames["mad"]
    states = (mad[:, CLASS_AT] == MgmtClass.PERF) & (mad[:, METHOD_AT] == Method.GET_RESP)
    states &= MadHeader.attr_id.get(mad) == ClassPortInfo.attr
    if states.any():
        mad[states, PROMISE_AT + 3] &= ~np.uint8(LOST)
    return frames.view(np.uint8).reshape(len(frames), FRAME_SIZE)


HEADER_FIELDS, VECTOR_FIELDS = 8, 2
"""Number of 8-byte words in ``struct mmsghdr`` and in ``struct iovec`` of 64-bit Linux (recvmmsg(2))."""

IbsimBuffers: Any = table(
    "IbsimBuffers",
    ["frames", "replies", "client", "in_heads", "in_vectors", "out_heads", "out_vectors", "heads_at"],
)
"""``frames`` uint8[n, 288] the received datagrams, ``replies`` uint8[n, 288] the answers, ``client``
int64[3] port, number and descriptor of the client that is served
(:mod:`softib.live.ibsim.kernels`). For the system calls that take many datagrams: ``…heads``
uint64[n, 8] are ``struct mmsghdr``, ``…vectors`` uint64[n, 2] their ``struct iovec``, ``heads_at``
uint64[2] the addresses of both arrays of heads."""


def buffers_of(n: int = BATCH) -> Any:
    """Return :data:`IbsimBuffers` of ``n`` rows; the message headers point into the frames and
    replies."""
    frames, replies = np.zeros((2, n, FRAME_SIZE), np.uint8)
    in_heads, in_vectors = _headers(frames)
    out_heads, out_vectors = _headers(replies)
    return IbsimBuffers(
        frames=frames,
        replies=replies,
        client=np.zeros(3, np.int64),
        in_heads=in_heads,
        in_vectors=in_vectors,
        out_heads=out_heads,
        out_vectors=out_vectors,
        heads_at=np.array([in_heads.ctypes.data, out_heads.ctypes.data], np.uint64),
    )


def _headers(frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return message headers, one for each row of ``frames``. The numbers of an
    mmsghdr are: name, length of the name, iov, iovlen, control, its length, flags, and the number
    of bytes received."""
    n = len(frames)
    heads, vectors = np.zeros((n, HEADER_FIELDS), np.uint64), np.zeros((n, VECTOR_FIELDS), np.uint64)
    row = np.arange(n, dtype=np.uint64)
    vectors[:, 0] = np.uint64(frames.ctypes.data) + row * np.uint64(FRAME_SIZE)
    vectors[:, 1] = FRAME_SIZE
    heads[:, 2] = np.uint64(vectors.ctypes.data) + row * np.uint64(8 * VECTOR_FIELDS)
    heads[:, 3] = 1
    return heads, vectors
