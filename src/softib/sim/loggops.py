"""The LogGOPS layer: ranks with processor overheads, adapters that handle one message at a time in
each direction, and a fabric without congestion. L and G of each pair of hosts come from its path in
the fabric's forwarding tables (:mod:`softib.sim.timing`), so a single message takes as long as in
the fluid layer. The adapter's time for a message's bytes takes the place of g and O. Links between switches are never
the limit, because the model has no congestion (Alexandrov et al., "LogGP", 1995; Hoefler, Schneider, Lumsdaine,
"LogGOPSim", 2010).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.errors import InputError
from softib.sim.messages import Opcode, messages
from softib.sim.paths import WHY, Plane

__all__ = ["Loggops", "loggops", "matches"]

MTU = 4096


@dataclass(frozen=True)
class Loggops:
    """``ended_ps`` by operation (-1: it never ended); ``end_ps``: end of all operations."""

    ended_ps: np.ndarray
    end_ps: int

    @property
    def done(self) -> bool:
        """Return whether every operation has ended."""
        return bool((self.ended_ps >= 0).all())


def _slots(n: int) -> np.ndarray:
    return np.full(1 << max(2 * n, 16).bit_length(), -1, np.int32)


def matches(kind: np.ndarray, rank: np.ndarray, peer: np.ndarray, tag: np.ndarray) -> np.ndarray:
    """Return, for each send or receive, the row of its match: the k-th send matches the k-th receive of the same
    source, target and tag. Rows without a match and computations have -1 (int64)."""
    from softib.sim.loggops_kernels import match

    n = len(kind)
    met = np.full(n, -1, np.int64)
    room = lambda rows: np.empty(rows, np.int64)
    match(kind, rank.astype(np.int64), peer.astype(np.int64), tag, _slots(n), room(n), room(n), room(n), room(n), met)
    return met


def loggops(
    plane: Plane, columns: dict[str, np.ndarray], hosts: np.ndarray, costs: tuple[int, int, int, int, int], eager: int
) -> Loggops:
    """Run a program. ``columns``: ``rank kind peer size tag compute_ps processor`` by operation,
    ``meets`` (:func:`matches`), and ``first needs`` (operation i waits for the ends of
    ``needs[first[i]:first[i + 1]]``); ``hosts``: for each rank, the row of its end port; ``costs`` as in
    :data:`~softib.sim.loggops_kernels.COSTS`.

    Raises :class:`InputError` if there is no path between two ranks.
    """
    from softib.sim.loggops_kernels import COSTS, Busy, Costs, Program, Queue, groups, run, turned

    of = COSTS.zeros(1)
    of[0] = costs
    rank, kind, size = columns["rank"], columns["kind"], columns["size"]
    n, first, needs = len(rank), columns["first"], columns["needs"]
    sends = np.flatnonzero(kind == 0)
    source, target = rank[sends].astype(np.int64), columns["peer"][sends].astype(np.int64)
    representative, group = np.empty(len(sends), np.int64), np.empty(len(sends), np.int32)
    tag = (
        columns["tag"][sends] if of[0].acknowledged else np.zeros(len(sends), np.int64)
    )  # in a recorded program, a tag is a queue pair
    many = groups(source, target, tag, _slots(min(len(sends), 1 << 24)), representative, group)
    one = representative[:many]
    pairs = _pairs(plane, hosts[source[one]], hosts[target[one]])
    pair = np.zeros(n, np.int32)
    pair[sends] = group
    begin, to = np.zeros(n + 2, np.int64), np.empty(len(needs), np.int64)
    turned(needs, np.repeat(np.arange(n), np.diff(first)), begin, to)
    left = np.diff(first).astype(np.int32) + (kind == 1)
    ready, ended = np.zeros(n, np.int64), np.full(n, -1, np.int64)
    program = Program(
        rank=rank,
        kind=kind,
        size=size,
        compute=columns["compute_ps"],
        processor=columns["processor"],
        receive=columns["meets"],
        first=begin[:-1],
        to=to,
        left=left,
        ready=ready,
        ended=ended,
        pair=pair,
    )
    queue = Queue(
        np.empty(n + 2 * len(sends) + 1, np.int64), np.empty(n + 2 * len(sends) + 1, np.int64), np.zeros(1, np.int64)
    )
    busy = Busy(
        np.zeros(int(columns["processor"].max(initial=0)) + 1, np.int64),
        *np.zeros((5, len(plane.ends)), np.int64),
        *np.zeros((3, many), np.int64),
    )
    _, end = run(program, pairs, Costs(of, np.array([eager], np.int64)), queue, busy)
    return Loggops(ended, int(end))


def _pairs(plane: Plane, source: np.ndarray, target: np.ndarray) -> object:
    """Return the columns of :data:`Pairs` for pairs of hosts."""
    from softib.sim.loggops_kernels import Pairs

    local = source == target
    away = np.flatnonzero(~local)
    rate, small, following, large, answer = np.ones(len(source)), *np.zeros((4, len(source)), np.int64)
    inline = int(plane.profile.inline_bytes)
    mtu = np.full(len(source), MTU, np.int64)
    for size, column in ((1, small), (inline + 1, following), (MTU, large)):
        pairs = messages(source[away], target[away], size, opcode=Opcode.SEND, qp=np.arange(len(away)))
        laid = plane.lay(pairs)
        if laid.why.any():
            i = int(np.argmax(laid.why != 0))
            a, b = (
                plane.fabric.node_name(int(plane.fabric.port_node[plane.ends[int(side[away[i]])]]))
                for side in (source, target)
            )
            raise InputError(f"no path from {a} to {b}: {WHY[int(laid.why[i])]}")
        timing = plane.timing(pairs, laid)
        column[away], answer[away], mtu[away] = timing.forth_ps, timing.answer_ps, np.maximum(laid.mtu, 1)
        if len(away):
            rate[away] = np.minimum.reduceat(plane.carried_gbps[laid.port[laid.channel] >> 4], laid.first[:-1])
    return Pairs(
        host_from=source.astype(np.int64),
        host_to=target.astype(np.int64),
        ps_octet=8000.0 / rate,
        small_ps=small,
        next_ps=following,
        mtu_ps=large,
        answer_ps=answer,
        mtu=mtu,
        local=local,
        inline=np.array([inline]),
        gap_ps=np.array([round(plane.profile.message_gap_ns * 1000)]),
    )
