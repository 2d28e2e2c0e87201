"""Hosts in each other's place, and adapters on another rail than those of hosts like theirs. They run after the checks of cables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from softib.diags.finding import Finding, Severity
from softib.diags.host_order import HostExchange, exchanged_hosts
from softib.diags.rails import OddAdapter, odd_adapters
from softib.diags.registry import Context, check_function, code, finding
from softib.diags.structure_checks import CROSSED_RAILS, SWAPPED_CABLES
from softib.fabric.formats.cabling.node_address import address_of

SWAPPED_HOSTS = code(
    "swapped-hosts", Severity.INFO, "two hosts sit in each other's place: all their cables, or their names, are exchanged",
    "compare with the cabling plan; where racks or rails matter, exchange the cables, else the names")  # fmt: skip
RAIL_MISMATCH = code(
    "rail-mismatch", Severity.WARNING, "an adapter hangs on another leaf than the same rail of hosts like it",
    "compare with the cabling plan; rails matter to collective libraries")  # fmt: skip


@check_function
def hosts_out_of_order(c: Context) -> Iterator[Finding]:
    """Hosts in each other's place by the order of their names along the ports; a whole host is one finding."""
    view, done = c.view, c.seen.setdefault("cables", set())
    f, node = view.fabric, view.fabric.port_node
    adapters = Counter(address_of(view.names[n]).system for n in np.flatnonzero(view.is_host).tolist())
    groups: dict[tuple[str, str], list[HostExchange]] = {}
    for x in exchanged_hosts(view):
        ends = {x.a, x.b, int(f.port_peer[x.a]), int(f.port_peer[x.b])}
        hosts = sorted(address_of(view.names[int(node[f.port_peer[p]])]).system for p in (x.a, x.b))
        if not ends & done and hosts[0] != hosts[1]:  # two adapters of one host are a matter of rails
            groups.setdefault((hosts[0], hosts[1]), []).append(x)
            done |= ends
    for (first, second), pairs in groups.items():
        whole = len(pairs) > 1 and len(pairs) >= max(adapters[first], adapters[second])
        yield from [_swapped_hosts(c, pairs)] if whole else (_swapped_by_order(c, x) for x in pairs)


def _swapped_by_order(c: Context, x: HostExchange) -> Finding:
    view, peer = c.view, c.view.fabric.port_peer
    ports = [int(peer[x.a]), x.a, int(peer[x.b]), x.b]
    where = [view.location(p) for p in ports]
    return finding(
        SWAPPED_CABLES, where, f"{view.link_name(*ports[:2])} and {view.link_name(*ports[2:])} are swapped, or their names are: "
        f"by the order of names along the ports, which {x.follow} of {x.of} such adapters follow, each belongs in the "
        "other's place",
        {"cables": [[str(where[0]), str(where[1])], [str(where[2]), str(where[3])]], "follow": x.follow, "of": x.of},
        severity=Severity.WARNING,
    )  # fmt: skip


def _swapped_hosts(c: Context, pairs: list[HostExchange]) -> Finding:
    view, peer = c.view, c.view.fabric.port_peer
    where = [view.location(p) for x in pairs for p in (int(peer[x.a]), x.a, int(peer[x.b]), x.b)]
    one, other = sorted(
        address_of(view.names[int(view.fabric.port_node[peer[p]])]).spoken for p in (pairs[0].a, pairs[0].b)
    )
    x = pairs[0]
    return finding(
        SWAPPED_HOSTS, where, f"{one} and {other} sit in each other's place, all {len(pairs)} cables: by the order of names along "
        f"the ports, which {x.follow} of {x.of} such adapters follow",
        {"cables": len(pairs), "follow": x.follow, "of": x.of},
    )  # fmt: skip


@check_function
def rail_mismatches(c: Context) -> Iterator[Finding]:
    """Adapters that are elsewhere than the same rail of like hosts, where names did not tell so already."""
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
        yield finding(RAIL_MISMATCH, [view.location(o.host_port), view.location(o.leaf_port)],
                      f"{view.link_name(o.host_port, o.leaf_port)}: hosts like it have rail {o.rail} on {view.display_names[o.wanted]}",
                      {"rail": o.rail, "expected": view.display_names[o.wanted]})  # fmt: skip


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
    return finding(SWAPPED_CABLES, where, f"{text} are swapped: hosts like the first have rail {o.rail} on "
                   f"{view.display_names[o.wanted]}", evidence)  # fmt: skip
