"""An all-to-all as shift phases with a barrier after each. It uses the fluid layer's rules, but never has the flows of
all pairs in memory: 11,664 hosts have 136 million messages. In a phase all messages begin together and have one size,
so the busiest channel determines when the last one ends (:mod:`softib.sim.fluid.phase_kernels`). A phase whose result
could depend on path delays is run message by message.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.errors import InputError
from softib.plural import counted
from softib.sim.messages import MAX_MESSAGE, Messages, messages
from softib.sim.packet_sizes import packets_of, wire_octets
from softib.sim.paths import Laid, Plane
from softib.sim.timing import timing_of

if TYPE_CHECKING:
    from softib.fabric.model import Fabric
    from softib.sim.paths import Plane


__all__ = ["PhaseTables", "Phases", "shift_phases", "tables_of"]


@dataclass(frozen=True)
class PhaseTables:
    """Tables from which phases of an all-to-all are computed.

    * ``hosts``: CA ports with an address.
    * ``alike``: the first ``alike`` hosts have a switch, and adapters of one speed. Among these hosts, loads determine
    *   the duration of a phase. ``alike`` is 0 if loads never determine it (several MTUs or SLs, latencies of a
    *   what-if, or cables so long that credits limit them).
    * ``edge``: rows of the switches that have links to hosts.
    * ``links`` and ``ends`` are :data:`~softib.sim.fluid.phase_kernels.Links` and
      :data:`~softib.sim.fluid.phase_kernels.Hosts`.
    * ``rates``: rates of the links to hosts (Gb/s), indexed by ``ends.rate_of``.
    """

    hosts: int
    alike: int
    edge: np.ndarray
    links: Any
    ends: Any
    rates: tuple[float, ...]

    @property
    def switches(self) -> int:
        """Return the number of switches that have hosts."""
        return len(self.edge)


def tables_of(plane: Plane) -> PhaseTables:
    """Return the tables of ``plane``. Raises :class:`~softib.errors.InputError` if no link has a
    known speed."""
    from softib.sim.fluid.phase_kernels import Hosts

    f, t = plane.fabric, plane.table
    hosts = int((f.switch_of_node[f.port_node[plane.ends]] < 0).sum())
    port, lid = (column[:hosts] for column in plane.end_columns[:2])
    peer = t.peer[port]
    switch = np.where(peer >= 0, t.switch[np.maximum(peer, 0)], -1)
    sl = _one_sl(plane, hosts)
    good = (switch >= 0) & (plane.half_ps[:hosts] == plane.half_ps[:1]) & _data_vl(t, port, max(sl, 0))
    alike = hosts if good.all() else int(np.argmin(good))
    if not plane.link_mtu or sl < 0 or plane.scale.latency != 1 or np.isfinite(plane.credits.gbps).any():
        alike = 0
    first, switch_of = np.unique(switch, return_inverse=True)
    rates, rate_of = np.unique(plane.gbps[np.maximum(peer, 0)], return_inverse=True)
    link = plane.hop_ps[port]
    ends = Hosts(
        port.astype(np.int32),
        lid,
        switch.astype(np.int32),
        switch_of.astype(np.int32),
        rate_of.astype(np.int32),
        link,
        plane.carried_gbps[port],
    )
    return PhaseTables(hosts, alike, first, _links(plane, max(sl, 0)), ends, tuple(rates.tolist()))


def _one_sl(plane: Plane, hosts: int) -> int:
    """Return the SL of all paths between hosts, -1 if there are several."""
    if plane.path_sl is None or hosts < 2:
        return 0
    given = plane.path_sl[:hosts, :hosts] & 15
    one = int(given[0, 1])
    return one if int((given != one).sum()) == int((given.diagonal() != one).sum()) else -1


def _data_vl(t: Any, port: np.ndarray, sl: int) -> np.ndarray:
    """Return the adapters' ports among ``port`` that send ``sl`` on a data VL (SL2VL: two SLs per byte, the even one in
    the high bits)."""
    pair = t.sl2vl[t.sl2vl_base[port], sl >> 1]
    return np.asarray((pair & 15 if sl & 1 else pair >> 4) < t.vls[port])


def _links(plane: Plane, sl: int) -> Any:
    from softib.sim.fluid.phase_kernels import LINK, SWITCH, Links, link_rows

    f, t = plane.fabric, plane.table
    node = np.flatnonzero(f.switch_of_node >= 0)
    switch = SWITCH.zeros(max(len(f.lft), 1))
    switch["port_0"][f.switch_of_node[node]] = f.node_base[node]
    switch["ports"][f.switch_of_node[node]] = f.node_nports[node] + 1
    rows = LINK.zeros(len(t.peer))
    link_rows(t, switch, sl, rows)
    used = plane.carried_gbps[rows["peer"] >= 0]
    return Links(rows, switch, t.lft, plane.carried_gbps, np.array([used.min(initial=np.inf)]))


MAX_BYTES = 2 << 30
"""Largest size of the table of paths (11,664 hosts at 648 leaves need 150 MB)."""
HOPS = 5
"""Initial room of the table, in hops after the first: enough for a tree of three levels."""
CHUNK = 256
"""Number of phases between two calls of ``progress``."""


@dataclass(frozen=True)
class Phases:
    """``took_ps`` int64 by phase: time from the barrier before it to the completion of its last message. ``most``:
    number of flows on the fullest channel. ``enumerated``: number of phases that were run message by message."""

    shifts: np.ndarray
    took_ps: np.ndarray
    most: np.ndarray
    flows: int
    enumerated: int

    @property
    def end_ps(self) -> int:
        """Return the sum of the phases' durations: each begins when the one before it ends."""
        return int(self.took_ps.sum())


