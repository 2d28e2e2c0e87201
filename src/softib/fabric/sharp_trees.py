"""SHARP trees, read from the tables of the aggregation nodes: each QP is followed to the node of
its peer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.fabric.model import Fabric
from softib.iba.vendor.sharp import ENABLED, STREAMING, QPCConfig, QuotaConfig, TreeConfig

__all__ = ["ABSENT", "ROOT", "SharpTree", "inside_switches", "sharp_trees"]

ROOT, ABSENT = -1, -2
"""Values of ``SharpTree.parent``: ROOT = the node has no parent, ABSENT = the node is not in the
tree."""


@dataclass(frozen=True)
class SharpTree:
    """A SHARP tree. ``parent`` int32[sharps]: the row of each aggregation node's parent, or ROOT or
    ABSENT. ``osts`` (outstanding operations), ``buffers`` (bytes) and ``payload`` (bytes per
    operation) are the smallest quota that any node of the tree has; 0 = not set."""

    tree: int
    parent: np.ndarray
    streaming: bool
    osts: int
    buffers: int
    payload: int


def inside_switches(fabric: Fabric) -> np.ndarray:
    """Return a mask (bool[ports]) of the ports that connect a switch with its aggregation node.
    Such a link is inside the switch: it has no cable and no rate limit."""
    inside = np.zeros(fabric.sizes.ports, bool)
    ports = fabric.node_base[fabric.sharp_node] + 1
    inside[ports] = True
    inside[fabric.port_peer[ports[fabric.port_peer[ports] >= 0]]] = True
    return inside


def sharp_trees(fabric: Fabric) -> list[SharpTree]:
    """Return the enabled trees, ascending by ID. A node has a parent if its QP is enabled, and the
    QP's peer has the LID of an aggregation node that has an enabled tree with the same ID.
    Otherwise the node is a ROOT."""
    f = fabric
    if not f.sharp_tree.any():
        return []
    enabled = TreeConfig.tree_state.get(f.sharp_tree) == ENABLED
    lid = f.lid
    row_of_lid = np.full(0x10000, ABSENT, np.int32)
    for row, node in enumerate(f.sharp_node.tolist()):
        row_of_lid[lid[f.node_base[node] + 1]] = row
    row_of_lid[0] = ABSENT
    trees = []
    for tree in np.flatnonzero(enabled.any(axis=0)).tolist():
        members = np.flatnonzero(enabled[:, tree])
        head = f.sharp_tree[members, tree]
        qp = f.sharp_qp[members, TreeConfig.parent_qpn.get(head)]
        above = np.where(QPCConfig.qp_state.get(qp) == ENABLED, row_of_lid[QPCConfig.remote_lid.get(qp)], ABSENT)
        parent = np.full(f.sizes.sharps, ABSENT, np.int32)
        parent[members] = np.where((above >= 0) & enabled[np.maximum(above, 0), tree], above, ROOT)
        quota = f.sharp_quota[members, tree]
        osts, buffers, payload = (
            int(q.get(quota).min()) for q in (QuotaConfig.osts, QuotaConfig.buffers, QuotaConfig.payload)
        )
        streaming = bool((TreeConfig.kind.get(head) == STREAMING).any())
        trees.append(SharpTree(tree, parent, streaming, osts, buffers, payload))
    return trees
