# mypy: ignore-errors
"""Streams of queue pairs that have something to send take turns at their port and VL: a ring, its last one in ``State.vl``."""

import numpy as np

from softib.jit import inner
from softib.sim.packet.tables import (
    BACK_VL,
    CONTROL,
    DST,
    IN_RING,
    OPT_VLS,
    OUT_VL,
    READY,
    RESPONSE_NEXT,
    RESPONSE_RING,
    RING,
    RING_NEXT,
    SRC,
)  # fmt: skip


@inner
def join_ring(n, s, stream):
    """The stream has something to send: it takes turns at its port. Returns the port."""
    q = stream >> 1
    if stream & 1:
        port, vl, mark, link = s.qp[q, DST], s.qp[q, BACK_VL], RESPONSE_RING, RESPONSE_NEXT
    else:
        port, vl, mark, link = s.qp[q, SRC], s.qp[q, OUT_VL], IN_RING, RING_NEXT
    s.qp[q, mark] = 1
    row = port * n.opt[OPT_VLS] + vl
    last = s.vl[row, RING]
    if last == 0:
        s.qp[q, link] = stream + 1
        s.ready[port, READY] |= np.int64(1) << vl
    else:
        s.qp[q, link] = s.qp[(last - 1) >> 1, RESPONSE_NEXT if (last - 1) & 1 else RING_NEXT]
        s.qp[(last - 1) >> 1, RESPONSE_NEXT if (last - 1) & 1 else RING_NEXT] = stream + 1
    s.vl[row, RING] = stream + 1
    return port


@inner
def first_stream(s, row):
    """The stream whose turn it is at port VL ``row``."""
    last = s.vl[row, RING] - 1
    return s.qp[last >> 1, RESPONSE_NEXT if last & 1 else RING_NEXT] - 1


@inner
def rotate(s, port, vl, row, stream, stays):
    """The stream had its turn; it ``stays`` as the last, or leaves the ring."""
    q = stream >> 1
    if stays:
        s.vl[row, RING] = stream + 1
        return
    s.qp[q, RESPONSE_RING if stream & 1 else IN_RING] = 0
    last = s.vl[row, RING] - 1
    if last == stream:
        s.vl[row, RING] = 0
        if s.more[row, CONTROL] == 0:
            s.ready[port, READY] &= ~(np.int64(1) << vl)
        return
    following = s.qp[q, RESPONSE_NEXT if stream & 1 else RING_NEXT]
    s.qp[last >> 1, RESPONSE_NEXT if last & 1 else RING_NEXT] = following


@inner
def leave_ring(s, port, vl, row, stream):
    """Take the stream out of the ring, wherever its turn is."""
    last = s.vl[row, RING]
    while first_stream(s, row) != stream:
        s.vl[row, RING] = first_stream(s, row) + 1
    rotate(s, port, vl, row, stream, False)
    if s.vl[row, RING] and last != stream + 1:
        s.vl[row, RING] = last
