"""Aggregation trees for jobs: what the internal manager's aggregation manager gives to hosts of a
running fabric."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.errors import InputError
from softib.sm.subnet_manager import SubnetManager

__all__ = ["job_of"]


def job_of(sm: SubnetManager, guids: list[int], streaming: bool) -> dict[str, Any]:
    """The tree for hosts (NodeGUIDs): ``{"tree", "streaming", "top", "nodes", "hosts"}``,
    aggregation nodes by the name of their switch; ``hosts`` has the one of each host.

    Raises :class:`InputError` where there are no trees, or none that fits.
    """
    manager, graph = sm.aggregation, sm.graph
    if manager is None or graph is None:
        raise InputError("there are no aggregation trees; the fabric's sm: section says aggregation: true")
    db = sm.database
    switch_of = {int(node): int(s) for node, s in zip(graph.end_node, graph.end_switch, strict=True) if node >= 0}
    switches = [switch_of.get(db.node_of(guid), -1) for guid in guids]
    if min(switches) < 0:
        raise InputError("a host of the job is not up; softib status says what is")
    job = manager.job(np.array(switches, np.int64), streaming)
    if job is None:
        raise InputError("no aggregation tree has a node in the switch of each of these hosts")
    name = lambda row: db.name(int(graph.switch_node[manager.switch_of[row]]))
    return {
        "tree": job.tree,
        "streaming": streaming,
        "top": name(job.top),
        "nodes": [name(row) for row in job.nodes.tolist()],
        "hosts": [name(row) for row in job.node_of_host.tolist()],
    }
