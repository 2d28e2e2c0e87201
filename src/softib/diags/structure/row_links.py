"""Learns which ports connect the switches of one row of names, in tori, meshes and the groups of a dragonfly.

A site has a rule for the port of a switch that leads to another switch of its row. There are three kinds of rules. By
step: port 3 leads to the next switch. By goal: port 12 leads to number 2 of the group. By side: if a port list omits
the switch's own number, the port to a given number is different on lower and on higher switches. The rule is learned
from all rows, and shows the ports at which an absent switch would be cabled.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property

import numpy as np

from softib.diags.labels import NodeClass
from softib.diags.view import FabricView

__all__ = ["RowLinks"]

AGREE = 0.8
"""Minimum share of the pairs of switches to which a rule applies that must follow it."""
MIN_PAIRS = 3
"""Minimum number of pairs of switches that must follow a rule."""


class RowLinks:
    """Rules for the rows of a class, along its number ``along``."""

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
        for step, port_number in rare:  # in a short ring, a step past its end is a step in the other direction
            turned = step - size if step > 0 else step + size
            if port_number in out.get(("step", turned), []):
                out.setdefault(("step", step), []).append(port_number)
        return out

    def _pairs(self, kind: str, value: int) -> int:
        """Return the number of members to which a rule applies: the row of such a member has another member at this
        distance, or with this number.
        """
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
