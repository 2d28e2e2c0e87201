"""Checks for exchanged hosts, and for adapters on another rail than the same adapter of similar hosts. They run after
the checks of cables.
"""

from __future__ import annotations

from collections.abc import Iterator

from softib.diags.context import Context
from softib.diags.finding import Finding, Severity, code, finding
from softib.diags.hosts.host_order import HostExchange, turned_leaves
from softib.diags.hosts.host_units import turned_rails
from softib.diags.hosts.leaf_order import exchanged_leaves, shifted_leaves
from softib.diags.structure.rails import OddAdapter, odd_adapters
from softib.diags.structure.structure_checks import CROSSED_RAILS, SWAPPED_CABLES
from softib.iba.node_description import address_of
from softib.plural import counted, plural

SWAPPED_HOSTS = code(
    "swapped-hosts",
    Severity.INFO,
    "two hosts are exchanged: all their cables, or their names",
    "compare with the cabling plan; if racks or rails matter, exchange the cables, otherwise the names",
)
EXCHANGED_LEAVES = code(
    "exchanged-leaves",
    Severity.INFO,
    "the hosts of two leaves are exchanged, judging by the order of names on the other leaves",
    "compare with the cabling plan: the hosts of two racks, two leaves, or their names are exchanged",
)
SHIFTED_HOSTS = code(
    "shifted-hosts",
    Severity.INFO,
    "the hosts of a leaf are some ports further than those of the other leaves",
    "compare with the cabling plan; if port numbers matter (plans, rails, labels), move the plugs",
)
RAIL_MISMATCH = code(
    "rail-mismatch",
    Severity.WARNING,
    "an adapter is on another leaf than the same rail of similar hosts",
    "compare with the cabling plan; rails matter to collective libraries",
)


def hosts_out_of_order(c: Context) -> Iterator[Finding]:
    """Report hosts that are exchanged according to the order of names along the ports. If most cables of two hosts are
    exchanged, they are one finding.
    """
    view, done = c.view, c.seen.setdefault("cables", set())
    f, node = view.fabric, view.fabric.port_node
    for hosts, exchanges in c.exchanged_hosts.items():
        pairs = [x for x in exchanges if not done & _ends(c, x)]
        done.update(*(_ends(c, x) for x in pairs))
        ports = [c.host_ports(host) for host in hosts]
        cables = max(map(len, ports))
        inside = all(node[x.a] == node[x.b] for x in pairs)
        whole = c.exchanged_as_a_whole(hosts) or (inside and len(pairs) >= cables)
        if whole:  # their remaining cables need no finding
            done.update(q for of_host in ports for p in of_host for q in (p, int(f.port_peer[p])))
        if pairs:
            yield from (
                [_swapped_hosts(c, pairs, cables)] if whole or inside else (_swapped_by_order(c, x) for x in pairs)
            )


def _ends(c: Context, x: HostExchange) -> set[int]:
    peer = c.view.fabric.port_peer
    return {x.a, x.b, int(peer[x.a]), int(peer[x.b])}


def leaves_out_of_order(c: Context) -> Iterator[Finding]:
    """Report pairs of leaves whose hosts are exchanged, and leaves whose hosts are shifted by some ports."""
    view, rank, f = c.view, c.structure.rank, c.view.fabric
    name = view.display_names
    for x in exchanged_leaves(view, rank):
        ports = [
            int(p)
            for leaf in (x.a, x.b)
            for p in f.ports_of(leaf)
            if f.port_peer[p] >= 0 and view.is_host[f.port_node[f.port_peer[p]]]
        ]
        yield finding(
            EXCHANGED_LEAVES,
            map(view.location, ports),
            f"{name[x.a]} and {name[x.b]} have exchanged hosts: {x.follow} of {x.of} leaves are in the order of "
            f"their hosts' names, these two are exchanged",
            {"hosts": len(ports), "follow": x.follow, "of": x.of},
        )
    yield from _shifted(c)


def _shifted(c: Context) -> Iterator[Finding]:
    """Report each leaf with shifted hosts once, from the first check that finds it."""
    view, rank, f = c.view, c.structure.rank, c.view.fabric
    shifts: dict[int, tuple[tuple[int, ...], int, str]] = {}
    for s in shifted_leaves(view, rank):
        first, last = (int(f.port_num[p]) for p in (s.ports[0], s.ports[-1]))
        shifts.setdefault(
            s.leaf,
            (
                s.ports,
                s.by,
                f"its {counted(len(s.ports), 'host')} {plural(len(s.ports), 'is', 'are')} in ports {first} to "
                f"{last}, those of {s.of} other leaves in "
                f"{first - s.by} to {last - s.by}",
            ),
        )
    for r in turned_rails(view):
        shifts.setdefault(
            r.leaf,
            (
                r.ports,
                r.by,
                f"each of its {counted(len(r.ports), 'host')} is {_ports(r.by)} from where the {r.others} other "
                f"leaves of its "
                "unit have it",
            ),
        )
    for t in turned_leaves(view):
        shifts.setdefault(
            t.leaf,
            (
                t.ports,
                t.by,
                f"its {counted(len(t.ports), 'host')} {plural(len(t.ports), 'is', 'are')} in order if moved back by "
                f"{_ports(t.by)}, like {t.follow} of {t.of} such hosts",
            ),
        )
    for leaf, (ports, by, text) in shifts.items():
        yield finding(
            SHIFTED_HOSTS,
            map(view.location, ports),
            f"{view.display_names[leaf]}: {text}",
            {"hosts": len(ports), "by": by},
        )


