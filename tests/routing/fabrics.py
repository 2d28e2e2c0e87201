"""Small (and one large) graphs for the routing tests, built as columns, and LIDs for them."""

from __future__ import annotations

import numpy as np

from softib.iba.constants import NodeType
from softib.routing.graph import PortColumns, SwitchGraph

CA_GUID = 1 << 32


def wire(n_switches, cables, hosts, *, lmc=0, guid=None, sys_guid=None, lid=None) -> SwitchGraph:
    """A graph from ``cables`` [(switch, port, switch, port)] and ``hosts`` [(switch, port)].

    Switch i has GUID i + 1 unless told; LIDs: hosts first (aligned for LMC), then switches, unless told.
    """
    cables = np.asarray(cables, np.int64).reshape(-1, 4)
    hosts = np.asarray(hosts, np.int64).reshape(-1, 2)
    n_hosts = len(hosts)
    radix = int(max(cables[:, [1, 3]].max(initial=1), hosts[:, 1].max(initial=1)))
    n = n_switches + n_hosts
    guid = np.arange(1, n_switches + 1) if guid is None else np.asarray(guid)
    node_guid = np.concatenate([guid, CA_GUID + np.arange(n_hosts)]).astype(np.uint64)
    rows = radix + 1
    port_node = np.concatenate([np.repeat(np.arange(n_switches), rows), n_switches + np.arange(n_hosts)])
    port_num = np.concatenate([np.tile(np.arange(rows), n_switches), np.ones(n_hosts, np.int64)])
    peer = np.full(len(port_node), -1)
    a, b = cables[:, 0] * rows + cables[:, 1], cables[:, 2] * rows + cables[:, 3]
    peer[a], peer[b] = b, a
    h, c = hosts[:, 0] * rows + hosts[:, 1], n_switches * rows + np.arange(n_hosts)
    peer[h], peer[c] = c, h
    port_lid = np.zeros(len(port_node), np.int64)
    if lid is None:
        step = 1 << lmc
        port_lid[c] = step * (1 + np.arange(n_hosts))
        port_lid[np.arange(n_switches) * rows] = step * (n_hosts + 1) + np.arange(n_switches)
    else:
        port_lid[c], port_lid[np.arange(n_switches) * rows] = lid[:n_hosts], lid[n_hosts:]
    port_lmc = np.where(port_node >= n_switches, lmc, 0)
    return SwitchGraph.from_ports(
        PortColumns(
            node_type=np.where(np.arange(n) < n_switches, NodeType.SWITCH, NodeType.CA),
            node_guid=node_guid,
            node_nports=np.where(np.arange(n) < n_switches, radix, 1),
            port_node=port_node,
            port_num=port_num,
            port_guid=node_guid[port_node],
            port_peer=peer,
            port_lid=port_lid,
            port_lmc=port_lmc,
            sys_guid=sys_guid,
        )
    )


def ring(n, hosts=1):
    """Ring of ``n`` switches; ports 1 and 2 are the ring, hosts from 3."""
    cables = [(i, 1, (i + 1) % n, 2) for i in range(n)]
    return wire(n, cables, [(i, 3 + h) for i in range(n) for h in range(hosts)])


def torus(x, y, hosts=1):
    """2D torus: ports 1 +x, 2 -x, 3 +y, 4 -y, hosts from 5."""
    cables = []
    for i in range(x):
        for j in range(y):
            cables.append((i * y + j, 1, (i + 1) % x * y + j, 2))
            cables.append((i * y + j, 3, i * y + (j + 1) % y, 4))
    return wire(x * y, cables, [(s, 5 + h) for s in range(x * y) for h in range(hosts)])


def clos(leaves, spines, hosts, parallel=1, lmc=0):
    """Two levels: hosts on ports 1…, uplinks after them; switches 0…leaves-1 are leaves."""
    cables = [
        (leaf, hosts + 1 + s * parallel + c, leaves + s, 1 + leaf * parallel + c)
        for leaf in range(leaves)
        for s in range(spines)
        for c in range(parallel)
    ]
    return wire(leaves + spines, cables, [(leaf, 1 + h) for leaf in range(leaves) for h in range(hosts)], lmc=lmc)


def kary_tree(k, levels, top_doubled=False):
    """k-ary n-tree (Petrini & Vanneschi 1997): n levels of k^(n-1) switches, k^n hosts, 2k ports.

    ``top_doubled`` folds pairs of top switches into one with 2k ports down: the full tree of 2k-port switches
    (2k * k^(n-1) hosts), as fat trees are built of 36-port switches. Level 0 is the leaves.
    """
    n = levels
    width = k ** (n - 1)  # switches a level of one k-ary tree
    copies = 2 if top_doubled else 1
    per = np.full(n, width * copies)
    if top_doubled:
        per[n - 1] = width
    base = np.concatenate([[0], np.cumsum(per)])
    cables = []
    for level in range(n - 1):
        for copy in range(copies):
            w = np.arange(width)
            for up in range(k):
                # the switch above differs in digit `level` of the label; our digit is the port we enter it by
                digit = (w // k**level) % k
                above = w + (up - digit) * k**level
                top = level + 1 == n - 1 and top_doubled
                far = base[level + 1] + above + (0 if top else copy * width)
                port = 1 + digit + (copy * k if top else 0)
                cables.append(np.stack([base[level] + copy * width + w, np.full(width, k + 1 + up), far, port], axis=1))
    hosts = np.stack([np.repeat(np.arange(width * copies), k), np.tile(1 + np.arange(k), width * copies)], axis=1)
    return wire(int(base[-1]), np.concatenate(cables) if cables else [], hosts)
