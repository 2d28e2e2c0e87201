"""All nodes and cables that were read while the server runs. An item that goes down stays on the map, with the time
at which it went down."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.fabric.builder import FabricBuilder
from softib.fabric.model import Fabric

__all__ = ["Cable", "End", "Remembered", "cables_of"]

End = tuple[int, int]
"""NodeGUID and portnum."""
Cable = tuple[End, End]
"""The two ends of a cable, the smaller first."""


@dataclass(frozen=True)
class Snapshot:
    """``fabric``: everything that was seen. ``down``: maps each cable to the clock time since which
    it has been missing; ``removed``: the same for nodes, by NodeGUID."""

    fabric: Fabric
    down: dict[Cable, float]
    removed: dict[int, float]


class Remembered:
    """The earlier contents of a fabric. :meth:`take` is called with each reading."""

    def __init__(self) -> None:
        self._nodes: frozenset[tuple[int, bytes]] = frozenset()
        self._cables: frozenset[Cable] = frozenset()
        self.now: Snapshot | None = None

    def begin(self, kept: Snapshot) -> None:
        """Set the known state before the first reading: cables and nodes that are missing in all
        readings stay, with the time at which they disappeared."""
        f = kept.fabric
        self._nodes = frozenset(zip(f.node_guid.tolist(), map(bytes, f.node_desc), strict=True))
        self._cables, self.now = cables_of(f), kept

    def take(self, f: Fabric, time_s: float) -> bool:
        """Take a reading of ``time_s``. Return whether a new map must be drawn. If one end of a missing cable has
        another cable now, the cable was moved, not lost."""
        cables = cables_of(f)
        used = {end for cable in cables for end in cable}
        last = self.now
        down, removed = (dict(last.down), dict(last.removed)) if last is not None else ({}, {})
        lost = {c for c in self._cables - cables if c[0] not in used and c[1] not in used}
        down = {c: down.get(c, time_s) for c in lost}
        guids = set(f.node_guid.tolist())
        removed = {g: removed.get(g, time_s) for g, _ in self._nodes if g not in guids}
        nodes = frozenset(zip(f.node_guid.tolist(), map(bytes, f.node_desc), strict=True))
        nodes |= frozenset(n for n in self._nodes if n[0] in removed)
        all_cables = cables | lost
        changed = last is None or nodes != self._nodes or all_cables != self._cables
        self._nodes, self._cables = nodes, frozenset(all_cables)
        if last is not None and not changed:
            drawn = last.fabric
        else:
            drawn = (
                f if not lost and not removed else _union(f, None if last is None else last.fabric, lost, set(removed))
            )
        self.now = Snapshot(drawn, down, removed)
        return changed

    def links_down(self, ends: set[End], time_s: float) -> None:
        """Record that the links of these ports are down according to a round. Their cables are then down until a
        reading contains them again."""
        if self.now is None or not ends:
            return
        down = dict(self.now.down)
        for cable in self._cables:
            if cable not in down and (cable[0] in ends or cable[1] in ends):
                down[cable] = time_s
        if len(down) != len(self.now.down):
            self.now = Snapshot(self.now.fabric, down, self.now.removed)


def cables_of(f: Fabric) -> frozenset[Cable]:
    """Return all cables with two ends."""
    rows = np.flatnonzero(f.linked)
    guid = f.node_guid[f.port_node]
    a = list(zip(guid[rows].tolist(), f.port_num[rows].tolist(), strict=True))
    peer = f.port_peer[rows]
    b = list(zip(guid[peer].tolist(), f.port_num[peer].tolist(), strict=True))
    return frozenset((x, y) if x <= y else (y, x) for x, y in zip(a, b, strict=True))


def _union(f: Fabric, old: Fabric | None, lost: set[Cable], removed: set[int]) -> Fabric:
    """Return ``f`` with the nodes and cables that it no longer contains."""
    assert old is not None
    b = FabricBuilder(f.name)
    old_row = {g: i for i, g in enumerate(old.node_guid.tolist())}
    row = {g: i for i, g in enumerate(f.node_guid.tolist())}
    extra = [old_row[g] for g in sorted(removed) if g in old_row]
    for of, rows in ((f, np.arange(f.sizes.nodes)), (old, np.array(extra, np.int64))):
        names = of.node_names()
        b.nodes(
            len(rows),
            of.node_type[rows],
            of.node_nports[rows],
            node_guid=of.node_guid[rows],
            sys_guid=of.sys_guid[rows],
            vendor_id=of.vendor_id[rows],
            device_id=of.device_id[rows],
            desc=[names[r] for r in rows.tolist()],
        )
    row |= {int(old.node_guid[r]): f.sizes.nodes + i for i, r in enumerate(extra)}
    rows = np.flatnonzero(f.linked & (np.arange(f.sizes.ports) < f.port_peer))
    peer = f.port_peer[rows]
    b.links(f.port_node[rows], f.port_num[rows], f.port_node[peer], f.port_num[peer])
    back = [(row[x[0]], x[1], row[y[0]], y[1]) for x, y in sorted(lost) if x[0] in row and y[0] in row]
    if back:
        b.links(*(np.array(c) for c in zip(*back, strict=True)))
    return b.build()