def _ports(by: int) -> str:
    return f"{counted(abs(by), 'port')}"


def _swapped_by_order(c: Context, x: HostExchange) -> Finding:
    view, peer = c.view, c.view.fabric.port_peer
    ports = [int(peer[x.a]), x.a, int(peer[x.b]), x.b]
    where = [view.location(p) for p in ports]
    return finding(
        SWAPPED_CABLES,
        where,
        f"{view.link_name(*ports[:2])} and {view.link_name(*ports[2:])} are swapped, or their names are: "
        f"by {_evidence(x)}, each belongs in the other's place",
        {"cables": [[str(where[0]), str(where[1])], [str(where[2]), str(where[3])]], "follow": x.follow, "of": x.of},
        severity=Severity.WARNING,
    )


def _swapped_hosts(c: Context, pairs: list[HostExchange], cables: int) -> Finding:
    view, peer = c.view, c.view.fabric.port_peer
    where = [view.location(p) for x in pairs for p in (int(peer[x.a]), x.a, int(peer[x.b]), x.b)]
    one, other = sorted(
        address_of(view.names[int(view.fabric.port_node[peer[p]])]).spoken for p in (pairs[0].a, pairs[0].b)
    )
    x = pairs[0]
    return finding(
        SWAPPED_HOSTS,
        where,
        f"{one} and {other} are exchanged, {_how_many(len(pairs), cables)}: by {_evidence(x)}",
        {"cables": len(pairs), "follow": x.follow, "of": x.of},
    )


def _evidence(x: HostExchange) -> str:
    what = (
        "the port numbers of each host on the leaves of its rails"
        if x.by_rails
        else "the order of names along the ports"
    )
    return f"{what}, which {x.follow} of {x.of} such adapters follow"


def _how_many(pairs: int, cables: int) -> str:
    if cables == 1:
        return "one cable each"
    return f"all {counted(pairs, 'cable')}" if pairs >= cables else f"{pairs} of {counted(cables, 'cable')}"


def rail_mismatches(c: Context) -> Iterator[Finding]:
    """Report adapters that are on another leaf than the same-rail adapters of similar hosts, unless the checks of names
    reported them.
    """
    view, done = c.view, c.seen.get("cables", set())
    odd = [o for o in odd_adapters(view, c.structure.rail_table) if o.host_port not in done and o.leaf_port not in done]
    node = view.fabric.port_node
    by_leaves = {(int(node[o.leaf_port]), o.wanted): o for o in odd}
    taken: set[int] = set()
    for o in odd:
        twin = by_leaves.get((o.wanted, int(node[o.leaf_port])))
        if o.host_port in taken:
            continue
        if twin is not None and twin.host_port not in taken:
            taken.update((o.host_port, twin.host_port))
            yield _swapped_adapters(c, o, twin)
            continue
        taken.add(o.host_port)
        yield finding(
            RAIL_MISMATCH,
            [view.location(o.host_port), view.location(o.leaf_port)],
            f"{view.link_name(o.host_port, o.leaf_port)}: similar hosts have rail {o.rail} on "
            f"{view.display_names[o.wanted]}",
            {"rail": o.rail, "expected": view.display_names[o.wanted]},
        )


def _swapped_adapters(c: Context, o: OddAdapter, twin: OddAdapter) -> Finding:
    view = c.view
    where = [view.location(p) for p in (o.host_port, o.leaf_port, twin.host_port, twin.leaf_port)]
    text = f"{view.link_name(o.host_port, o.leaf_port)} and {view.link_name(twin.host_port, twin.leaf_port)}"
    evidence = {
        "cables": [[str(where[0]), str(where[1])], [str(where[2]), str(where[3])]],
        "expected": [view.display_names[o.wanted], view.display_names[twin.wanted]],
        "rails": [o.rail, twin.rail],
    }
    if o.host == twin.host:
        rails = sorted((o.rail, twin.rail))
        return finding(
            CROSSED_RAILS, where, f"{text}: rails {rails[0]} and {rails[1]} of this host are crossed", evidence
        )
    return finding(
        SWAPPED_CABLES,
        where,
        f"{text} are swapped: hosts similar to the first have rail {o.rail} on {view.display_names[o.wanted]}",
        evidence,
    )
