"""The order in which forwarding tables change, such that no packet meets a transient loop: from the
destination outwards, in rounds.

For each destination, a switch changes after all switches that follow it on its new path. So a
packet that reaches a switch with its new entry follows the new path to the end, and a packet that
reaches none follows the old path. Whatever the order of Sets within a round, no loop and no gap
occurs that neither the old nor the new tables have. (Francois and Bonaventure, "Avoiding transient
loops during the convergence of link-state routing protocols", 2007, use the same order for
link-state routers.)

LIDs may have stages (:mod:`softib.routing.transition.transition`). All rounds of a stage precede
those of the next stage, and packets drain between them.

A Set contains 64 LIDs. If they change in different rounds, the block is sent in each of these
rounds, with the entries that have changed up to this round. If a Set is lost, its LIDs (and, if
there are stages, the LIDs of all later stages) do not change further: switches upstream keep the
old entries, and the next sweep continues from this state.
"""

from __future__ import annotations

import numpy as np

from softib.iba.constants import LFT_BLOCK, LFT_NO_ROUTE
from softib.routing.graph import SwitchGraph
from softib.sm.kernels import rounds

__all__ = ["LftUpdate"]

STAGE = 1 << 16
"""Maximum number of rounds of a stage."""


class LftUpdate:
    """The change from ``old`` to ``new`` (uint8[switches, whole blocks of LIDs]). ``known``
    bool[switches]: ``old`` is the actual table of the switch. For other switches, every block is
    written. ``stage`` int32[LIDs]: stages 1, 2, … in this order, and -1 last. ``discard``: LIDs of
    stage -1 have no entry until then.

    ``held`` are the tables of the switches after all rounds so far.
    """

    def __init__(
        self,
        graph: SwitchGraph,
        old: np.ndarray,
        new: np.ndarray,
        known: np.ndarray,
        stage: np.ndarray | None = None,
        discard: bool = False,
    ):
        self.held, self.new = old, new
        self.blocks = new.shape[1] // LFT_BLOCK
        self._switch = self._lid = np.zeros(0, np.int64)
        order = np.zeros(0, np.uint16)
        if known.any():
            # millions in a fabric of 16,384 hosts; one dimension is faster than two
            cell = np.flatnonzero(old != new)
            self._switch = cell // new.shape[1]
            self._lid = cell - self._switch * new.shape[1]
            order = np.ones(len(cell), np.uint16)
            if len(cell):
                rounds(old, new, _next_switch(graph), self._switch, self._lid, order)
        else:  # no switch forwards packets yet, so one round is enough
            self.held = new
        self._value = new[self._switch, self._lid]
        self._step = order  # 16 bits, because NumPy then uses radix sort
        if stage is not None:
            self._step = order.astype(np.int64)
            self._in_stages(stage, discard)
        steps = np.argsort(self._step, kind="stable")
        self._switch, self._lid = self._switch[steps], self._lid[steps]
        self._value, self._step = self._value[steps], self._step[steps].astype(np.int64)
        self._at = 0
        self._unwritten = ~known
        self._frozen = np.zeros(new.shape[1], bool)

    def _in_stages(self, stage: np.ndarray, discard: bool) -> None:
        """Order the rounds so that those of a stage precede those of the next."""
        last = int(stage.max(initial=0)) + 1
        number = stage[self._lid]
        last_ones = np.flatnonzero(number < 0)
        self._step += np.where(number < 0, last + discard, number) * STAGE
        if discard:
            self._switch = np.concatenate([self._switch, self._switch[last_ones]])
            self._lid = np.concatenate([self._lid, self._lid[last_ones]])
            self._value = np.concatenate([self._value, np.full(len(last_ones), LFT_NO_ROUTE, np.uint8)])
            self._step = np.concatenate([self._step, np.full(len(last_ones), last * STAGE)])
        elif len(number) and 0 < (end := int(number.max())) < last - 1 and len(last_ones) == 0:
            self._end_last_stage(stage, end)

    def _end_last_stage(self, stage: np.ndarray, end: int) -> None:
        """End the last stage. For LIDs of stages after ``end``, the last stage that writes entries,
        only the SLs of paths change. Packets of stage ``end`` must drain before senders get these
        SLs, so one more entry is written, without a change."""
        lid = int(np.flatnonzero(stage > end)[0])
        switch = int(self._switch[0])
        self._switch, self._lid = np.append(self._switch, switch), np.append(self._lid, lid)
        self._value = np.append(self._value, self.new[switch, lid])
        self._step = np.append(self._step, (end + 1) * STAGE)

    @property
    def over(self) -> bool:
        """Return whether everything is written."""
        return self._at == len(self._switch) and not self._unwritten.any()

    @property
    def drains(self) -> bool:
        """Return whether the next round begins a new stage."""
        at = self._at
        return 0 < at < len(self._step) and bool(self._step[at - 1] // STAGE != self._step[at] // STAGE)

    def next_round(self) -> np.ndarray:
        """Return the Sets of the next round as ``switch * blocks + block``. The content of each is
        the row with this number in :attr:`images`."""
        stop = self._at
        if self._at < len(self._switch):
            stop = int(np.searchsorted(self._step, self._step[self._at], side="right"))
        rows = slice(self._at, stop)
        self._at = stop
        switch, lid, value = self._switch[rows], self._lid[rows], self._value[rows]
        if self._frozen.any():
            go = ~self._frozen[lid]
            switch, lid, value = switch[go], lid[go], value[go]
        self.held[switch, lid] = value
        sent = np.repeat(self._unwritten, self.blocks)
        sent[switch * self.blocks + lid // LFT_BLOCK] = True
        self._unwritten[:] = False
        return np.flatnonzero(sent)

    @property
    def images(self) -> np.ndarray:
        """The blocks of :attr:`held`: uint8[switches * blocks, 64]. Rows that a round sent do not
        change until the next round."""
        return self.held.reshape(-1, LFT_BLOCK)

    def lost(self, which: np.ndarray) -> None:
        """Handle Sets whose effect is unknown."""
        for block in np.unique(which % self.blocks).tolist():
            self._frozen[block * LFT_BLOCK : (block + 1) * LFT_BLOCK] = True
        if self._at and self._at < len(self._step):  # later stages assume that these Sets were executed
            later = self._step[self._at :] // STAGE > self._step[self._at - 1] // STAGE
            self._frozen[self._lid[self._at :][later]] = True


def _next_switch(graph: SwitchGraph) -> np.ndarray:
    at = np.full((graph.n_switches, LFT_NO_ROUTE + 1), -1, np.int32)
    at[graph.link_switch, graph.out_port] = graph.peer
    return at
