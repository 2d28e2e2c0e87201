"""Finds the ends of a cabling plan in a fabric.

A plan's node name finds nodes, in this order, the first that finds any wins: the NodeDescription; a GUID; the system
(chassis) in ``node_system``; what people call the node — ``leaf-1`` of ``MF0;leaf-1:MQM9700/U1`` and of ibdm's
``leaf-1/U1``, ``host`` of ``host mlx5_0`` or ``host HCA-1``; and the same without regard to case.

Where the name finds one node, the port is: the label as the fabric has it (``port_label``), else the number that the
label says (:mod:`.port_label`). Where it finds several (a host with eight adapters, a chassis), the label must tell
them apart: the adapter it names (``mlx5_3/1``), the one node that has this ``port_label``, or the blade (``Blade 3`` is
board ``L03`` of the chassis, if that board is one chip). What stays open is a problem, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from softib.errors import nearest
from softib.fabric.formats.base import Problem, Problems
from softib.fabric.formats.cabling import CablingPlan
from softib.fabric.formats.port_label import normal_label, portnum_of_label
from softib.fabric.model import Fabric

__all__ = ["MatchedPlan", "match_plan", "spoken_names"]

_SWITCH = re.compile(r"^(?:MF\d+;)?(?P<name>[^:;]+?)(?::(?P<model>[^/;]+)(?P<path>/.*)?)?$")
_HOST = re.compile(r"^(?P<host>\S+)\s+(?P<hca>(?:mlx[45]|hfi1|qib|mthca|ibp\w*)_\d+|HCA-?\d+)$", re.IGNORECASE)
SUGGESTIONS = 5
"""Unknown names that get near ones listed: comparing with every name of a large fabric takes half a second each."""
_BOARD = re.compile(r"/(?:L|leaf)0*(\d+)(?:/|$)", re.IGNORECASE)


@dataclass
class MatchedPlan:
    """``port`` int32[n, 2]: row of the fabric's port arrays, -1 = not found; ``node`` likewise. ``problems`` say why."""

    port: np.ndarray
    node: np.ndarray
    problems: list[Problem]


def spoken_names(description: str) -> Iterator[str]:
    """What people call a node of this description: see the module."""
    host = _HOST.match(description)
    if host:
        yield host.group("host")
        return
    if description.endswith("/U1") and ":" not in description:
        yield description[:-3]
        return
    match = _SWITCH.match(description)
    if match and (match.group("model") or description.startswith("MF")):
        yield match.group("name")


def _hca_of(description: str) -> str:
    host = _HOST.match(description)
    return host.group("hca").lower() if host else ""


class _Index:
    """Names → nodes, tier by tier."""

    def __init__(self, fabric: Fabric):
        self.fabric = fabric
        self.names = fabric.node_names()
        exact: dict[str, list[int]] = {}
        guid: dict[str, list[int]] = {}
        system: dict[str, list[int]] = {}
        spoken: dict[str, list[int]] = {}
        for node, name in enumerate(self.names):
            exact.setdefault(name, []).append(node)
            guid.setdefault(f"{int(fabric.node_guid[node]):016x}", []).append(node)
            if node in fabric.node_system:
                system.setdefault(fabric.node_system[node], []).append(node)
            for said in spoken_names(name):
                spoken.setdefault(said, []).append(node)
        self.tiers = [exact, guid, system, spoken]
        self.folded: dict[str, list[int]] = {}
        for tier in (exact, system, spoken):
            for name, nodes in tier.items():
                have = self.folded.setdefault(name.casefold(), [])
                have += [n for n in nodes if n not in have]
        self.labels = {p: normal_label(x) for p, x in fabric.port_label.items()}

    def said(self) -> list[str]:
        """Every name that would find a node."""
        return list(dict.fromkeys(x for n in self.names for x in (n, *spoken_names(n))))

    def nodes(self, name: str) -> list[int]:
        key = name.strip()
        for said in (key, key.removesuffix("/U1")):
            for tier in self.tiers:
                if said in tier:
                    return tier[said]
        hexed = key.lower().removeprefix("s-").removeprefix("h-").removeprefix("0x").zfill(16)
        return self.tiers[1].get(hexed) or self.folded.get(key.casefold(), [])

    def port(self, nodes: list[int], label: str) -> tuple[int, str]:
        """Row of the port, or -1 and why not."""
        wanted = normal_label(label)
        hits = [p for n in nodes for p in self.fabric.ports_of(n) if self.labels.get(p) == wanted]
        if len(hits) == 1:
            return hits[0], ""
        said = portnum_of_label(label)
        if said.hca:
            named = [n for n in nodes if _hca_of(self.names[n]) in (said.hca, said.hca.replace("-", ""))]
            nodes = named or nodes
            if not named and len(nodes) > 1:
                return -1, f"no adapter {said.hca} there; its nodes are {self._list(nodes)}"
        if said.blade:
            boards = [n for n in nodes if (m := _BOARD.search(self.names[n])) and int(m.group(1)) == said.blade]
            if len(boards) != 1:
                return (
                    -1,
                    f"blade {said.blade} is {len(boards)} nodes there, so port {said.portnum} of it is not one port",
                )
            nodes = boards
        if len(nodes) > 1:
            return -1, f"the name stands for {len(nodes)} nodes ({self._list(nodes)}) and {label!r} does not tell which"
        node = nodes[0]
        if not said.portnum:
            return -1, f"{label!r} has no port number and is no label of {self.names[node]}"
        if said.portnum > int(self.fabric.node_nports[node]):
            return (
                -1,
                f"{self.names[node]} has no port {said.portnum}; its ports are 1 to {int(self.fabric.node_nports[node])}",
            )
        return int(self.fabric.port(node, said.portnum)), ""

    def _list(self, nodes: list[int]) -> str:
        shown = ", ".join(self.names[n] for n in nodes[:3])
        return shown + (", …" if len(nodes) > 3 else "")


