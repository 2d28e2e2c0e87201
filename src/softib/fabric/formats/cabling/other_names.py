"""A plan whose devices have other names than the fabric's: which is which, by the cables.

Names that differ in their numbers alone are a family (``R1-SW#``). Families of as many devices are
tried on each other, in the order of their numbers, and every combination is judged by the cables: a
row agrees where the fabric cables its two ports. The best is a *proposal*, if 9 of 10 rows agree
with it and with no other one: people look at it, and give it back as a node-name-map.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from softib.errors import InputError
from softib.fabric.formats.cabling.name_index import NameIndex
from softib.fabric.formats.cabling.plan import CablingPlan
from softib.fabric.model import Fabric
from softib.fabric.natural_order import natural_key
from softib.foreign_text import shown
from softib.plural import counted, plural
from softib.whole_files import write_text

__all__ = ["NameProposal", "propose_names"]

AGREE = 0.9
"""Rows that have to agree with a proposal."""
MOST_COMBINATIONS = 20_000
DESCRIPTION_BYTES = 64
Family = list[str]


@dataclass(frozen=True)
class NameProposal:
    """``names`` by node row as the plan has them, ``agree`` of ``rows`` rows, and (plan's name,
    fabric's name) of each device."""

    fabric: Fabric
    names: dict[int, str]
    agree: int
    rows: int
    devices: tuple[tuple[str, str], ...]

    def lines(self) -> list[str]:
        """For people."""
        width = max((len(a) for a, _ in self.devices), default=0)
        found = [f"  {a:{width}}  is {b}" for a, b in self.devices]
        return [
            shown(x)
            for x in (
                f"{self.agree:,} of {counted(self.rows, 'cable')} {plural(self.rows, 'is', 'are')} as planned with "
                f"these names:",
                *found,
            )
        ]

    def write(self, path: str) -> None:
        """As a node-name-map. Raises :class:`InputError` where it cannot be written."""
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
    """The best proposal. Raises :class:`InputError`, one line, where there is none, or several are
    as good."""
    work = _Search(plan, fabric)
    ranked = work.ranked()
    if not ranked:
        raise InputError(
            f"{plan.path}: no family of its names has as many devices as one of the fabric's; give a node-name-map"
        )
    (agree, chosen), rest = ranked[0], ranked[1:]
    if agree < AGREE * len(plan):
        raise InputError(
            f"{plan.path}: at most {agree:,} of {counted(len(plan), 'cable')} {plural(agree, 'is', 'are')} as "
            f"planned with other names; give a node-name-map"
        )
    if rest and rest[0][0] >= agree:
        raise InputError(
            f"{plan.path}: several ways to name the devices fit {counted(agree, 'cable')}; give a node-name-map"
        )
    return work.proposal(agree, chosen)


def _families(names: Counter[str] | dict[str, list[int]]) -> dict[str, Family]:
    """Names by what they are without their numbers, each in natural order."""
    found: dict[str, Family] = defaultdict(list)
    for name in names:
        found[re.sub(r"\d+", "#", name.casefold())].append(name)
    return {key: sorted(members, key=natural_key) for key, members in found.items()}


class _Search:
    """Families of both sides, and how many rows agree where one is the other."""

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
        self.known: dict[tuple[str, str, str, str], int] = {}

    def ranked(self) -> list[tuple[int, dict[str, str]]]:
        """(rows that agree, plan's family → fabric's), the best first."""
        keys = list(self.mine)
        fits = [[k for k, m in self.other.items() if len(m) == len(self.mine[key])] for key in keys]
        if not all(fits) or np.prod([float(len(f)) for f in fits]) > MOST_COMBINATIONS:
            return []
        found = []
        for combination in itertools.product(*fits):
            if len(set(combination)) == len(combination):
                chosen = dict(zip(keys, combination, strict=True))
                found.append((sum(self._agree(a, b, chosen[a], chosen[b]) for a, b in self.rows), chosen))
        return sorted(found, key=lambda one: -one[0])

    def _agree(self, a: str, b: str, as_a: str, as_b: str) -> int:
        key = (a, b, as_a, as_b)
        if key not in self.known:
            self.known[key] = sum(self._is_cabled(row, as_a, as_b) for row in self.rows[a, b])
        return self.known[key]

    def _is_cabled(self, row: int, as_a: str, as_b: str) -> bool:
        ports = []
        for end, family in enumerate((as_a, as_b)):
            name, label = str(self.plan.node[row, end]), str(self.plan.label[row, end])
            nodes = self.there[self.other[family][self.place[name][1]]]
            ports.append(self.index.port(nodes, name, label)[0])
        return ports[0] >= 0 and int(self.fabric.port_peer[ports[0]]) == ports[1]

    def proposal(self, agree: int, chosen: dict[str, str]) -> NameProposal:
        """The names of nodes that ``chosen`` means."""
        names: dict[int, str] = {}
        devices = []
        for key, family in chosen.items():
            for mine, other in zip(self.mine[key], self.other[family], strict=True):
                nodes = self.there[other]
                devices.append((mine, other.partition(" ")[2]))
                for node in nodes:
                    behind = self.index.names[node].partition(" ")[2] if other.startswith("host ") else ""
                    names[node] = f"{mine} {behind}".strip() if len(nodes) > 1 or behind else mine
        return NameProposal(self.fabric, names, agree, len(self.plan), tuple(devices))
