"""Find the ends of a cabling plan in a fabric. A plan's device name is compared with these names,
and the first match wins: the NodeDescription; a GUID; the system (chassis) in ``node_system``; the
short name of the node, which is ``leaf-1`` of ``MF0;leaf-1:MQM9700/U1`` and of ibdm's
``leaf-1/U1``, ``host`` of ``host mlx5_0`` or ``host ibp11s0f0``, ``sys`` of
``MF0;sys:MCS8500/L16/U2`` (:mod:`.node_address`); then the same names ignoring case. A device may
also name a card or chip of a director (``sys/L16``). If the device is unknown but the port column
holds a complete NodeDescription, the node with this description is used.

If the name matches one node, the port is the one whose ``port_label`` in the fabric equals the
plan's label, or otherwise the port with the number in the label (:mod:`.port_label`). If the name
matches several nodes (a host with eight adapters, a director), the label must distinguish them: by
card and chip (``Blade 16_Port 2/20``), by adapter (``mlx5_3/1``, or the adapter's whole
NodeDescription), or because only one of the nodes has a port with this ``port_label``. An end
without a match gets a reason; softib never guesses.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np

from softib.errors import InputError
from softib.fabric.builder import GUID_BASE
from softib.fabric.formats.base import Problem
from softib.fabric.formats.cabling.name_index import (
    AMBIGUOUS,
    REASONS,
    UNKNOWN_DEVICE,
    UNNAMED_ADAPTER,
    NameIndex,
    PortMatch,
)
from softib.fabric.formats.cabling.plan import CablingPlan
from softib.fabric.model import Fabric
from softib.foreign_text import shown
from softib.iba.constants import NodeType
from softib.natural_order import natural_key
from softib.plural import counted, plural
from softib.whole_files import write_text

__all__ = ["MatchedPlan", "NameProposal", "is_unnamed", "match_plan", "propose_names"]


AGREE = 0.9
"""Share of the plan's rows that must agree with the fabric before names are proposed."""
MOST_COMBINATIONS = 20_000
MOST_GROUPS = 6
"""Maximum number of groups that a message lists."""
DESCRIPTION_BYTES = 64
Family = list[str]


@dataclass(frozen=True)
class NameProposal:
    """Proposed node names. ``names`` holds the plan's name for each node row; ``agree`` of the
    plan's ``rows`` rows are correct with these names. Each device has a pair (plan's name, fabric's
    name)."""

    fabric: Fabric
    names: dict[int, str]
    agree: int
    rows: int
    devices: tuple[tuple[str, str], ...]

    def lines(self) -> list[str]:
        """Return the lines of the text output."""
        width = max((len(a) for a, _ in self.devices), default=0)
        lines = [f"  {a:{width}}  is {b}" for a, b in self.devices]
        return [
            shown(x)
            for x in (
                f"{self.agree:,} of {counted(self.rows, 'cable')} {plural(self.rows, 'is', 'are')} as planned with "
                f"these names:",
                *lines,
            )
        ]

    def write(self, path: str) -> None:
        """Write a node-name-map. Raises :class:`InputError` if the file cannot be written."""
        head = (
            f"# Proposed by the cables: {self.agree} of {self.rows} are as planned with these names. Look at them "
            f"before you use them.\n"
        )
        lines = (
            f'{int(self.fabric.node_guid[n]):#018x} "{name}" # {self.fabric.node_name(n)}\n'
            for n, name in sorted(self.names.items())
        )
        write_text(path, head + "".join(lines))


def propose_names(plan: CablingPlan, fabric: Fabric) -> NameProposal:
    """Return the best proposal. Raises :class:`InputError` if no assignment of names matches, or if
    several match equally well."""
    work = _Search(plan, fabric)
    ranked = work.ranked()
    if not ranked:
        raise InputError(f"{plan.path}: {work.obstacle()}; give a node-name-map")
    (agree, chosen), rest = ranked[0], ranked[1:]
    if agree < AGREE * len(plan):
        raise InputError(
            f"{plan.path}: at most {agree:,} of {counted(len(plan), 'cable')} {plural(agree, 'is', 'are')} as planned "
            f"under any assignment of names; give a node-name-map"
        )
    if rest and rest[0][0] >= agree:
        raise InputError(
            f"{plan.path}: several assignments of names fit equally many cables, {counted(agree, 'cable')}; give a "
            f"node-name-map"
        )
    return work.proposal(agree, chosen)


def _families(names: Counter[str] | dict[str, list[int]]) -> dict[str, Family]:
    """Group the names that differ only in their digits. Each group is in natural order."""
    families: dict[str, Family] = defaultdict(list)
    for name in names:
        families[re.sub(r"\d+", "#", name.casefold())].append(name)
    return {key: sorted(members, key=natural_key) for key, members in families.items()}


