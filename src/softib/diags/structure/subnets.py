"""Reports subnets that only adapters with several ports join. Adapters do not forward packets, so hosts on different
subnets cannot reach each other.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.diags.context import Context
from softib.diags.finding import Each, Finding, Severity, code, each_or_one, few
from softib.diags.view import FabricView, components
from softib.plural import counted, plural

SUBNETS_APART = code(
    "subnets-apart",
    Severity.WARNING,
    "hosts are on different subnets, joined only by adapters with a port on each: adapters do not forward packets",
    "if one subnet is intended, connect their switches; if two are, each needs a subnet manager",
)


def subnets_apart(c: Context) -> Iterator[Finding]:
    """Report each subnet, except the largest, that has adapters in common with another subnet, if each of the two also
    has hosts that are not on the other.
    """
    view, node = c.view, c.view.fabric.port_node
    _, host_port, switch_port = view.to_hosts
    between = ~view.is_host[view.node_a] & ~view.is_host[view.node_b]
    subnet = components(len(view.names), view.node_a[between], view.node_b[between])
    pairs = np.unique(np.stack([node[host_port], subnet[node[switch_port]]], axis=1), axis=0)
    times = np.bincount(pairs[:, 0], minlength=len(view.names))
    if not (times > 1).any():
        return
    hosts: dict[int, list[int]] = {}
    switches: dict[int, list[int]] = {}
    for host, one in pairs.tolist():
        hosts.setdefault(one, []).append(host)
    for switch in np.flatnonzero(view.is_switch).tolist():
        switches.setdefault(int(subnet[switch]), []).append(switch)
    alone = {one: here for one, of in hosts.items() if (here := [h for h in of if times[h] == 1])}
    joined: dict[int, list[int]] = {}
    for one in hosts:
        joined.setdefault(int(view.component[switches[one][0]]), []).append(one)
    several: list[Each] = []
    for parts in joined.values():
        main = max(parts, key=lambda one: len(hosts[one]))
        both = set(hosts[main])
        for one in parts:
            if one != main and one in alone and main in alone:
                joining = [h for h in hosts[one] if h in both]
                several.append(_apart(view, alone[one], switches[one], switches[main], joining))
    yield from each_or_one(
        SUBNETS_APART,
        several,
        f"{len(several)} subnets have hosts that reach none on the largest subnet alone",
        count="subnets",
    )


def _apart(view: FabricView, hosts: list[int], switches: list[int], largest: list[int], joining: list[int]) -> Each:
    here, of, main, both = ([view.display_names[n] for n in nodes] for nodes in (hosts, switches, largest, joining))
    through = f"only {few(both)} {plural(len(both), 'is', 'are')} on both" if both else "none is on both"
    return (
        [view.node_location(n) for n in (*hosts, *switches)],
        f"{counted(len(here), 'host')} {plural(len(here), 'is', 'are')} on the subnet of {few(of, 2)} alone, and "
        f"{plural(len(here), 'reaches', 'reach')} none on that of {few(main, 2)} alone: {few(here)}; {through}",
        {"hosts": here, "switches": of, "joining": both, "largest": len(main)},
    )
