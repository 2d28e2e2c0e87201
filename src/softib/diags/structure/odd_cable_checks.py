"""Reports exchanged switches, and cables between switches that do not belong in the topology."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.diags.context import Context
from softib.diags.finding import Each, Finding, Severity, code, each_or_one, few, finding
from softib.diags.structure.exchanged.plugs import node_pair
from softib.diags.structure.exchanged.switches import PAIR, Exchange, out_of_order
from softib.diags.structure.joins import joins
from softib.diags.structure.ranks import tier_name
from softib.diags.view import FabricView
from softib.plural import counted, plural

EXCHANGED_SWITCHES = code(
    "exchanged-switches",
    Severity.WARNING,
    "switches are exchanged: all cables of one lead to the peers of the other",
    "compare names and serial numbers with the rack; exchange the names, or the switches",
)
SAME_TIER_CABLE = code(
    "same-tier-cable",
    Severity.WARNING,
    "a cable of a tree joins two switches of one tier, or skips a tier",
    "compare with the cabling plan: in a tree such a cable is plugged into the wrong switch, and routes do not use it",
)
EXTRA_CABLE = code(
    "extra-cable",
    Severity.WARNING,
    "two switches of a direct network are joined at ports that few others of their kind use",
    "compare with the cabling plan; the topology's engines do not use such a cable, but shortest paths do",
)

TREES = ("fat-tree", "rail-optimized")
DIRECT = ("torus", "mesh", "ring", "hyperx", "dragonfly", "dragonfly+")
RARE, MIN_ALIKE = 0.1, 6
"""Maximum share of the switches of a kind that use a port number for a cable outside the topology, and minimum number
of switches of a kind.
"""


def switches_out_of_place(c: Context) -> Iterator[Finding]:
    """Report switches that are exchanged according to the learned pattern or, in trees, according to the order of
    ports.
    """
    exchanged = {n for x in c.suspects.exchanged for n in x.switches}
    ordered = out_of_order(c.view, c.structure.rank) if c.structure.kind in TREES else []
    for x in (*c.suspects.exchanged, *(x for x in ordered if not exchanged & {*x.switches})):
        yield _exchange(c.view, x)


def _exchange(view: FabricView, x: Exchange) -> Finding:
    names = [view.display_names[n] for n in x.switches]
    ports = [p for n in x.switches for p in view.fabric.ports_of(n) if view.fabric.port_cable[p] >= 0]
    why = (
        f"{x.follow} of {counted(x.of, 'switch')} are in the order of their names at the ports that they are cabled to"
        if x.by_order
        else f"{x.follow} of {counted(x.of, 'port')} at the other ends of their cables follow the pattern once they "
        f"are exchanged"
    )
    return finding(
        EXCHANGED_SWITCHES,
        [*map(view.node_location, x.switches), *map(view.location, ports)],
        f"{few(names[:-1])} and {names[-1]} are exchanged: {why}",
        {"switches": names, "follow": x.follow, "of": x.of},
        severity=Severity.INFO if x.by_order else None,
    )


def same_tier_cables(c: Context) -> Iterator[Finding]:
    """In trees: report cables within a tier, or cables that skip a tier, unless another check has reported them."""
    if c.structure.kind not in TREES:
        return
    view, rank, done = c.view, c.structure.rank.astype(np.int64), c.seen.get("cables", set())
    links = view.between_switches
    a, b = view.node_a[links], view.node_b[links]
    sideways, high = rank[a] == rank[b], np.maximum(rank[a], rank[b])
    low = np.where(rank[a] < rank[b], a, b)
    nodes = len(view.names)
    # If all uplinks of a switch skip a tier, this is a design (a management leaf on a core).
    past, regular = (np.bincount(low[x], minlength=nodes) for x in (high - rank[low] >= 2, high - rank[low] == 1))
    several: list[Each] = []
    for i in np.flatnonzero(
        (sideways & (rank[a] > 0)) | ((high - rank[low] >= 2) & (regular[low] > past[low]) & (rank[low] > 0))
    ).tolist():
        p, q = int(view.port_a[links[i]]), int(view.port_b[links[i]])
        if {p, q} & done:
            continue
        tier = tier_name(int(min(rank[a[i]], rank[b[i]])))
        sentence = (
            f"a cable between two {tier} switches"
            if sideways[i]
            else f"a cable from a {tier} switch past the tier above it"
        )
        several.append(([view.location(p), view.location(q)], f"{view.link_name(p, q)}: {sentence}", {"tier": tier}))
    yield from each_or_one(
        SAME_TIER_CABLE,
        several,
        f"{counted(len(several), 'cable')} {plural(len(several), 'stays', 'stay')} within a tier",
        count="cables",
    )


def extra_cables(c: Context) -> Iterator[Finding]:
    """In direct networks, report cables between two switches that are not neighbours, if both ends are at port numbers
    that are free on the other switches of their class.
    """
    if c.structure.kind not in DIRECT:
        return
    view, f, done = c.view, c.view.fabric, c.seen.setdefault("cables", set())
    class_of = c.pattern.labels.class_of.astype(np.int64)
    linked = np.flatnonzero((f.port_cable >= 0) & view.is_switch[f.port_node] & (class_of[f.port_node] >= 0))
    kind, number = class_of[f.port_node], f.port_num.astype(np.int64)
    used = np.bincount(kind[linked] * 256 + number[linked], minlength=(int(class_of.max(initial=0)) + 1) * 256)
    members = np.bincount(class_of[view.is_switch & (class_of >= 0)], minlength=int(class_of.max(initial=0)) + 1)[kind]
    rare = (kind >= 0) & (members >= MIN_ALIKE) & (used[kind * 256 + number] <= np.maximum(PAIR, RARE * members))
    links = view.between_switches
    several: list[Each] = []
    neighbours = joins(view, c.structure.shape).kept if rare[view.port_a[links]].any() else set()
    for p, q in zip(view.port_a[links].tolist(), view.port_b[links].tolist(), strict=True):
        pair = node_pair(int(f.port_node[p]), int(f.port_node[q]))
        if rare[p] and rare[q] and not {p, q} & done and pair[0] != pair[1] and pair not in neighbours:
            numbers = sorted({int(number[p]), int(number[q])})
            others = f"{plural(len(numbers), 'port')} {' and '.join(map(str, numbers))}"
            text = (
                f"{view.link_name(p, q)}: the {c.structure.kind} has no such cable, and on the other switches "
                f"{others} is free"
            )
            several.append(([view.location(p), view.location(q)], text, {"ports": numbers}))
            done.update((p, q))
    yield from each_or_one(
        EXTRA_CABLE,
        several,
        f"the {c.structure.kind} does not include {counted(len(several), 'cable')}",
        count="cables",
    )