class _Search:
    """Groups of similar names in the plan and in the fabric, and for each assignment between
    groups, the number of rows that agree with it."""

    def __init__(self, plan: CablingPlan, fabric: Fabric):
        self.plan, self.fabric, self.index = plan, fabric, NameIndex(fabric)
        self.there: dict[str, list[int]] = defaultdict(list)
        for node, at in enumerate(self.index.address):
            kind = (
                "switch" if fabric.is_switch[node] and not at.card else "chassis" if fabric.is_switch[node] else "host"
            )
            self.there[f"{kind} {at.spoken}"].append(node)
        self.mine = _families(Counter(plan.node.ravel().tolist()))
        self.other = _families(self.there)
        self.place = {name: (key, i) for key, members in self.mine.items() for i, name in enumerate(members)}
        self.rows: dict[tuple[str, str], list[int]] = defaultdict(list)
        for row, (a, b) in enumerate(plan.node.tolist()):
            self.rows[self.place[a][0], self.place[b][0]].append(row)
        self.agreeing: dict[tuple[str, str, str, str], int] = {}

    def ranked(self) -> list[tuple[int, dict[str, str]]]:
        """Return (rows that agree, plan's group → fabric's group) of each assignment, best
        first."""
        keys = list(self.mine)
        fits = [[k for k, m in self.other.items() if len(m) == len(self.mine[key])] for key in keys]
        if not all(fits) or np.prod([float(len(f)) for f in fits]) > MOST_COMBINATIONS:
            return []
        ranked = []
        for combination in itertools.product(*fits):
            if len(set(combination)) == len(combination):
                chosen = dict(zip(keys, combination, strict=True))
                ranked.append((sum(self._agree(a, b, chosen[a], chosen[b]) for a, b in self.rows), chosen))
        return sorted(ranked, key=lambda one: -one[0])

    def obstacle(self) -> str:
        """Return the reason why :meth:`ranked` finds no assignment."""
        sized = [(key.partition(" ")[2], len(members)) for key, members in self.other.items()]
        there = ", ".join(f"{name} ({n})" for name, n in sized[:MOST_GROUPS]) + ", …" * (len(sized) > MOST_GROUPS)
        for key, members in self.mine.items():
            n = len(members)
            alike = [k for k, m in self.mine.items() if len(m) == n]
            if n not in {m for _, m in sized}:
                return f"no group of names in the fabric has {counted(n, 'device')} as {key} has; it has {there}"
            if len(alike) > sum(m == n for _, m in sized):
                return (
                    f"{', '.join(alike[:MOST_GROUPS])} have {counted(n, 'device')} each, and the fabric has fewer such "
                    f"groups: {there}"
                )
        return f"its {len(self.mine)} groups of names can be assigned in more than {MOST_COMBINATIONS:,} ways"

    def _agree(self, a: str, b: str, as_a: str, as_b: str) -> int:
        key = (a, b, as_a, as_b)
        if key not in self.agreeing:
            self.agreeing[key] = sum(self._is_cabled(row, as_a, as_b) for row in self.rows[a, b])
        return self.agreeing[key]

    def _is_cabled(self, row: int, as_a: str, as_b: str) -> bool:
        ports = []
        for end, family in enumerate((as_a, as_b)):
            name, label = str(self.plan.node[row, end]), str(self.plan.label[row, end])
            nodes = self.there[self.other[family][self.place[name][1]]]
            ports.append(self.index.port(nodes, name, label).port)
        return ports[0] >= 0 and int(self.fabric.port_peer[ports[0]]) == ports[1]

    def proposal(self, agree: int, chosen: dict[str, str]) -> NameProposal:
        """Return the node names that follow from the assignment ``chosen``."""
        names: dict[int, str] = {}
        devices = []
        for key, family in chosen.items():
            for name, other in zip(self.mine[key], self.other[family], strict=True):
                nodes = self.there[other]
                devices.append((name, other.partition(" ")[2]))
                for node in nodes:
                    behind = self.index.names[node].partition(" ")[2] if other.startswith("host ") else ""
                    names[node] = f"{name} {behind}".strip() if len(nodes) > 1 or behind else name
        return NameProposal(self.fabric, names, agree, len(self.plan), tuple(devices))


_DEFAULT_NAME = re.compile(r"^$|Mellanox Technologies|^MT\d+ |^0x[0-9a-f]+$|InfiniHost|^NVIDIA ConnectX", re.IGNORECASE)
SUGGESTIONS = 5
"""Number of unknown names for which a message lists similar names."""


@dataclass
class MatchedPlan:
    """The ends of a plan in a fabric. ``port`` int32[n, 2]: rows of the fabric's port arrays, -1 =
    not found. ``node``: rows of its node arrays, likewise.

    ``reason`` str[n, 2] is one of :data:`REASONS` if an end is not found, otherwise empty. ``why``
    holds the explanation of each such end, keyed by (row, end). ``problems`` holds these
    explanations with file and line, one per unknown device.
    """

    port: np.ndarray
    node: np.ndarray
    reason: np.ndarray
    problems: list[Problem]
    why: dict[tuple[int, int], str] = field(default_factory=dict)


def is_unnamed(description: str, times: int = 1) -> bool:
    """Return whether a name does not identify a machine, because it is a vendor's default name or
    several nodes share it."""
    return times > 1 or bool(_DEFAULT_NAME.search(description))


