"""Aggregation trees for jobs: what the internal manager's aggregation manager gives to hosts of a
running fabric."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.errors import InputError
from softib.result import Result
from softib.sm.subnet_manager import SubnetManager

__all__ = ["JobTree", "job_of"]


@dataclass
class JobTree(Result):
    """The aggregation tree of a job; aggregation nodes have the name of their switch."""

    tree: int
    streaming: bool
    top: str
    """The aggregation node where all ways meet."""
    nodes: list[str]
    """Aggregation nodes that take part."""
    hosts: list[str]
    """The one of each host, in their order."""


def job_of(sm: SubnetManager, guids: list[int], streaming: bool) -> JobTree:
    """Return the tree for hosts (NodeGUIDs).

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
    nodes, hosts = ([name(row) for row in rows.tolist()] for rows in (job.nodes, job.node_of_host))
    return JobTree(job.tree, streaming, name(job.top), nodes, hosts)
