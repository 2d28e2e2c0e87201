"""Cables between switches of one row of names: tori, meshes, the groups of a dragonfly.

The site has a rule for the port of a switch that leads to another switch of its row: port 3 to the
next (by step), or port 12 to number 2 of the group (by goal). If a port list omits the switch's own
number, port 12 leads to number 2 from higher switches and port 11 from lower ones (by side). The
rule, learned from all rows, gives the ports at which an absent switch belongs.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property

import numpy as np

from softib.diags.labels import NodeClass
from softib.diags.view import FabricView

__all__ = ["RowLinks"]

AGREE = 0.8
"""Minimum share of the pairs of switches with a rule that must follow it, and …"""
MIN_PAIRS = 3
"""… their minimum number."""


class RowLinks:
    """Rules of the rows of ``made`` along its number ``along``."""

    def __init__(self, view: FabricView, node_class: NodeClass, along: int):
        self.fabric, self.made, self.along = view.fabric, node_class, along
        links = view.between_switches
        a, b = view.port_a[links], view.port_b[links]
        self.ports, self.peers = np.concatenate([a, b]), np.concatenate([b, a])
        self.row = node_class.numbers @ node_class.stride - node_class.numbers[:, along] * node_class.stride[along]

    @cached_property
    def rules(self) -> dict[tuple[str, int], list[int]]:
        """Port numbers by ``("step", by)``, ``("goal", number)``, ``("from below", number)`` or
        ``("from above", number)``."""
        member = np.full(self.fabric.sizes.nodes, -1)
        member[self.made.nodes] = np.arange(len(self.made.nodes))
        here, there = (member[self.fabric.port_node[p]] for p in (self.ports, self.peers))
        kept = (here >= 0) & (there >= 0) & (here != there) & (self.row[here] == self.row[there])
        here, there, number = here[kept], there[kept], self.fabric.port_num[self.ports[kept]]
        x = self.made.numbers[:, self.along]
        below, every = x[here] < x[there], np.ones(len(here), bool)
        out: dict[tuple[str, int], list[int]] = {}
        rare: list[tuple[int, int]] = []
        for kind, values, of in (
            ("step", x[there] - x[here], every),
            ("goal", x[there], every),
            ("from below", x[there], below),
            ("from above", x[there], ~below),
        ):
            seen = Counter(zip(values[of].tolist(), number[of].tolist(), strict=True))
            pairs: dict[int, int] = {}
            for (value, port_number), times in seen.items():
                if value not in pairs:
                    pairs[value] = self._pairs(kind, value)
                if times < AGREE * pairs[value]:
                    continue
                if pairs[value] >= MIN_PAIRS:
                    out.setdefault((kind, value), []).append(port_number)
                elif kind == "step":
                    rare.append((value, port_number))
        size = int(self.made.span[self.along])
        for step, port_number in rare:  # in a short ring, a step over its end is the same direction
            turned = step - size if step > 0 else step + size
            if port_number in out.get(("step", turned), []):
                out.setdefault(("step", step), []).append(port_number)
        return out

    def _pairs(self, kind: str, value: int) -> int:
        """Return members for which another member of their row exists at that distance."""
        wanted, x = self.made.numbers.copy(), self.made.numbers[:, self.along]
        wanted[:, self.along] = x + value if kind == "step" else value
        mates = self.made.find(wanted)
        side = x < value if kind == "from below" else x > value if kind == "from above" else mates >= 0
        return int(np.count_nonzero((mates >= 0) & side & (mates != np.arange(len(mates)))))

    def expected_ports(self, node: int, number: int) -> list[int]:
        """Return the ports in the row of ``node`` that would lead to the member ``number`` of the row."""
        member = int(np.flatnonzero(self.made.nodes == node)[0])
        out = []
        for mate in np.flatnonzero(self.row == self.row[member]).tolist():
            step = number - int(self.made.numbers[mate, self.along])
            side = "from below" if step > 0 else "from above"
            by = (("step", step), ("goal", number), (side, number))
            ports = next((listed for key in by if (listed := self.rules.get(key))), [])
            mate_node = int(self.made.nodes[mate])
            out += [int(self.fabric.port(mate_node, p)) for p in ports if p <= self.fabric.node_nports[mate_node]]
        return out
