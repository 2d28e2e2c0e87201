"""The event loop: it takes events in order and passes each to its mechanism. Many kernels return a port to check: one
that may be able to send now."""

import numpy as np

from softib.jit import inner, kernel
from softib.sim.packet.constants import (
    AGENT,
    ANSWER,
    ARRIVE,
    COPIES,
    DONE,
    ENTER,
    FASTER,
    GOES_ON,
    GROW,
    LOOK,
    MANAGE,
    MANAGED,
    MORE,
    NEVER,
    NEXT_IN,
    POSTED,
    RECEIVE,
    STREAM,
    STUCK,
    TIME_OVER,
    TIMER,
)
from softib.sim.packet.kernels.congestion.cct import timer_over
from softib.sim.packet.kernels.engine.events import advance, first_of, push, take_first_of, word
from softib.sim.packet.kernels.engine.pools import short
from softib.sim.packet.kernels.engine.prefetching import fetch_due, scout
from softib.sim.packet.kernels.hca.hca import activate, resume
from softib.sim.packet.kernels.hca.messages import COMPUTE_OP, READ_OP, arrived, completed
from softib.sim.packet.kernels.link.output import look, looks
from softib.sim.packet.kernels.management.smi import at_port, processed
from softib.sim.packet.kernels.switch.aggregation import is_node
from softib.sim.packet.kernels.switch.multicast import make_copies
from softib.sim.packet.kernels.switch.switch import arrive, next_in
from softib.sim.packet.kernels.transport.receive import answer, receive
from softib.sim.packet.kernels.transport.retransmission import timeout


@inner
def compute(net, state, m, now):
    """Begin computation ``m`` when its processor (a row of ``qp``) is free. Returns -1."""
    q = state.message[m].qp
    began = max(now, state.qp[q].not_before)
    over = began + state.message[m].length
    state.qp[q].not_before = over
    state.message[m].began = began
    arrived(net, state, m, over)
    completed(net, state, m, over)
    return np.int64(-1)


@inner
def posted(net, state, m, now):
    """Handle the event at which message ``m`` may be posted. Returns the port to check."""
    if state.message[m].opcode == COMPUTE_OP:
        return compute(net, state, m, now)
    state.message[m].began = now
    inside = is_node(net, state.qp[state.message[m].qp].src)
    ready = now if inside else now + net.port[state.qp[state.message[m].qp].src].latency_ps
    opcode = state.message[m].opcode
    if opcode < READ_OP and not inside:
        if state.message[m].length > net.opt.inline:
            ready += net.opt.fetch_ps
        else:
            ready += state.message[m].length * net.opt.pio_fs // 1000
    state.message[m].posted = ready + 1
    return activate(net, state, state.message[m].qp, now)


@inner
def handle(net, state, entity, kind, payload, now):
    """Handle one event."""
    port = np.int64(-1)
    if kind == ARRIVE:
        port = arrive(net, state, entity, payload, now)
    elif kind == LOOK:
        looks(net, state, entity, now)
    elif kind == RECEIVE:
        port = receive(net, state, entity, payload, now)
    elif kind == ANSWER:
        port = answer(net, state, entity, payload, now)
    elif kind == STREAM:
        port = resume(net, state, entity, payload, now)
    elif kind == POSTED:
        port = posted(net, state, payload, now)
    elif kind == NEXT_IN:
        port = next_in(net, state, entity, payload, now)
    elif kind == TIMER:
        port = timeout(net, state, entity, payload, now)
    elif kind == COPIES:
        make_copies(net, state, entity, payload, now)
    elif kind == FASTER:
        timer_over(net, state, entity, payload, now)
    elif kind == MANAGE:
        port = at_port(net, state, entity, payload, now)
    elif kind == AGENT:
        port = processed(net, state, entity, payload, now)
    elif kind == ENTER:
        port = receive(net, state, np.int64(net.port[entity].port_0), payload, now)
    else:
        port = link_event(net, state, entity, kind, payload, now)
    if port >= 0:
        look(net, state, port, now)


@kernel
def start(net, state):
    """Schedule the messages without dependencies."""
    for m in range(state.message.shape[0]):
        if state.message[m].needs == 0:
            push(state, state.message[m].start, word(state.qp[state.message[m].qp].src, POSTED, m))


@inner
def ended(net, state, until, now, has_events):
    """Return GOES_ON, or the reason why the run ends before the event at ``now``. In runs in which links change and
    MADs are sent, the caller decides when the run is done, and a timeout may end a standstill."""
    if net.management.on:
        if now == NEVER:
            return np.int64(STUCK)
        return np.int64(TIME_OVER) if now > until else np.int64(GOES_ON)
    if state.reg.left <= 0 and state.reg.in_network <= 0:
        return np.int64(DONE)
    if not has_events and (state.reg.in_network > 0 or now == NEVER):
        return np.int64(STUCK)
    return np.int64(TIME_OVER) if now > until else np.int64(GOES_ON)


@kernel
def run(net, state, until, most):
    """Handle at most ``most`` events up to time ``until``. Returns DONE, MORE, STUCK (packets wait
    for each other forever), GROW (a pool is nearly empty: enlarge it and call again), TIME_OVER or
    MANAGED (a MAD waits in the inbox)."""
    for _ in range(most):
        if short(state):
            return np.int64(GROW)
        has_events = advance(net, state)
        source, now, event = first_of(state)
        status = ended(net, state, until, now, has_events)
        if status != GOES_ON:
            return status
        take_first_of(state, source)
        state.reg.now = now
        scout(net, state)
        fetch_due(net, state)
        state.reg.events += 1
        handle(net, state, event >> 32, event >> 28 & 15, event & 0xFFFFFFF, now)
        scout(net, state)
        if event >> 28 & 15 == AGENT and state.mads.inbox > 0:
            return np.int64(MANAGED)
    return np.int64(MORE)


@inner
def link_event(net, state, port, kind, payload, now):
    """Hook for link-layer events at ``port``. Returns the port to check, -1 for none."""
    return np.int64(-1)
