"""Recognises the topology of a fabric: kind, levels, rails, dimensions or groups, oversubscription, bisection.
Recognition is based on links and hosts; names only help to find the coordinates of a grid and the groups of a
dragonfly. A fabric of no known kind is ``irregular``, and its cables are not compared with a topology.

Kinds: ``fat-tree``, ``rail-optimized``, ``dragonfly``, ``dragonfly+``, ``torus``, ``mesh``,
``hyperx``, ``ring``, ``single-switch``, ``irregular``, ``unlinked`` (switches without any link),
``no-switches``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from softib.diags.capacity.bisection import Bisection, NarrowestPart, bisect
from softib.diags.labels import Labels, read_labels
from softib.diags.structure import grids
from softib.diags.structure.joins import misfit
from softib.diags.structure.placement import grid_coordinates, group_coordinates
from softib.diags.structure.rails import Rails, find_rails
from softib.diags.structure.ranks import TREES, count_tiers, ranks, tier_text
from softib.diags.view import FabricView, gbps_text
from softib.fabric.model import Fabric
from softib.plural import counted
from softib.result import Result, key

__all__ = ["LeafRatio", "Structure", "StructureSummary", "recognise", "recognise_view", "summary"]

SIDEWAYS = 0.02
"""Maximum share of links between switches that may stay within one tier (a few wrong cables) for a fabric to be a
tree.
"""
FEW_GROUPS = 2
"""Maximum number of groups with which a dragonfly may be a grid: with so few groups, any number of cables between them
is the most frequent one.
"""
FEW_SIDEWAYS, SMALL = 2, 24
"""In any tree with at least ``SMALL`` links between switches, ``FEW_SIDEWAYS`` of them may stay within one tier."""


@dataclass
class Structure:
    """The recognised structure. ``rank`` int8[nodes]: 0 host, 1 leaf, 2 spine, …; -1 for an unlinked node or a SHARP
    node.

    ``node_rail`` int16[nodes]: rail of each adapter and leaf (-1: none). ``rail_table``: the cables of the rails.
    ``group`` int32[nodes]: group in a dragonfly (-1: none). ``dims``: sizes of the dimensions of a grid. ``leaf``: the
    switches with hosts. ``oversubscription`` float[leaf]: rate to hosts divided by the rate of the uplinks (inf: no
    uplinks; nan: neither hosts nor uplinks). ``shape`` has the coordinates. ``notes``: lines of text.
    """

    kind: str
    levels: int
    rank: np.ndarray
    rails: int
    units: int
    node_rail: np.ndarray
    rail_table: Rails
    dims: tuple[int, ...]
    groups: int
    group: np.ndarray
    leaf: np.ndarray
    down_gbps: np.ndarray
    up_gbps: np.ndarray
    oversubscription: np.ndarray
    bisection: Bisection
    shape: grids.Shape
    labels: Labels
    notes: list[str] = field(default_factory=list)

    @property
    def bisection_gbps(self) -> float | None:
        """Return the bisection bandwidth in Gb/s; None if the source records no speeds."""
        return self.bisection.gbps


def recognise(fabric: Fabric) -> Structure:
    """Recognise the topology of ``fabric``. The time is nearly linear in the number of ports."""
    return recognise_view(FabricView(fabric))


def recognise_view(view: FabricView) -> Structure:
    """Recognise the topology of an existing view."""
    labels = read_labels(view)
    rank, distance = ranks(view, labels)
    links = view.between_switches
    sideways = links[rank[view.node_a[links]] == rank[view.node_b[links]]]
    shape, labels = _shape(view, labels, rank, sideways)
    rails = find_rails(view) if shape.kind == "fat-tree" else Rails.none(len(view.names))
    kind = "rail-optimized" if rails.count >= 2 else shape.kind
    leaf = np.flatnonzero(rank == 1) if shape.kind not in ("no-switches", "unlinked") else np.zeros(0, np.int64)
    down, up = _capacities(view, rank, tree=shape.kind in ("fat-tree", "dragonfly+"))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = down[leaf] / up[leaf]
    levels = int(rank.max(initial=0)) if shape.kind in ("fat-tree", "dragonfly+") else int(bool(len(leaf)))
    return Structure(
        kind=kind,
        levels=levels,
        rank=rank,
        rails=rails.count,
        units=rails.units,
        node_rail=rails.of_node,
        rail_table=rails,
        dims=shape.dims,
        groups=shape.groups,
        group=shape.group,
        leaf=leaf,
        down_gbps=down,
        up_gbps=up,
        oversubscription=ratio,
        bisection=bisect(view, distance, shape),
        shape=shape,
        labels=labels,
        notes=shape.notes,
    )


def _shape(view: FabricView, labels: Labels, rank: np.ndarray, sideways: np.ndarray) -> tuple[grids.Shape, Labels]:
    """Return the shape, and the labels with its coordinates or groups."""
    links = view.between_switches
    linked = np.unique(np.concatenate([view.node_a[links], view.node_b[links]]))
    none = grids.Shape.of("irregular", len(view.names))
    if not len(linked):
        used = np.unique(view.fabric.port_node[view.to_hosts[2]])
        lone = "unlinked" if view.is_switch.any() else "no-switches"
        none.kind = "single-switch" if len(used) == 1 else lone if not len(used) else "irregular"
        return none, labels
    if rank.max() >= 2 and len(sideways) <= max(SIDEWAYS * len(links), FEW_SIDEWAYS * (len(links) >= SMALL)):
        none.kind = "fat-tree"
        if len(sideways):
            none.notes.append(f"{len(sideways)} of {counted(len(links), 'link')} between switches stay within one tier")
        return none, labels
    if shape := grids.dragonfly_plus(view, rank, sideways):
        return shape, labels
    by_ports = (
        (shape, placed)
        for placed in grid_coordinates(view, labels, linked)
        if (shape := grids.grid(view, placed, linked))
    )
    named = grids.grid(view, labels, linked)
    wrong = misfit(view, named) if named else 0
    groups = grids.dragonfly(view, labels, linked) if not named or wrong > 1 else None
    if groups and (not named or (groups.groups > FEW_GROUPS and misfit(view, groups) < wrong)):
        named = groups
    if named:
        return named, labels
    if best := _best(view, by_ports):
        return best
    for placed in group_coordinates(view, labels, linked):
        if shape := grids.dragonfly(view, placed, linked):
            return shape, placed
    return none, labels


def _best(view: FabricView, candidates: Iterable[tuple[grids.Shape, Labels]]) -> tuple[grids.Shape, Labels] | None:
    """Return the candidate with the shape that the fewest cables contradict (the first, if several are equal); None if
    there are no candidates.
    """
    best, least = None, -1
    for shape, labels in candidates:
        wrong = misfit(view, shape)
        if best is None or wrong < least:
            best, least = (shape, labels), wrong
        if not wrong:
            break
    return best


def _capacities(view: FabricView, rank: np.ndarray, tree: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the rate to hosts and the rate to higher tiers of each node, in Gb/s. In direct networks, all links to
    switches count as links to higher tiers.
    """
    n = len(view.names)
    rows, _, switch_port = view.to_hosts
    down = np.bincount(view.fabric.port_node[switch_port], view.link_gbps[rows], minlength=n)
    up = np.zeros(n)
    links = view.between_switches
    for end, peer in ((view.node_a, view.node_b), (view.node_b, view.node_a)):
        higher = rank[peer[links]] > rank[end[links]] if tree else np.ones(len(links), bool)
        up += np.bincount(end[links][higher], view.link_gbps[links][higher], minlength=n)
        lower = rank[peer[links]] < rank[end[links]] if tree else np.zeros(len(links), bool)
        down += np.bincount(end[links][lower], view.link_gbps[links][lower], minlength=n)
    return down, up


