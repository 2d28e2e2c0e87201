"""Reports deviations from the fabric's pattern: swapped, misplaced and missing cables, and uneven tiers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from softib.diags.context import Context
from softib.diags.finding import MANY, Finding, Severity, code, few, finding
from softib.diags.structure.exchanged.plugs import Misplaced
from softib.diags.structure.exchanged.uplinks import exchanged_uplinks
from softib.diags.structure.joins import lacking
from softib.diags.structure.rails import system_of
from softib.diags.structure.ranks import TREES, tier_name
from softib.diags.structure.uniform import CutOff, Repairs, Uneven, UnevenTier, cut_off, uneven, uneven_as_a_whole
from softib.diags.view import FabricView
from softib.iba.node_description import address_of
from softib.plural import counted

SWAPPED_CABLES = code(
    "swapped-cables",
    Severity.ERROR,
    "two cables are exchanged at one end",
    "exchange the two plugs at one end",
)
CROSSED_RAILS = code(
    "crossed-rails",
    Severity.ERROR,
    "adapters of one host are on exchanged rails",
    "exchange the two plugs at the host",
)
MISPLACED_CABLE = code(
    "misplaced-cable",
    Severity.WARNING,
    "a cable leads elsewhere than those of the same port number and kind",
    "compare with the cabling plan; move the plug",
)
UNJUDGED_CABLES = code(
    "unjudged-cables",
    Severity.INFO,
    "too many cables differ from the rule of the others to be exceptions, or so few switches have no rule: wrong and "
    "missing cables are not named",
    "compare these cables with the cabling plan (softib check --plan)",
)
MISSING_CABLE = code(
    "missing-cable",
    Severity.WARNING,
    "two ports that the pattern joins are free",
    "plug the cable in, or check why the link does not come up",
)
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


def pattern_breaks(c: Context) -> Iterator[Finding]:
    """Report pairs of swapped cables, exchanged rails and misplaced cables, which deviate from the learned pattern."""
    view, suspects = c.view, c.suspects
    systems = system_of(view) if suspects.swapped else np.zeros(0)
    done = c.seen.setdefault("cables", set())
    for first, second in suspects.swapped:
        if _of_exchanged_hosts(c, first, second):
            continue
        done.update((first.a, first.b, second.a, second.b))
        yield _swap(c, first, second, systems)
    for m in suspects.misplaced:
        done.update((m.a, m.b))
        a, b, stays, right = (view.location(p) for p in (m.a, m.b, m.stays, m.vacancy))
        yield finding(
            MISPLACED_CABLE,
            [a, b, right],
            f"{a} ↔ {b}: the pattern joins {stays} to {right}",
            {"expected": [str(stays), str(right)]},
        )


def _of_exchanged_hosts(c: Context, first: Misplaced, second: Misplaced) -> bool:
    """Return whether the two cables belong to two hosts that are entirely exchanged, according to the order of names
    along the ports. Another check reports these hosts.
    """
    view = c.view
    hosts = [n for m in (first, second) for p in (m.a, m.b) if view.is_host[n := int(view.fabric.port_node[p])]]
    names = sorted(address_of(view.names[n]).system for n in hosts)
    return len(names) == 2 and c.exchanged_as_a_whole((names[0], names[1]))


def unjudged_cables(c: Context) -> Iterator[Finding]:
    """Report kinds of cables that deviate from their rules too often to name the wrong cables, and single cables that
    deviate from a rule with few ports. Nodes without a unique name have another finding (``unnamed-nodes``).
    """
    view = c.view
    for kind in (k for k in c.suspects.unjudged if all(k.classes)):
        low, high = sorted(kind.classes)
        ends = [(int(view.port_a[i]), int(view.port_b[i])) for i in kind.cables]
        links = [view.link_name(*ports) for ports in ends]
        yield finding(
            UNJUDGED_CABLES,
            [view.location(p) for ports in ends for p in ports],
            f"{len(links)} of {counted(kind.of, 'cable')} between {low} and {high} differ from the rule of the "
            f"others, too many to be exceptions: not judged one by one",
            {"cables": links, "of": kind.of, "between": [low, high]},
        )
    for m in c.suspects.doubtful:
        a, b, stays, right = (view.location(p) for p in (m.a, m.b, m.stays, m.vacancy))
        yield finding(
            UNJUDGED_CABLES,
            [a, b, stays, right],
            f"{a} ↔ {b}: the pattern joins {stays} to {right}, but too few ports have that rule to be sure",
            {"cables": [view.link_name(m.a, m.b)], "expected": [str(stays), str(right)]},
        )


def _swap(c: Context, first: Misplaced, second: Misplaced, systems: np.ndarray) -> Finding:
    view, node = c.view, c.view.fabric.port_node
    where = [view.location(p) for p in (first.a, first.b, second.a, second.b)]
    text = f"{view.link_name(first.a, first.b)} and {view.link_name(second.a, second.b)}"
    evidence = {
        "cables": [[str(where[0]), str(where[1])], [str(where[2]), str(where[3])]],
        "expected": [
            [view.display_names[w] if w >= 0 else None for w in (m.want_a, m.want_b)] for m in (first, second)
        ],
    }
    hosts = [n for m in (first, second) for n in (int(node[m.a]), int(node[m.b])) if view.is_host[n]]
    rail = c.structure.node_rail
    if len(hosts) == 2 and systems[hosts[0]] == systems[hosts[1]] and rail[hosts[0]] != rail[hosts[1]]:
        rails = sorted(int(rail[h]) for h in hosts)
        return finding(
            CROSSED_RAILS,
            where,
            f"{text}: rails {rails[0]} and {rails[1]} of this host are crossed",
            {**evidence, "rails": rails},
        )
    wants = next(
        (
            f"{p} belongs to {view.display_names[w]}"
            for m in (first, second)
            for p, w in ((view.location(m.a), m.want_a), (view.location(m.b), m.want_b))
            if w >= 0
        ),
        "",
    )
    return finding(SWAPPED_CABLES, where, f"{text} are swapped: {wants}", evidence)


def missing_cables(c: Context) -> Iterator[Finding]:
    """Report pairs of free switch ports that, according to the rules of both ends, should be connected. Many pairs at
    one switch are one finding.
    """
    view, f = c.view, c.view.fabric
    lacks = lacking(view, c.structure.shape)
    between = [
        (a, b)
        for a, b in c.suspects.missing
        if view.is_switch[f.port_node[[a, b]]].all() and lacks[f.port_node[[a, b]]].all()
    ]
    c.seen["missing"] = between
    per_node: Counter[int] = Counter()
    for a, b in between:
        per_node[int(f.port_node[a])] += 1
        per_node[int(f.port_node[b])] += 1
    crowded = [n for n, count in per_node.most_common() if count > MANY]
    left = list(between)
    for node in crowded:
        at_node = [(a, b) for a, b in left if node in (f.port_node[a], f.port_node[b])]
        if len(at_node) <= MANY:
            continue
        left = [pair for pair in left if pair not in set(at_node)]
        linked = int((f.port_cable[list(f.ports_of(node))] >= 0).sum())
        yield finding(
            MISSING_CABLE,
            [view.node_location(node), *(view.location(p) for pair in at_node for p in pair)],
            f"{view.display_names[node]}: {counted(len(at_node), 'cable')} of the pattern are missing, {linked} are "
            f"there",
            {
                "missing": len(at_node),
                "linked": linked,
                "ports": [str(view.location(a if f.port_node[a] == node else b)) for a, b in at_node],
            },
        )
    for a, b in left:
        obey, of = _obeyed(c, a)
        yield finding(
            MISSING_CABLE,
            [view.location(a), view.location(b)],
            f"{view.link_name(a, b)}: there is no cable, but the pattern has one",
            {"pattern": _pattern_of(c, a), "obey": obey, "of": of, "expected": view.display_names[int(f.port_node[b])]},
        )


def _pattern_of(c: Context, port: int) -> str:
    """Return a description of the ports that have the same rule as ``port``, for example ``[12] of leaf-#``."""
    labels, f = c.pattern.labels, c.view.fabric
    return f"[{int(f.port_num[port])}] of {labels.classes[int(labels.class_of[f.port_node[port]])].name}"


