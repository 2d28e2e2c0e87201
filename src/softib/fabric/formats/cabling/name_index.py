"""Index of the names by which cabling plans refer to a fabric's nodes and ports. :mod:`.match`
documents the order of precedence."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from softib.errors import nearest
from softib.fabric.model import Fabric
from softib.iba.node_description import (
    PortLabel,
    address_of,
    normal_label,
    plain_adapter,
    plain_name,
    portnum_of_label,
    split_host,
)
from softib.plural import counted

__all__ = ["AMBIGUOUS", "REASONS", "UNKNOWN_DEVICE", "UNKNOWN_PORT", "UNNAMED_ADAPTER", "NameIndex", "spoken_names"]

UNKNOWN_DEVICE, UNKNOWN_PORT = "unknown device", "unknown port"
UNNAMED_ADAPTER, AMBIGUOUS = "adapter without a name", "ambiguous name"
REASONS = (UNKNOWN_DEVICE, UNKNOWN_PORT, UNNAMED_ADAPTER, AMBIGUOUS)
"""Reasons why an end is not found. *Adapter without a name*: the cable in the planned port at the
other end leads to an adapter with its vendor's default name, which is most likely the planned
adapter."""

_COUNTED = re.compile(r"^hca(\d{1,3})$")
_ADAPTER_NUMBER = re.compile(r"^(?:mlx[45]|[a-z]+)(?:bond)?(\d{1,6})$")
_SWITCH = re.compile(r"^(?:MF\d+;)?(?P<name>[^:;]+?)(?::(?P<model>[^/;]+)(?P<path>/.*)?)?$")
NEIGHBOURS = 20
"""An unknown name is compared with this number of its alphabetical neighbours on each side. A
comparison with every name of a large fabric takes half a second per name."""


def spoken_names(description: str) -> Iterator[str]:
    """Return the short names of a node with this description (:mod:`.match` lists them)."""
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


class PortMatch(NamedTuple):
    """The port to which an end of a plan refers."""

    port: int
    """Row of the port; -1: none."""
    reason: str = ""
    """One of :data:`~softib.fabric.formats.cabling.match.REASONS` if there is none."""
    why: str = ""
    """Explanation as text, if there is none."""


class _Narrowed(NamedTuple):
    """The nodes to which a label refers."""

    nodes: list[int]
    reason: str = ""
    why: str = ""
    """Why the label refers to none of them; "": it refers to ``nodes``."""


class NameIndex:
    """The nodes that have a name, in order of precedence, and the ports of these nodes that have a
    label."""

    def __init__(self, fabric: Fabric):
        self.fabric = fabric
        self.names = fabric.node_names()
        self.address = [address_of(name) for name in self.names]
        self.counting: dict[tuple[int, ...], set[int]] = {}
        self.planned: dict[int, set[str]] = {}
        """Node → its adapters that occur in the plan, if the node's name refers to no other
        node."""
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
                folded.setdefault(plain_name(name), {}).update(dict.fromkeys(nodes))
        self.folded = {name: list(nodes) for name, nodes in folded.items()}
        self.by_card: dict[tuple[str, str], list[int]] = {}
        for node, at in enumerate(self.address):
            if at.card:
                self.by_card.setdefault((at.system, at.card), []).append(node)
        self.labels: dict[tuple[int, str], list[int]] = {}
        for port, text in fabric.port_label.items():
            self.labels.setdefault((int(fabric.port_node[port]), normal_label(text)), []).append(port)
        self._sorted: list[str] = []
        self._short: dict[str, dict[str, list[int]]] = {}

    def similar(self, name: str) -> list[str]:
        """Return names similar to ``name``. It is compared with its alphabetical neighbours among
        all names, and among all names spelled backwards."""
        if not self._sorted:
            self.spelling = {x.casefold(): x for n in self.names for x in (n, *spoken_names(n))}
            self._sorted = sorted(self.spelling)
            self._reversed = sorted(x[::-1] for x in self.spelling)
        key = plain_name(name)
        front, back = bisect_left(self._sorted, key), bisect_left(self._reversed, key[::-1])
        some = self._sorted[max(0, front - NEIGHBOURS) : front + NEIGHBOURS]
        some += [x[::-1] for x in self._reversed[max(0, back - NEIGHBOURS) : back + NEIGHBOURS]]
        return [self.spelling[x] for x in nearest(key, list(dict.fromkeys(some)))]

    def nodes(self, name: str) -> list[int]:
        """Return every node that ``name`` may refer to; empty if no node matches."""
        key = name.strip()
        for spelling in (key, key.removesuffix("/U1")):
            for tier in self.tiers:
                if spelling in tier:
                    return tier[spelling]
        hexed = key.lower().removeprefix("s-").removeprefix("h-").removeprefix("0x").zfill(16)
        nodes = self.tiers[1].get(hexed) or self.folded.get(plain_name(key), [])
        return nodes or self._in_chassis(key) or self._of_domain(key)

    def _of_domain(self, name: str) -> list[int]:
        """Find nodes whose name equals ``name`` if one of the two has a domain:
        ``node-1.cluster.example`` and ``node-1``."""
        host, dot, _ = plain_name(name).partition(".")
        if dot and not host.isdigit():
            return self.folded.get(host, [])
        if not self._short:
            for key, nodes in self.folded.items():
                short, dot, _ = key.partition(".")
                if dot and short and " " not in key:
                    self._short.setdefault(short, {}).setdefault(key, nodes)
        of = self._short.get(plain_name(name), {})
        return next(iter(of.values())) if len(of) == 1 else []

    def _in_chassis(self, name: str) -> list[int]:
        """Return the nodes of a chassis or card that the plan writes in another form than the
        fabric: ``sys/L16``, ``sys L16/U2`` or ``MF0;sys:OTHER-MODEL/U1``."""
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

    def port(self, nodes: list[int], device: str, label: str) -> PortMatch:
        """Return the port that ``label`` names on ``device``, which stands for ``nodes``."""
        wanted = normal_label(label)
        hits = [p for n in nodes for p in self.labels.get((n, wanted), ())]
        if len(hits) == 1:
            return PortMatch(hits[0])
        rest = _behind(device, wanted)
        parsed = portnum_of_label(rest)
        nodes, reason, why = self._narrowed(nodes, wanted, rest, parsed)
        if why:
            return PortMatch(-1, reason, why)
        if len(nodes) > 1:
            return PortMatch(
                -1,
                AMBIGUOUS,
                f"the name stands for {counted(len(nodes), 'node')} ({self._list(nodes)}) and {label!r} does not "
                f"distinguish them",
            )
        node = nodes[0]
        number = parsed.portnum
        if not number and self.names[node].casefold() == wanted:
            number = 1  # the label is only the adapter's name
        if not number:
            return PortMatch(-1, UNKNOWN_PORT, f"{label!r} has no port number and is not a label of {self.names[node]}")
        last = int(self.fabric.node_nports[node])
        if number > last:
            return PortMatch(-1, UNKNOWN_PORT, f"{self.names[node]} has no port {number}; its ports are 1 to {last}")
        return PortMatch(int(self.fabric.port(node, number)))

    def _narrowed(self, nodes: list[int], wanted: str, rest: str, parsed: PortLabel) -> _Narrowed:
        """Return the nodes to which the label refers."""
        if len(nodes) > 1:
            whole = [n for n in nodes if self.names[n].casefold() == wanted]
            if len(whole) == 1:
                return _Narrowed(whole)
        if parsed.hca:
            adapter = plain_adapter(parsed.hca)
            named = [n for n in nodes if self.address[n].adapter == adapter]
            named = named or self._by_count(nodes, adapter)
            if named:
                return _Narrowed(named)
            if self.counting.get(self._numbers(nodes)) and _COUNTED.match(adapter):
                why = f"the plan numbers adapters; {parsed.hca} may be any of {self._list(nodes)}: enter their names"
                return _Narrowed(nodes, UNKNOWN_PORT, why)
            if len(nodes) > 1 or self.address[nodes[0]].adapter:
                return _Narrowed(
                    nodes, UNKNOWN_PORT, f"it has no adapter {parsed.hca}; its nodes are {self._list(nodes)}"
                )
        if parsed.card:
            return self._chips(nodes, parsed)
        return _Narrowed(nodes)

    def count_adapters(self, ends: Iterable[tuple[str, str]]) -> None:
        """Learn from all (device, label) ends of a plan how it numbers the adapters (``HCA-0``,
        ``HCA-1``) of hosts whose adapters have other names (``mlx5_0``)."""
        for device, label in ends:
            adapter = plain_adapter(portnum_of_label(label).hca)
            if not adapter:
                continue
            nodes, match = self.nodes(device), _COUNTED.match(adapter)
            if match:
                self.counting.setdefault(self._numbers(nodes), set()).add(int(match[1]))
            if len(nodes) == 1:
                self.planned.setdefault(nodes[0], set()).add(adapter)

    def _numbers(self, nodes: list[int]) -> tuple[int, ...]:
        """Return the numbers in the names of a host's adapters, in order."""
        matches = [_ADAPTER_NUMBER.match(self.address[n].adapter) for n in nodes]
        return tuple(sorted(int(m[1]) for m in matches if m))

    def _by_count(self, nodes: list[int], adapter: str) -> list[int]:
        """Return the adapter that a plan calls ``hca2``. It is either the one named ``mlx5_2``, or
        the host's third or second adapter; the numbers used in the whole plan show which."""
        match = _COUNTED.match(adapter)
        unnamed = len(nodes) == 1 and not self.address[nodes[0]].adapter
        if match and unnamed and len(self.planned.get(nodes[0], ())) == 1:
            return nodes  # the host has one adapter, and the plan one adapter of this host
        numbers = self._numbers(nodes)
        used = self.counting.get(numbers, set())
        if not match or not used or len(numbers) != len(nodes) or len(set(numbers)) != len(numbers):
            return []
        by_number = sorted(nodes, key=lambda n: self._numbers([n]))
        count = int(match[1])
        if used <= set(numbers) and (0 in used or 0 not in numbers):
            return [by_number[numbers.index(count)]]
        first = min(used)
        if first in (0, 1) and (first == 0 or max(used) == len(numbers)) and max(used) - first < len(numbers):
            return [by_number[count - first]]
        return []

    def _chips(self, nodes: list[int], parsed: PortLabel) -> _Narrowed:
        """Return the chips of a director that are on the card that the label names."""
        on_card = [n for n in nodes if self.address[n].card == parsed.card]
        if not on_card:
            if len(nodes) == 1 and not self.address[nodes[0]].card and parsed.card == "L1":
                return _Narrowed(nodes)  # a switch with one chip counts as one card
            cards = sorted({self.address[n].card for n in nodes} - {""}, key=lambda c: (c[0], int(c[1:])))
            there = f"its cards are {cards[0]} to {cards[-1]}" if cards else f"{self._list(nodes)} has no cards"
            return _Narrowed(nodes, UNKNOWN_PORT, f"it has no card {parsed.card}; {there}")
        chips = [n for n in on_card if self.address[n].chip in (0, parsed.chip)] if parsed.chip else on_card
        if not chips:
            return _Narrowed(
                nodes,
                UNKNOWN_PORT,
                f"card {parsed.card} has no chip {parsed.chip}; its nodes are {self._list(on_card)}",
            )
        return _Narrowed(chips)

    def _list(self, nodes: list[int]) -> str:
        shown = ", ".join(self.names[n] for n in nodes[:3])
        return shown + (", …" if len(nodes) > 3 else "")


def _behind(device: str, label: str) -> str:
    """Return the label without the device name in front: ``ibp11s0f0`` for label ``host7
    ibp11s0f0`` of device ``host7``, ``l16/u2/p20`` for ``sys/L16/U2/P20``."""
    head = device.strip().casefold()
    if label.startswith(head) and label[len(head) : len(head) + 1] in (" ", "/", ":", "_", "-"):
        return label[len(head) + 1 :].strip() or label
    return label
