# mypy: ignore-errors
"""Datagrams of one client, answered by the fabric's agents, in one call: 288 octets in, 288 octets out.

The layout is :data:`softib.live.ibsim.wire.FRAME`: DLID at 0, SLID at 4, QPs at 8 and 12, status at 16, length at 24, MAD at 32.
"""

import numpy as np

from softib.agents.kernels.app_traffic import HIGH, fold_cells
from softib.agents.kernels.serve import serve_addressed
from softib.iba import constants as c
from softib.jit import External, kernel

SET, RESPONSE, TRAP_REPRESS = int(c.Method.SET), 0x80, int(c.Method.TRAP_REPRESS)
SUBN_LID, SUBN_DR, PERF = int(c.MgmtClass.SUBN_LID), int(c.MgmtClass.SUBN_DR), int(c.MgmtClass.PERF)
PORT_INFO = int(c.SmpAttr.PORT_INFO)
TIMED_OUT = 110

REPLIES, FORWARDS, SETS, BOUNCES, SENT, RECEIVED, LAST = range(7)
"""What ``counts`` holds: REPLIES, FORWARDS, SENT and LAST (datagrams) of the last burst, the rest summed up until the
caller clears it."""

FRAME_SIZE, FRAME_WORDS = 288, 36
recvmmsg = External("recvmmsg", "int32", "int32", "uintp", "uint32", "int32", "uintp")
sendmmsg = External("sendmmsg", "int32", "int32", "uintp", "uint32", "int32")
recv = External("recv", "intp", "int32", "uintp", "uintp", "int32")
send = External("send", "intp", "int32", "uintp", "uintp", "int32")
MSG_TRUNC, MSG_DONTWAIT, MSG_NOSIGNAL = 0x20, 0x40, 0x4000
OCTETS = 7
"""The word of ``struct mmsghdr`` that says how long the datagram was."""


@kernel(_nrt=False)
def answer_frames(t, v, port, number, now, n, classes, b):
    """Answer the first ``n`` of ``b.frames`` that client ``number`` on ``port`` sent (``b``: :data:`live.burst.Burst`).

    ``b.replies`` gets what goes back to the client, in the order of the requests: answers, and requests that nobody
    answers, with status 110. ``b.forwards`` gets what another client must handle (the MAD as it arrives there).
    ``classes`` (uint8[256]) remembers the classes that the client sends. ``v``: :class:`softib.live.verbs.traffic.Cells`;
    what applications sent is in the counters before anybody reads them.
    """
    asks = False
    for r in range(n):
        f = b.frames[r]
        # A request carries the client's number in the upper 16 bits of its TID, so that a response finds back; so does
        # a trap, and the TrapRepress that ends it is a response (IBA 13.4.5).
        if not f[35] & RESPONSE and f[35] != TRAP_REPRESS:
            classes[f[33]] = 1
            f[40] = (number >> 8) & 255
            f[41] = number & 255
        b.lids[r] = int(f[0]) * 256 + int(f[1])
        b.fate[r] = 0
        for i in range(256):
            b.mads[r, i] = f[32 + i]
        if f[33] == SUBN_DR or f[33] == SUBN_LID:
            b.counts[SETS] += f[35] == SET
            asks |= f[49] == PORT_INFO
        asks |= f[33] == PERF
    if asks and v.head[HIGH]:
        fold_cells(t, v, now)
    serve_addressed(
        t, port, now, b.words[:n], b.lids[:n], b.sls[:n], b.pkey_indices[:n], b.out[:n], b.out_words[:n], b.rows[:n],
        b.slids[:n], b.dlids[:n], b.tids[:n], b.client_rows[:n], b.client_ports[:n], b.served,
    )  # fmt: skip
    for i in range(b.served[0]):
        b.fate[b.rows[i]] = 1 + i
    for i in range(n - b.served[1], n):
        b.fate[b.client_rows[i]] = -1 - i
    k, j = 0, 0
    for r in range(n):
        f = b.frames[r]
        if b.fate[r] > 0:
            reply(b, k, f, b.fate[r] - 1)
            k += 1
        elif b.fate[r] < 0:
            a = -1 - b.fate[r]
            g = b.forwards[j]
            for i in range(32):
                g[i] = f[i]
            for i in range(256):
                g[32 + i] = b.out[a, i]
            b.forward_port[j] = b.client_ports[a]
            b.forward_row[j] = r
            j += 1
        elif not f[35] & RESPONSE and f[35] != TRAP_REPRESS:
            bounce(f, b.replies[k])
            b.counts[BOUNCES] += 1
            k += 1
    b.counts[REPLIES], b.counts[FORWARDS] = k, j


