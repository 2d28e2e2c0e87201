"""A fabric derived from observations of its ports, for results that show findings on a fabric, and its bisection
without the cables to isolate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from softib.diags.finding import Finding
from softib.diags.observations import ObservedPorts
from softib.diags.structure.recognise import recognise
from softib.fabric.builder import FabricBuilder
from softib.fabric.model import Fabric, Source
from softib.fabric.plugging import delete_cables
from softib.iba.constants import NodeType

__all__ = ["cable_at", "fabric_of_ports", "with_bisection"]


def with_bisection(fabric: Fabric, findings: Sequence[Finding]) -> list[Finding]:
    """Return ``findings``. Where one proposes to isolate a cable between switches, ``evidence["isolate"]`` gets the
    bisection in percent of full bisection: now, and without all cables to isolate. The search
    (``softib.diags.capacity.bisection``) runs only if there is such a cable."""
    between = [i for i, f in enumerate(findings) if "capacity_between_switches_left" in f.evidence.get("isolate", {})]
    named = [f.where[0] for f in findings if f.evidence.get("isolate", {}).get("now")]
    away = [c for w in named if (c := cable_at(fabric, w.guid, w.portnum)) >= 0]
    if not between or not away:
        return list(findings)
    before = recognise(fabric).bisection
    less = fabric.copy()
    delete_cables(less, np.array(away))
    after = recognise(less).bisection
    out = list(findings)
    for i in between:
        isolate = {
            **findings[i].evidence["isolate"],
            "bisection_percent": {"now": _percent(before), "all_isolated": _percent(after)},
        }
        out[i] = replace(findings[i], evidence={**findings[i].evidence, "isolate": isolate})
    return out


def _percent(bisection: object) -> float | None:
    return getattr(bisection, "percent", None)


def cable_at(fabric: Fabric, guid: int, portnum: int | None) -> int:
    """Return the cable at a port; -1 if it has none."""
    nodes = np.flatnonzero(fabric.node_guid == np.uint64(guid))
    if not len(nodes) or portnum is None or not 0 < portnum <= int(fabric.node_nports[nodes[0]]):
        return -1
    return int(fabric.port_cable[int(fabric.node_base[nodes[0]]) + portnum])


def fabric_of_ports(ports: ObservedPorts, name: str = "observed") -> Fabric:
    """Return a fabric of the observed nodes and cables. Data that was not observed (devices, LIDs
    of switches, tables) has the defaults of :class:`FabricBuilder` and is not recorded."""
    guid, first, node = np.unique(ports.node_guid, return_index=True, return_inverse=True)
    node = node.reshape(-1)
    switch = np.asarray(ports.switch, bool)[first]
    most = np.zeros(len(guid), np.int64)
    np.maximum.at(most, node, np.asarray(ports.portnum, np.int64))
    built, row = FabricBuilder(name), np.zeros(len(guid), np.int64)
    for is_switch, n in sorted({(bool(s), int(m)) for s, m in zip(switch, most, strict=True)}):
        alike = np.flatnonzero((switch == is_switch) & (most == n))
        row[alike] = built.nodes(
            len(alike),
            NodeType.SWITCH if is_switch else NodeType.CA,
            max(n, 1),
            desc=[ports.node[first[m]] for m in alike.tolist()],
            node_guid=guid[alike],
        )
    peer = np.asarray(ports.peer, np.int64)
    a = np.flatnonzero(
        (peer > np.arange(len(peer)))
        & (np.asarray(ports.portnum) > 0)
        & (np.asarray(ports.portnum)[np.maximum(peer, 0)] > 0)
    )
    if len(a):
        b = peer[a]
        built.links(row[node[a]], ports.portnum[a], row[node[b]], ports.portnum[b])
    fabric = built.build()
    fabric.source = Source("observed", name)
    return fabric
