"""The data of the page's tables, search and selection: the fabric as columns, in JSON inside the page.

The script renders only the visible rows, so that the page of a fabric with 10,000 hosts is a file of a few MB that
opens at once.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from markupsafe import Markup

from softib.analysis.model import Report
from softib.analysis.tiers import Tiers
from softib.diags.finding import Finding
from softib.diags.structure.ranks import UNTIERED, tier_name
from softib.diags.view import speed_text
from softib.fabric.end_ports import port_gbps
from softib.fabric.model import Fabric
from softib.fabric.power_up import active_speed_codes
from softib.iba.constants import NodeType
from softib.iba.devices import is_aggregation_node
from softib.iba.rates import LANES_BY_BIT
from softib.iba.smp import PortInfo

__all__ = ["MAX_CABLES", "finding_ports", "page_data", "script_json"]

MAX_CABLES = 200_000
"""Maximum number of cables in the page's tables (about 25 bytes each); ``--json`` and the readers have no such limit.
"""


def script_json(value: Any) -> Markup:
    """Return JSON that is safe inside ``<script>``: it cannot end the element or begin a comment."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def finding_ports(fabric: Fabric, findings: list[Finding]) -> list[list[tuple[int, int]]]:
    """Return, for each finding, (node row, port number or 0) of each of its locations. A node row of -1 means that the
    node is not in this fabric."""
    rows: dict[int, list[int]] = {}
    for i, guid in enumerate(fabric.node_guid.tolist()):
        rows.setdefault(guid, []).append(i)
    out = []
    for finding in findings:
        ports = []
        for place in finding.where:
            # If several nodes have the GUID, the node with the name in the finding is used.
            some = rows.get(place.guid, [])
            node = next((n for n in some if len(some) == 1 or fabric.node_name(n) == place.node), -1)
            ports.append((node, place.portnum or 0))
        out.append(ports)
    return out


def page_data(report: Report, tiers: Tiers | None, load: np.ndarray | None, findings: list[Finding]) -> dict[str, Any]:
    """Return columns of nodes and cables. ``load``: the relative load of each switch link; ``findings``: the
    findings on the page."""
    f = report.fabric
    names = f.node_names()
    kind = np.where(f.is_switch, 0, np.where(is_aggregation_node(f.node_desc), 2, 1))
    kind[f.node_type == NodeType.ROUTER] = 3
    box = np.full(f.sizes.nodes, -1)
    rank = np.zeros(f.sizes.nodes, np.int64) if report.recognised is None else report.recognised.rank.astype(np.int64)
    if tiers is not None and report.graph is not None:
        box[report.graph.switch_node] = tiers.box
    top = int(rank.max(initial=0))
    return {
        "name": names,
        "guid": [f"{g:016x}" for g in f.node_guid.tolist()],
        "kind": kind.tolist(),
        "lid": f.lid[f.node_base + np.where(f.is_switch, 0, np.minimum(1, f.node_nports))].tolist(),
        "ports": f.node_nports.tolist(),
        "tier": np.where(f.is_switch, np.maximum(rank, 0), -1).tolist(),
        "tiers": [UNTIERED, *(tier_name(t) for t in range(1, top + 1))],
        "box": box.tolist(),
        "cable": _cables(report, load),
        "finding_ports": finding_ports(f, findings),
        "severity": [int(finding.severity) for finding in findings],
    }


def _cables(report: Report, load: np.ndarray | None) -> dict[str, Any]:
    """Return columns of the cables whose two ends are known: ends, rate, and load from a to b and from b to a (in
    hundredths; -1 = not predicted)."""
    f = report.fabric
    rows = np.flatnonzero((f.cable_port >= 0).all(axis=1))[:MAX_CABLES] if len(f.cable_port) else np.zeros(0, np.int64)
    a, b = f.cable_port[rows].T if len(rows) else (rows, rows)
    lanes = np.zeros(256, np.int64)
    for bit, count in LANES_BY_BIT.items():
        lanes[bit] = count
    code = np.stack(
        [active_speed_codes(f.port_info, f.port_mlnx_speed), lanes[PortInfo.link_width_active.get(f.port_info)]]
    )
    gbps = port_gbps(f)
    some, rate = np.unique(np.concatenate([code[:, a], gbps[None, a]]), axis=1, return_inverse=True)
    at_port = np.full(f.sizes.ports, -1.0)
    if load is not None and report.graph is not None:
        g = report.graph
        owner = g.link_switch
        at_port[f.node_base[g.switch_node[owner]] + g.out_port] = load
    hundredths = np.where(at_port < 0, -1, np.round(100 * at_port)).astype(np.int64)
    return {
        "a": f.port_node[a].tolist(),
        "ap": f.port_num[a].tolist(),
        "b": f.port_node[b].tolist(),
        "bp": f.port_num[b].tolist(),
        "rate": rate.ravel().tolist(),
        "rates": [f"{g:g} Gb/s {speed_text(int(c), int(n))}" if g else "no link" for c, n, g in some.T.tolist()],
        "gbps": some[2].tolist(),
        "out": hundredths[a].tolist(),
        "back": hundredths[b].tolist(),
        "left_out": int((f.cable_port >= 0).all(axis=1).sum()) - len(rows) if len(f.cable_port) else 0,
    }