@kernel(_nrt=False)
def reply(b, k, f, a):
    """Reply ``k``: answer ``a`` of the agents, addressed to the sender of ``f`` with the QPs swapped."""
    g = b.replies[k]
    for i in range(32):
        g[i] = 0
    g[0], g[1] = b.dlids[a] >> 8, b.dlids[a] & 255
    g[2], g[3] = f[2], f[3]  # SL and P_Key index, where the sender put them there
    g[4], g[5] = b.slids[a] >> 8, b.slids[a] & 255
    for i in range(4):
        g[8 + i] = f[12 + i]
        g[12 + i] = f[8 + i]
    g[30] = 1  # length 256
    for i in range(256):
        g[32 + i] = b.out[a, i]


@kernel(_nrt=False)
def bounce(f, g):
    """Write ``f`` into ``g`` as a send that timed out."""
    for i in range(FRAME_SIZE):
        g[i] = f[i]
    for i in range(16, 32):
        g[i] = 0
    g[19] = TIMED_OUT
    g[30] = 1


@kernel(_nrt=False)
def receive(fd, b, wait):
    """Fill ``b.frames`` with what is there; returns how many have the right size, -1 when nothing came.

    With ``wait`` one is waited for, for the socket's own timeout, and comes alone: its answer leaves before the next is
    read, so that its program can work while we do.
    """
    if wait:
        got = recv(fd, b.in_vectors[0, 0], FRAME_SIZE, MSG_TRUNC)
        return -1 if got < 0 else np.int64(got == FRAME_SIZE)
    got = recvmmsg(fd, b.heads_at[0], b.frames.shape[0], MSG_DONTWAIT | MSG_TRUNC, 0)
    if got <= 0:
        return -1
    n = 0
    for r in range(got):
        if b.in_heads[r, OCTETS] & 0xFFFFFFFF == FRAME_SIZE:
            if n < r:
                for i in range(FRAME_SIZE):
                    b.frames[n, i] = b.frames[r, i]
            n += 1
    return n


@kernel(_nrt=False)
def answer(fd, b, n):
    """Send the first ``n`` of ``b.replies``; returns how many the client's queue took, and says so in ``counts[SENT]``."""
    if n == 1:
        sent = np.int64(send(fd, b.out_vectors[0, 0], FRAME_SIZE, MSG_DONTWAIT | MSG_NOSIGNAL) == FRAME_SIZE)
    else:
        sent = max(np.int64(sendmmsg(fd, b.heads_at[1], n, MSG_DONTWAIT | MSG_NOSIGNAL)), 0)
    b.counts[SENT] = sent
    return sent


@kernel(_nrt=False)
def pump(t, v, port, number, now, fd, wait, rounds, classes, b):
    """Serve one client's socket ``fd`` without going back to Python between its requests: receive, answer, send.

    Two system calls a burst. Ends when nothing came, after ``rounds`` bursts, or when the last one needs Python:
    something to forward, a trap raised, or replies that the client's queue did not take (``counts[SENT]`` of
    ``counts[REPLIES]`` are sent).
    """
    counts = b.counts
    for _ in range(rounds):
        counts[REPLIES], counts[FORWARDS], counts[SENT], counts[LAST] = 0, 0, 0, 0
        n = receive(fd, b, wait)
        if n < 0:
            return
        if n == 0:
            continue
        counts[RECEIVED] += n
        counts[LAST] = n
        answer_frames(t, v, port, number, now, n, classes, b)
        if counts[REPLIES]:
            if answer(fd, b, counts[REPLIES]) < counts[REPLIES]:
                return
        if counts[FORWARDS] or t.notice_count[0]:
            return
