# mypy: ignore-errors
"""Messages from posting to completion, and who waits for whom."""

from softib.jit import inner
from softib.sim.packet.constants import POSTED
from softib.sim.packet.kernels.engine.events import push, word
from softib.sim.packet.kernels.switch.aggregation import add_up


@inner
def release(n, s, first, waiting, m, t):
    """What waits for message ``m`` may go on at ``t``."""
    for i in range(first[m], first[m + 1]):
        d = waiting[i]
        s.message[d].after = max(s.message[d].after, t)
        s.message[d].needs -= 1
        if s.message[d].needs == 0:
            at = max(s.message[d].start, s.message[d].after + s.message[d].delay)
            push(s, at, word(s.qp[s.message[d].qp].src, POSTED, d))


@inner
def arrived(n, s, m, t):
    """The last octet of message ``m`` is in the destination's memory at ``t``."""
    if s.message[m].arrived < 0:
        s.message[m].arrived = t
        s.reg.last = max(s.reg.last, t)
        if n.opt.aggregates:
            add_up(n, s, m)
        release(n, s, s.arrival, s.after_arrival, m, t)


@inner
def completed(n, s, m, t):
    """The sender of message ``m`` has its completion at ``t``."""
    if s.message[m].completed < 0:
        s.message[m].completed = t
        s.reg.left -= 1
        s.reg.last = max(s.reg.last, t)
        release(n, s, s.completion, s.after_completion, m, t)
