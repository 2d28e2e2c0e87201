# mypy: ignore-errors
"""Messages from posting to completion, and who waits for whom."""

from softib.jit import inner
from softib.sim.packet.kernels.aggregation import add_up
from softib.sim.packet.kernels.events import push, word
from softib.sim.packet.tables import (
    AGGREGATES,
    LAST,
    LEFT,
    M_AFTER,
    M_ARRIVED,
    M_COMPLETED,
    M_DELAY,
    M_NEEDS,
    M_QP,
    M_START,
    POSTED,
    SRC,
)  # fmt: skip


@inner
def release(n, s, first, waiting, m, t):
    """What waits for message ``m`` may go on at ``t``."""
    for i in range(first[m], first[m + 1]):
        d = waiting[i]
        s.message[d, M_AFTER] = max(s.message[d, M_AFTER], t)
        s.message[d, M_NEEDS] -= 1
        if s.message[d, M_NEEDS] == 0:
            at = max(s.message[d, M_START], s.message[d, M_AFTER] + s.message[d, M_DELAY])
            push(s, at, word(s.qp[s.message[d, M_QP], SRC], POSTED, d))


@inner
def arrived(n, s, m, t):
    """The last octet of message ``m`` is in the destination's memory at ``t``."""
    if s.message[m, M_ARRIVED] < 0:
        s.message[m, M_ARRIVED] = t
        s.reg[LAST] = max(s.reg[LAST], t)
        if n.opt[AGGREGATES]:
            add_up(n, s, m)
        release(n, s, s.arrival, s.after_arrival, m, t)


@inner
def completed(n, s, m, t):
    """The sender of message ``m`` has its completion at ``t``."""
    if s.message[m, M_COMPLETED] < 0:
        s.message[m, M_COMPLETED] = t
        s.reg[LEFT] -= 1
        s.reg[LAST] = max(s.reg[LAST], t)
        release(n, s, s.completion, s.after_completion, m, t)
