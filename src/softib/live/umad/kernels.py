# mypy: ignore-errors
"""umad messages (64 octets of the kernel's header, 256 of MAD) to and from the router's datagrams.

Header: agent at 0, status 4, timeout_ms 8, length 16, QP 20 (big endian), Q_Key 24, LID 28 (big endian), SL 30,
grh_present 32, P_Key index 56. Integers that are not big endian are the machine's; the kernel sees them as words.
"""

from softib.jit import External, kernel
from softib.live.ibsim.kernels import FORWARDS, RECEIVED, REPLIES, SENT, answer_frames

RESPONSE = 0x80
TRAP_REPRESS = 7
SUBN_ADM, DEVICE_ADM, BIS, VENDOR2_FIRST, VENDOR2_LAST = 0x03, 0x10, 0x12, 0x30, 0x4F
RMPP_DATA, RMPP_ACTIVE, RMPP_LAST, RMPP_FIRST = 1, 1, 4, 2
ETIMEDOUT = 110
WELL_KNOWN_QKEY = (0x80, 0x01, 0x00, 0x00)


@kernel(_nrt=False)
def to_frames(messages, words, sizes, n, agent_qp, frames, sls, pkey_indices, awaits):
    """The first ``n`` of ``messages`` (uint8[m, 320], ``words`` the same octets as uint32[m, 80]) into ``frames``.

    ``sizes`` are the octets that came. The agent goes into the TID (bits 32-47), where the router lets it be.
    SL and P_Key index stand in octets 2 and 3 of the datagram too, where another program finds them (stock clients do
    not look there).
    ``awaits`` says which rows are requests whose sender waits for an answer.
    """
    for r in range(n):
        m, f = messages[r], frames[r]
        for i in range(32):
            f[i] = 0
        f[0], f[1], f[2] = m[28], m[29], m[30] & 15
        sls[r], pkey_indices[r] = m[30] & 15, words[r, 14] & 0xFFFF
        f[3] = min(words[r, 14] & 0xFFFF, 255)
        if f[0] == 255 and f[1] == 255:
            f[4] = f[5] = 255
        for i in range(4):
            f[8 + i] = m[20 + i]
        agent = words[r, 0]
        f[15] = agent_qp[agent & 31]
        f[30] = 1
        octets = sizes[r] - 64
        for i in range(octets):
            f[32 + i] = m[64 + i]
        for i in range(octets, 256):
            f[32 + i] = 0
        response = f[35] & RESPONSE or f[35] == TRAP_REPRESS
        if not response:
            f[42], f[43] = 0, agent & 31
        awaits[r] = not response and words[r, 2] != 0


@kernel(_nrt=False)
def from_frames(frames, n, kernel_rmpp, messages, words):
    """The first ``n`` of ``frames`` (uint8[m, 288]) as messages to a program; responses name the agent of their TID.

    ``kernel_rmpp`` (uint8[32]) says for which agents a last RMPP segment has the length that its header tells.
    """
    for r in range(n):
        f, m = frames[r], messages[r]
        for i in range(64):
            m[i] = 0
        for i in range(256):
            m[64 + i] = f[32 + i]
        agent = f[43] & 31
        words[r, 0] = agent
        words[r, 1] = f[16] * 16777216 + f[17] * 65536 + f[18] * 256 + f[19]
        octets = 256
        klass = f[33]
        rmpp = klass == SUBN_ADM or klass == DEVICE_ADM or klass == BIS or VENDOR2_FIRST <= klass <= VENDOR2_LAST
        if rmpp and kernel_rmpp[agent] and f[32 + 25] == RMPP_DATA:
            flags = f[32 + 26]
            if flags & RMPP_ACTIVE and flags & RMPP_FIRST and flags & RMPP_LAST:
                payload = f[32 + 34] * 256 + f[32 + 35]
                octets = min(256, 36 + payload)
        words[r, 4] = 64 + octets
        for i in range(4):
            m[20 + i] = f[12 + i]
        if f[15]:
            for i in range(4):
                m[24 + i] = WELL_KNOWN_QKEY[i]
        m[28], m[29], m[30] = f[4], f[5], f[2] & 15
        m[56] = f[3]


MESSAGE_SIZE, LEAST_MESSAGE = 320, 64 + 36
recv = External("recv", "intp", "int32", "uintp", "uintp", "int32")
send = External("send", "intp", "int32", "uintp", "uintp", "int32")
MSG_TRUNC, MSG_DONTWAIT, MSG_NOSIGNAL = 0x20, 0x40, 0x4000
IDLE, GONE, SPECIAL, LEFT = range(4)
"""How :func:`umad_pump` ends: nothing more came; the program closed the file; the message in row 0 is one for Python
(with a GRH, or the announcement of an RMPP message); the rest of the message in row 0 is Python's."""


@kernel(_nrt=False)
def umad_pump(
    t,
    v,
    port,
    number,
    now,
    fd,
    flags,
    rounds,
    agent_qp,
    kernel_rmpp,
    known,
    messages,
    message_words,
    messages_at,
    answers,
    answer_words,
    answers_at,
    sizes,
    awaits,
    classes,
    b,
):
    """Serve one open umad device's socket ``fd`` without going back to Python between its requests.

    As :func:`softib.live.ibsim.kernels.pump`, for the messages of our own library. ``known`` (uint8[32]) are the registered
    agents; what others write is dropped. ``b`` is the router's :data:`softib.live.ibsim.burst.Burst`. Returns one of
    IDLE, GONE, SPECIAL, LEFT; ``b.counts`` are to be finished.
    """
    counts = b.counts
    for _ in range(rounds):
        counts[REPLIES], counts[FORWARDS], counts[SENT] = 0, 0, 0
        got = recv(fd, messages_at, MESSAGE_SIZE, flags | MSG_TRUNC)
        if got < 0:
            return IDLE
        if got == 0:
            return GONE
        if got > MESSAGE_SIZE or got < LEAST_MESSAGE or message_words[0, 0] > 31 or not known[message_words[0, 0]]:
            continue
        sizes[0] = got
        if message_words[0, 4] > MESSAGE_SIZE or messages[0, 32]:
            return SPECIAL
        counts[RECEIVED] += 1
        to_frames(messages, message_words, sizes, 1, agent_qp, b.frames, b.sls, b.pkey_indices, awaits)
        answer_frames(t, v, port, number, now, 1, classes, b)
        answered = counts[REPLIES] and not b.replies[0, 19]
        if answered:
            from_frames(b.replies, 1, kernel_rmpp, answers, answer_words)
            if send(fd, answers_at, MESSAGE_SIZE, MSG_DONTWAIT | MSG_NOSIGNAL) < 0:
                return LEFT
            counts[SENT] = 1
        if counts[FORWARDS] or t.notice_count[0] or (awaits[0] and not answered):
            return LEFT
    return IDLE
