"""Converts batches of MADs to and from messages of a umad device, and exchanges the messages with two system calls per
MAD.

A message is the kernel's header (:data:`softib.live.umad_client.abi.HEAD`, or its first 56 bytes)
and a MAD. Integers that are not big endian are in the machine's order; they are read as dwords.
"""

from softib.agents.kernels.big_endian import get16, get32, put16, put32
from softib.iba.constants import MAD_SIZE, RESPONSE_BIT, Method
from softib.iba.sa import RMPP_HEADER, RmppFlag, RmppHeader
from softib.iba.smp import CLASS_AT, METHOD_AT, TID_AT
from softib.jit import External, kernel
from softib.live.umad_client.abi import GSI_QKEY, HEAD, HEAD_SIZE

STATUS_WORD, TIMEOUT_WORD, LENGTH_WORD = (HEAD.fields[name][1] // 4 for name in ("status", "timeout_ms", "length"))
QPN_AT, QKEY_AT, LID_AT, SL_AT, PKEY_INDEX_AT = (
    HEAD.fields[name][1] for name in ("qpn", "qkey", "lid", "sl", "pkey_index")
)
TRAP_REPRESS, SUBN_ADM = int(Method.TRAP_REPRESS), 3
RMPP_FLAGS_AT, RMPP_LENGTH_AT = RMPP_HEADER + RmppHeader.flags.byte, RMPP_HEADER + RmppHeader.length.byte
RMPP_END, RMPP_ALONE = RMPP_HEADER + RmppHeader.size, int(RmppFlag.ACTIVE | RmppFlag.FIRST | RmppFlag.LAST)
NO_AGENT = 255

read = External("read", "intp", "int32", "uintp", "uintp")
write = External("write", "intp", "int32", "uintp", "uintp")
poll = External("poll", "int32", "uintp", "uintp", "int32")
FD, SENT, RECEIVED, POLLS = range(4)
"""Entries of ``state``: the descriptor; and after :func:`exchange` the number of messages written, of messages read,
and of waits."""
DONE, UNWRITTEN, UNREAD, FULL = range(4)
"""Return values of :func:`exchange`. DONE: all MADs were written and none is awaited. UNWRITTEN: a
write failed. UNREAD: the next message cannot be read (an error, or a message longer than a MAD).
FULL: the inbox is full."""


@kernel(_nrt=False)
def compose(q, n, agents, timeout_ms, head, w):
    """Write the first ``n`` rows of ``q`` (MadColumns) as messages ``w.out``; ``w.sizes`` are their sizes in bytes, and
    ``w.awaits`` marks those that need an answer. ``agents`` uint8[256]: the agent of each management class (255: none;
    such a row gets size 0).

    The message of an SA answer with one RMPP segment ends at the length given in its header, because the kernel
    computes PayloadLength from the message's length.
    """
    for r in range(n):
        m, mad = w.out[r], q.mad[r]
        for i in range(HEAD_SIZE // 4):
            w.out_dwords[r, i] = 0
        agent = agents[mad[CLASS_AT]]
        asks = not mad[METHOD_AT] & RESPONSE_BIT and mad[METHOD_AT] != TRAP_REPRESS
        w.awaits[r] = asks
        size = MAD_SIZE
        if mad[CLASS_AT] == SUBN_ADM and mad[RMPP_FLAGS_AT] & RMPP_ALONE == RMPP_ALONE:
            size = min(MAD_SIZE, RMPP_END + get16(mad, RMPP_LENGTH_AT + 2))
        w.sizes[r] = 0 if agent == NO_AGENT else head + size
        w.out_dwords[r, 0] = agent
        w.out_dwords[r, TIMEOUT_WORD] = timeout_ms if asks else 0
        w.out_dwords[r, LENGTH_WORD] = head + size
        put32(m, QPN_AT, q.dqp[r])
        if q.dqp[r]:
            put32(m, QKEY_AT, GSI_QKEY)
        put16(m, LID_AT, q.dlid[r])
        m[SL_AT] = q.sl[r] & 15
        if head == HEAD_SIZE:
            m[PKEY_INDEX_AT], m[PKEY_INDEX_AT + 1] = q.pkey_index[r] & 0xFF, q.pkey_index[r] >> 8
        for i in range(MAD_SIZE):
            m[head + i] = mad[i]


@kernel(_nrt=False)
def parse(n, head, w, q):
    """Read the first ``n`` messages of ``w.inbox`` into rows of ``q`` (MadColumns)."""
    for r in range(n):
        m, mad = w.inbox[r], q.mad[r]
        q.dlid[r] = 0
        q.slid[r], q.sqp[r], q.sl[r] = get16(m, LID_AT), get32(m, QPN_AT), m[SL_AT] & 15
        q.dqp[r] = 1 if m[head + CLASS_AT] & 0x7F != 1 else 0
        q.pkey_index[r] = m[PKEY_INDEX_AT] | m[PKEY_INDEX_AT + 1] << 8 if head == HEAD_SIZE else 0
        q.status[r] = w.in_dwords[r, STATUS_WORD] & 0xFFFF
        for i in range(MAD_SIZE):
            mad[i] = m[head + i]
        tid = 0
        for i in range(8):
            tid = tid << 8 | mad[TID_AT + i]
        q.tid[r] = tid


@kernel(_nrt=False)
def exchange(w, n, size, window, patience_ms):
    """Write the first ``n`` messages of ``w.out``, with at most ``window`` unanswered at a time, and read the messages
    that arrive (``size`` bytes at most).

    Every message that arrives counts as an answer. If no MAD arrives for ``patience_ms``, the wait
    for outstanding answers ends, so silent devices cost this time once per window. If it returns
    DONE, everything has been written.
    """
    state, fd = w.state, w.state[FD]
    sent, received, on_wire = 0, 0, 0
    state[POLLS] = 0
    ended = DONE
    while True:
        while sent < n and on_wire < window:
            if w.sizes[sent]:
                if write(fd, w.addresses[0] + sent * w.out.shape[1], w.sizes[sent]) < 0:
                    ended = UNWRITTEN
                    break
                on_wire += w.awaits[sent]
            sent += 1
        if ended != DONE:
            break
        before = received
        while received < w.inbox.shape[0]:
            w.in_dwords[received, LENGTH_WORD] = 0
            got = read(fd, w.addresses[1] + received * w.inbox.shape[1], size)
            if got <= 0:
                if w.in_dwords[received, LENGTH_WORD] > size:
                    ended = UNREAD
                break
            received += 1
            on_wire = max(0, on_wire - 1)
        if received == w.inbox.shape[0]:
            ended = FULL
        if ended != DONE or (sent == n and on_wire == 0):
            break
        if received > before and sent < n and on_wire < window:
            continue
        w.pollfd[0], w.pollfd[1] = fd, 1  # POLLIN
        state[POLLS] += 1
        if poll(w.addresses[2], 1, patience_ms) <= 0:
            on_wire = 0
        elif w.pollfd[1] >> 16 & 0x38:  # POLLERR, POLLHUP, POLLNVAL
            ended = UNREAD
            break
    state[SENT], state[RECEIVED] = sent, received
    return ended
