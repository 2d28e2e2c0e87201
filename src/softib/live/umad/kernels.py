"""Conversion between umad messages (the kernel's header of 64 bytes, and a MAD of 256 bytes) and the router's columns.

Header: agent at 0, status 4, timeout_ms 8, length 16, QP 20 (big endian), Q_Key 24, LID 28 (big
endian), SL 30, grh_present 32, P_Key index 56. Integers that are not big endian are in the machine's order; the
kernel reads them as dwords (4 bytes).
"""

from softib.agents.kernels.big_endian import get16, get32, put16, put32
from softib.iba import constants as c
from softib.iba.sa import RMPP_HEADER, RmppFlag, RmppHeader, RmppType
from softib.iba.smp import CLASS_AT, METHOD_AT, TID_AT
from softib.jit import External, kernel
from softib.live.exchange_kernels import FORWARDS, RECEIVED, REPLIES, SENT, answer

RESPONSE_BIT, TRAP_REPRESS, MAD_SIZE, PERMISSIVE = (
    c.RESPONSE_BIT,
    int(c.Method.TRAP_REPRESS),
    c.MAD_SIZE,
    c.LID_PERMISSIVE,
)
SUBN_ADM, DEVICE_ADM, BIS = int(c.MgmtClass.SUBN_ADM), int(c.MgmtClass.DEV_ADM), int(c.MgmtClass.BIS)
VENDOR2_FIRST, VENDOR2_END = c.VENDOR2_CLASSES.start, c.VENDOR2_CLASSES.stop
RMPP_DATA, RMPP_ACTIVE, RMPP_LAST, RMPP_FIRST = (
    int(RmppType.DATA),
    int(RmppFlag.ACTIVE),
    int(RmppFlag.LAST),
    int(RmppFlag.FIRST),
)
RMPP_TYPE_AT, RMPP_FLAGS_AT, RMPP_LENGTH_AT = (
    RMPP_HEADER + RmppHeader.type.byte,
    RMPP_HEADER + RmppHeader.flags.byte,
    RMPP_HEADER + RmppHeader.length.byte,
)
RMPP_END = RMPP_HEADER + RmppHeader.size
WELL_KNOWN_QKEY = 0x80010000
HEAD_SIZE = 64
QPN_AT, QKEY_AT, LID_AT, SL_AT, GRH_PRESENT_AT, PKEY_INDEX_AT = 20, 24, 28, 30, 32, 56
AGENT_AT = TID_AT + 3
"""Offset of the TID's byte that contains the agent's number."""


