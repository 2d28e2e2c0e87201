"""Reports switches of a tree that lack uplinks, or distribute them differently from others of their kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from softib.diags.context import Context
from softib.diags.finding import MANY, Finding, Severity, code, few, finding
from softib.diags.structure.lost_uplinks import CutOff, cut_off
from softib.diags.structure.ranks import TREES, tier_name
from softib.diags.structure.uniform import Repairs, Uneven, UnevenTier, uneven, uneven_as_a_whole
from softib.diags.view import FabricView
from softib.plural import counted

MISSING_UPLINKS = code(
    "missing-uplinks",
    Severity.WARNING,
    "a switch has fewer uplinks than the others of its tier",
    "look for a missing cable or a port that is down",
)
UNEVEN_UPLINKS = code(
    "uneven-uplinks",
    Severity.WARNING,
    "many switches of a tier lack uplinks or spread them unevenly, too many to be exceptions",
    "compare with the cabling plan; the thinnest bundle limits the traffic between them",
)
UNEVEN_SPINES = code(
    "uneven-spines",
    Severity.WARNING,
    "a switch spreads its uplinks over the next tier differently from others of its kind",
    "compare with the cabling plan: a swapped or misplaced cable",
)


def uneven_tiers(c: Context) -> Iterator[Finding]:
    """In trees, report switches whose links to the next tier differ from those of their kind, independently of
    names.
    """
    if c.structure.kind not in TREES:
        return
    view = c.view
    dangling = (view.fabric.port_cable >= 0) & (view.fabric.port_peer < 0)
    blind = set(view.fabric.port_node[dangling].tolist())  # another finding reports their links
    odds = uneven(view, c.structure.rank, _known_repairs(c))
    named = _uplinks_named(c)
    yield from (_uneven(view, o, named[o.switch]) for o in odds if o.switch not in blind and not blind & set(o.fewer))
    reported = {int(view.fabric.port_node[p]) for pair in c.seen.get("missing", ()) for p in pair}
    reported |= {o.switch for o in odds}
    yield from (_cut_off(view, x) for x in cut_off(view, c.structure.rank) if x.switch not in reported)
    yield from (_as_a_whole(view, u) for u in uneven_as_a_whole(view, c.structure.rank, _known_repairs(c)))


def _cut_off(view: FabricView, x: CutOff) -> Finding:
    ports = [view.location(p) for p in x.ports]
    return finding(
        MISSING_UPLINKS,
        [view.node_location(x.switch), *ports],
        f"{view.display_names[x.switch]} has no uplinks; {x.having} of {x.of} {tier_name(x.tier)} switches have "
        f"{x.usual}; free: {few(map(str, ports), MANY)}",
        {
            "links": 0,
            "usual": x.usual,
            "kind": x.having,
            "ports": [{"switch": [str(p)], "above": []} for p in ports],
        },
    )


def _as_a_whole(view: FabricView, u: UnevenTier) -> Finding:
    names = view.display_names
    few_links = [n for n, _ in u.fewer]
    parts = (
        [f"{len(few_links)} have fewer ({few((f'{names[n]} {links}' for n, links in u.fewer), 3)})"] if u.fewer else []
    )
    parts += [f"{len(u.astray)} spread them unevenly ({few((names[n] for n in u.astray), 3)})"] if u.astray else []
    tier = tier_name(u.tier)
    return finding(
        UNEVEN_UPLINKS,
        map(view.node_location, [*few_links, *u.astray]),
        f"{len(few_links) + len(u.astray)} of {u.of} {tier} switches are uneven: {u.usual} uplinks to "
        f"{counted(u.parents, 'switch')} are the most frequent "
        f"({counted(u.right, 'switch')}); {', '.join(parts)}",
        {
            "of": u.of,
            "usual": u.usual,
            "right": u.right,
            "parents": u.parents,
            "fewer": {names[n]: links for n, links in u.fewer},
            "uneven": [names[n] for n in u.astray],
        },
    )


def _known_repairs(c: Context) -> Repairs:
    """Return the cables that the pattern reports as wrong or missing, as pairs of nodes to remove from the table of
    links, and pairs to add to it.
    """
    node = c.view.fabric.port_node
    removed: list[tuple[int, int]] = []
    belong = [(int(node[a]), int(node[b])) for a, b in c.seen.get("missing", ())]
    for first, second in c.suspects.swapped:
        ends = [int(node[p]) for p in (first.a, first.b, second.a, second.b)]
        removed += [(ends[0], ends[1]), (ends[2], ends[3])]
        straight = (
            first.want_a == ends[3] or first.want_b == ends[2] or second.want_a == ends[1] or second.want_b == ends[0]
        )
        belong += [(ends[0], ends[3]), (ends[1], ends[2])] if straight else [(ends[0], ends[2]), (ends[1], ends[3])]
    removed += [(int(node[m.a]), int(node[m.b])) for m in c.suspects.misplaced]
    belong += [(int(node[p]), int(node[q])) for p, q in _where_misplaced_belong(c)]
    for x, there, wanted in c.seen.get("exchanges", ()):
        removed.append((x, there))
        belong.append((x, wanted))
    switch = c.view.is_switch
    return Repairs(
        *(tuple(p for p in pairs if switch[p[0]] and switch[p[1]] and p[0] != p[1]) for pairs in (removed, belong))
    )


def _where_misplaced_belong(c: Context) -> Iterator[tuple[int, int]]:
    """Yield the pairs of ports that misplaced cables should connect according to the pattern, each pair once. In a
    rotation of cables, both ports of such a pair belong to different misplaced cables.
    """
    node, expected = c.view.fabric.port_node, c.pattern.expected
    pairs: set[tuple[int, int]] = set()
    wanting: dict[tuple[int, int], list[int]] = {}
    for m in c.suspects.misplaced:
        pairs.add((min(m.stays, m.vacancy), max(m.stays, m.vacancy)))
        for port in (m.a, m.b):
            wanting.setdefault((int(node[port]), int(expected[port])), []).append(port)
    placed = {port for pair in pairs for port in pair}
    for (x, y), ports in wanting.items():
        if x < y:
            here, there = ([p for p in some if p not in placed] for some in (ports, wanting.get((y, x), [])))
            pairs.update(zip(here, there, strict=False))
    yield from sorted(pairs)


def _uplinks_named(c: Context) -> Counter[int]:
    """Return the number of missing uplinks of each switch that have separate findings."""
    node, rank = c.view.fabric.port_node, c.structure.rank
    ends = (sorted((int(node[p]) for p in pair), key=lambda n: int(rank[n])) for pair in c.seen.get("missing", ()))
    return Counter(low for low, _ in ends)


def _uneven(view: FabricView, odd: Uneven, named: int) -> Finding:
    location = view.node_location(odd.switch)
    less, more = ([view.node_location(n) for n in nodes] for nodes in (odd.fewer, odd.more))
    evidence: dict[str, Any] = {
        "links": odd.links - named,
        "usual": odd.usual,
        "kind": odd.kind,
        "fewer": [str(p) for p in less],
        "more": [str(p) for p in more],
    }
    text = few(map(str, less)) or "none"
    if odd.links >= odd.usual:
        return finding(
            UNEVEN_SPINES,
            [location, *less, *more],
            f"{location}: more links than its kind to {few(map(str, more)) or 'none'}, fewer to {text}",
            evidence,
        )
    evidence["ports"] = [
        {
            "switch": [str(view.location(p)) for p in x.switch_ports],
            "above": [str(view.location(p)) for p in x.parent_ports],
        }
        for x in odd.lost
    ]
    sure = [x for x in odd.lost if len(x.switch_ports) == 1 and len(x.parent_ports) == 1]
    ports = dict.fromkeys(p for x in odd.lost for p in (*x.switch_ports, *x.parent_ports))
    links = few(view.link_name(x.switch_ports[0], x.parent_ports[0]) for x in sure)
    detail = (
        f"; no cable in {links}"
        if sure
        else "; free: " + few((str(view.location(p)) for p in ports), MANY)
        if ports
        else ""
    )
    where = [view.location(p) for p in ports]
    bare = [p for p in (location, *less) if p.guid not in {w.guid for w in where}]
    return finding(
        MISSING_UPLINKS,
        [*where, *bare],
        f"{location}: {counted(odd.links - named, 'uplink')}, the others of its kind have {odd.usual}; "
        f"{'besides the cables named, ' if named else ''}fewer to {text}{detail}",
        evidence,
    )
