"""Which ports an acceptance measures from: the adapters of a fabric, or hosts by name alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from softib.analysis.endpoints import MAX_RAILS
from softib.diags.acceptance.schedule import Ends
from softib.diags.structure.recognise import Structure, recognise
from softib.errors import UnknownName
from softib.fabric.end_ports import end_ports
from softib.fabric.model import Fabric
from softib.fabric.natural_order import natural_key
from softib.routing.graph import SwitchGraph, components

__all__ = ["FabricEnds", "ends_of_fabric", "ends_of_hosts"]

NODE_DESCRIPTION = re.compile(r"^(?P<host>\S+)[ /:]+(?P<device>[a-z][a-z0-9]*_?\d+)\b")
"""``node-1 mlx5_0``: what rdma-ndd writes (``%h %d``)."""


@dataclass(frozen=True)
class FabricEnds:
    """``ends``, and of each: ``row`` of the fabric's end ports (int64), ``port`` of the fabric
    (int64). ``tree``: its tiers have names."""

    ends: Ends
    row: np.ndarray
    port: np.ndarray
    tree: bool


def ends_of_fabric(fabric: Fabric, graph: SwitchGraph, hosts: Sequence[str] | None = None) -> FabricEnds:
    """The ports of all hosts with a LID, in natural order of their names; of ``hosts`` alone where
    given.

    Raises :class:`UnknownName` for a host that the fabric has not.
    """
    all_ends = end_ports(fabric)
    node = fabric.port_node[all_ends]
    rows = np.flatnonzero((fabric.port_num[all_ends] > 0) & fabric.is_host[node])
    names = [fabric.node_name(int(n)) for n in node[rows]]
    split = [_split(name) for name in names]
    many: dict[str, int] = {}
    for host, _ in split:
        many[host] = many.get(host, 0) + 1
    split = [s if many[s[0]] <= MAX_RAILS else (n, "") for s, n in zip(split, names, strict=True)]
    if hosts is not None:
        known = {h for h, _ in split} | {h.partition(".")[0] for h, _ in split}
        for wanted in hosts:
            if wanted not in known and wanted.partition(".")[0] not in known:
                raise UnknownName("host", wanted, sorted(known))
        short = {h.partition(".")[0] for h in hosts}
    kept = [i for i in range(len(rows)) if hosts is None or split[i][0].partition(".")[0] in short]
    kept.sort(key=lambda i: (natural_key(names[i]), int(fabric.port_num[all_ends[rows[i]]])))
    chosen = rows[kept].astype(np.int64)
    port = all_ends[chosen].astype(np.int64)
    peer = fabric.port_node[np.maximum(fabric.port_peer[port], 0)]
    structure = recognise(fabric)
    ends = Ends(
        tuple(names[i] for i in kept),
        tuple(split[i][0] for i in kept),
        tuple(split[i][1] for i in kept),
        fabric.port_num[port].astype(np.int32),
        _rails([split[i][0] for i in kept]),
        peer.astype(np.int32),
        _pods(fabric, graph, structure)[peer],
    )
    return FabricEnds(ends, chosen, port, structure.kind in ("fat-tree", "rail-optimized", "dragonfly+"))


def ends_of_hosts(hosts: Sequence[str], devices: Sequence[str] = ()) -> Ends:
    """Hosts of which nothing but their names is known, each with the ``devices`` (none: the first
    of each host)."""
    rows = [(h, d, r) for h in hosts for r, d in enumerate(devices or [""])]
    none = np.zeros(len(rows), np.int32)
    names = tuple(h for h, _, _ in rows)
    return Ends(
        names,
        names,
        tuple(d for _, d, _ in rows),
        np.ones(len(rows), np.int32),
        np.array([r for _, _, r in rows], np.int32),
        none,
        none.copy(),
    )


def _split(name: str) -> tuple[str, str]:
    hit = NODE_DESCRIPTION.match(name)
    return (hit["host"], hit["device"]) if hit else (name, "")


def _rails(hosts: Sequence[str]) -> np.ndarray:
    """Position of each port among those of its host, which stand in the order of adapters and
    ports."""
    seen: dict[str, int] = {}
    out = np.zeros(len(hosts), np.int32)
    for i, host in enumerate(hosts):
        out[i] = seen.get(host, 0)
        seen[host] = seen.get(host, 0) + 1
    return out


def _pods(fabric: Fabric, graph: SwitchGraph, structure: Structure) -> np.ndarray:
    """int32[nodes]: the connected part of the switches below the top tier that a switch is in; 0
    where there are not three tiers."""
    out = np.zeros(fabric.sizes.nodes, np.int32)
    rank = np.asarray(structure.rank)[graph.switch_node]
    top = int(rank.max(initial=0))
    if top < 3:
        return out
    owner = graph.link_switch
    inside = (rank[owner] < top) & (rank[graph.peer] < top)
    out[graph.switch_node] = components(graph.n_switches, owner[inside], graph.peer[inside])
    return out
