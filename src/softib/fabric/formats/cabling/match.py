"""Finds the ends of a cabling plan in a fabric.

A plan's device name finds nodes, in this order, the first that finds any wins: the NodeDescription; a GUID; the system
(chassis) in ``node_system``; what people call the node — ``leaf-1`` of ``MF0;leaf-1:MQM9700/U1`` and of ibdm's
``leaf-1/U1``, ``host`` of ``host mlx5_0`` or ``host ibp11s0f0``, ``sys`` of ``MF0;sys:MCS8500/L16/U2``
(:mod:`.node_address`); and the same without regard to case. A device may name a card or chip of a director itself
(``sys/L16``). Where the device is unknown but the port column is a whole NodeDescription, that is the node.

Where the name finds one node, the port is: the label as the fabric has it (``port_label``), else the number that the
label says (:mod:`.port_label`). Where it finds several (a host with eight adapters, a director), the label must tell
them apart: card and chip (``Blade 16_Port 2/20``), the adapter (``mlx5_3/1``, or the adapter's whole NodeDescription),
or the one node that has this ``port_label``. What stays open has a reason, never a guess.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from softib.errors import nearest
from softib.fabric.builder import GUID_BASE
from softib.fabric.formats.base import Problem
from softib.fabric.formats.cabling.node_address import address_of, plain_adapter, split_host
from softib.fabric.formats.cabling.plan import CablingPlan
from softib.fabric.formats.cabling.port_label import PortLabel, normal_label, portnum_of_label
from softib.fabric.model import Fabric
from softib.iba.constants import NodeType

__all__ = ["AMBIGUOUS", "REASONS", "UNKNOWN_DEVICE", "UNKNOWN_PORT", "UNNAMED_ADAPTER", "MatchedPlan", "is_unnamed",
           "match_plan", "spoken_names"]  # fmt: skip

UNKNOWN_DEVICE, UNKNOWN_PORT = "unknown device", "unknown port"
UNNAMED_ADAPTER, AMBIGUOUS = "adapter without a name", "ambiguous name"
REASONS = (UNKNOWN_DEVICE, UNKNOWN_PORT, UNNAMED_ADAPTER, AMBIGUOUS)
"""Why an end is not found. *Adapter without a name*: the planned port at the other end leads to an adapter that has its
maker's default name, most likely the one that is planned there."""

_SWITCH = re.compile(r"^(?:MF\d+;)?(?P<name>[^:;]+?)(?::(?P<model>[^/;]+)(?P<path>/.*)?)?$")
_DEFAULT_NAME = re.compile(r"^$|Mellanox Technologies|^MT\d+ |^0x[0-9a-f]+$|InfiniHost|^NVIDIA ConnectX", re.IGNORECASE)
SUGGESTIONS = 5
"""Unknown names that get near ones listed."""
NEIGHBOURS = 20
"""Names before and after an unknown one, in the order of the alphabet, among which the near ones are sought: comparing
with every name of a large fabric takes half a second each."""


@dataclass
class MatchedPlan:
    """``port`` int32[n, 2]: row of the fabric's port arrays, -1 = not found; ``node`` likewise.

    ``reason`` str[n, 2] is one of :data:`REASONS` where an end is not found, else empty. ``why`` holds the sentence of
    each such end by (row, end), ``problems`` the same with file and line, an unknown device once.
    """

    port: np.ndarray
    node: np.ndarray
    reason: np.ndarray
    problems: list[Problem]
    why: dict[tuple[int, int], str] = field(default_factory=dict)


def spoken_names(description: str) -> Iterator[str]:
    """What people call a node of this description: see the module."""
    host = split_host(description)
    if host:
        yield host[0]
        return
    if description.endswith("/U1") and ":" not in description:
        yield description[:-3]
        return
    match = _SWITCH.match(description)
    if match and (match.group("model") or description.startswith("MF")):
        yield match.group("name")


def is_unnamed(description: str, times: int = 1) -> bool:
    """True for the maker's default names, and for a name that several nodes bear: it tells no machine."""
    return times > 1 or bool(_DEFAULT_NAME.search(description))


