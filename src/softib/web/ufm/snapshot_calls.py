"""UFM's ``app/fabric_snapshot``: the labels that Grafana's plugin gives to the telemetry of each port."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
from fastapi import FastAPI

from softib.fabric.model import Fabric
from softib.fabric.topologies.tree import tier_name
from softib.web.ufm.fabric_calls import Reading
from softib.web.ufm.fabric_rows import FabricRows

__all__ = ["add_snapshot_calls"]


def add_snapshot_calls(app: FastAPI, reading: Reading) -> None:
    """Add the calls to ``app``."""
    last: tuple[FabricRows, dict[str, Any]] | None = None

    @app.get("/app/fabric_snapshot")
    def snapshot(hash: str = "") -> dict[str, Any]:
        """The labels of cabled ports and their digest; without labels if ``hash`` equals the digest."""
        nonlocal last
        rows = reading.rows
        if last is None or last[0] is not rows:
            last = rows, _labels(rows)
        document = last[1]
        return document | {"labels": []} if hash == document["hash"] else document


def _labels(rows: FabricRows) -> dict[str, Any]:
    f = rows.fabric
    level = _levels(f)
    name = lambda row: tier_name(int(level[f.port_node[row]])) if level[f.port_node[row]] >= 0 else ""
    labels = []
    for row in rows.ports.tolist():
        peer = rows.peer(row)
        if peer < 0:
            continue
        port = rows.port(row)
        labels.append(
            {
                "port_id": port["name"],
                "device_name": port["system_name"],
                "device_type": {"Computer": "host"}.get(port["type"], port["type"].lower()),
                "level": name(row),
                "node_desc": port["node_description"],
                "peer_level": name(peer),
                "status": "A",
            }
        )
    return {"hash": hashlib.sha256(json.dumps(labels).encode()).hexdigest()[:16], "labels": labels}


def _levels(f: Fabric) -> np.ndarray:
    """Return int64[nodes]: the number of cables to the nearest host; -1 if no host is reached."""
    ends = f.cable_port[(f.cable_port >= 0).all(axis=1)]
    both = f.port_node[np.concatenate([ends, ends[:, ::-1]])]
    level = np.where(f.is_switch, -1, 0).astype(np.int64)
    for distance in range(1, len(level)):
        reached = both[level[both[:, 0]] == distance - 1, 1]
        reached = reached[level[reached] < 0]
        if not len(reached):
            break
        level[reached] = distance
    return level
