"""Match the nodes of two fabrics.

Two nodes are the same device if their NodeGUIDs are equal, or otherwise if their descriptions are
equal; the GUID or description must be unique in both fabrics. So a replaced switch is one device
whose GUID changed, and two designs, or a plan and the built fabric, are matched by name. If the
GUID and the description match different nodes, the cables decide: if adapters were exchanged
between two hosts, their GUIDs changed, but the hosts have the same names and cables; if names were
exchanged, neither GUIDs nor cables changed. If one of the two GUIDs is generated, a renamed node is
matched by its cables: most of them lead from the same ports to the same ports of matched nodes.
"""

from __future__ import annotations

import numpy as np

from softib.fabric.identity import GUID_BASE, Stated
from softib.fabric.model import Fabric

__all__ = ["matched_nodes", "named_alike", "plain_name", "port_guids", "ports_in_b", "real_guids"]


def matched_nodes(a: Fabric, b: Fabric) -> np.ndarray:
    """Return the matching node of ``b`` for each node of ``a`` (int32[nodes]; -1 = removed).
    Renamed nodes are matched too."""
    to_b = _decided_by_cables(a, b, named_alike(a, b))
    return _by_place(a, b, to_b) if (to_b < 0).any() and a.sizes.cables and b.sizes.cables else to_b


def named_alike(a: Fabric, b: Fabric) -> np.ndarray:
    """Return, for each node of ``a``, the node of ``b`` with the same GUID or name (int32[nodes];
    -1 = none). Cables are not compared, because two designs have many equal cables."""
    by_name = _name_numbers(a, b)
    # The pair of name and generated GUID identifies a node in copies of one design, even if names
    # are not unique.
    by_both = [
        (f.node_guid & np.uint64((1 << 40) - 1)) << np.uint64(24) | n for f, n in zip((a, b), by_name, strict=True)
    ]
    to_b = np.full(a.sizes.nodes, -1, np.int32)
    for keys in ((real_guids(a), real_guids(b)), (port_guids(a), port_guids(b)), by_both, by_name):
        to_b = _filled(to_b, _match(*keys), b)
    return to_b


def _name_numbers(a: Fabric, b: Fabric) -> list[np.ndarray]:
    """Return a number for each name of ``a`` and of ``b``. Equal names have equal numbers."""
    names = [[plain_name(n) for n in f.node_names()] for f in (a, b)]
    number = {name: i + 1 for i, name in enumerate(dict.fromkeys([*names[0], *names[1]]))}
    return [np.array([number[n] for n in ns], np.uint64) for ns in names]


def _filled(to_b: np.ndarray, match: np.ndarray, b: Fabric) -> np.ndarray:
    """Return ``to_b`` with missing nodes filled in from ``match``, if no other node matches the
    same node of ``b``."""
    taken = np.zeros(b.sizes.nodes + 1, bool)
    taken[to_b[to_b >= 0]] = True
    return np.where((to_b < 0) & (match >= 0) & ~taken[match], match, to_b)


def _decided_by_cables(a: Fabric, b: Fabric, by_guid: np.ndarray) -> np.ndarray:
    """Match a node by its name, instead of its GUID, if the two match different nodes and most
    cables confirm the name."""
    by_name = _match(*_name_numbers(a, b))
    conflict = (by_guid >= 0) & (by_name >= 0) & (by_guid != by_name)
    if not conflict.any():
        return by_guid
    kept = conflict & _supported(a, b, by_name) & ~_supported(a, b, by_guid)
    free = np.ones(b.sizes.nodes, bool)
    free[by_name[kept]] = False
    to_b = np.where(kept, by_name, np.where((by_guid >= 0) & free[by_guid], by_guid, -1)).astype(np.int32)
    return _filled(to_b, by_name, b)


def _by_place(a: Fabric, b: Fabric, to_b: np.ndarray) -> np.ndarray:
    """Add renamed nodes to ``to_b``, beginning with the neighbours of matched nodes. If all nodes
    of a part were renamed, the search begins at equal generated GUIDs."""
    nameless = (real_guids(a) == 0, real_guids(b) == 0)
    to_b = _outwards(a, b, to_b, nameless)
    left = [(to_b < 0) & nameless[0], nameless[1].copy()]
    left[1][to_b[to_b >= 0]] = False
    same = _match(*(np.where(mask, f.node_guid, np.uint64(0)) for mask, f in zip(left, (a, b), strict=True)))
    if not (same >= 0).any():
        return to_b
    assumed = np.where(same >= 0, same, to_b)
    sure = _supported(a, b, assumed)
    return _outwards(a, b, np.where((same >= 0) & ~sure, -1, assumed), nameless)


