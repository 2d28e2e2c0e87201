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
from softib.sim.packet.link_technology import kernels_of
from softib.sim.packet.network import know_peers
from softib.sim.packet.options import PacketOptions, Progress
from softib.sim.packet.partition import SHORTEST_PS, lookahead, parts_of_ports
from softib.sim.packet.pools import grow, local_pools
from softib.sim.samples import Sampler

__all__ = ["in_parts", "merged", "run_parts", "run_windows", "why_one_core"]

EVENTS_A_CALL = 500_000
MOST_PARTS = 64
TOTALS = (t.EVENTS, t.HOPS, t.SENT, t.LEFT, t.IN_NETWORK)
"""Of ``reg``, what parts have together."""


def in_parts(
    net: Any, state: Any, ends: np.ndarray, m: Messages, options: PacketOptions, cabled: np.ndarray | None = None
) -> list[Any]:
    """The state of each part (the one there is, where several would be of no use); ``net`` gets marks on the cables between.

    One part it is where cables between parts, or adapters, take less than :data:`~softib.sim.packet.partition.SHORTEST_PS`. ``cabled``: the port at the other end of each cable, where links may come up during the run.
    """
    know_peers(net.port)
    parts = min(options.cores or cores(), MOST_PARTS)
    if parts < 2 or plain_python():
        return [state]
    part = parts_of_ports(net, ends, m, parts, cabled, state.message[: len(m), t.M_LID])
    ahead = lookahead(net, part, ends, m, options.network, cabled)
    parts = int(part.max()) + 1
    if parts < 2 or ahead < SHORTEST_PS:
        return [state]
    net.rare[:, t.PART_OF] = part
    peer = net.port[:, t.PEER] if cabled is None else cabled
    cut = (peer >= 0) & (part != part[np.maximum(peer, 0)])
    net.port[cut, t.KIND] = t.REMOTE_PORT
    know_peers(net.port)
    mail = np.zeros((parts, 2, t.MAIL_ROWS, t.MAIL_COLUMNS), np.int64)
    sync = _sync(parts)
    return [_part(state, p, parts, ahead, mail, sync) for p in range(parts)]


def why_one_core(options: PacketOptions, states: list[Any]) -> tuple[str, ...]:
    """A line where several cores were asked for and one does it all."""
    if options.cores < 2 or len(states) > 1:
        return ()
    why = (
        "the kernels are not compiled"
        if plain_python()
        else "the cables between its parts are too short, or there is no second part"
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
    reg[t.TAKEN], reg[t.MAIL_FIRST], reg[t.WINDOW_WHAT] = -1, t.NEVER, -1
    reg[t.LEFT] = state.reg[t.LEFT] if p == 0 else 0  # the sum counts
    mads = (
        state.mads if p == 0 else np.zeros_like(state.mads)
    )  # rows of MADs are everybody's, free ones at first those of part 0
    return state._replace(
        reg=reg,
        log=state.log.copy(),
        mail=mail,
        sync=sync,
        mads=mads,
        inbox=state.inbox.copy(),
        **local_pools(state, reg),
    )


def run_parts(
    net: Any, states: list[Any], options: PacketOptions, progress: Progress | None, sampler: Sampler | None = None
) -> int:
    """Run all parts to their common end and return it; ``states`` holds the last of each then. A sample is taken of all parts at the end of a
    window that ends with its time."""
    start, _ = kernels_of(options.network)
    for state in states:
        start(net, state)
    while True:
        until_ps = options.until_ps if sampler is None else min(options.until_ps, sampler.next_ps)
        status = run_windows(net, states, options.network, until_ps, progress)
        if sampler is None or status != t.TIME_OVER or until_ps == options.until_ps:
            return status
        sampler.take(states[0].count[:, t.XMIT_OCTETS], states[0].vl[:, t.QUEUED])


def run_windows(net: Any, states: list[Any], network: str, until_ps: int, progress: Progress | None = None) -> int:
    """Run all parts, each in its thread, up to ``until_ps`` and return what all of them say at the end."""
    total = int(states[0].message[:, t.M_PACKETS].sum())
    statuses: list[int] = [t.ABORTED] * len(states)

    def work(p: int) -> None:
        statuses[p] = _run_part(net, states, p, network, until_ps, None if p else progress, total)

    def give_up() -> None:
        states[0].sync[t.SYNC_ABORT] = 1

    together([functools.partial(work, p) for p in range(len(states))], give_up)
    return statuses[0]


def _run_part(
    net: Any, states: list[Any], p: int, network: str, until_ps: int, progress: Progress | None, total: int
) -> int:
    _, loop = kernels_of(network)
    while True:
        status = int(loop(net, states[p], until_ps, EVENTS_A_CALL))
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
    return states[0]._replace(reg=reg, mads=np.sum([s.mads for s in states], axis=0))
