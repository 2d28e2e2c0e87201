"""Messages from posting to completion, and who waits for whom."""

from softib.jit import inner
from softib.sim.packet.constants import POSTED
from softib.sim.packet.kernels.engine.events import push, word
from softib.sim.packet.kernels.switch.aggregation import add_up


@inner
def release(net, state, first, waiting, m, t):
    """What waits for message ``m`` may go on at ``t``."""
    for i in range(first[m], first[m + 1]):
        d = waiting[i]
        state.message[d].after = max(state.message[d].after, t)
        state.message[d].needs -= 1
        if state.message[d].needs == 0:
            at = max(state.message[d].start, state.message[d].after + state.message[d].delay)
            push(state, at, word(state.qp[state.message[d].qp].src, POSTED, d))


@inner
def arrived(net, state, m, t):
    """The last octet of message ``m`` is in the destination's memory at ``t``."""
    if state.message[m].arrived < 0:
        state.message[m].arrived = t
        state.reg.last = max(state.reg.last, t)
        if net.opt.aggregates:
            add_up(net, state, m)
        release(net, state, state.arrival, state.after_arrival, m, t)


@inner
def completed(net, state, m, t):
    """The sender of message ``m`` has its completion at ``t``."""
    if state.message[m].completed < 0:
        state.message[m].completed = t
        state.reg.left -= 1
        state.reg.last = max(state.reg.last, t)
        release(net, state, state.completion, state.after_completion, m, t)