def match_plan(plan: CablingPlan, fabric: Fabric) -> MatchedPlan:
    """Every end of ``plan`` in ``fabric``. A plan made of a fabric is matched by GUID where both have it."""
    index = _Index(fabric)
    problems = Problems(plan.path or "plan")
    port = np.full((len(plan), 2), -1, np.int32)
    by_guid = _same_guids(plan, fabric)
    unknown: set[str] = set()
    for row in range(len(plan)):
        for end in (0, 1):
            name, label, line = str(plan.node[row, end]), str(plan.label[row, end]), int(plan.line[row])
            nodes = [int(by_guid[row, end])] if by_guid[row, end] >= 0 else index.nodes(name)
            if not nodes:
                if name not in unknown:
                    unknown.add(name)
                    near = nearest(name, index.said()) if len(unknown) <= SUGGESTIONS else []
                    problems.add(line, f"no node {name!r} in the fabric{'; near: ' + ', '.join(near) if near else ''}")
                continue
            number = int(plan.portnum[row, end])
            if plan.format == "fabric" and len(nodes) == 1 and 1 <= number <= int(fabric.node_nports[nodes[0]]):
                port[row, end] = fabric.port(nodes[0], number)
                continue
            port[row, end], why = index.port(nodes, str(number) if plan.format == "fabric" else label)
            if why:
                problems.add(line, f"{name} {label}: {why}")
    node = np.where(port >= 0, fabric.port_node[np.maximum(port, 0)], -1) if fabric.sizes.ports else port.copy()
    return MatchedPlan(port, node.astype(np.int32), list(problems))


def _same_guids(plan: CablingPlan, fabric: Fabric) -> np.ndarray:
    """Node of each end by GUID, -1 where the plan has none, or the fabric has none or several of it, or another name.

    Generated GUIDs (``.topo`` files, designs) are only numbers of order: they count only beside the same name.
    """
    order = np.argsort(fabric.node_guid, kind="stable")
    ordered = fabric.node_guid[order]
    first = np.searchsorted(ordered, plan.node_guid, "left")
    last = np.searchsorted(ordered, plan.node_guid, "right")
    found = (last - first == 1) & (plan.node_guid != 0)
    node = np.where(found, order[np.minimum(first, max(len(order) - 1, 0))] if len(order) else -1, -1)
    from softib.fabric.builder import GUID_BASE

    made = (plan.node_guid >> np.uint64(40)) == np.uint64(GUID_BASE >> 40)
    if made.any():
        names = np.array(fabric.node_names(), str)
        same = names[np.maximum(node, 0)] == plan.node
        node = np.where(made & ~same, -1, node)
    return np.asarray(node)
