"""Which pairs the tables before lost, by destination: of new tables only the columns that changed
are walked.

A packet for a LID meets nothing but that LID's column, so what becomes of it stays as long as the
column stays and the ports that it names lead where they led. After one cable is pulled that is so
for nearly all columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.routing.graph import SwitchGraph
from softib.routing.proof.reach import connected_pairs, count_arrivals, destinations, port_map

__all__ = ["ProvenTables"]


@dataclass(frozen=True)
class _Past:
    guid: np.ndarray
    cas: np.ndarray
    lids: np.ndarray
    leads_to: np.ndarray
    lft: np.ndarray
    arrived: np.ndarray


class ProvenTables:
    """The last tables of a subnet that were judged. It keeps them by reference: who made them must
    not write to them later.

    ``walked``: destinations that the last judgement had to walk.
    """

    def __init__(self) -> None:
        self._past: _Past | None = None
        self.walked = 0

    def lost_pairs(self, graph: SwitchGraph, lft: np.ndarray) -> int:
        """:func:`softib.routing.proof.reach.lost_pairs` of ``lft``, and remembers it."""
        lids, ends = destinations(graph)
        cas = np.bincount(graph.end_switch[~graph.end_is_switch], minlength=graph.n_switches)
        leads_to = _leads_to(graph)
        past = self._past
        arrived = np.zeros(len(lids), np.int64)
        repeated = np.ones(len(lids), np.bool_)
        if (
            past is not None
            and past.lft.shape == lft.shape
            and np.array_equal(past.guid, graph.switch_guid)
            and np.array_equal(past.cas, cas)
            and np.array_equal(past.lids, lids)
        ):
            repeated = _changed(past, leads_to, lft, lids)
            arrived[~repeated] = past.arrived[~repeated]
        arrived[repeated] = count_arrivals(graph, lft, lids[repeated], ends[repeated])
        self.walked = int(np.count_nonzero(repeated))
        self._past = _Past(graph.switch_guid, cas, lids, leads_to, lft, arrived)
        return connected_pairs(graph) - int(arrived.sum())


def _leads_to(graph: SwitchGraph) -> np.ndarray:
    """int64[n, 256]: the switch behind each port (row), ``-2 - LID`` of an end port, -1 for
    nothing."""
    at = port_map(graph)
    out = at.astype(np.int64)
    out[at >= 0] = graph.peer[at[at >= 0]]
    ends = at < -1
    out[ends] = -2 - graph.end_lid[-2 - at[ends]].astype(np.int64)
    return out


def _changed(past: _Past, leads_to: np.ndarray, lft: np.ndarray, lids: np.ndarray) -> np.ndarray:
    """bool[lids]: columns that differ, or name a port that leads elsewhere than before."""
    changed = np.zeros(lft.shape[1], np.bool_)
    ports = leads_to != past.leads_to
    for s in range(len(lft)):
        changed |= lft[s] != past.lft[s]
        if ports[s].any():
            changed |= ports[s][lft[s]]
    inside = lids < lft.shape[1]
    out = np.zeros(len(lids), np.bool_)
    out[inside] = changed[lids[inside]]
    return out