class _Index:
    """Names → nodes, tier by tier."""

    def __init__(self, fabric: Fabric):
        self.fabric = fabric
        self.names = fabric.node_names()
        self.address = [address_of(name) for name in self.names]
        exact: dict[str, list[int]] = {}
        guid: dict[str, list[int]] = {}
        system: dict[str, list[int]] = {}
        spoken: dict[str, list[int]] = {}
        guids = fabric.node_guid.tolist()
        for node, name in enumerate(self.names):
            exact.setdefault(name, []).append(node)
            guid.setdefault(f"{guids[node]:016x}", []).append(node)
            if node in fabric.node_system:
                system.setdefault(fabric.node_system[node], []).append(node)
            for alias in {*spoken_names(name), self.address[node].spoken} - {name}:
                spoken.setdefault(alias, []).append(node)
        self.tiers = [exact, guid, system, spoken]
        folded: dict[str, dict[int, None]] = {}
        for tier in (exact, system, spoken):
            for name, nodes in tier.items():
                folded.setdefault(name.casefold(), {}).update(dict.fromkeys(nodes))
        self.folded = {name: list(nodes) for name, nodes in folded.items()}
        self.by_card: dict[tuple[str, str], list[int]] = {}
        for node, at in enumerate(self.address):
            if at.card:
                self.by_card.setdefault((at.system, at.card), []).append(node)
        self.labels: dict[tuple[int, str], list[int]] = {}
        for port, text in fabric.port_label.items():
            self.labels.setdefault((int(fabric.port_node[port]), normal_label(text)), []).append(port)
        self._sorted: list[str] = []

    def similar(self, name: str) -> list[str]:
        """Names like ``name``: among its neighbours in the alphabet, read from the front and from the back."""
        if not self._sorted:
            self.spelling = {x.casefold(): x for n in self.names for x in (n, *spoken_names(n))}
            self._sorted = sorted(self.spelling)
            self._reversed = sorted(x[::-1] for x in self.spelling)
        key = name.casefold()
        front, back = bisect_left(self._sorted, key), bisect_left(self._reversed, key[::-1])
        some = self._sorted[max(0, front - NEIGHBOURS) : front + NEIGHBOURS]
        some += [x[::-1] for x in self._reversed[max(0, back - NEIGHBOURS) : back + NEIGHBOURS]]
        return [self.spelling[x] for x in nearest(key, list(dict.fromkeys(some)))]

    def nodes(self, name: str) -> list[int]:
        key = name.strip()
        for spelling in (key, key.removesuffix("/U1")):
            for tier in self.tiers:
                if spelling in tier:
                    return tier[spelling]
        hexed = key.lower().removeprefix("s-").removeprefix("h-").removeprefix("0x").zfill(16)
        found = self.tiers[1].get(hexed) or self.folded.get(key.casefold(), [])
        return found or self._in_chassis(key)

    def _in_chassis(self, name: str) -> list[int]:
        """Nodes of ``sys/L16``, ``sys L16/U2`` or ``MF0;sys:OTHER-MODEL/U1``: written in another form than the fabric's."""
        at = address_of(name)
        if at.card:
            nodes = self.by_card.get((at.system, at.card), [])
        elif at.spoken != name:
            nodes = self.folded.get(at.system, [])
        else:
            return []
        if at.chip:
            nodes = [n for n in nodes if self.address[n].chip in (0, at.chip)]
        if at.adapter:
            nodes = [n for n in nodes if self.address[n].adapter == at.adapter]
        return nodes

    def port(self, nodes: list[int], device: str, label: str) -> tuple[int, str, str]:
        """Row of the port, or -1, the reason and a sentence."""
        wanted = normal_label(label)
        hits = [p for n in nodes for p in self.labels.get((n, wanted), ())]
        if len(hits) == 1:
            return hits[0], "", ""
        rest = _behind(device, wanted)
        parsed = portnum_of_label(rest)
        nodes, reason, why = self._narrowed(nodes, wanted, rest, parsed)
        if why:
            return -1, reason, why
        if len(nodes) > 1:
            return -1, AMBIGUOUS, f"the name stands for {len(nodes)} nodes ({self._list(nodes)}) and {label!r} does not tell which"  # fmt: skip
        node = nodes[0]
        number = parsed.portnum
        if not number and self.names[node].casefold() == wanted:
            number = 1  # the label is the adapter's name alone
        if not number:
            return -1, UNKNOWN_PORT, f"{label!r} has no port number and is no label of {self.names[node]}"
        last = int(self.fabric.node_nports[node])
        if number > last:
            return -1, UNKNOWN_PORT, f"{self.names[node]} has no port {number}; its ports are 1 to {last}"
        return int(self.fabric.port(node, number)), "", ""

    def _narrowed(self, nodes: list[int], wanted: str, rest: str, parsed: PortLabel) -> tuple[list[int], str, str]:
        """Those of ``nodes`` that the label means, or (reason, sentence) why none."""
        if len(nodes) > 1:
            whole = [n for n in nodes if self.names[n].casefold() == wanted]
            if len(whole) == 1:
                return whole, "", ""
        if parsed.hca:
            adapter = plain_adapter(parsed.hca)
            named = [n for n in nodes if self.address[n].adapter == adapter]
            if named:
                return named, "", ""
            if len(nodes) > 1 or self.address[nodes[0]].adapter:
                return nodes, UNKNOWN_PORT, f"no adapter {parsed.hca} there; its nodes are {self._list(nodes)}"
        if parsed.card:
            return self._chips(nodes, parsed)
        return nodes, "", ""

    def _chips(self, nodes: list[int], parsed: PortLabel) -> tuple[list[int], str, str]:
        """The chip of a director that a label with a card means."""
        on_card = [n for n in nodes if self.address[n].card == parsed.card]
        if not on_card:
            if len(nodes) == 1 and not self.address[nodes[0]].card and parsed.card == "L1":
                return nodes, "", ""  # a switch of one chip is its own only card
            cards = sorted({self.address[n].card for n in nodes} - {""}, key=lambda c: (c[0], int(c[1:])))
            there = f"its cards are {cards[0]} to {cards[-1]}" if cards else f"{self._list(nodes)} has no cards"
            return nodes, UNKNOWN_PORT, f"no card {parsed.card} there; {there}"
        chips = [n for n in on_card if self.address[n].chip in (0, parsed.chip)] if parsed.chip else on_card
        if not chips:
            return (
                nodes,
                UNKNOWN_PORT,
                f"card {parsed.card} has no chip {parsed.chip}; its nodes are {self._list(on_card)}",
            )
        return chips, "", ""

    def _list(self, nodes: list[int]) -> str:
        shown = ", ".join(self.names[n] for n in nodes[:3])
        return shown + (", …" if len(nodes) > 3 else "")


