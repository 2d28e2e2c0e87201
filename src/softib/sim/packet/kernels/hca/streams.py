# mypy: ignore-errors
"""Streams of queue pairs that have something to send take turns at their port and VL: a ring, its last one in ``State.vl``."""

import numpy as np

from softib.jit import inner


@inner
def next_stream(s, stream):
    """The stream after ``stream`` in its ring, + 1."""
    return s.rc[stream >> 1].response_next if stream & 1 else s.qp[stream >> 1].ring_next


@inner
def link_stream(s, stream, following):
    """Let ``following`` (a stream + 1) come after ``stream`` in its ring."""
    if stream & 1:
        s.rc[stream >> 1].response_next = following
    else:
        s.qp[stream >> 1].ring_next = following


@inner
def join_ring(n, s, stream):
    """The stream has something to send: it takes turns at its port. Returns the port."""
    q = stream >> 1
    if stream & 1:
        port, vl = s.qp[q].dst, s.qp[q].back_vl
        s.rc[q].response_ring = 1
    else:
        port, vl = s.qp[q].src, s.qp[q].out_vl
        s.qp[q].in_ring = 1
    row = port * n.opt.vls + vl
    last = s.vl[row].ring
    if last == 0:
        link_stream(s, stream, stream + 1)
        s.port[port].ready |= np.int64(1) << vl
    else:
        link_stream(s, stream, next_stream(s, last - 1))
        link_stream(s, last - 1, stream + 1)
    s.vl[row].ring = stream + 1
    return port


@inner
def first_stream(s, row):
    """The stream whose turn it is at port VL ``row``."""
    return next_stream(s, np.int64(s.vl[row].ring) - 1) - 1


@inner
def rotate(s, port, vl, row, stream, stays):
    """The stream had its turn; it ``stays`` as the last, or leaves the ring."""
    if stays:
        s.vl[row].ring = stream + 1
        return
    if stream & 1:
        s.rc[stream >> 1].response_ring = 0
    else:
        s.qp[stream >> 1].in_ring = 0
    last = np.int64(s.vl[row].ring) - 1
    if last == stream:
        s.vl[row].ring = 0
        if s.vl_more[row].control == 0:
            s.port[port].ready &= ~(np.int64(1) << vl)
        return
    link_stream(s, last, next_stream(s, stream))


@inner
def leave_ring(s, port, vl, row, stream):
    """Take the stream out of the ring, wherever its turn is."""
    last = s.vl[row].ring
    while first_stream(s, row) != stream:
        s.vl[row].ring = first_stream(s, row) + 1
    rotate(s, port, vl, row, stream, False)
    if s.vl[row].ring and last != stream + 1:
        s.vl[row].ring = last
