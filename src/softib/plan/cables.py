"""The cables of a placed fabric: length, medium, labels, bundles, and items to order.

A cable has the shortest orderable length that covers its path, in the cheapest medium that has that reach and that both
of its cages accept (:mod:`softib.plan.plugs`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from softib.errors import InputError
from softib.fabric.formats.cabling.plan import CablingPlan, join_plans
from softib.fabric.model import Fabric
from softib.plan.layout import Layout
from softib.plan.plugs import TWIN_PORT, Links, Order, cage, links_of, media_of, medium_codes, orders_of, share_cages

__all__ = ["COPPER_M", "OPTICAL_M", "PATCH_M", "Cables", "Cabling", "cables_of"]

COPPER_M = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0)
OPTICAL_M = (
    3.0,
    5.0,
    7.0,
    10.0,
    15.0,
    20.0,
    25.0,
    30.0,
    35.0,
    40.0,
    50.0,
    70.0,
    100.0,
    150.0,
    200.0,
    300.0,
    500.0,
    1000.0,
    2000.0,
)
"""Orderable lengths in metres: NVIDIA's lists of copper (MCP4Y10, MCA4J80) and fibre (MFP7E10, MFP7E30);
lengths from 200 m on are assumed."""
PATCH_M = (0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0, 70.0, 100.0)
"""Lengths of Ethernet cables for management ports (assumed), up to the 100 m of 1000BASE-T (IEEE 802.3, 40.7)."""


@dataclass(frozen=True)
class Cables:
    """The cables of one fabric. ``path_m``: metres along the trays; ``length_m``: the ordered length; ``kind``: index
    into :func:`media_of`. These columns have the rows of ``links``. ``tray_load`` int64[racks]: number of cables in the
    tray above each rack."""

    fabric: Fabric
    layout: Layout
    links: Links
    path_m: np.ndarray
    length_m: np.ndarray
    kind: np.ndarray
    tray_load: np.ndarray

    def __len__(self) -> int:
        return len(self.links)

    @cached_property
    def orders(self) -> list[Order]:
        """Return the orders of cables."""
        return orders_of(self.links, self.kind, self.length_m)

    def by_kind(self) -> list[tuple[str, float, int]]:
        """Return (medium, ordered metres, number of links) for each medium and length."""
        media = media_of(self.links.generation)
        kinds, counts = np.unique(np.stack([self.kind, self.length_m]), axis=1, return_counts=True)
        return [(media[int(k)].medium, float(m), int(n)) for k, m, n in zip(*kinds, counts, strict=True)]

    def label(self, row: int, end: int) -> str:
        """Return the label at ``end`` of a link: the location of this end, then that of the other end. A location is
        rack, unit, cage and port (after TIA-606)."""
        return f"{self._place(row, end)} / {self._place(row, 1 - end)}"

    def _place(self, row: int, end: int) -> str:
        node, floor = int(self.links.node[row, end]), self.layout.floor
        at = f"{floor.rack_name(int(self.layout.rack[node]))}-U{int(self.layout.u[node]):02d}"
        if self.links.host[row, end]:
            name, host = self.fabric.node_name(node), self.layout.device[node]
            return f"{at}:{name}" if name.startswith(host) or self.layout.floor.adapters else f"{at}:{host} {name}"
        number, part = cage(int(self.links.portnum[row, end]), self.links.generation)
        return f"{at}:{number}.{part}" if self.links.generation in TWIN_PORT else f"{at}:{number}"

    def plan(self) -> CablingPlan:
        """Return the point-to-point list as a cabling plan: racks, units, lengths and media of
        every cable."""
        with_lengths = self.fabric.copy()
        with_lengths.cable_length_m[self.links.row] = self.length_m
        with_lengths.cable_medium[self.links.row] = medium_codes(self.links, self.kind)
        plan = CablingPlan.from_fabric(with_lengths)
        floor, layout = self.layout.floor, self.layout
        nodes = self.fabric.port_node[self.fabric.cable_port[self.links.row]]
        names = np.array([floor.rack_name(r) for r in range(floor.n_racks)])
        plan.rack = names[layout.rack[nodes]]
        plan.u = layout.u[nodes].astype(np.int16)
        return plan


@dataclass(frozen=True)
class Cabling:
    """The cables of all fabrics on one floor."""

    parts: tuple[Cables, ...]

    @property
    def layout(self) -> Layout:
        """The layout of the first fabric, which also has the racks of all other fabrics."""
        return self.parts[0].layout

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def by_kind(self) -> list[tuple[str, float, int]]:
        """Return (medium, ordered metres, number of links) for each medium and length."""
        counts: dict[str, Counter[float]] = {}
        for part in self.parts:
            for medium, metres, links in part.by_kind():
                counts.setdefault(medium, Counter())[metres] += links
        return [(medium, metres, links) for medium, of in counts.items() for metres, links in sorted(of.items())]

    def patches(self) -> list[tuple[float, int]]:
        """Return (ordered metres, cables) of the management ports. Raises :class:`InputError` if one is too long."""
        metres = self.layout.management_m()
        if len(metres) and metres.max() > PATCH_M[-1]:
            raise InputError(
                f"management: a cable needs {metres.max():.1f} m, but 1 Gb/s over copper reaches only {PATCH_M[-1]:g} "
                f"m; leave room for a management switch nearer to its devices"
            )
        lengths, counts = np.unique(np.searchsorted(PATCH_M, metres - 1e-9), return_counts=True)
        return [(PATCH_M[i], n) for i, n in zip(lengths.tolist(), counts.tolist(), strict=True)]

    def bundles(self) -> list[tuple[str, str, int, int]]:
        """Return (rack, rack, cables, bundles) for each pair of racks, those with most cables first."""
        ends = [part.layout.rack[part.links.node] for part in self.parts]
        racks = np.sort(np.concatenate([*ends, self.layout.managed[:, (0, 2)]]), axis=1)
        pairs, counts = np.unique(racks, axis=0, return_counts=True)
        name, most = self.layout.floor.rack_name, self.layout.floor.bundle_cables
        rows = [
            (name(int(a)), name(int(b)), int(n), -(-int(n) // most)) for (a, b), n in zip(pairs, counts, strict=True)
        ]
        return sorted(rows, key=lambda row: -row[2])

    def crowded_trays(self) -> list[tuple[str, int]]:
        """Return (rack, number of cables) for each rack above which more cables pass than the tray has room for."""
        layout, most = self.layout, self.layout.floor.tray_cables
        if most is None:
            return []
        load = sum((part.tray_load for part in self.parts), layout.tray_loads(*layout.managed[:, (0, 2)].T))
        over = np.flatnonzero(load > most)
        return [(layout.floor.rack_name(int(r)), int(load[r])) for r in over]

    def plan(self) -> CablingPlan:
        """Return one point-to-point list of all fabrics."""
        return join_plans([part.plan() for part in self.parts])


def by_generation(parts: Sequence[Cables]) -> dict[str, list[Cables]]:
    """Return ``parts`` by the generation of their links."""
    groups: dict[str, list[Cables]] = {}
    for part in parts:
        groups.setdefault(part.links.generation, []).append(part)
    return groups


def cables_of(fabric: Fabric, layout: Layout, generation: str) -> Cables:
    """Return length and medium of every cable of ``fabric`` on ``layout``.

    Raises :class:`InputError` for a path that no cable of ``generation`` reaches.
    """
    links = links_of(fabric, generation)
    path = layout.length_m(links.node[:, 0], links.node[:, 1])
    media = media_of(generation)
    lengths = [_lengths(c.medium, c.reach_m) for c in media]
    longest = np.array([steps[-1] for steps in lengths])
    if len(path) and path.max() > longest.max():
        row = int(path.argmax())
        ends = " to ".join(fabric.node_name(int(n)) for n in links.node[row])
        raise InputError(
            f"{ends}: the cable needs {path[row]:.1f} m, but no cable of {generation} is longer than {longest.max():g} "
            f"m; "
            "move racks together, or use a slower generation"
        )
    reaches = np.maximum.accumulate(longest)
    kind = share_cages(links, np.searchsorted(reaches, path - 1e-9))
    length = np.zeros(len(path))
    for k, steps in enumerate(lengths):
        rows = kind == k
        length[rows] = np.array(steps)[np.searchsorted(steps, path[rows] - 1e-9)]
    loads = layout.tray_loads(layout.rack[links.node[:, 0]], layout.rack[links.node[:, 1]])
    return Cables(fabric, layout, links, path, length, kind, loads)


def _lengths(medium: str, reach_m: float) -> list[float]:
    """Return orderable lengths of a medium up to its reach."""
    steps = COPPER_M if medium in ("DAC", "ACC") else OPTICAL_M
    return [s for s in steps if s <= reach_m] or [reach_m]
