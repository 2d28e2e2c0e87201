"""The segments and acknowledgements on the wire of a message that is longer than a MAD (IBA 13.6).

Between softib's programs, a message is transferred in one piece. So a capture must split it as the
drivers of both ends would, assuming no losses: one segment, its acknowledgement with the first
window, then one window after another.
"""

from __future__ import annotations

import numpy as np

from softib.iba.constants import MAD_SIZE, RESPONSE_BIT, VENDOR2_CLASSES, MgmtClass
from softib.iba.sa import RMPP_HEADER, RmppFlag, RmppHeader, RmppType
from softib.iba.smp import CLASS_AT, METHOD_AT, MadHeader

__all__ = ["RMPP_END", "RRESP_NONE", "SA_CLASS_HEADER", "WINDOW", "class_header_of", "conversation", "is_whole"]

R = RmppHeader
RMPP_END = RMPP_HEADER + R.size
WINDOW = 64
"""Maximum number of segments that are not acknowledged yet, as in the kernel's ib_mad."""
RRESP_NONE = 31
"""RRespTime of a sender that states no response time (IBA 13.6.2.1)."""
SA_CLASS_HEADER = 20
"""Bytes of SM_Key, AttributeOffset and ComponentMask (IBA 15.2.1.1)."""
OUI_HEADER = 4
"""Header of vendor classes of range 2: a reserved byte and the OUI (IBA 16.5.1)."""
DEVICE_HEADER = 28
"""Headers of device management and classes of the same layout: 64 bytes (IBA 16.3.1)."""
_WHOLE = int(RmppFlag.ACTIVE | RmppFlag.FIRST | RmppFlag.LAST)


def class_header_of(mgmt_class: int) -> int:
    """Return the number of bytes after the RMPP header that every segment repeats."""
    if mgmt_class == MgmtClass.SUBN_ADM:
        return SA_CLASS_HEADER
    return OUI_HEADER if mgmt_class in VENDOR2_CLASSES else DEVICE_HEADER


def is_whole(mad: np.ndarray) -> np.ndarray:
    """Return bool[n]: responses (of uint8[n, 256]) that are a complete RMPP message in one
    segment."""
    rmpp = (mad[:, CLASS_AT] == MgmtClass.SUBN_ADM) | (
        (mad[:, CLASS_AT] >= VENDOR2_CLASSES.start) & (mad[:, CLASS_AT] < VENDOR2_CLASSES.stop)
    )
    data = R.type.get(mad[:, RMPP_HEADER:RMPP_END]) == RmppType.DATA
    flags = R.flags.get(mad[:, RMPP_HEADER:RMPP_END])
    return rmpp & data & (mad[:, METHOD_AT] >= RESPONSE_BIT) & (flags & _WHOLE == _WHOLE)


def conversation(message: bytes, acknowledged: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Return (uint8[n, 256], bool[n]): all MADs of a message in the order on the wire, and whether
    each is sent in the direction of the message.

    ``message`` is the head (MAD, RMPP and class header), followed by the data. With
    ``acknowledged`` False, return only the first segment, which is all that a receiver without RMPP
    gets.
    """
    head = RMPP_END + class_header_of(message[1])
    data = np.frombuffer(message[head:], np.uint8)
    room = MAD_SIZE - head
    n = max(1, -(-len(data) // room))
    mads = np.zeros((n, MAD_SIZE), np.uint8)
    mads[:, :head] = np.frombuffer(message[:head], np.uint8)
    padded = np.zeros(n * room, np.uint8)
    padded[: len(data)] = data
    mads[:, head:] = padded.reshape(n, room)
    _number(mads, len(data) - (n - 1) * room, head - RMPP_END)
    if not acknowledged:
        return mads[:1], np.ones(1, bool)
    after = np.unique(np.append(np.arange(1, n + 1, WINDOW), n))  # segments after which an acknowledgement is sent
    wire = np.concatenate([mads, _acks(mads[0], after)])
    position = np.concatenate([np.arange(1, n + 1), after + 0.5])
    order = np.argsort(position, kind="stable")
    return wire[order], order < n


def _number(mads: np.ndarray, last: int, class_header: int) -> None:
    """Write the RMPP headers of all segments. The last segment has ``last`` bytes of data."""
    n, room = len(mads), MAD_SIZE - RMPP_END - class_header
    flags, length = np.full(n, int(RmppFlag.ACTIVE)), np.zeros(n, np.int64)
    length[-1] = last + class_header
    length[0] = (n - 1) * room + last + n * class_header
    flags[0] |= int(RmppFlag.FIRST)
    flags[-1] |= int(RmppFlag.LAST)
    mads[:, RMPP_HEADER:RMPP_END] = _heads(RmppType.DATA, flags, np.arange(1, n + 1), length)


def _acks(first: np.ndarray, segments: np.ndarray) -> np.ndarray:
    """Return the acknowledgements of ``segments``: same method and TransactionID as the message
    (IBA 13.6.2.2), no data."""
    mads = np.zeros((len(segments), MAD_SIZE), np.uint8)
    mads[:, : MadHeader.size] = first[: MadHeader.size]
    mads[:, RMPP_HEADER:RMPP_END] = _heads(RmppType.ACK, int(RmppFlag.ACTIVE), segments, segments + WINDOW)
    return mads


def _heads(kind: RmppType, flags: np.ndarray | int, segment: np.ndarray, length: np.ndarray) -> np.ndarray:
    return R.pack(version=1, type=int(kind), resp_time=RRESP_NONE, flags=flags, segment=segment, length=length)
