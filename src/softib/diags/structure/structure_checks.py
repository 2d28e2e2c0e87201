"""Reports deviations from the fabric's pattern: swapped, misplaced and missing cables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from softib.diags.context import Context
from softib.diags.finding import MANY, Finding, Severity, code, finding
from softib.diags.structure.exchanged.plugs import Misplaced
from softib.diags.structure.exchanged.uplinks import exchanged_uplinks
from softib.diags.structure.joins import lacking
from softib.diags.structure.rails import system_of
from softib.diags.structure.ranks import TREES
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
