"""Directed routes over the cables that are known, without asking anybody (IBA 14.2.2)."""

from __future__ import annotations

import numpy as np

from softib.sm.database import Database

__all__ = ["reroute"]


def reroute(db: Database) -> np.ndarray:
    """Give every node and port that a chain of known cables leads to the shortest route from the
    manager's port.

    Routes are added, none is changed: requests that are under way keep theirs, and what no cable
    leads to keeps its last one. Returns int32[nodes]: the port (row) through which a node is
    entered, -2 for the manager's own node, -1 for a node that no cable leads to. ``db.sm_port``
    must be known.
    """
    peer, port_node, switch = db.port_peer, db.port_node, db.is_switch
    via = np.full(db.n_nodes, -1, np.int32)
    home = int(port_node[db.sm_port])
    via[home] = -2
    cabled = np.flatnonzero(
        (peer >= 0) & ((db.port_num > 0) & switch[port_node] | (np.arange(db.n_ports) == db.sm_port))
    )
    from_node, to_node = port_node[cabled], port_node[peer[cabled]]
    level = np.zeros(db.n_nodes, bool)
    level[home] = True
    route = np.full(db.n_nodes, -1, np.int32)
    route[home] = db.routes.add_local()
    while level.any():
        fresh = np.flatnonzero(level[from_node] & (via[to_node] == -1))
        nodes, first = np.unique(to_node[fresh], return_index=True)
        rows = cabled[fresh[first]]
        via[nodes] = rows
        route[nodes] = db.routes.extend(route[port_node[rows]], db.port_num[rows])
        level[:] = False
        level[nodes[switch[nodes]]] = True
    reached = route >= 0
    db.node_route[reached] = route[reached]
    on_switch = switch[port_node] & reached[port_node]
    db.port_route[on_switch] = route[port_node[on_switch]]
    # Every port of a CA has a way of its own; the manager's is none at all.
    into_ca = cabled[~switch[to_node] & reached[from_node] & (peer[cabled] != db.sm_port)]
    entered_here = via[port_node[peer[into_ca]]] == into_ca
    db.port_route[peer[into_ca[entered_here]]] = route[port_node[peer[into_ca[entered_here]]]]
    other = into_ca[~entered_here]
    db.port_route[peer[other]] = db.routes.extend(route[port_node[other]], db.port_num[other])
    if not switch[home]:
        db.port_route[db.sm_port] = route[home]
    return via