def phase(hosts: int, shift: int, size: int) -> Messages:
    """Return the messages of one phase."""
    every = np.arange(hosts)
    return messages(every, (every + shift) % hosts, size, qp=every)


def shift_phases(
    fabric: Fabric | Plane,
    size: int,
    *,
    shifts: Any = None,
    hosts: int | None = None,
    progress: Callable[[int, int, int], None] | None = None,
) -> Phases:
    """Run phases in which host i WRITEs ``size`` bytes to host i + k (default: every k from 1 on).
    Hosts are the first ``hosts`` CA ports, sorted by LID.

    The sum of ``took_ps`` is the time at which :func:`softib.sim.fluid.run` ends if it runs the
    phases one after another. Raises :class:`InputError` with fewer than two hosts, a size below 1, or pairs without
    a path.
    """
    plane = fabric if isinstance(fabric, Plane) else Plane(fabric)
    tables = plane.phase_tables
    n = tables.hosts if hosts is None else hosts
    if not 2 <= n <= tables.hosts:
        raise InputError(
            f"an all-to-all of {counted(n, 'host')}: the fabric has {tables.hosts} with an address; use 2 to "
            f"{tables.hosts}"
        )
    if not 1 <= size <= MAX_MESSAGE:
        phase(2, 1, size).check(len(plane.ends))
    which = np.arange(1, n) if shifts is None else np.ascontiguousarray(shifts, np.int64)
    took, most, unsure = np.zeros(len(which), np.int64), np.ones(len(which), np.int64), np.ones(len(which), np.uint8)
    paths = _paths(tables, n, which)
    if paths is not None:
        _by_loads(plane, n, paths, size, which, (took, most, unsure), progress)
    rows = np.flatnonzero(unsure)
    for done, row in enumerate(rows.tolist()):
        took[row] = _one(plane, n, int(which[row]), size)
        if progress and paths is None:
            progress(done + 1, len(rows), int(took.sum()))
    return Phases(which, took, most, n * len(which), len(rows))


def _one(plane: Plane, n: int, shift: int, size: int) -> int:
    from softib.sim.fluid import run

    outcome = run(plane, phase(n, shift, size), judge=False)
    if not outcome.done:
        raise InputError(f"shift {shift} cannot complete: {outcome.notes[0]}")
    return outcome.end_ps


def _by_loads(
    plane: Plane,
    n: int,
    paths: Any,
    size: int,
    which: np.ndarray,
    out: tuple[np.ndarray, np.ndarray, np.ndarray],
    progress: Callable[[int, int, int], None] | None,
) -> None:
    from softib.sim.fluid.phase_kernels import Phases as Columns
    from softib.sim.fluid.phase_kernels import shift_phases as run

    tables = plane.phase_tables
    tail_ps, bits = _alone(plane, size, np.array(tables.rates))
    columns = Columns(which, tail_ps, *out, np.empty(len(plane.gbps), np.int32), np.empty(n, np.int64))
    step = CHUNK if progress else max(len(which), 1)
    for at in range(0, len(which), step):
        end = min(at + step, len(which))
        run(tables.links, tables.ends, n, paths, columns, at, end, bits)
        if progress:
            progress(end, len(which), int(out[0].sum()))


def _alone(plane: Plane, size: int, gbps: np.ndarray) -> tuple[np.ndarray, float]:
    """Return two values for a single message on a path without delay: ``tail_ps`` of
    :data:`~softib.sim.fluid.phase_kernels.Phases`, by the rate of the destination's link, and 1000 × the message's bits
    on the wire."""
    from softib.sim.fluid.phase_kernels import TAIL

    n, none = len(gbps), np.zeros(0, np.int64)
    zero, mtu = np.zeros(n, np.int64), np.full(n, plane.link_mtu)
    one = messages(zero, zero, size, qp=np.arange(n))
    timing = timing_of(plane.profile, one, Laid(none, none, none, zero, zero, mtu, zero, none), gbps, plane.half_ps)
    octets = wire_octets(one, packets_of(one, mtu))
    tail = TAIL.zeros(n)
    tail["arrives_ps"], tail["completes_ps"] = timing.forth_ps, timing.forth_ps + timing.answer_ps
    return tail, float(octets[0]) * 8000.0


def _paths(tables: PhaseTables, n: int, which: np.ndarray) -> Any:
    """Return the paths among the first ``n`` hosts, or None if loads do not determine a phase. That
    is the case for hosts without a switch, adapters of several speeds, links of several MTUs or
    VLs, SLs by pair, pairs without a path, or more paths than the table can hold."""
    from softib.sim.fluid.phase_kernels import Paths, fill_all, fill_shifts

    if n > tables.alike:
        return None
    few, hops = 2 * len(which) < tables.switches, HOPS
    rows = n * (2 * len(which) if few else tables.switches)
    indices = np.empty((2, len(which) if few else 0, n), np.int32)
    while 4 * rows * (hops + 1) <= MAX_BYTES:
        info = np.zeros(2, np.int64)
        paths = Paths(indices[0], indices[1], np.empty((rows, hops), np.int32), np.empty(rows, np.int32), info)
        if few:
            lost = fill_shifts(tables.links, tables.ends, n, which, np.empty(len(tables.links.switch), np.int32), paths)
        else:
            lost = fill_all(tables.links, tables.ends, n, tables.edge, paths)
        if lost:
            return None
        if info[0] <= hops:
            return paths
        hops = int(info[0])
    return None
