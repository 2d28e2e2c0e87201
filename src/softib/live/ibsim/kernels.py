"""Kernels that receive the datagrams of one client, and send the answers of the fabric's agents, in one compiled call.
A datagram has 288 bytes.

The layout is :data:`softib.live.ibsim.wire.FRAME`; only this file reads and writes it for kernels.
"""

import numpy as np

from softib.agents.kernels.big_endian import get16, get32, inner, put16, put32
from softib.iba.constants import MAD_SIZE, Method, MgmtClass
from softib.iba.notice import ClassPortInfo
from softib.iba.smp import ATTR_AT, CLASS_AT, METHOD_AT
from softib.jit import External, kernel
from softib.live.exchange_kernels import FORWARDS, LAST, RECEIVED, REPLIES, SENT, answer
from softib.live.ibsim.wire import FRAME, LOST, PROMISE_AT

FRAME_SIZE = FRAME.itemsize
DLID_AT, SLID_AT, DQP_AT, SQP_AT, STATUS_AT, LENGTH_AT, MAD_AT = (
    FRAME.fields[name][1] for name in ("dlid", "slid", "dqp", "sqp", "status", "length", "mad")
)
LENGTH_LOW_AT = LENGTH_AT + 4
PERF, GET_RESP, CLASS_PORT_INFO = int(MgmtClass.PERF), int(Method.GET_RESP), int(ClassPortInfo.attr)
PORT, NUMBER, FD = range(3)
"""The entries of ``client`` in the buffers."""

recvmmsg = External("recvmmsg", "int32", "int32", "uintp", "uint32", "int32", "uintp")
sendmmsg = External("sendmmsg", "int32", "int32", "uintp", "uint32", "int32")
recv = External("recv", "intp", "int32", "uintp", "uintp", "int32")
send = External("send", "intp", "int32", "uintp", "uintp", "int32")
MSG_TRUNC, MSG_DONTWAIT, MSG_NOSIGNAL = 0x20, 0x40, 0x4000
RECEIVED_LENGTH = 7
"""Index of the field of ``struct mmsghdr`` that contains the number of bytes received."""


@kernel(_nrt=False)
def read_frames(frames, n, q):
    """Read the first ``n`` of ``frames`` (uint8[m, 288]) as requests ``q`` (MadColumns). The
    protocol carries neither SL nor P_Key."""
    for r in range(n):
        f = frames[r]
        q.dlid[r], q.slid[r] = get16(f, DLID_AT), get16(f, SLID_AT)
        q.dqp[r], q.sqp[r] = get32(f, DQP_AT), get32(f, SQP_AT)
        q.sl[r], q.pkey_index[r] = 0, 0
        for i in range(MAD_SIZE):
            q.mad[r, i] = f[MAD_AT + i]


@inner
def write_frame(c, r, f):
    """Write row ``r`` of ``c`` (MadColumns) as datagram ``f``."""
    for i in range(MAD_AT):
        f[i] = 0
    put16(f, DLID_AT, c.dlid[r])
    put16(f, SLID_AT, c.slid[r])
    put32(f, DQP_AT, c.dqp[r])
    put32(f, SQP_AT, c.sqp[r])
    put32(f, STATUS_AT, c.status[r])
    put32(f, LENGTH_LOW_AT, MAD_SIZE)
    for i in range(MAD_SIZE):
        f[MAD_AT + i] = c.mad[r, i]
    unpromise(f)


@inner
def unpromise(f):
    """See :data:`softib.live.ibsim.wire.LOST`."""
    m = f[MAD_AT:]
    if m[CLASS_AT] == PERF and m[METHOD_AT] == GET_RESP and get16(m, ATTR_AT) == CLASS_PORT_INFO:
        put32(m, PROMISE_AT, get32(m, PROMISE_AT) & ~LOST)


@inner
def receive(f, wait):
    """Fill ``f.frames`` with the datagrams that have arrived; return the number of datagrams with the right size, -1 if
    none arrived.

    With ``wait``, the call waits for one datagram, at most until the socket's timeout, and receives only that one. Its
    answer is sent before the next datagram is read, so that the program can continue.
    """
    if wait:
        got = recv(f.client[FD], f.in_vectors[0, 0], FRAME_SIZE, MSG_TRUNC)
        return -1 if got < 0 else np.int64(got == FRAME_SIZE)
    got = recvmmsg(f.client[FD], f.heads_at[0], f.frames.shape[0], MSG_DONTWAIT | MSG_TRUNC, 0)
    if got <= 0:
        return -1
    n = 0
    for r in range(got):
        if f.in_heads[r, RECEIVED_LENGTH] & 0xFFFFFFFF == FRAME_SIZE:
            if n < r:
                for i in range(FRAME_SIZE):
                    f.frames[n, i] = f.frames[r, i]
            n += 1
    return n


@inner
def reply(q, a, x, f):
    """Send the replies of a batch; return the number that fit into the client's queue, and write it to
    ``counts[SENT]``."""
    n = x.counts[REPLIES]
    for k in range(n):
        if x.reply_answer[k] < 0:
            write_frame(q, x.reply_row[k], f.replies[k])
        else:
            write_frame(a, x.reply_answer[k], f.replies[k])
    if n == 1:
        size = send(f.client[FD], f.out_vectors[0, 0], FRAME_SIZE, MSG_DONTWAIT | MSG_NOSIGNAL)
        sent = np.int64(size == FRAME_SIZE)
    else:
        sent = max(np.int64(sendmmsg(f.client[FD], f.heads_at[1], n, MSG_DONTWAIT | MSG_NOSIGNAL)), 0)
    x.counts[SENT] = sent
    return sent


@kernel(_nrt=False)
def pump(t, v, q, a, x, f, classes, now, wait, rounds):
    """Serve the client ``f.client`` without returning to Python between its requests: receive, answer, send.

    A batch takes two system calls. The function returns if no datagram arrived, after ``rounds`` batches, or if the
    last batch needs Python: a MAD to forward, a trap that was raised, or replies that did not fit into the client's
    queue (``counts[SENT]`` of ``counts[REPLIES]`` are sent). ``q``, ``a``, ``x``, ``classes``: see
    :func:`softib.live.exchange_kernels.answer`.
    """
    counts = x.counts
    for _ in range(rounds):
        counts[REPLIES], counts[FORWARDS], counts[SENT], counts[LAST] = 0, 0, 0, 0
        n = receive(f, wait)
        if n < 0:
            return
        if n == 0:
            continue
        counts[RECEIVED] += n
        counts[LAST] = n
        read_frames(f.frames, n, q)
        answer(t, v, q, a, x, f.client[PORT], f.client[NUMBER], now, n, classes)
        if counts[REPLIES]:
            if reply(q, a, x, f) < counts[REPLIES]:
                return
        if counts[FORWARDS] or t.notice_count[0]:
            return