def _outwards(a: Fabric, b: Fabric, to_b: np.ndarray, nameless: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Match nodes by their cables to nodes that already match, until no further node can be
    matched."""
    while True:
        free = np.ones(b.sizes.nodes, bool)
        free[to_b[to_b >= 0]] = False
        port = np.flatnonzero((to_b < 0)[a.port_node] & (a.port_peer >= 0))
        peer_b = ports_in_b(a, b, to_b)[a.port_peer[port]]
        port, peer_b = port[peer_b >= 0], peer_b[peer_b >= 0]
        node = a.port_node[port]
        place = b.port_peer[peer_b]
        there = (place >= 0) & (b.port_num[place] == a.port_num[port])
        other = b.port_node[np.maximum(place, 0)]
        there &= free[other] & (nameless[0][node] | nameless[1][other])
        there &= (a.node_type[node] == b.node_type[other]) & (a.node_nports[node] == b.node_nports[other])
        anchored = np.bincount(node, minlength=a.sizes.nodes)
        pairs, votes = np.unique(np.stack([node[there], other[there]]), axis=1, return_counts=True)
        # more than half of the votes, so at most one node of b matches a node of a
        pairs = pairs[:, 2 * votes > anchored[pairs[0]]]
        once = np.bincount(pairs[1], minlength=b.sizes.nodes)[pairs[1]] == 1
        if not once.any():
            return to_b
        to_b = to_b.copy()
        to_b[pairs[0, once]] = pairs[1, once]


def _supported(a: Fabric, b: Fabric, to_b: np.ndarray) -> np.ndarray:
    """Return, for each node of ``a``, whether more than half of its cables connect the same ports
    in ``b`` (bool[nodes])."""
    port_b = ports_in_b(a, b, to_b)
    port = np.flatnonzero(a.port_peer >= 0)
    same = (port_b[port] >= 0) & (b.port_peer[np.maximum(port_b[port], 0)] == port_b[a.port_peer[port]])
    cables, kept = (np.bincount(a.port_node[p], minlength=a.sizes.nodes) for p in (port, port[same]))
    return 2 * kept > cables


def plain_name(name: str) -> str:
    """Return the name without ``/U1``. The chip of a one-chip system is called ``leaf-1/U1`` by
    ibdm, and ``leaf-1`` by other sources."""
    return name.strip().removesuffix("/U1")


def real_guids(f: Fabric) -> np.ndarray:
    """Return the NodeGUIDs, with 0 for generated GUIDs. These only number the nodes, so equal ones
    do not mean the same device."""
    generated = ((f.node_guid >> np.uint64(40)) == np.uint64(GUID_BASE >> 40)) | (f.node_stated & Stated.NODE_GUID == 0)
    return np.where(generated, np.uint64(0), f.node_guid)


def port_guids(f: Fabric) -> np.ndarray:
    """Return, for each adapter, the PortGUID of its first linked port, which iblinkinfo prints
    instead of the NodeGUID. Other nodes have 0."""
    out = np.zeros(f.sizes.nodes, np.uint64)
    ports = np.flatnonzero((f.port_peer >= 0) & ~f.is_switch[f.port_node])[::-1]
    out[f.port_node[ports]] = f.port_guid[ports]
    return np.where(real_guids(f) == 0, np.uint64(0), out)


def _match(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Match rows of ``a`` and ``b`` with equal keys that are unique on each side (0 = no key)."""
    keys, back = np.unique(np.concatenate([a, b]), return_inverse=True)
    in_a, in_b = (np.bincount(k, minlength=len(keys)) for k in (back[: len(a)], back[len(a) :]))
    row = np.full(len(keys), -1, np.int32)
    row[back[len(a) :]] = np.arange(len(b), dtype=np.int32)
    usable = (in_a == 1) & (in_b == 1) & (keys != 0)
    return np.where(usable, row, -1)[back[: len(a)]].astype(np.int32) if len(a) else np.zeros(0, np.int32)


def ports_in_b(a: Fabric, b: Fabric, to_b: np.ndarray) -> np.ndarray:
    """Return, for each port of ``a``, the port of ``b`` with the same number on the matching node
    (int32[ports]); -1 if the node was removed or has no such port."""
    node = to_b[a.port_node] if a.sizes.ports else np.zeros(0, np.int32)
    kept = np.maximum(node, 0)
    if not b.sizes.nodes:
        return np.full(a.sizes.ports, -1, np.int64)
    there = (node >= 0) & (a.port_num <= b.node_nports[kept]) & ((a.port_num > 0) | b.is_switch[kept])
    return np.where(there, b.node_base[kept].astype(np.int64) + a.port_num, -1)
