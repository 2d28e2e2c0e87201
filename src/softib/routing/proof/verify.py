"""Prove forwarding tables: whether every packet arrives, over how many hops, and whether buffers
can wait for each other in a cycle.

Pairs are (source port, destination LID). Sources are CA and router ports; destinations are all LIDs
of all end ports except the source's own. Routes that start on a switch are listed separately,
because only management traffic of the switch uses them (answers about counters, traps, a subnet
manager on it). For credit loops see :mod:`softib.routing.proof.credit_loops`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from softib.result import Result
from softib.routing.graph import SwitchGraph
from softib.routing.proof.credit_loops import (
    NO_PATH,
    Channel,
    Needs,
    Senders,
    channels_of,
    find_cycle,
    lists_of,
    needs_of,
)
from softib.routing.proof.reach import destinations, links_of, port_map, routes_of
from softib.routing.proof.verify_kernels import walk_all

__all__ = ["Failure", "Pairs", "Proof", "verify"]

KINDS = ("CA→CA", "CA→switch", "switch→switch", "switch→CA")
STATES = ("", "arrives", "dead end", "loop", "delivered to the wrong port")
EXAMPLES = 8


@dataclass(frozen=True)
class Pairs(Result):
    """Ordered pairs of ends, and the outcome of packets between them."""

    total: int
    arrived: int
    dead_end: int
    loop: int
    misdelivered: int
    dropped: int = 0
    """Pairs whose packets are dropped because an SL2VL entry names no VL."""

    @property
    def lost(self) -> int:
        """Pairs that do not arrive, for any reason."""
        return self.total - self.arrived


@dataclass(frozen=True)
class Failure:
    """A pair whose packets do not arrive: packets for ``lid`` of end row ``end`` that start on
    ``switch``."""

    kind: str
    switch: int
    end: int
    lid: int
    what: str


@dataclass
class Proof:
    """Result of :func:`verify`.

    * ``hops`` {hops: pairs} counts all CA→CA and CA→switch pairs that arrive, ``hops_ca`` only the CA→CA pairs. Hops
      are egress ports of switches on the path, as in OpenSM's dumps: 1 between CAs on one switch, 3 over one spine, 0
      from a CA to its own switch.
    * ``credit_loop`` is None or a cycle of channels: each waits for the next, and the last one for
      the first.
    * ``answer_loop`` is a cycle that exists only because answers use the SL of the request, as in
      connections made by the connection manager. If each direction uses its own SL, there is no
      cycle.
    * ``switch_loop`` is a cycle that needs packets sent by switches; packets of CAs alone make no
      cycle. If paths have several SLs, the cycle may also need packets to switches' own LIDs,
      because engines assign VLs to paths between CAs first. A switch answers with the SL of the
      request, and sends requests with the SL in its row.
    * ``among_switches``: the cycle of ``switch_loop`` needs packets between two switches, which
      only a subnet manager on a switch sends or receives.
    * ``assumed``: the reason why SLs are unknown and one SL is assumed for all paths ("" = they are known).
    * ``channels`` and ``dependencies`` are the size of the graph that was searched, and ``vls`` is
      the number of VLs in use.
    * ``failures`` are the first few failures of each kind.
    * ``cut_off`` int64[switches]: number of CA LIDs that packets sent by each switch do not reach.
    """

    ca_ca: Pairs
    ca_switch: Pairs
    switch_switch: Pairs
    switch_ca: Pairs
    hops: dict[int, int]
    hops_ca: dict[int, int]
    credit_loop: list[Channel] | None
    channels: int
    dependencies: int
    vls: int
    failures: list[Failure] = field(default_factory=list)
    switch_loop: list[Channel] | None = None
    assumed: str = ""
    answer_loop: list[Channel] | None = None
    among_switches: bool = False
    cut_off: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64), compare=False)

    @property
    def unreachable(self) -> int:
        """Number of CA→CA and CA→switch pairs whose packets do not arrive."""
        return self.ca_ca.lost + self.ca_switch.lost

    @property
    def switch_unreachable(self) -> int:
        """Number of switch→CA and switch→switch pairs whose packets do not arrive. Requests,
        answers and traps of these switches are lost."""
        return self.switch_ca.lost + self.switch_switch.lost

    @property
    def deadlock_free(self) -> bool:
        """Return whether no channels wait for each other in a cycle; :attr:`answer_loop` and
        :attr:`switch_loop` are not considered."""
        return self.credit_loop is None

    @property
    def ok(self) -> bool:
        """Return whether all packets of CAs arrive and none of their channels can deadlock."""
        return self.unreachable == 0 and self.deadlock_free


def verify(
    graph: SwitchGraph,
    lft: np.ndarray,
    path_sl: np.ndarray | None = None,
    sl2vl: np.ndarray | None = None,
    data_vls: int = 8,
) -> Proof:
    """Prove ``lft`` uint8[n_switches, any width] on ``graph``. Entries may name ports that do not exist.

    ``path_sl`` uint8[n_switches, ends] is the SL by (switch of the source, destination end).
    :data:`~softib.routing.proof.credit_loops.NO_PATH` = the pair sends nothing, and makes no
    dependency. None = SL 0 everywhere. If it has one row, this row applies to every source; [ends,
    ends] is indexed by source end (as another manager's SA reports it). ``sl2vl``: None = the VL is
    SL mod ``data_vls``; otherwise uint8[16] (one map everywhere), uint8[n_switches, 16], or
    uint8[n_switches, ports + 1, ports + 1, 16] by (switch, input portnum, output portnum). Packets
    are dropped if the VL is ``data_vls`` or higher (15, IBA 7.6.6). Raises ValueError for arrays of
    other shapes.
    """
    if lft.ndim != 2 or lft.shape[0] != graph.n_switches:
        raise ValueError(f"lft has shape {lft.shape}; use ({graph.n_switches}, LIDs)")
    lft = np.ascontiguousarray(lft, np.uint8)
    at = port_map(graph)
    lids, ends = destinations(graph)
    counts, hist, failures, cut_off = _walk(graph, at, lft, lids, ends)
    dropped = np.zeros((2, graph.n_switches + 2), np.int64)

    def needs(of: np.ndarray, switches: bool, answers: bool) -> Needs:
        return needs_of(
            graph=graph,
            at=at,
            lft=lft,
            lids=lids[of],
            ends=ends[of],
            path_sl=path_sl,
            sl2vl=sl2vl,
            data_vls=data_vls,
            dropped=lost,
            senders=Senders(switches, answers),
        )

    everywhere, to_cas, lost = np.ones(len(lids), np.bool_), ~graph.end_is_switch[ends], dropped
    every = needs(everywhere, True, True)
    vls = every.vls
    start, targets = lists_of(graph, every.needs, vls)
    loop = answer_loop = switch_loop = None
    among_switches = False
    if (cycle := find_cycle(start, targets)) is not None:
        lost = np.zeros_like(dropped)
        of_cas = needs(everywhere, False, False).needs
        ordered = needs(to_cas, False, False).needs if _orders_by_sl(path_sl) else of_cas
        if (between := find_cycle(*lists_of(graph, ordered, vls))) is not None:
            loop = channels_of(graph, between, vls)
        elif (both := find_cycle(*lists_of(graph, needs(to_cas, False, True).needs, vls))) is not None:
            answer_loop = channels_of(graph, both, vls)
        else:
            polled = find_cycle(*lists_of(graph, of_cas | needs(to_cas, True, True).needs, vls))
            switch_loop = channels_of(graph, cycle if polled is None else polled, vls)
            among_switches = polled is None
    hist[:2] -= dropped
    lost = dropped.sum(axis=1)
    return Proof(
        ca_ca=_pairs(counts[0], int(lost[0])),
        ca_switch=_pairs(counts[1], int(lost[1])),
        switch_switch=_pairs(counts[2], 0),
        switch_ca=_pairs(counts[3], 0),
        hops=_histogram(hist[0] + hist[1]),
        hops_ca=_histogram(hist[0]),
        credit_loop=loop,
        channels=int(every.used.sum()),
        dependencies=len(targets),
        vls=int(every.used.reshape(-1, vls).any(axis=0).sum()),
        failures=failures,
        switch_loop=switch_loop,
        answer_loop=answer_loop,
        among_switches=among_switches,
        cut_off=cut_off,
    )


def _orders_by_sl(path_sl: np.ndarray | None) -> bool:
    """Return whether paths have several SLs. Engines that avoid cycles with SLs only have to
    consider packets between CAs. If all SLs are equal, packets to switches are considered too."""
    return path_sl is not None and len(np.unique(path_sl[path_sl != NO_PATH])) > 1


class Walk(NamedTuple):
    """Walks from every switch to every LID."""

    counts: np.ndarray
    """int64[kinds, 5]: number of pairs by outcome."""
    hops: np.ndarray
    """int64[kinds, switches + 2]: number of pairs by hops."""
    failures: list[Failure]
    cut_off: np.ndarray
    """int64[switches]: number of destinations that a switch does not reach."""


def _walk(graph: SwitchGraph, at: np.ndarray, lft: np.ndarray, lids: np.ndarray, ends: np.ndarray) -> Walk:
    n = graph.n_switches
    counts, hist = np.zeros((4, 5), np.int64), np.zeros((4, n + 2), np.int64)
    rows, cut_off = np.zeros((4 * EXAMPLES, 5), np.int32), np.zeros(n, np.int64)
    used = walk_all(links_of(graph), routes_of(graph, lft, lids, ends, at), counts, hist, rows, cut_off)
    failures = [Failure(KINDS[k], int(s), int(e), int(d), STATES[w]) for k, s, e, d, w in rows[:used]]
    return Walk(counts, hist, failures, cut_off)


def _pairs(counts: np.ndarray, dropped: int) -> Pairs:
    _, arrived, dead, loop, wrong = (int(c) for c in counts)
    return Pairs(int(counts.sum()), arrived - dropped, dead, loop, wrong, dropped)


def _histogram(bars: np.ndarray) -> dict[int, int]:
    return {int(h): int(bars[h]) for h in np.flatnonzero(bars)}
