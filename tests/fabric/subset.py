"""A fabric without some of its nodes: what a scan finds when they have lost their power.

Faults of :mod:`softib.fabric.faults.inject` leave every row in place. A node that does not answer is not in a dump at all, and
neither are its cables; the ports at their other ends are free.
"""

from __future__ import annotations

import copy

import numpy as np

from softib.fabric.columns import COLUMNS
from softib.fabric.model import Fabric, Source

__all__ = ["without_nodes"]


def without_nodes(fabric: Fabric, nodes: np.ndarray | list[int]) -> Fabric:
    """A copy of ``fabric`` without ``nodes`` (indices) and their cables. What a generator recorded about rows is left out.

    Raises :class:`IndexError` for an index that is no node.
    """
    keep_node = np.ones(fabric.sizes.nodes, bool)
    keep_node[np.asarray(nodes, np.int64)] = False
    keep_port = keep_node[fabric.port_node]
    ends = fabric.cable_port
    keep_cable = (keep_port[np.maximum(ends, 0)] | (ends < 0)).all(axis=1) if len(ends) else np.zeros(0, bool)
    kept = {
        "nodes": keep_node,
        "ports": keep_port,
        "cables": keep_cable,
        "switches": keep_node[fabric.switch_node],
        "sharps": keep_node[fabric.sharp_node],
    }
    new = copy.copy(fabric)
    new.sizes = copy.copy(fabric.sizes)
    for dimension, mask in kept.items():
        setattr(new.sizes, dimension, int(mask.sum()))
    for c in COLUMNS:
        column = getattr(fabric, c.name)
        mask = kept.get(str(c.dims[0]))
        setattr(new, c.name, column.copy() if mask is None else column[mask])
    _renumber(new, kept)
    new_node, new_port = (np.cumsum(kept[d]) - 1 for d in ("nodes", "ports"))
    old = fabric.source
    sms = [
        {**sm, "node": int(new_node[sm["node"]])} if isinstance(sm.get("node"), int) else dict(sm)
        for sm in old.sms
        if not isinstance(sm.get("node"), int) or keep_node[sm["node"]]
    ]
    new.source = Source(old.format, old.path, old.records, old.system_links, sms)
    new.port_label = {int(new_port[p]): text for p, text in fabric.port_label.items() if keep_port[p]}
    new.node_system = {int(new_node[n]): text for n, text in fabric.node_system.items() if keep_node[n]}
    return new


def _renumber(f: Fabric, kept: dict[str, np.ndarray]) -> None:
    """Rows that columns name, by their new positions; -1 where the row was removed."""
    place = {d: np.where(mask, np.cumsum(mask) - 1, -1).astype(np.int32) for d, mask in kept.items()}
    old_port = np.flatnonzero(kept["ports"])
    f.port_node[:] = place["nodes"][f.port_node]
    # node_base is one less than the first row of a CA, so it is taken from a row that is there.
    row_of_node = np.zeros(f.sizes.nodes, np.int64)
    row_of_node[f.port_node[::-1]] = np.arange(len(old_port))[::-1]
    has_ports = np.bincount(f.port_node, minlength=f.sizes.nodes) > 0
    base = row_of_node - f.port_num[row_of_node] if len(old_port) else row_of_node
    f.node_base[has_ports] = base[has_ports]
    for name, dimension in (
        ("port_peer", "ports"),
        ("port_cable", "cables"),
        ("cable_port", "ports"),
        ("switch_node", "nodes"),
        ("switch_of_node", "switches"),
        ("sharp_node", "nodes"),
        ("sharp_of_node", "sharps"),
    ):
        column = getattr(f, name)
        if len(place[dimension]):  # where there is none of the kind, every row says -1 already
            column[...] = np.where(column >= 0, place[dimension][np.maximum(column, 0)], -1)
