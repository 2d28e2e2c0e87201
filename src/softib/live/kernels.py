# mypy: ignore-errors
"""Datagrams of one client, answered by the fabric's agents, in one call: 288 octets in, 288 octets out.

The layout is :data:`softib.live.wire.FRAME`: DLID at 0, SLID at 4, QPs at 8 and 12, status at 16, length at 24, MAD at 32.
"""

from softib.agents.kernels import serve_addressed
from softib.iba import constants as c
from softib.jit import External, kernel

SET, RESPONSE, TRAP_REPRESS = int(c.Method.SET), 0x80, int(c.Method.TRAP_REPRESS)
SUBN_LID, SUBN_DR = int(c.MgmtClass.SUBN_LID), int(c.MgmtClass.SUBN_DR)
TIMED_OUT = 110

REPLIES, FORWARDS, SETS, BOUNCES, SENT, RECEIVED = range(6)
"""What ``counts`` holds: of the last burst, the rest summed up until the caller clears it."""

FRAME_SIZE = 288
recv = External("recv", "intp", "int32", "uintp", "uintp", "int32")
send = External("send", "intp", "int32", "uintp", "uintp", "int32")
MSG_TRUNC, MSG_DONTWAIT, MSG_NOSIGNAL = 0x20, 0x40, 0x4000


@kernel(_nrt=False)
def answer_frames(
    t,
    port,
    number,
    now,
    frames,
    n,
    classes,
    mads,
    words,
    out,
    out_words,
    rows,
    slids,
    dlids,
    lids,
    tids,
    sls,
    pkey_indices,
    client_rows,
    client_ports,
    fate,
    served,
    replies,
    forwards,
    forward_port,
    forward_row,
    counts,
):
    """Answer the first ``n`` of ``frames`` (uint8[m, 288]) that client ``number`` on ``port`` sent.

    ``replies`` gets what goes back to the client, in the order of the requests: answers, and requests that nobody
    answers, with status 110. ``forwards`` gets what another client must handle (the MAD as it arrives there) and
    ``forward_port`` the end port it is for, ``forward_row`` its row in ``frames``. ``classes`` (uint8[256]) remembers the classes that the client sends.
    Everything from ``mads`` to ``served`` is scratch.
    """
    for r in range(n):
        f = frames[r]
        # A request carries the client's number in the upper 16 bits of its TID, so that a response finds back.
        if not f[35] & RESPONSE and f[35] != TRAP_REPRESS:  # (a repressed trap is an answer too)
            classes[f[33]] = 1
            f[40] = (number >> 8) & 255
            f[41] = number & 255
        lids[r] = int(f[0]) * 256 + int(f[1])
        fate[r] = 0
        for i in range(256):
            mads[r, i] = f[32 + i]
        if f[35] == SET and (f[33] == SUBN_DR or f[33] == SUBN_LID):
            counts[SETS] += 1
    serve_addressed(
        t,
        port,
        now,
        words[:n],
        lids[:n],
        sls[:n],
        pkey_indices[:n],
        out[:n],
        out_words[:n],
        rows[:n],
        slids[:n],
        dlids[:n],
        tids[:n],
        client_rows[:n],
        client_ports[:n],
        served,
    )
    for i in range(served[0]):
        fate[rows[i]] = 1 + i
    first = n - served[1]
    for i in range(first, n):
        fate[client_rows[i]] = -1 - i
    k, j = 0, 0
    for r in range(n):
        f = frames[r]
        if fate[r] > 0:
            a = fate[r] - 1
            g = replies[k]
            for i in range(32):
                g[i] = 0
            g[0], g[1] = dlids[a] >> 8, dlids[a] & 255
            g[2], g[3] = f[2], f[3]  # SL and P_Key index, where the sender put them there
            g[4], g[5] = slids[a] >> 8, slids[a] & 255
            for i in range(4):
                g[8 + i] = f[12 + i]
                g[12 + i] = f[8 + i]
            g[30] = 1  # length 256
            for i in range(256):
                g[32 + i] = out[a, i]
            k += 1
        elif fate[r] < 0:
            a = -1 - fate[r]
            g = forwards[j]
            for i in range(32):
                g[i] = f[i]
            for i in range(256):
                g[32 + i] = out[a, i]
            forward_port[j] = client_ports[a]
            forward_row[j] = r
            j += 1
        elif not f[35] & RESPONSE and f[35] != TRAP_REPRESS:
            bounce(f, replies[k])
            counts[BOUNCES] += 1
            k += 1
    counts[REPLIES], counts[FORWARDS] = k, j


@kernel(_nrt=False)
def bounce(f, g):
    """Write ``f`` into ``g`` as a send that timed out."""
    for i in range(288):
        g[i] = f[i]
    for i in range(16, 32):
        g[i] = 0
    g[19] = TIMED_OUT
    g[30] = 1


@kernel(_nrt=False)
def pump(
    t,
    port,
    number,
    now,
    fd,
    flags,
    rounds,
    frames,
    frames_at,
    replies_at,
    notices,
    classes,
    mads,
    words,
    out,
    out_words,
    rows,
    slids,
    dlids,
    lids,
    tids,
    sls,
    pkey_indices,
    client_rows,
    client_ports,
    fate,
    served,
    replies,
    forwards,
    forward_port,
    forward_row,
    counts,
):
    """Serve one client's socket ``fd`` without going back to Python between its requests: receive, answer, send.

    Two system calls a MAD, one less than a select loop: the receive itself waits, for the socket's own timeout
    (``flags`` 0) or not at all (MSG_DONTWAIT). Ends when nothing came, after ``rounds`` datagrams, or when the last one
    needs Python: something to forward, a trap raised (``notices[0]``), or a reply that the client's queue did not take
    (``counts[SENT]`` of ``counts[REPLIES]`` replies are sent).
    """
    for _ in range(rounds):
        counts[REPLIES], counts[FORWARDS], counts[SENT] = 0, 0, 0
        got = recv(fd, frames_at, FRAME_SIZE, flags | MSG_TRUNC)
        if got < 0:
            return
        if got != FRAME_SIZE:
            continue
        counts[RECEIVED] += 1
        answer_frames(
            t,
            port,
            number,
            now,
            frames,
            1,
            classes,
            mads,
            words,
            out,
            out_words,
            rows,
            slids,
            dlids,
            lids,
            tids,
            sls,
            pkey_indices,
            client_rows,
            client_ports,
            fate,
            served,
            replies,
            forwards,
            forward_port,
            forward_row,
            counts,
        )
        if counts[REPLIES]:
            if send(fd, replies_at, FRAME_SIZE, MSG_DONTWAIT | MSG_NOSIGNAL) < 0:
                return
            counts[SENT] = 1
        if counts[FORWARDS] or notices[0]:
            return