@dataclass(frozen=True)
class LeafRatio(Result):
    """A leaf and its oversubscription."""

    leaf: str
    host_gbps: float
    """Total rate of the links to hosts in Gb/s."""
    up_gbps: float
    """Total rate of the uplinks in Gb/s."""
    ratio: float | None
    """Ratio of the rate to hosts to the rate upwards; null for a leaf without uplinks."""


@dataclass(frozen=True)
class StructureSummary(Result):
    """The recognised topology; null: unknown."""

    kind: str = field(metadata=key(label="Topology", text=lambda s: s.kind))
    levels: int | None
    tiers: dict[int, int] = field(
        metadata=key(type=dict[str, int], label="Switches by tier", text=lambda s: s.tier_text)
    )
    """Number of switches in each tier; tier 1 consists of the switches with hosts."""
    untiered_switches: int
    rails: int | None = field(metadata=key(label="Rails", text=lambda s: str(s.rails or "")))
    units: int | None = field(metadata=key(label="Scalable units", text=lambda s: str(s.units or "")))
    dims: list[int] | None
    groups: int | None = field(metadata=key(label="Groups", text=lambda s: str(s.groups or "")))
    leaves: int
    spines: int
    oversubscription: list[LeafRatio]
    oversubscription_worst: float | None
    bisection_gbps: float | None
    bisection_percent: float | None
    bisection_full_gbps: float | None
    bisection_how: str
    bisection_exact: bool
    narrowest_part: NarrowestPart | None
    notes: list[str]

    @property
    def tier_text(self) -> str:
        """Return the tiers as text, for example ``64 leaf, 64 spine``; empty if the tiers have no names."""
        named = self.tiers and self.kind in TREES
        return tier_text(self.tiers, self.untiered_switches) if named else ""

    def facts(self) -> list[tuple[str, str]]:
        """Return (label, text) pairs for printing."""
        facts = super().facts()
        if self.dims:
            facts.append(("Dimensions", " × ".join(map(str, self.dims))))
        if self.oversubscription_worst is not None:
            cut_off = [r.leaf for r in self.oversubscription if r.host_gbps and not r.up_gbps]
            worst = f"{self.oversubscription_worst:g} : 1"
            if cut_off:
                worst += f"; without uplinks: {cut_off[0]}" + (f" and {len(cut_off) - 1} more" if cut_off[1:] else "")
            facts.append(("Most oversubscribed leaf", worst))
        if self.bisection_percent is not None:
            sums = ""
            if self.bisection_gbps is not None and self.bisection_full_gbps is not None:
                sums = f", {gbps_text(self.bisection_gbps)} of {gbps_text(self.bisection_full_gbps)}"
            facts.append(("Bisection bandwidth", f"{self.bisection_percent:.1f} % of full{sums}"))
            facts.append(("Bisection found as", self.bisection_how))
        if self.narrowest_part is not None:
            facts.append(("Narrowest part", str(self.narrowest_part)))
        return facts + [("Note", note) for note in self.notes]


