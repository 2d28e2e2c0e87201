"""Finds the ports of absent hosts if hosts are numbered across the leaves. For example, with six leaves, host 7 is on
leaf 1, host 8 on leaf 2, and host 13 on leaf 1 next to host 7. Hosts with neighbouring names are then on different
leaves, and the numbers of hosts at adjacent ports differ by a constant.
"""

from __future__ import annotations

import numpy as np

from softib.diags.labels import NodeClass
from softib.diags.rules import mode
from softib.diags.view import FabricView

__all__ = ["HostStride"]

MOST, LEAST = 0.7, 4
"""Minimum share, and minimum number, of hosts at adjacent ports whose numbers differ by the stride."""


class HostStride:
    """The usual ``step`` between the numbers (column ``along`` of the class ``made``) of hosts at adjacent ports; 0 if
    there is none.
    """

    def __init__(self, view: FabricView, made: NodeClass, along: int):
        f = view.fabric
        self.view, self.made, self.along, self.step = view, made, along, 0
        self.port = np.full(len(made.nodes), -1, np.int64)
        """The leaf port of each host; -1 for hosts with several cables."""
        for i, node in enumerate(made.nodes.tolist()):
            peers = [int(p) for p in f.port_peer[list(f.ports_of(node))] if p >= 0]
            if len(peers) == 1:
                self.port[i] = peers[0]
        order = np.argsort(self.port, kind="stable")
        order = order[self.port[order] >= 0]
        low, high = order[:-1], order[1:]
        adjacent = self.port[high] - self.port[low] == 1
        step = (made.numbers[high] - made.numbers[low])[adjacent]
        step = step[np.delete(step, along, axis=1).any(axis=1) == 0][:, along] if len(step) else np.zeros(0, np.int64)
        usual, count = mode(step - step.min()) if len(step) else (0, 0)
        if count >= max(LEAST, MOST * len(step)):
            self.step = int(usual + step.min())

    def port_of(self, before: int, after: int, number: int) -> int:
        """Return the leaf port of the absent host with ``number``, which is between the hosts (nodes) ``before`` and
        ``after`` in its row of names; -1 if the port is unknown.
        """
        if abs(self.step) < 2:
            return -1
        row = {int(n): i for i, n in enumerate(self.made.nodes.tolist())}
        numbers = self.made.numbers[row[before]].copy()
        ports = []
        for side in (-1, 1):
            numbers[self.along] = number + side * self.step
            i = int(self.made.find(numbers[None])[0]) if numbers[self.along] >= 0 else -1
            if i >= 0 and self.port[i] >= 0:
                ports.append(int(self.port[i]) - side)
        f = self.view.fabric
        if len(set(ports)) != 1 or ports[0] not in range(f.sizes.ports):
            return -1
        nearby = {int(f.port_num[p]) for p in (self.port[row[before]], self.port[row[after]]) if p >= 0}
        return ports[0] if len(ports) > 1 or int(f.port_num[ports[0]]) in nearby else -1