def _behind(device: str, label: str) -> str:
    """``ibp11s0f0`` of the label ``host7 ibp11s0f0`` of device host7; ``l16/u2/p20`` of ``sys/L16/U2/P20``."""
    head = device.strip().casefold()
    if label.startswith(head) and label[len(head) : len(head) + 1] in (" ", "/", ":", "_", "-"):
        return label[len(head) + 1 :].strip() or label
    return label


class _Matching:
    """One pass over the rows; equal (device, label) pairs are looked up once."""

    def __init__(self, plan: CablingPlan, fabric: Fabric):
        self.plan, self.fabric, self.index = plan, fabric, _Index(fabric)
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
        """Give rows whose planned adapter is unknown the reason that the port is there, with a nameless adapter."""
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
    """Every end of ``plan`` in ``fabric``. A plan made of a fabric is matched by GUID where both have it."""
    work = _Matching(plan, fabric)
    work.run()
    work.find_unnamed()
    port = work.port
    node = np.where(port >= 0, fabric.port_node[np.maximum(port, 0)], -1) if fabric.sizes.ports else port.copy()
    return MatchedPlan(port, node.astype(np.int32), work.reason, work.problems, work.why)


def _same_guids(plan: CablingPlan, fabric: Fabric) -> np.ndarray:
    """Node of each end by GUID, -1 where the plan has none, or the fabric has none or several of it, or another name.

    Generated GUIDs (``.topo`` files, designs) are only numbers of order: they count only together with the same name.
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
