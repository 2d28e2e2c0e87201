"""The datagrams between ibsim's server and its preload library, declared once (linux-rdma/ibsim,
include/ibsim.h).

Two channels, both of datagrams: *control* (80 octets, native byte order, strictly question and
answer) and *data* (288 octets, big endian, one MAD each). What this speaks is what Debian 12's
``libumad2sim.so`` (ibsim-utils 0.10) speaks.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from softib.iba.constants import MAD_SIZE, Method, MgmtClass
from softib.iba.notice import ClassPortInfo
from softib.iba.perf import CapMask2
from softib.iba.smp import CLASS_AT, DATA_AT, METHOD_AT, MadHeader
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
"""A data datagram. The LIDs are declared as 32 bits and hold the 16 bits in their first two octets.
"""
FRAME_SIZE = FRAME.itemsize


class ControlType(IntEnum):
    """What a control message asks; ERROR only in answers."""

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
    """One control message. ``length`` is how many octets of ``body`` mean something."""

    client: int
    type: int
    length: int
    body: bytes

    @classmethod
    def parse(cls, message: bytes) -> Control | None:
        """The message, or None where it is none (wrong size, wrong magic)."""
        if len(message) != CONTROL_SIZE:
            return None
        magic, client, kind, length = _HEAD.unpack_from(message)
        return cls(client, kind, length, message[_HEAD.size :]) if magic == MAGIC else None

    def answer(self, body: bytes) -> bytes:
        """This message echoed with another body."""
        return _HEAD.pack(MAGIC, self.client, self.type, self.length) + body.ljust(BODY_SIZE, b"\0")[:BODY_SIZE]

    def refuse(self) -> bytes:
        """The answer that says no: type 0."""
        return _HEAD.pack(MAGIC, self.client, ControlType.ERROR, self.length) + self.body


@dataclass(frozen=True)
class ClientInfo:
    """The body of CONNECT: ``id`` is the pid (UDP: the client's data port), in the answer the
    client's number."""

    id: int
    qp: int
    issm: int
    node: bytes

    @classmethod
    def parse(cls, body: bytes) -> ClientInfo:
        """From the 44 octets; the node's name ends at its first NUL."""
        number, qp, issm, node = _INFO.unpack_from(body)
        return cls(number, qp, issm, node.split(b"\0")[0])

    def pack(self) -> bytes:
        """The 44 octets; a longer name is cut, as the client would cut it."""
        return _INFO.pack(self.id, self.qp, self.issm, self.node[: NODE_ID_SIZE - 1])


PROMISE_AT = DATA_AT + ClassPortInfo.cap_mask2.byte
LOST = int(CapMask2.ADDITIONAL_EXTENDED_COUNTERS) << 5
"""The stock library loses the last 32 octets of every MAD, where the 64-bit error counters of
PortCountersExtended end. So its clients are not told of them: this bit of the word at
``PROMISE_AT`` of PerfMgt ClassPortInfo (CapabilityMask2 stands above RespTimeValue, 5 bits) is
taken out of what they receive."""


def frames_of(batch: MadBatch) -> np.ndarray:
    """uint8[n, 288]: the datagrams (:data:`FRAME`) that deliver ``batch``; SL and P_Key index are
    not in them."""
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
