"""Which paths of a run lead to their destination, by the tables and links of now."""

from __future__ import annotations

import numpy as np

from softib.fabric.model import Fabric
from softib.iba.constants import LFT_NO_ROUTE

__all__ = ["PathsInUse"]


class PathsInUse:
    """The paths of messages in both directions (acknowledgements take the second): ``port``, the end port that sends, and ``lid``.

    ``peer`` int32[ports] is ``Net.port``'s column, ``lft`` the tables; both change while the run goes on.
    """

    def __init__(self, fabric: Fabric, net: object, src: np.ndarray, dst: np.ndarray, lid: np.ndarray):
        self.fabric, self._net = fabric, net
        pairs = np.concatenate(
            [np.stack([src, dst, lid], 1), np.stack([dst, src, fabric.lid[src].astype(np.int64)], 1)]
        )
        pairs = np.unique(pairs, axis=0)
        self.port, self.end, self.lid = pairs[:, 0], pairs[:, 1], pairs[:, 2]

    def broken(self, rows: np.ndarray | None = None) -> np.ndarray:
        """Rows (of ``rows``, or of all paths) of paths that end before their destination."""
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