@kernel(_nrt=False)
def read_messages(messages, dwords, sizes, n, agent_qp, q, awaits):
    """Read the first ``n`` of ``messages`` (uint8[m, 320]; ``dwords`` is the same memory as uint32[m, 80]) into the
    requests ``q`` (:data:`~softib.mad.batch.MadColumns`).

    ``sizes``: the number of bytes received in each message. The agent's number goes into bits 32-47 of the TID, which
    the router does not change. ``awaits`` is set for requests whose sender waits for an answer.
    """
    for r in range(n):
        m, mad = messages[r], q.mad[r]
        q.dlid[r] = get16(m, LID_AT)
        q.slid[r] = PERMISSIVE if q.dlid[r] == PERMISSIVE else 0
        q.dqp[r] = get32(m, QPN_AT)
        agent = dwords[r, 0] & 31
        q.sqp[r] = agent_qp[agent]
        q.sl[r], q.pkey_index[r] = m[SL_AT] & 15, dwords[r, PKEY_INDEX_AT // 4] & 0xFFFF
        size = sizes[r] - HEAD_SIZE
        for i in range(size):
            mad[i] = m[HEAD_SIZE + i]
        for i in range(size, MAD_SIZE):
            mad[i] = 0
        response = mad[METHOD_AT] & RESPONSE_BIT or mad[METHOD_AT] == TRAP_REPRESS
        if not response:
            mad[AGENT_AT - 1], mad[AGENT_AT] = 0, agent
        awaits[r] = not response and dwords[r, 2] != 0


@kernel(_nrt=False)
def write_messages(mad, slid, sqp, sl, pkey_index, status, kernel_rmpp, messages, dwords):
    """Write the MADs and columns of a batch as ``messages`` to a program. The TID of a response contains the agent's
    number.

    ``kernel_rmpp`` (uint8[32]) marks the agents for which the length of a last RMPP segment is the length given in its
    header.
    """
    for r in range(len(mad)):
        m, f = messages[r], mad[r]
        for i in range(HEAD_SIZE):
            m[i] = 0
        for i in range(MAD_SIZE):
            m[HEAD_SIZE + i] = f[i]
        agent = f[AGENT_AT] & 31
        dwords[r, 0] = agent
        dwords[r, 1] = status[r]
        size = MAD_SIZE
        klass = f[CLASS_AT]
        rmpp = klass == SUBN_ADM or klass == DEVICE_ADM or klass == BIS or VENDOR2_FIRST <= klass < VENDOR2_END
        if rmpp and kernel_rmpp[agent] and f[RMPP_TYPE_AT] == RMPP_DATA:
            flags = f[RMPP_FLAGS_AT]
            if flags & RMPP_ACTIVE and flags & RMPP_FIRST and flags & RMPP_LAST:
                size = min(MAD_SIZE, RMPP_END + get16(f, RMPP_LENGTH_AT + 2))
        dwords[r, 4] = HEAD_SIZE + size
        put32(m, QPN_AT, sqp[r])
        if sqp[r]:
            put32(m, QKEY_AT, WELL_KNOWN_QKEY)
        put16(m, LID_AT, slid[r])
        m[SL_AT] = sl[r] & 15
        dwords[r, PKEY_INDEX_AT // 4] = pkey_index[r]


MESSAGE_SIZE, LEAST_MESSAGE = HEAD_SIZE + MAD_SIZE, HEAD_SIZE + RMPP_END
recv = External("recv", "intp", "int32", "uintp", "uintp", "int32")
send = External("send", "intp", "int32", "uintp", "uintp", "int32")
MSG_TRUNC, MSG_DONTWAIT, MSG_NOSIGNAL = 0x20, 0x40, 0x4000
PORT, NUMBER, FD, FLAGS = range(4)
"""The entries of ``file`` in the buffers: the open device that is served, and the flags of its receives."""
QP, KERNEL_RMPP, KNOWN = range(3)
"""Rows of the agents' table."""
IDLE, CLOSED, SPECIAL, LEFT = range(4)
"""Return values of :func:`umad_pump`. IDLE: no more messages. CLOSED: the program closed the file.
SPECIAL: the message in row 0 needs Python (it has a GRH, or announces an RMPP message). LEFT:
Python must read the rest of the message in row 0."""


@kernel(_nrt=False)
def umad_pump(t, v, q, a, x, u, agents, classes, now, rounds):
    """Serve one open umad device ``u.file`` without returning to Python between its requests.

    Like :func:`softib.live.ibsim.kernels.pump`, for the messages of softib's library. ``u``:
    :data:`softib.live.umad.wire.UmadBuffers`; ``agents`` uint8[3, 32]:
    :class:`softib.live.umad.agents.AgentTable`. A MAD for an agent that is not registered is dropped. Returns IDLE,
    CLOSED, SPECIAL or LEFT; the caller must then do the work that ``x.counts`` shows.
    """
    counts, fd = x.counts, u.file[FD]
    for _ in range(rounds):
        counts[REPLIES], counts[FORWARDS], counts[SENT] = 0, 0, 0
        got = recv(fd, u.addresses[0], MESSAGE_SIZE, u.file[FLAGS] | MSG_TRUNC)
        if got < 0:
            return IDLE
        if got == 0:
            return CLOSED
        agent = u.dwords[0, 0]
        if got > MESSAGE_SIZE or got < LEAST_MESSAGE or agent > 31 or not agents[KNOWN, agent]:
            continue
        u.sizes[0] = got
        if u.dwords[0, 4] > MESSAGE_SIZE or u.messages[0, GRH_PRESENT_AT]:
            return SPECIAL
        counts[RECEIVED] += 1
        read_messages(u.messages, u.dwords, u.sizes, 1, agents[QP], q, u.awaits)
        answer(t, v, q, a, x, u.file[PORT], u.file[NUMBER], now, 1, classes)
        answered = counts[REPLIES] and x.reply_answer[0] >= 0
        if answered:
            write_messages(
                a.mad[:1], a.slid, a.sqp, a.sl, a.pkey_index, a.status, agents[KERNEL_RMPP], u.answers, u.answer_dwords
            )
            if send(fd, u.addresses[1], MESSAGE_SIZE, MSG_DONTWAIT | MSG_NOSIGNAL) < 0:
                return LEFT
            counts[SENT] = 1
        if counts[FORWARDS] or t.notice_count[0] or (u.awaits[0] and not answered):
            return LEFT
    return IDLE
