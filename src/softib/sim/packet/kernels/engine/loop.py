# mypy: ignore-errors
"""The loop: takes events in their order and hands each to its mechanism."""

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
from softib.sim.packet.kernels.congestion.congestion_control import timer_over
from softib.sim.packet.kernels.engine.events import advance, first_of, push, take_first_of, word
from softib.sim.packet.kernels.engine.pools import short
from softib.sim.packet.kernels.engine.prefetching import fetch_due, scout
from softib.sim.packet.kernels.hca.hca import activate, resume
from softib.sim.packet.kernels.hca.messages import arrived, completed
from softib.sim.packet.kernels.hca.packet_sizes import COMPUTE_OP, READ_OP
from softib.sim.packet.kernels.link.output import look, looks
from softib.sim.packet.kernels.management.smi import at_port, processed
from softib.sim.packet.kernels.switch.aggregation import is_node
from softib.sim.packet.kernels.switch.multicast import make_copies
from softib.sim.packet.kernels.switch.switch import arrive, next_in
from softib.sim.packet.kernels.transport.receive import answer, receive
from softib.sim.packet.kernels.transport.retransmission import timeout


@inner
def compute(n, s, m, now):
    """Computation ``m`` can begin: its processor (a row of ``qp``) takes it when it is free. Returns -1."""
    q = s.message[m].qp
    began = max(now, s.qp[q].not_before)
    over = began + s.message[m].length
    s.qp[q].not_before = over
    s.message[m].began = began
    arrived(n, s, m, over)
    completed(n, s, m, over)
    return np.int64(-1)


@inner
def posted(n, s, m, now):
    """A program posts message ``m``. Returns the port to look at."""
    if s.message[m].opcode == COMPUTE_OP:
        return compute(n, s, m, now)
    s.message[m].began = now
    inside = is_node(n, s.qp[s.message[m].qp].src)
    ready = now if inside else now + n.port[s.qp[s.message[m].qp].src].latency_ps
    opcode = s.message[m].opcode
    if opcode < READ_OP and not inside:
        if s.message[m].length > n.opt.inline:
            ready += n.opt.fetch_ps
        else:
            ready += s.message[m].length * n.opt.pio_fs // 1000
    s.message[m].posted = ready + 1
    return activate(n, s, s.message[m].qp, now)


@inner
def handle(n, s, entity, kind, payload, now):
    """One event."""
    port = np.int64(-1)
    if kind == ARRIVE:
        port = arrive(n, s, entity, payload, now)
    elif kind == LOOK:
        looks(n, s, entity, now)
    elif kind == RECEIVE:
        port = receive(n, s, entity, payload, now)
    elif kind == ANSWER:
        port = answer(n, s, entity, payload, now)
    elif kind == STREAM:
        port = resume(n, s, entity, payload, now)
    elif kind == POSTED:
        port = posted(n, s, payload, now)
    elif kind == NEXT_IN:
        port = next_in(n, s, entity, payload, now)
    elif kind == TIMER:
        port = timeout(n, s, entity, payload, now)
    elif kind == COPIES:
        make_copies(n, s, entity, payload, now)
    elif kind == FASTER:
        timer_over(n, s, entity, payload, now)
    elif kind == MANAGE:
        port = at_port(n, s, entity, payload, now)
    elif kind == AGENT:
        port = processed(n, s, entity, payload, now)
    elif kind == ENTER:
        port = receive(n, s, np.int64(n.port[entity].port_0), payload, now)
    else:
        port = link_event(n, s, entity, kind, payload, now)
    if port >= 0:
        look(n, s, port, now)


@kernel
def start(n, s):
    """Put the messages that wait for none at their time."""
    for m in range(s.message.shape[0]):
        if s.message[m].needs == 0:
            push(s, s.message[m].start, word(s.qp[s.message[m].qp].src, POSTED, m))


@inner
def ended(n, s, until, now, has_events):
    """Does the run end before the event of ``now``? GOES_ON, or why. While links change and MADs travel the caller says when all is
    done, and what stands still may go on after a timeout."""
    if n.management.on:
        if now == NEVER:
            return np.int64(STUCK)
        return np.int64(TIME_OVER) if now > until else np.int64(GOES_ON)
    if s.reg.left <= 0 and s.reg.in_network <= 0:
        return np.int64(DONE)
    if not has_events and (s.reg.in_network > 0 or now == NEVER):
        return np.int64(STUCK)
    return np.int64(TIME_OVER) if now > until else np.int64(GOES_ON)


@kernel
def run(n, s, until, most):
    """Handle at most ``most`` events up to time ``until``. Returns DONE, MORE, STUCK (packets wait for each other for ever), GROW (a
    pool is short: make it larger and call again), TIME_OVER or MANAGED (a MAD waits in
    the inbox)."""
    for _ in range(most):
        if short(s):
            return np.int64(GROW)
        has_events = advance(n, s)
        source, now, what = first_of(s)
        status = ended(n, s, until, now, has_events)
        if status != GOES_ON:
            return status
        take_first_of(s, source)
        s.reg.now = now
        scout(n, s)
        fetch_due(n, s)
        s.reg.events += 1
        handle(n, s, what >> 32, what >> 28 & 15, what & 0xFFFFFFF, now)
        scout(n, s)
        if what >> 28 & 15 == AGENT and s.mads.inbox > 0:
            return np.int64(MANAGED)
    return np.int64(MORE)


@inner
def link_event(n, s, port, kind, payload, now):
    """An event at ``port`` of a kind that the loop does not know. Returns the port to look at, -1 for none."""
    return np.int64(-1)
