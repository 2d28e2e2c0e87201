"""The SLs that packets may have: those of all path records that the SA has returned, because
senders may keep records for any time.

An RC connection keeps the SL of its path record until it ends (IBA 9.6.1.2: the SL is in the QP's
address vector), even if the tables change later. So SLs of earlier tables count until the
destination's port comes up again, or until a change of tables is reported as able to loop. After
that, later changes are compared only with the tables after that change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from softib.routing.engine import Routing
from softib.routing.graph import SwitchGraph
from softib.routing.transition.transition import SlUse, sl_masks

__all__ = ["GivenSls", "SlHistory"]


class GivenSls(NamedTuple):
    """The SLs that another manager assigned, as in :class:`SlHistory`: mask that any pair may use,
    NodeGUIDs uint64[s], PortGUIDs uint64[e], masks uint16[s, e], SLtoVL map."""

    every: int
    switches: np.ndarray
    ends: np.ndarray
    masks: np.ndarray
    sl2vl: np.ndarray


class SlHistory:
    """Masks of SLs, by NodeGUID of the sender's switch and PortGUID of the receiver. ``every``: SLs
    that any pair may use (of engines with one VL)."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Clear all state, because another manager returns path records."""
        self.known = False
        self.every = 0
        self.switches, self.ends = np.zeros(0, np.uint64), np.zeros(0, np.uint64)
        self.masks = np.zeros((0, 0), np.uint16)
        self.sl2vl: np.ndarray | None = None

    def take_over(self, given: GivenSls) -> None:
        """Store the SLs that the previous manager assigned and reported."""
        self.every, self.switches, self.ends, masks, self.sl2vl = given
        self.known, self.masks = True, masks.copy()

    def restarted(self, guids: set[int]) -> None:
        """Remove these ports, which have no connections after a restart."""
        if guids and len(self.ends):
            self.masks[:, np.isin(self.ends, np.array(sorted(guids), np.uint64))] = 0

    @property
    def by_pair(self) -> bool:
        """Return whether paths had separate SLs."""
        return bool(self.masks.any())

    def before(self, graph: SwitchGraph) -> np.ndarray:
        """Return uint16[n_switches, ends] of ``graph``, or [1, 1] if all pairs are equal."""
        if not self.by_pair:
            return np.full((1, 1), self.every, np.uint16)
        out = np.full((graph.n_switches, len(graph.end_guid)), self.every, np.uint16)
        rows, row = _rows(graph.switch_guid, self.switches)
        columns, column = _rows(graph.end_guid, self.ends)
        out[np.ix_(rows, columns)] |= self.masks[np.ix_(row, column)]
        return out

    def use(self, graph: SwitchGraph, routing: Routing, others: int, sl2vl: np.ndarray) -> SlUse:
        """Return the SLs before and with the tables of ``routing``; ``others``: mask of the SLs
        that pairs use if the engine assigns none."""
        fresh = np.full((1, 1), others, np.uint16) if routing.path_sl is None else sl_masks(graph, routing.path_sl)
        return SlUse(self.before(graph), fresh, sl2vl)

    def given(self, graph: SwitchGraph, use: SlUse, forgets: bool) -> None:
        """Record that the SA now returns path records with these SLs. ``forgets``: earlier SLs no
        longer count."""
        masks = use.fresh if forgets else use.after
        self.known, self.sl2vl = True, use.sl2vl
        if masks.shape == (1, 1):
            self.every = int(masks[0, 0])
            self.switches, self.ends, self.masks = np.zeros(0, np.uint64), np.zeros(0, np.uint64), masks[:0, :0]
        else:
            self.every, self.masks = 0, masks.copy()
            self.switches, self.ends = graph.switch_guid.copy(), graph.end_guid.copy()


def _rows(guids: np.ndarray, sorted_guids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of ``guids`` that are in ``sorted_guids``, and their rows there."""
    order = np.argsort(sorted_guids, kind="stable")
    at = np.minimum(np.searchsorted(sorted_guids[order], guids), len(sorted_guids) - 1)
    rows = np.flatnonzero(sorted_guids[order[at]] == guids)
    return rows, order[at[rows]]