def summary(fabric: Fabric, structure: Structure) -> StructureSummary:
    """Return the summary of a recognised structure for reports."""
    names = fabric.node_names()
    tiers, untiered = count_tiers(structure.rank[fabric.is_switch])
    ratio, cut = structure.oversubscription, structure.bisection
    finite = ratio[np.isfinite(ratio)]
    leaf = structure.leaf
    rates = (leaf, structure.down_gbps[leaf], structure.up_gbps[leaf], ratio)
    return StructureSummary(
        kind=structure.kind,
        levels=structure.levels,
        tiers=tiers,
        untiered_switches=untiered,
        rails=structure.rails or None,
        units=structure.units or None,
        dims=list(structure.dims) or None,
        groups=structure.groups or None,
        leaves=len(structure.leaf),
        spines=tiers.get(2, 0),
        oversubscription=[
            LeafRatio(names[node], round(down, 3), round(up, 3), round(r, 3) if np.isfinite(r) else None)
            for node, down, up, r in zip(*(column.tolist() for column in rates), strict=True)
        ],
        oversubscription_worst=round(float(finite.max()), 3) if len(finite) else None,
        bisection_gbps=cut.gbps,
        bisection_percent=cut.percent,
        bisection_full_gbps=cut.full_gbps,
        bisection_how=cut.how,
        bisection_exact=cut.exact,
        narrowest_part=cut.part,
        notes=list(structure.notes),
    )