class _Matching:
    """The state of one search. Each (device, label) pair is looked up only once."""

    def __init__(self, plan: CablingPlan, fabric: Fabric):
        self.plan, self.fabric, self.index = plan, fabric, NameIndex(fabric)
        shape = (len(plan), 2)
        self.port = np.full(shape, -1, np.int32)
        self.reason = np.full(shape, "", dtype=f"U{max(map(len, REASONS))}")
        self.why: dict[tuple[int, int], str] = {}
        self.problems: list[Problem] = []
        self.unknown: dict[str, str] = {}
        self.looked_up: dict[tuple[str, str], PortMatch] = {}
        self.by_guid = _same_guids(plan, fabric)

    def run(self) -> None:
        plan, from_fabric = self.plan, self.plan.node_guid != 0
        self.index.count_adapters(zip(plan.node.ravel().tolist(), plan.label.ravel().tolist(), strict=True))
        texts = zip(plan.node.tolist(), plan.label.tolist(), strict=True)
        for row, (names, labels) in enumerate(texts):
            for end in (0, 1):
                if from_fabric[row, end]:
                    match = self._of_fabric(row, end, names[end])
                else:
                    key = (names[end], labels[end])
                    if key not in self.looked_up:
                        self.looked_up[key] = self._look_up(*key)
                    match = self.looked_up[key]
                self._take(row, end, names[end], labels[end], match)

    def _look_up(self, device: str, label: str) -> PortMatch:
        nodes = self.index.nodes(device) or self.index.nodes(label)
        return (
            self.index.port(nodes, device, label) if nodes else PortMatch(-1, UNKNOWN_DEVICE, self._no_device(device))
        )

    def _of_fabric(self, row: int, end: int, name: str) -> PortMatch:
        """Return an end of a plan that was read from a fabric file; its port number is exact."""
        number, node = int(self.plan.portnum[row, end]), int(self.by_guid[row, end])
        nodes = [node] if node >= 0 else self.index.nodes(name)
        if len(nodes) == 1 and 1 <= number <= int(self.fabric.node_nports[nodes[0]]):
            return PortMatch(int(self.fabric.port(nodes[0], number)))
        return (
            self.index.port(nodes, name, str(number)) if nodes else PortMatch(-1, UNKNOWN_DEVICE, self._no_device(name))
        )

    def _no_device(self, name: str) -> str:
        if name not in self.unknown:
            similar = self.index.similar(name) if len(self.unknown) < SUGGESTIONS else []
            self.unknown[name] = (
                f"no node {name!r} in the fabric{'; similar: ' + ', '.join(similar) if similar else ''}"
            )
        return self.unknown[name]

    def _take(self, row: int, end: int, device: str, label: str, match: PortMatch) -> None:
        self.port[row, end], self.reason[row, end] = match.port, match.reason
        if not match.why:
            return
        self.why[row, end] = why = match.why
        if match.reason == UNKNOWN_DEVICE:
            if not self.unknown.get(device):
                return
            self.unknown[device], text = "", why  # an unknown device is reported once
        else:
            text = f"{device} {label}: {why}"
        plan = self.plan
        self.problems.append(Problem(plan.files[int(plan.file[row])], int(plan.line[row]), text))

    def find_unnamed(self) -> None:
        """Find ends whose planned adapter is unknown although the cable in the planned port at the
        other end leads to an adapter without a name. Set the reason of these ends."""
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
    """Find every end of ``plan`` in ``fabric``. If the plan was read from a fabric file, nodes are
    matched by GUID where both fabrics have one."""
    work = _Matching(plan, fabric)
    work.run()
    work.find_unnamed()
    port = work.port
    node = np.where(port >= 0, fabric.port_node[np.maximum(port, 0)], -1) if fabric.sizes.ports else port.copy()
    return MatchedPlan(port, node.astype(np.int32), work.reason, work.problems, work.why)


def _same_guids(plan: CablingPlan, fabric: Fabric) -> np.ndarray:
    """Return the node of each end by GUID; -1 if the plan has no GUID, if no node or several nodes
    have this GUID, or if the names differ. Generated GUIDs (of ``.topo`` files and designs) are
    only sequence numbers, so they match only if the names are equal.
    """
    order = np.argsort(fabric.node_guid, kind="stable")
    ordered = fabric.node_guid[order]
    first = np.searchsorted(ordered, plan.node_guid, "left")
    last = np.searchsorted(ordered, plan.node_guid, "right")
    unique = (last - first == 1) & (plan.node_guid != 0)
    node = np.where(unique, order[np.minimum(first, max(len(order) - 1, 0))] if len(order) else -1, -1)
    generated = (plan.node_guid >> np.uint64(40)) == np.uint64(GUID_BASE >> 40)
    if generated.any():
        names = np.array(fabric.node_names(), str)
        same = names[np.maximum(node, 0)] == plan.node
        node = np.where(generated & ~same, -1, node)
    return np.asarray(node)
