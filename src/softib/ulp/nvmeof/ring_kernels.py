"""Posting and polling through the device's table of calls (:mod:`softib.ulp.nvmeof.rdma_core` binds their
symbols), and the libc calls of the queues."""

from softib.jit import External, inner
from softib.ulp.nvmeof.work_requests import BAD, BATCH, CQ, FAILURE, PAIR, RECV_WR, SEND_WR, SQ_ROOM, WC

poll_cq = External("softib_nvmeof_poll_cq", "int32", "uintp", "int32", "uintp")
post_send = External("softib_nvmeof_post_send", "int32", "uintp", "uintp", "uintp")
post_recv = External("softib_nvmeof_post_recv", "int32", "uintp", "uintp", "uintp")
sched_yield = External("sched_yield", "int32")
memcpy = External("memcpy", "uintp", "uintp", "uintp", "uintp")

WRITE, SEND, READ, SEND_WITH_INVALIDATE = 0, 2, 4, 9
"""``ibv_wr_opcode``."""
SIGNALED, INLINE = 2, 8
"""``ibv_send_flags``."""


@inner
def set_segment(r, i, address, length, lkey):
    """Fill segment ``i``. (Each work request has two segments.)"""
    r.sge64[i, 0] = address
    r.sge32[i, 2] = length
    r.sge32[i, 3] = lkey


@inner
def set_request(r, i, opcode, flags, segments, wr_id):
    """Fill work request ``i``, with no next work request."""
    r.send64[i, 0] = wr_id
    r.send64[i, 1] = 0
    r.send32[i, 6] = segments
    r.send32[i, 7] = opcode
    r.send32[i, 8] = flags


@inner
def post(r, first, count):
    """Post the chain of ``count`` work requests that starts with ``first``. Returns True if the queue pair accepted
    them."""
    if post_send(r.n[PAIR], r.n[SEND_WR] + 128 * first, r.n[BAD]):
        return False
    r.n[SQ_ROOM] -= count
    return True


@inner
def post_receive(r, wr_id, address, length, lkey):
    """Post a receive. Returns True if the queue pair accepted it."""
    r.recv64[0, 0] = wr_id
    r.rsge64[0, 0] = address
    r.rsge32[0, 2] = length
    r.rsge32[0, 3] = lkey
    return post_recv(r.n[PAIR], r.n[RECV_WR], r.n[BAD]) == 0


@inner
def poll(r):
    """Poll completions, up to a batch; return their number, -1 if the queue cannot be polled."""
    return poll_cq(r.n[CQ], BATCH, r.n[WC])


@inner
def failed(r, k):
    """Return whether completion ``k`` is an error, and store its status."""
    status = r.wc32[k, 2]
    if status:
        r.n[FAILURE] = status
    return status != 0
