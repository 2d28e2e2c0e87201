"""The paths that a run's messages take: which lead to their destination now, and when the others
led there again."""

from __future__ import annotations

import numpy as np

from softib.fabric.model import Fabric
from softib.iba.constants import LFT_NO_ROUTE

__all__ = ["PathsInUse"]


class PathsInUse:
    """Paths of messages in both directions (acknowledgements take the second): end ports ``port``
    and ``end`` (rows of ports) and ``lid``, a row each; none before :meth:`follow`.

    By fault, in the order in which faults happen: ``broken``, how many paths it broke, and
    ``back_ps``, when all of these led to their destination again (-1: not yet).
    """

    def __init__(self, fabric: Fabric):
        self.fabric = fabric
        self.broken: list[int] = []
        self.back_ps: list[int] = []
        self._down: list[np.ndarray] = []
        self.port = self.end = self.lid = np.zeros(0, np.int64)
        self._net: object = None

    def follow(self, net: object, src: np.ndarray, dst: np.ndarray, lid: np.ndarray) -> None:
        """Follow the paths from ports ``src`` to ``dst`` with LID ``lid``; ``net``: the tables of
        the packet layer, which change during the run."""
        fabric, self._net = self.fabric, net
        pairs = np.concatenate(
            [np.stack([src, dst, lid], 1), np.stack([dst, src, fabric.lid[src].astype(np.int64)], 1)]
        )
        pairs = np.unique(pairs, axis=0)
        self.port, self.end, self.lid = pairs[:, 0], pairs[:, 1], pairs[:, 2]

    def faults_happened(self, number: int, now_ps: int) -> None:
        """Record the paths that ``number`` new faults broke; 0: one trained a link again."""
        dead = self.dead()
        for _ in range(number):
            rows = np.setdiff1d(dead, np.concatenate([*self._down, np.zeros(0, np.int64)]))
            self._down.append(rows)
            self.broken.append(len(rows))
            self.back_ps.append(-1 if len(rows) else now_ps)
        self.tables_changed(now_ps)

    def tables_changed(self, now_ps: int) -> None:
        """Record which broken paths lead to their destination again, after tables or links have
        changed."""
        for i, rows in enumerate(self._down):
            if len(rows):
                self._down[i] = rows = self.dead(rows)
                if not len(rows):
                    self.back_ps[i] = now_ps

    def dead(self, rows: np.ndarray | None = None) -> np.ndarray:
        """Return the rows (of ``rows``, or of all paths) whose path ends before its destination."""
        f, net = self.fabric, self._net
        peer, lft = net.port["peer"], net.lft  # type: ignore[attr-defined]
        rows = np.arange(len(self.port)) if rows is None else rows
        at = self.port[rows].astype(np.int64)
        lid, end = self.lid[rows], self.end[rows]
        here = f.is_switch[f.port_node[at]]  # port 0 of a switch sends into its switch
        at = np.where(here, at, peer[at])
        alive = at >= 0
        for _ in range(f.sizes.switches + 1):
            at_switch = alive & f.is_switch[f.port_node[np.maximum(at, 0)]]
            going = np.flatnonzero(at_switch & (at != end))
            if not len(going):
                break
            node = f.port_node[at[going]]
            out = lft[f.switch_of_node[node], lid[going]].astype(np.int64)
            base = f.node_base[node].astype(np.int64)
            is_port = (out != LFT_NO_ROUTE) & (out <= f.node_nports[node])
            following = np.where(is_port, peer[np.where(is_port, base + out, 0)], -1)
            following = np.where(is_port & (out == 0), base, following)
            at[going] = following
            alive[going] = (following >= 0) & ~((out == 0) & (base != end[going]))
        return rows[~(alive & (at == end))]
