# mypy: ignore-errors
"""The loop: takes events in their order and hands each to its mechanism."""

import numpy as np

from softib.jit import inner, kernel
from softib.sim.packet.kernels.congestion import timer_over
from softib.sim.packet.kernels.events import advance, heap_pop, push, word
from softib.sim.packet.kernels.hca import READ_OP, activate
from softib.sim.packet.kernels.receive import answer, receive
from softib.sim.packet.kernels.retransmission import timeout
from softib.sim.packet.kernels.switch import arrive, next_in
from softib.sim.packet.kernels.transmit import look, looks
from softib.sim.packet.tables import (
    ANSWER,
    ARRIVE,
    DONE,
    EVENTS,
    FASTER,
    FETCH,
    GROW,
    HEAP_N,
    IN_NETWORK,
    INLINE,
    L_ROWS,
    LATENCY,
    LATER_N,
    LEFT,
    LOOK,
    M_BEGAN,
    M_NEEDS,
    M_OPCODE,
    M_POSTED,
    M_QP,
    M_SIZE,
    M_START,
    MARGIN,
    MORE,
    NEXT_IN,
    NOW,
    PIO_FS,
    POSTED,
    RECEIVE,
    SPARE_CREDITS,
    SPARE_EVENTS,
    SPARE_PACKETS,
    SRC,
    STREAM,
    STUCK,
    TIME_OVER,
    TIMER,
    TIMER_N,
)  # fmt: skip


@inner
def short(s):
    """Is a pool nearly used up?"""
    return (
        s.reg[SPARE_EVENTS] < MARGIN
        or s.reg[SPARE_PACKETS] < MARGIN
        or s.reg[SPARE_CREDITS] < MARGIN
        or s.reg[HEAP_N] > s.heap.shape[0] - MARGIN
        or s.reg[LATER_N] > s.far.shape[0] - MARGIN
        or s.reg[TIMER_N] > s.timer.shape[0] - MARGIN
        or s.log[0, L_ROWS] > s.log.shape[0] - MARGIN
    )


@inner
def posted(n, s, m, now):
    """A program posts message ``m``. Returns the port to look at."""
    s.message[m, M_BEGAN] = now
    ready = now + n.port[s.qp[s.message[m, M_QP], SRC], LATENCY]
    opcode = s.message[m, M_OPCODE]
    if opcode < READ_OP:
        if s.message[m, M_SIZE] > n.opt[INLINE]:
            ready += n.opt[FETCH]
        else:
            ready += s.message[m, M_SIZE] * n.opt[PIO_FS] // 1000
    s.message[m, M_POSTED] = ready + 1
    return activate(n, s, s.message[m, M_QP], now)


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
        port = activate(n, s, payload, now)
    elif kind == POSTED:
        port = posted(n, s, payload, now)
    elif kind == NEXT_IN:
        port = next_in(n, s, entity, payload, now)
    elif kind == TIMER:
        port = timeout(n, s, entity, payload, now)
    elif kind == FASTER:
        timer_over(n, s, entity, payload, now)
    if port >= 0:
        look(n, s, port, now)


@kernel
def start(n, s):
    """Put the messages that wait for none at their time."""
    for m in range(s.message.shape[0]):
        if s.message[m, M_NEEDS] == 0:
            push(s, s.message[m, M_START], word(s.qp[s.message[m, M_QP], SRC], POSTED, m))


@kernel
def run(n, s, until, most):
    """Handle at most ``most`` events up to time ``until``. Returns DONE, MORE, STUCK (packets wait for each other for ever), GROW (a
    pool is short: make it larger and call again) or TIME_OVER."""
    for _ in range(most):
        if short(s):
            return np.int64(GROW)
        if s.reg[LEFT] <= 0 and s.reg[IN_NETWORK] <= 0:
            return np.int64(DONE)
        if not advance(s):
            if s.reg[IN_NETWORK] > 0:
                return np.int64(STUCK)
            if s.reg[TIMER_N] == 0:
                return np.int64(STUCK)
        heap = s.heap
        n_of = HEAP_N
        if s.reg[HEAP_N] == 0 or (
            s.reg[TIMER_N] > 0
            and (s.timer[0, 0] < heap[0, 0] or (s.timer[0, 0] == heap[0, 0] and s.timer[0, 1] < heap[0, 1]))
        ):
            heap, n_of = s.timer, TIMER_N
        now = heap[0, 0]
        if now > until:
            return np.int64(TIME_OVER)
        heap_pop(heap, s.reg[n_of])
        s.reg[n_of] -= 1
        what = heap[s.reg[n_of], 1]
        s.reg[NOW] = now
        s.reg[EVENTS] += 1
        handle(n, s, what >> 32, what >> 28 & 15, what & 0xFFFFFFF, now)
    return np.int64(MORE)
