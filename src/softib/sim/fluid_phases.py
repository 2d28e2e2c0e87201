"""An all-to-all as shift phases with a barrier after each, by the fluid layer's rules, without a flow for every pair at once.

11,664 hosts have 136 million messages. In a phase all begin together with one size, so the fullest channel says when the last one ends
(:mod:`softib.sim.phase_kernels`); a phase in which delays of paths could change that is run message by message.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.errors import InputError
from softib.sim.messages import Messages, messages
from softib.sim.paths import MAX_HOPS, Plane, packets_of, wire_octets

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = ["Phases", "shift_phases"]

MAX_BYTES = 2 << 30
"""Room for the table of paths (11,664 hosts at 648 leaves: 150 MB)."""
HOPS = 5
"""Hops behind the first that the table has room for at first: those of a tree of three levels."""
CHUNK = 256
"""Phases between two calls of ``progress``."""


@dataclass(frozen=True)
class Phases:
    """``took_ps`` int64 by phase, from the barrier before to the completion of its last message; ``most``: flows on the fullest channel.
    ``enumerated``: phases that were run message by message."""

    shifts: np.ndarray
    took_ps: np.ndarray
    most: np.ndarray
    flows: int
    enumerated: int

    @property
    def end_ps(self) -> int:
        """All phases, one after another."""
        return int(self.took_ps.sum())


def phase(hosts: int, shift: int, size: int) -> Messages:
    """The messages of one phase."""
    every = np.arange(hosts)
    return messages(every, (every + shift) % hosts, size, qp=every)


def shift_phases(
    fabric: Fabric | Plane, size: int, *, shifts: Any = None, hosts: int | None = None,
    progress: Callable[[int, int, int], None] | None = None,
) -> Phases:  # fmt: skip
    """Phases in which host i WRITEs ``size`` octets to host i + k (default: every k from 1 on). Hosts are CA ports by LID, the first
    ``hosts`` of them.

    The sum of ``took_ps`` is what :func:`softib.sim.fluid.run` gives for the phases one after another. Raises :class:`InputError` with
    fewer than two hosts, a size below 1, or pairs without a path.
    """
    plane = fabric if isinstance(fabric, Plane) else Plane(fabric)
    there = int((plane.fabric.switch_of_node[plane.fabric.port_node[plane.ends]] < 0).sum())
    n = there if hosts is None else hosts
    if not 2 <= n <= there:
        raise InputError(f"an all-to-all of {n} hosts: the fabric has {there} with an address, so 2 to {there}")
    which = np.arange(1, n) if shifts is None else np.asarray(shifts, np.int64)
    one = phase(2, 1, size)
    one.check(len(plane.ends))
    took, most = np.zeros(len(which), np.int64), np.ones(len(which), np.int64)
    unsure = np.ones(len(which), np.uint8)
    routes = _routes(plane, n, which, one)
    if routes is not None:
        _by_loads(plane, routes, one, which, (took, unsure, most), progress)
    rows = np.flatnonzero(unsure)
    for done, row in enumerate(rows.tolist()):
        took[row] = _one(plane, n, int(which[row]), size)
        if progress and routes is None:
            progress(done + 1, len(rows), int(took.sum()))
    return Phases(which, took, most, n * len(which), len(rows))


def _one(plane: Plane, n: int, shift: int, size: int) -> int:
    from softib.sim.fluid import run

    outcome = run(plane, phase(n, shift, size), judge=False)
    if not outcome.done:
        raise InputError(f"shift {shift} cannot complete: {outcome.notes[0]}")
    return outcome.end_ps


def _by_loads(
    plane: Plane, routes: Any, one: Messages, which: np.ndarray, out: tuple[np.ndarray, np.ndarray, np.ndarray],
    progress: Callable[[int, int, int], None] | None,
) -> None:  # fmt: skip
    from softib.sim.phase_kernels import shift_phases as phases

    octets = float(wire_octets(one, packets_of(one, np.full(2, plane.link_mtu)))[0])
    loads = np.zeros(len(plane.gbps), np.int32)
    touched, both = np.zeros(len(loads), np.int32), np.zeros(2, np.int64)
    step = CHUNK if progress else len(which)
    for at in range(0, len(which), max(step, 1)):
        part = slice(at, at + step)
        phases(routes, which[part], octets * 8000.0, loads, touched, both, *(o[part] for o in out))
        if progress:
            progress(min(at + step, len(which)), len(which), int(out[0].sum()))


def _routes(plane: Plane, n: int, which: np.ndarray, one: Messages) -> Any:
    """The table of paths of the first ``n`` hosts, or None where loads do not tell: hosts without a switch, adapters of several speeds, links of several MTUs or VLs, SLs
    by pair, pairs without a path, more paths than there is room for."""
    from softib.sim.phase_kernels import Filling, Routes, fill_all, fill_shifts

    t, port, lid, _ = plane.table, *plane.end_columns
    port, lid = port[:n].copy(), lid[:n].copy()
    peer = t.peer[port]
    switch = np.where(peer >= 0, t.switch[np.maximum(peer, 0)], -1)
    unlike = bool((plane.half_ps[:n] != plane.half_ps[0]).any())
    if (switch < 0).any() or unlike or not plane.link_mtu or plane.path_sl is not None:
        return None
    _, first_of, switch_of = np.unique(switch, return_index=True, return_inverse=True)
    hops = HOPS
    while True:
        if 4 * len(first_of) * n * hops > MAX_BYTES:
            return None
        channels = np.empty((len(first_of), n, hops), np.int32)
        delay = np.full((len(first_of), n), -1, np.int32)
        info, vl_at = np.zeros(3, np.int64), np.full(len(t.peer), -1, np.int64)
        filling = Filling(port, lid, switch_of, channels, delay, vl_at, np.empty(MAX_HOPS, np.int64), info)
        few = 2 * len(which) < len(first_of)
        if fill_shifts(t, filling, which, 0) if few else fill_all(t, filling, first_of, 0):
            return None
        if info[2] <= hops:
            break
        hops = int(info[2])
    link = plane.hop_ps[port]
    return Routes(
        switch_of, channels, delay, link, link, plane.carried_gbps[port], plane.carried_gbps, _tail(plane, one)
    )


def _tail(plane: Plane, one: Messages) -> np.ndarray:
    """``tail_ps`` of :data:`~softib.sim.phase_kernels.Routes` for messages as ``one``: those of a path that takes no time."""
    from softib.sim.paths import Laid

    zero, none = np.zeros(2, np.int64), np.zeros(0, np.int64)
    timing = plane.timing(one, Laid(none, none, none, zero, zero, np.full(2, plane.link_mtu), zero, none))
    return np.cumsum([timing.forth_ps[0], timing.answer_ps[0]])
