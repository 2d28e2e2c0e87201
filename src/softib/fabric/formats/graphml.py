"""Write GraphML for yEd, Gephi, networkx and other programs, with a node for each device and an
edge for each cable.

Nodes have name, type, GUID, number of ports, system and base LID. Edges have both port numbers,
speed, width, length and medium. Unknown values are left out. The format is that of
graphml.graphdrawing.org, with its attribute extension.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np

from softib.fabric.columns import CableMedium
from softib.fabric.model import Fabric
from softib.fabric.power_up import active_speed_codes
from softib.iba.constants import NodeType
from softib.iba.rates import LANES_BY_BIT, SPEED_BY_CODE
from softib.iba.smp import PortInfo
from softib.whole_files import write_file

__all__ = ["write"]

NAMESPACE = "http://graphml.graphdrawing.org/xmlns"
_KEYS = (
    ("node", "name", "string"),
    ("node", "type", "string"),
    ("node", "guid", "string"),
    ("node", "nports", "int"),
    ("node", "system", "string"),
    ("node", "lid", "int"),
    ("edge", "source_port", "int"),
    ("edge", "target_port", "int"),
    ("edge", "speed", "string"),
    ("edge", "lanes", "int"),
    ("edge", "length_m", "double"),
    ("edge", "medium", "string"),
)
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(fabric: Fabric, path: str | Path) -> list[str]:
    """Write ``fabric``. Cables that have only one end are left out; return a note for each of
    them."""
    root = ET.Element("graphml", xmlns=NAMESPACE)
    for domain, name, kind in _KEYS:
        ET.SubElement(root, "key", {"id": f"{domain}_{name}", "for": domain, "attr.name": name, "attr.type": kind})
    graph = ET.SubElement(root, "graph", id=_text(fabric.name or "fabric"), edgedefault="undirected")
    _nodes(fabric, graph)
    notes = _edges(fabric, graph)
    ET.indent(root)
    write_file(path, lambda part: ET.ElementTree(root).write(part, encoding="utf-8", xml_declaration=True))
    return notes


def _text(value: Any) -> str:
    return _NOT_XML.sub("?", str(value))


def _data(element: ET.Element, domain: str, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if value not in (None, ""):
            ET.SubElement(element, "data", key=f"{domain}_{name}").text = _text(value)


def _nodes(fabric: Fabric, graph: ET.Element) -> None:
    kind_names = {NodeType.CA: "ca", NodeType.SWITCH: "switch", NodeType.ROUTER: "router"}
    lid = np.zeros(fabric.sizes.nodes, np.int64)
    ends = fabric.end_ports()
    np.maximum.at(lid, fabric.port_node[ends], fabric.lid[ends].astype(np.int64))
    for node, name in enumerate(fabric.node_names()):
        element = ET.SubElement(graph, "node", id=f"n{node}")
        kind = kind_names.get(NodeType(int(fabric.node_type[node])))
        _data(
            element,
            "node",
            {
                "name": name,
                "type": kind,
                "guid": f"{int(fabric.node_guid[node]):#018x}",
                "nports": int(fabric.node_nports[node]),
                "system": fabric.node_system.get(node),
                "lid": int(lid[node]) or None,
            },
        )


def _edges(fabric: Fabric, graph: ET.Element) -> list[str]:
    notes = []
    codes = active_speed_codes(fabric.port_info, fabric.port_mlnx_speed)
    width = PortInfo.link_width_active.get(fabric.port_info)
    for cable, (a, b) in enumerate(fabric.cable_port.tolist()):
        if a < 0 or b < 0:
            notes.append(f"the cable in {fabric.port_name(max(a, b))} is left out: its other end is unknown")
            continue
        element = ET.SubElement(
            graph, "edge", id=f"e{cable}", source=f"n{int(fabric.port_node[a])}", target=f"n{int(fabric.port_node[b])}"
        )
        length = float(fabric.cable_length_m[cable])
        medium = int(fabric.cable_medium[cable])
        _data(
            element,
            "edge",
            {
                "source_port": int(fabric.port_num[a]),
                "target_port": int(fabric.port_num[b]),
                "speed": SPEED_BY_CODE[int(codes[a])].name if codes[a] else None,
                "lanes": LANES_BY_BIT.get(int(width[a])),
                "length_m": None if np.isnan(length) else f"{length:g}",
                "medium": CableMedium.NAMES[medium] if medium else None,
            },
        )
    return notes
