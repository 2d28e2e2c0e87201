"""Reports of generated fabrics, with LIDs given by hand: the drawing and the texts need no subnet manager."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.analysis.model import Counts, Report
from softib.analysis.prediction import predict
from softib.analysis.routing import judge
from softib.diags.finding import Finding, Location, Severity
from softib.diags.structure.recognise import recognise
from softib.fabric.builder import FabricBuilder
from softib.fabric.formats.base import Problem
from softib.fabric.model import Fabric
from softib.iba.constants import NodeType
from softib.iba.smp import PortInfo
from softib.routing.engine import route
from softib.routing.graph import PortColumns, SwitchGraph


def tree(leaves: int = 4, hosts: int = 4, spines: int = 2, prefix: str = "", speed: str = "EDR") -> Fabric:
    """Two-level tree whose node names start with ``prefix``."""
    b = FabricBuilder("pod")
    leaf = b.nodes(
        leaves, NodeType.SWITCH, hosts + spines, desc=[f"{prefix}leaf-{i}" for i in range(leaves)], speed=speed
    )
    spine = b.nodes(spines, NodeType.SWITCH, leaves, desc=[f"{prefix}spine-{i}" for i in range(spines)], speed=speed)
    host = b.nodes(
        leaves * hosts, NodeType.CA, 1, desc=[f"{prefix}host-{i}" for i in range(leaves * hosts)], speed=speed
    )
    index = np.arange(leaves * hosts)
    b.links(leaf[index // hosts], 1 + index % hosts, host, 1)
    a, s = (x.ravel() for x in np.meshgrid(np.arange(leaves), np.arange(spines), indexing="ij"))
    b.links(leaf[a], hosts + 1 + s, spine[s], 1 + a)
    return b.build()


def with_lids(fabric: Fabric) -> SwitchGraph:
    """Number the end ports 1, 2, … and give the graph."""
    lid = np.zeros(fabric.sizes.ports, int)
    ends = fabric.end_ports()
    lid[ends] = 1 + np.arange(len(ends))
    PortInfo.lid.set(fabric.port_info, lid)
    f = fabric
    return SwitchGraph.from_ports(
        PortColumns(
            node_type=f.node_type,
            is_host=f.is_host,
            node_guid=f.node_guid,
            node_nports=f.node_nports,
            port_node=f.port_node,
            port_num=f.port_num,
            port_guid=f.port_guid,
            port_peer=f.port_peer,
            port_lid=f.lid,
            port_lmc=f.lmc,
        )
    )


def finding(fabric: Fabric, port: int, severity: Severity = Severity.ERROR, **texts: str) -> Finding:
    """A finding at ``port``."""
    node = int(fabric.port_node[port])
    location = Location(fabric.node_name(node), int(fabric.node_guid[node]), int(fabric.port_num[port]))
    told: dict[str, Any] = {"message": f"{location} is bad", "advice": "replace the cable", **texts}
    return Finding("link-slow", severity, (location,), told["message"], {}, told["advice"])


def report_of(fabric: Fabric, engine: str = "minhop", findings: tuple[Finding, ...] = ()) -> Report:
    """Routed, proven, predicted."""
    graph = with_lids(fabric)
    routing = route(graph, engine)
    switches = fabric.sizes.switches
    report = Report(
        "pod.net",
        "ibsim",
        Counts("pod", switches, fabric.sizes.nodes - switches, 0, fabric.sizes.cables, None),
        list(findings),
        [Problem("pod.net", 7, "no such port")],
        fabric=fabric,
    )
    report.graph, report.lft = graph, routing.lft
    report.routing = judge(fabric, graph, routing.lft, engine, "test")[0]
    report.recognised = recognise(fabric)
    report.prediction = predict(fabric, graph, routing.lft, samples=5, cut=report.recognised.bisection)
    return report
