"""Which adapters are in one host."""

from __future__ import annotations

import re

import numpy as np

from softib.fabric.model import Fabric

__all__ = ["device_name", "host_of"]

DEVICE = re.compile(r"(?:mlx\d+|mthca|qib|hfi1|ib[ps]\w*|ibdev)_?\d+[\w.-]*")


def device_name(fabric: Fabric, node: int) -> str:
    """The adapter's name on its host, the second of the two parts of its description (``node-001
    mlx5_3``); empty where it has none."""
    parts = fabric.node_name(node).split(" ")
    return parts[1] if len(parts) == 2 and DEVICE.fullmatch(parts[1]) else ""


def host_of(fabric: Fabric, node: int) -> list[int]:
    """The CAs of the host that ``node`` is in: those whose description begins with the same host
    name, or that have its SystemImageGUID. A switch, a router and a SHARP aggregation node are
    alone."""
    f = fabric
    hosts = f.is_host
    if not hosts[node]:
        return [node]
    same = np.flatnonzero((f.sys_guid == f.sys_guid[node]) & hosts).tolist() if f.sys_guid[node] else [node]
    if device_name(f, node):
        prefix = np.frombuffer(f"{f.node_name(node).split(' ')[0]} ".encode(), np.uint8)
        named = np.flatnonzero((f.node_desc[:, : len(prefix)] == prefix).all(axis=1) & hosts).tolist()
        same = sorted({*same, *(n for n in named if device_name(f, n))})
    return [int(n) for n in same]
