"""Streams of queue pairs that have something to send take turns at their port and VL: a ring, its
last one in ``State.vl``."""

import numpy as np

from softib.jit import inner


@inner
def next_stream(state, stream):
    """The stream after ``stream`` in its ring, + 1."""
    return state.rc[stream >> 1].response_next if stream & 1 else state.qp[stream >> 1].ring_next


@inner
def link_stream(state, stream, following):
    """Let ``following`` (a stream + 1) come after ``stream`` in its ring."""
    if stream & 1:
        state.rc[stream >> 1].response_next = following
    else:
        state.qp[stream >> 1].ring_next = following


@inner
def join_ring(net, state, stream):
    """The stream has something to send: it takes turns at its port. Returns the port."""
    q = stream >> 1
    if stream & 1:
        port, vl = state.qp[q].dst, state.qp[q].back_vl
        state.rc[q].response_ring = 1
    else:
        port, vl = state.qp[q].src, state.qp[q].out_vl
        state.qp[q].in_ring = 1
    row = port * net.opt.vls + vl
    last = state.vl[row].ring
    if last == 0:
        link_stream(state, stream, stream + 1)
        state.port[port].ready |= np.int64(1) << vl
    else:
        link_stream(state, stream, next_stream(state, last - 1))
        link_stream(state, last - 1, stream + 1)
    state.vl[row].ring = stream + 1
    return port


@inner
def first_stream(state, row):
    """The stream whose turn it is at port VL ``row``."""
    return next_stream(state, np.int64(state.vl[row].ring) - 1) - 1


@inner
def rotate(state, port, vl, row, stream, stays):
    """The stream had its turn; it ``stays`` as the last, or leaves the ring."""
    if stays:
        state.vl[row].ring = stream + 1
        return
    if stream & 1:
        state.rc[stream >> 1].response_ring = 0
    else:
        state.qp[stream >> 1].in_ring = 0
    last = np.int64(state.vl[row].ring) - 1
    if last == stream:
        state.vl[row].ring = 0
        if state.vl_more[row].control == 0:
            state.port[port].ready &= ~(np.int64(1) << vl)
        return
    link_stream(state, last, next_stream(state, stream))


@inner
def leave_ring(state, port, vl, row, stream):
    """Take the stream out of the ring, wherever its turn is."""
    last = state.vl[row].ring
    while first_stream(state, row) != stream:
        state.vl[row].ring = first_stream(state, row) + 1
    rotate(state, port, vl, row, stream, False)
    if state.vl[row].ring and last != stream + 1:
        state.vl[row].ring = last