def _obeyed(c: Context, port: int) -> tuple[int, int]:
    """Return (number of cabled ports that follow the rule of ``port``, number of all cabled ports with this rule).
    These are the ports with the same number on nodes of the same class.
    """
    f, labels = c.view.fabric, c.pattern.labels
    number = int(f.port_num[port])
    nodes = labels.classes[int(labels.class_of[f.port_node[port]])].nodes
    rows = f.node_base[nodes[f.node_nports[nodes] >= number]] + number
    rows = rows[f.port_peer[rows] >= 0]
    return int((c.pattern.expected[rows] == f.port_node[f.port_peer[rows]]).sum()), len(rows)


def exchanged_between_tiers(c: Context) -> Iterator[Finding]:
    """In trees, report exchanged uplinks of two switches, independently of names."""
    if c.structure.kind not in TREES:
        return
    view, done = c.view, c.seen.setdefault("cables", set())
    node = view.fabric.port_node
    reported = c.seen.setdefault("exchanges", [])
    place = lambda x: int(view.port_place[x.port])
    pairs = [sorted(pair, key=place) for pair in exchanged_uplinks(view, c.structure.rank)]
    for x, y in sorted(pairs, key=lambda pair: place(pair[0])):
        if {x.port, x.peer, y.port, y.peer} & done:
            continue
        reported += [(int(node[z.port]), int(node[z.peer]), z.wanted) for z in (x, y)]
        where = [view.location(p) for p in (x.port, x.peer, y.port, y.peer)]
        yield finding(
            SWAPPED_CABLES,
            where,
            f"{view.link_name(x.port, x.peer)} and {view.link_name(y.port, y.peer)} are swapped: "
            f"switches like {view.display_names[int(node[x.port])]} have that link to {view.display_names[x.wanted]}",
            {
                "cables": [[str(where[0]), str(where[1])], [str(where[2]), str(where[3])]],
                "expected": [view.display_names[x.wanted], view.display_names[y.wanted]],
            },
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
