"""One run on several cores: each part of the network in a thread of its own, the same bytes out.

Kernels run without Python's lock; the threads meet in :mod:`softib.sim.packet.kernels.windows`.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from softib.jit.together import cores, plain_python, together
from softib.sim.messages import Messages
from softib.sim.packet import tables as t
from softib.sim.packet.options import PacketOptions, Progress
from softib.sim.packet.partition import SHORTEST_PS, lookahead, parts_of_ports
from softib.sim.packet.state import grow, local_pools

__all__ = ["in_parts", "merged", "run_parts", "why_one_core"]

EVENTS_A_CALL = 500_000
MOST_PARTS = 64
TOTALS = (t.EVENTS, t.HOPS, t.SENT, t.LEFT, t.IN_NETWORK)
"""Of ``reg``, what parts have together."""


def in_parts(net: Any, state: Any, ends: np.ndarray, m: Messages, options: PacketOptions) -> list[Any]:
    """The state of each part (the one there is, where several would be of no use); ``net`` gets marks on the cables between.

    One part it is where the order of events at a port matters to what is drawn (random arbitration), and where cables between parts, or adapters, take less than
    :data:`~softib.sim.packet.partition.SHORTEST_PS`; and Ethernet runs in one.
    """
    parts = min(options.cores or cores(), MOST_PARTS)
    if parts < 2 or options.random_arbitration or options.network != "infiniband" or plain_python():
        return [state]
    part = parts_of_ports(net, ends, m, parts)
    ahead = lookahead(net, part, ends, m)
    parts = int(part.max()) + 1
    if parts < 2 or ahead < SHORTEST_PS:
        return [state]
    net.rare[:, t.PART_OF] = part
    peer = net.port[:, t.PEER]
    cut = (peer >= 0) & (part != part[np.maximum(peer, 0)])
    net.port[cut, t.KIND] = t.REMOTE_PORT
    mail = np.zeros((parts, 2, t.MAIL_ROWS, t.MAIL_COLUMNS), np.int64)
    sync = _sync(parts)
    return [_part(state, p, parts, ahead, mail, sync) for p in range(parts)]


def why_one_core(options: PacketOptions, states: list[Any]) -> tuple[str, ...]:
    """A line where several cores were asked for and one does it all."""
    if options.cores < 2 or len(states) > 1:
        return ()
    reasons = (
        (bool(options.sample_ps), "samples are taken of all ports at one moment"),
        (options.network != "infiniband", "the switches of Ethernet run in one part"),
        (options.random_arbitration, "random arbitration draws in the order of events"),
        (plain_python(), "the kernels are not compiled"),
    )
    why = next(
        (text for holds, text in reasons if holds),
        "the cables between its parts are too short, or there is no second part",
    )
    return (f"{options.cores} cores were asked for, one did the run: {why}",)


def _sync(parts: int) -> np.ndarray:
    """``State.sync``, its lock made by the C library."""
    import ctypes

    sync = np.zeros(t.SYNC_PARTS + parts * t.SYNC_ROW, np.int64)
    address = sync.ctypes.data + 8 * t.SYNC_LOCK
    sync[t.SYNC_LOCK_AT] = address
    ctypes.CDLL(None).pthread_spin_init(ctypes.c_void_p(address), 0)
    return sync


def _part(state: Any, p: int, parts: int, ahead: int, mail: np.ndarray, sync: np.ndarray) -> Any:
    reg = state.reg.copy()
    reg[t.PART], reg[t.PARTS], reg[t.LOOKAHEAD] = p, parts, ahead
    reg[t.TAKEN], reg[t.MAIL_FIRST] = -1, t.NEVER
    reg[t.LEFT] = state.reg[t.LEFT] if p == 0 else 0  # the sum counts
    return state._replace(reg=reg, log=state.log.copy(), mail=mail, sync=sync, **local_pools(state, reg))


def run_parts(net: Any, states: list[Any], options: PacketOptions, progress: Progress | None) -> int:
    """Run all parts to their common end and return it; ``states`` holds the last of each then."""
    from softib.sim.packet.kernels.loop import start

    for state in states:
        start(net, state)
    total = int(states[0].message[:, t.M_PACKETS].sum())
    statuses: list[int] = [t.ABORTED] * len(states)

    def work(p: int) -> None:
        statuses[p] = _run_part(net, states, p, options, None if p else progress, total)

    def give_up() -> None:
        states[0].sync[t.SYNC_ABORT] = 1

    together([functools.partial(work, p) for p in range(len(states))], give_up)
    return statuses[0]


def _run_part(
    net: Any, states: list[Any], p: int, options: PacketOptions, progress: Progress | None, total: int
) -> int:
    from softib.sim.packet.kernels.loop import run as loop

    while True:
        status = int(loop(net, states[p], options.until_ps, EVENTS_A_CALL))
        if status == t.GROW:
            states[p] = grow(states[p])
        elif status != t.MORE:
            return status
        elif progress is not None:
            sent = sum(int(s.reg[t.SENT]) for s in states)
            progress(int(states[p].reg[t.NOW]), min(sent, total), total)


def merged(states: list[Any]) -> Any:
    """The first part's state with what all parts counted."""
    reg = states[0].reg.copy()
    every = np.array([s.reg for s in states])
    reg[list(TOTALS)] = every[:, list(TOTALS)].sum(axis=0)
    reg[[t.LAST, t.NOW]] = every[:, [t.LAST, t.NOW]].max(axis=0)
    return states[0]._replace(reg=reg)
