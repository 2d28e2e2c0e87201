"""Finds the ends of a cabling plan in a fabric.

A plan's device name finds nodes, in this order, the first that finds any wins: the NodeDescription;
a GUID; the system (chassis) in ``node_system``; what people call the node — ``leaf-1`` of
``MF0;leaf-1:MQM9700/U1`` and of ibdm's ``leaf-1/U1``, ``host`` of ``host mlx5_0`` or ``host
ibp11s0f0``, ``sys`` of ``MF0;sys:MCS8500/L16/U2`` (:mod:`.node_address`); and the same without
regard to case. A device may name a card or chip of a director itself (``sys/L16``). Where the
device is unknown but the port column is a whole NodeDescription, that is the node.

Where the name finds one node, the port is: the label as the fabric has it (``port_label``), else
the number that the label says (:mod:`.port_label`). Where it finds several (a host with eight
adapters, a director), the label must tell them apart: card and chip (``Blade 16_Port 2/20``), the
adapter (``mlx5_3/1``, or the adapter's whole NodeDescription), or the one node that has this
``port_label``. What stays open has a reason, never a guess.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from softib.fabric.builder import GUID_BASE
from softib.fabric.formats.base import Problem
from softib.fabric.formats.cabling.name_index import (
    AMBIGUOUS,
    REASONS,
    UNKNOWN_DEVICE,
    UNNAMED_ADAPTER,
    NameIndex,
)
from softib.fabric.formats.cabling.plan import CablingPlan
from softib.fabric.model import Fabric
from softib.iba.constants import NodeType

__all__ = ["MatchedPlan", "is_unnamed", "match_plan"]

_DEFAULT_NAME = re.compile(r"^$|Mellanox Technologies|^MT\d+ |^0x[0-9a-f]+$|InfiniHost|^NVIDIA ConnectX", re.IGNORECASE)
SUGGESTIONS = 5
"""Unknown names that get near ones listed."""


@dataclass
class MatchedPlan:
    """``port`` int32[n, 2]: row of the fabric's port arrays, -1 = not found; ``node`` likewise.

    ``reason`` str[n, 2] is one of :data:`REASONS` where an end is not found, else empty. ``why``
    holds the sentence of each such end by (row, end), ``problems`` the same with file and line, an
    unknown device once.
    """

    port: np.ndarray
    node: np.ndarray
    reason: np.ndarray
    problems: list[Problem]
    why: dict[tuple[int, int], str] = field(default_factory=dict)


def is_unnamed(description: str, times: int = 1) -> bool:
    """True for the maker's default names, and for a name that several nodes bear: it tells no
    machine."""
    return times > 1 or bool(_DEFAULT_NAME.search(description))


class _Matching:
    """One pass over the rows; equal (device, label) pairs are looked up once."""

    def __init__(self, plan: CablingPlan, fabric: Fabric):
        self.plan, self.fabric, self.index = plan, fabric, NameIndex(fabric)
        shape = (len(plan), 2)
        self.port = np.full(shape, -1, np.int32)
        self.reason = np.full(shape, "", dtype=f"U{max(map(len, REASONS))}")
        self.why: dict[tuple[int, int], str] = {}
        self.problems: list[Problem] = []
        self.unknown: dict[str, str] = {}
        self.known: dict[tuple[str, str], tuple[int, str, str]] = {}
        self.by_guid = _same_guids(plan, fabric)

    def run(self) -> None:
        plan, from_fabric = self.plan, self.plan.node_guid != 0
        texts = zip(plan.node.tolist(), plan.label.tolist(), strict=True)
        for row, (names, labels) in enumerate(texts):
            for end in (0, 1):
                if from_fabric[row, end]:
                    found = self._of_fabric(row, end, names[end])
                else:
                    key = (names[end], labels[end])
                    if key not in self.known:
                        self.known[key] = self._look_up(*key)
                    found = self.known[key]
                self._take(row, end, names[end], labels[end], found)

    def _look_up(self, device: str, label: str) -> tuple[int, str, str]:
        nodes = self.index.nodes(device) or self.index.nodes(label)
        return self.index.port(nodes, device, label) if nodes else (-1, UNKNOWN_DEVICE, self._no_device(device))

    def _of_fabric(self, row: int, end: int, name: str) -> tuple[int, str, str]:
        """The end of a plan that is a fabric: its port number is exact."""
        number, node = int(self.plan.portnum[row, end]), int(self.by_guid[row, end])
        nodes = [node] if node >= 0 else self.index.nodes(name)
        if len(nodes) == 1 and 1 <= number <= int(self.fabric.node_nports[nodes[0]]):
            return int(self.fabric.port(nodes[0], number)), "", ""
        return self.index.port(nodes, name, str(number)) if nodes else (-1, UNKNOWN_DEVICE, self._no_device(name))

    def _no_device(self, name: str) -> str:
        if name not in self.unknown:
            similar = self.index.similar(name) if len(self.unknown) < SUGGESTIONS else []
            self.unknown[name] = (
                f"no node {name!r} in the fabric{'; similar: ' + ', '.join(similar) if similar else ''}"
            )
        return self.unknown[name]

    def _take(self, row: int, end: int, device: str, label: str, found: tuple[int, str, str]) -> None:
        self.port[row, end], self.reason[row, end], why = found
        if not why:
            return
        self.why[row, end] = why
        if found[1] == UNKNOWN_DEVICE:
            if not self.unknown.get(device):
                return
            self.unknown[device], text = "", why  # reported once
        else:
            text = f"{device} {label}: {why}"
        plan = self.plan
        self.problems.append(Problem(plan.files[int(plan.file[row])], int(plan.line[row]), text))

    def find_unnamed(self) -> None:
        """Give rows whose planned adapter is unknown the reason that the port is there, with a
        nameless adapter."""
        f = self.fabric
        times = Counter(self.index.names)
        for row, end in self.why:
            other = int(self.port[row, 1 - end])
            peer = int(f.port_peer[other]) if other >= 0 and self.reason[row, end] != AMBIGUOUS else -1
            if peer < 0 or f.node_type[f.port_node[peer]] != NodeType.CA:
                continue
            name = self.index.names[int(f.port_node[peer])]
            if is_unnamed(name, times[name]):
                self.reason[row, end] = UNNAMED_ADAPTER
                self.why[row, end] = f"{f.port_name(other)} leads to an adapter called {name!r}, as several may be"


def match_plan(plan: CablingPlan, fabric: Fabric) -> MatchedPlan:
    """Every end of ``plan`` in ``fabric``. A plan made of a fabric is matched by GUID where both
    have it."""
    work = _Matching(plan, fabric)
    work.run()
    work.find_unnamed()
    port = work.port
    node = np.where(port >= 0, fabric.port_node[np.maximum(port, 0)], -1) if fabric.sizes.ports else port.copy()
    return MatchedPlan(port, node.astype(np.int32), work.reason, work.problems, work.why)


def _same_guids(plan: CablingPlan, fabric: Fabric) -> np.ndarray:
    """Node of each end by GUID, -1 where the plan has none, or the fabric has none or several of
    it, or another name.

    Generated GUIDs (``.topo`` files, designs) are only numbers of order: they count only together
    with the same name.
    """
    order = np.argsort(fabric.node_guid, kind="stable")
    ordered = fabric.node_guid[order]
    first = np.searchsorted(ordered, plan.node_guid, "left")
    last = np.searchsorted(ordered, plan.node_guid, "right")
    found = (last - first == 1) & (plan.node_guid != 0)
    node = np.where(found, order[np.minimum(first, max(len(order) - 1, 0))] if len(order) else -1, -1)
    made = (plan.node_guid >> np.uint64(40)) == np.uint64(GUID_BASE >> 40)
    if made.any():
        names = np.array(fabric.node_names(), str)
        same = names[np.maximum(node, 0)] == plan.node
        node = np.where(made & ~same, -1, node)
    return np.asarray(node)
