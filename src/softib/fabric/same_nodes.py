"""Match the nodes of two fabrics.

Two nodes are the same if their NodeGUIDs are equal, otherwise if their descriptions are; the GUID
or description must be unique on both sides. So a replaced switch is one device with a new GUID, and
two designs, or a plan and the built fabric, match by name. If the GUID and the description lead to
different nodes, the cables decide. Adapters exchanged between two hosts change the GUIDs, while the
hosts keep their names and cables; exchanged names change neither GUIDs nor cables. A renamed node
that has only a generated GUID on one side is matched by its cables: most of them lead from the same
ports to the same ports of matching nodes.
"""

from __future__ import annotations

import numpy as np

from softib.fabric.identity import GUID_BASE, Stated
from softib.fabric.model import Fabric

__all__ = ["matched_nodes", "named_alike", "plain_name", "port_guids", "ports_in_b", "real_guids"]


def matched_nodes(a: Fabric, b: Fabric) -> np.ndarray:
    """Return the matching node of ``b`` for each node of ``a``, including renamed nodes
    (int32[nodes]; -1 = removed)."""
    to_b = _decided_by_cables(a, b, named_alike(a, b))
    return _by_place(a, b, to_b) if (to_b < 0).any() and a.sizes.cables and b.sizes.cables else to_b


def named_alike(a: Fabric, b: Fabric) -> np.ndarray:
    """Return the node of ``b`` with the same GUID or name for each node of ``a`` (int32[nodes]; -1
    = none). Cables are not compared: two designs have many in common."""
    by_name = _name_numbers(a, b)
    # Name and generated GUID together match copies of one design even if names repeat.
    by_both = [
        (f.node_guid & np.uint64((1 << 40) - 1)) << np.uint64(24) | n for f, n in zip((a, b), by_name, strict=True)
    ]
    to_b = np.full(a.sizes.nodes, -1, np.int32)
    for keys in ((real_guids(a), real_guids(b)), (port_guids(a), port_guids(b)), by_both, by_name):
        to_b = _filled(to_b, _match(*keys), b)
    return to_b


def _name_numbers(a: Fabric, b: Fabric) -> list[np.ndarray]:
    """Return a number for each name of either side, equal for equal names."""
    names = [[plain_name(n) for n in f.node_names()] for f in (a, b)]
    number = {name: i + 1 for i, name in enumerate(dict.fromkeys([*names[0], *names[1]]))}
    return [np.array([number[n] for n in ns], np.uint64) for ns in names]


def _filled(to_b: np.ndarray, match: np.ndarray, b: Fabric) -> np.ndarray:
    """Return ``to_b``, completed from ``match`` where it has no node and the matched node is still free."""
    taken = np.zeros(b.sizes.nodes + 1, bool)
    taken[to_b[to_b >= 0]] = True
    return np.where((to_b < 0) & (match >= 0) & ~taken[match], match, to_b)


def _decided_by_cables(a: Fabric, b: Fabric, by_guid: np.ndarray) -> np.ndarray:
    """Match nodes by name if their GUID leads to another node but most cables agree with the name."""
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
    """Add renamed nodes to ``to_b``, starting next to nodes that match. A part in which every node
    was renamed starts from equal generated GUIDs."""
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
    """Match nodes by their cables to matching nodes, until no further node matches."""
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
        pairs = pairs[:, 2 * votes > anchored[pairs[0]]]  # more than half, so at most one node of b per node of a
        once = np.bincount(pairs[1], minlength=b.sizes.nodes)[pairs[1]] == 1
        if not once.any():
            return to_b
        to_b = to_b.copy()
        to_b[pairs[0, once]] = pairs[1, once]


def _supported(a: Fabric, b: Fabric, to_b: np.ndarray) -> np.ndarray:
    """Return whether more than half of each node's cables connect the same ports in ``b`` (bool[a's
    nodes])."""
    port_b = ports_in_b(a, b, to_b)
    port = np.flatnonzero(a.port_peer >= 0)
    same = (port_b[port] >= 0) & (b.port_peer[np.maximum(port_b[port], 0)] == port_b[a.port_peer[port]])
    cables, kept = (np.bincount(a.port_node[p], minlength=a.sizes.nodes) for p in (port, port[same]))
    return 2 * kept > cables


def plain_name(name: str) -> str:
    """Return the name without ``/U1``: ibdm calls the chip of a one-chip system ``leaf-1/U1``,
    other sources ``leaf-1``."""
    return name.strip().removesuffix("/U1")


def real_guids(f: Fabric) -> np.ndarray:
    """Return the NodeGUIDs, with 0 for generated ones: those only number the nodes, so equal values mean nothing."""
    generated = ((f.node_guid >> np.uint64(40)) == np.uint64(GUID_BASE >> 40)) | (f.node_stated & Stated.NODE_GUID == 0)
    return np.where(generated, np.uint64(0), f.node_guid)


def port_guids(f: Fabric) -> np.ndarray:
    """Return the GUID of the first linked port of each adapter, which iblinkinfo prints instead of
    the NodeGUID; 0 for other nodes."""
    out = np.zeros(f.sizes.nodes, np.uint64)
    ports = np.flatnonzero((f.port_peer >= 0) & ~f.is_switch[f.port_node])[::-1]
    out[f.port_node[ports]] = f.port_guid[ports]
    return np.where(real_guids(f) == 0, np.uint64(0), out)


def _match(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Match rows of ``a`` to ``b`` by keys that occur exactly once on both sides (0 = no key)."""
    keys, back = np.unique(np.concatenate([a, b]), return_inverse=True)
    in_a, in_b = (np.bincount(k, minlength=len(keys)) for k in (back[: len(a)], back[len(a) :]))
    row = np.full(len(keys), -1, np.int32)
    row[back[len(a) :]] = np.arange(len(b), dtype=np.int32)
    usable = (in_a == 1) & (in_b == 1) & (keys != 0)
    return np.where(usable, row, -1)[back[: len(a)]].astype(np.int32) if len(a) else np.zeros(0, np.int32)


def ports_in_b(a: Fabric, b: Fabric, to_b: np.ndarray) -> np.ndarray:
    """Return the same port of ``b`` for each port of ``a`` (int32[ports]); -1 if the node was
    removed or has no such port."""
    node = to_b[a.port_node] if a.sizes.ports else np.zeros(0, np.int32)
    kept = np.maximum(node, 0)
    if not b.sizes.nodes:
        return np.full(a.sizes.ports, -1, np.int64)
    there = (node >= 0) & (a.port_num <= b.node_nports[kept]) & ((a.port_num > 0) | b.is_switch[kept])
    return np.where(there, b.node_base[kept].astype(np.int64) + a.port_num, -1)
