"""A torus or mesh with holes, and its torus-2QoS.conf."""

from __future__ import annotations

import itertools

from softib.routing.engine import RouteOptions, route
from tests.routing.brute import cas, walk
from tests.routing.fabrics import wire

__all__ = ["Lab"]


class Lab:
    """A torus or mesh with holes: positions, the graph (switch i has GUID i + 1) and a configuration for it."""

    def __init__(self, *radix, wraps=(1, 1, 1), hosts=1, parallel=1, missing=(), cut=()):
        self.radix, self.wraps = radix, wraps
        self.position = [p for p in itertools.product(*map(range, radix)) if p not in set(missing)]
        self.at = {p: i for i, p in enumerate(self.position)}
        free = [1] * len(self.position)

        def port(s):
            free[s] += 1
            return free[s] - 1

        cables = []
        for p in self.position:
            for axis in range(3):
                q = self.beside(p, axis, 1)
                if radix[axis] > 1 and q in self.at and (p, q) not in cut and not (radix[axis] == 2 and p[axis]):
                    cables += [(self.at[p], port(self.at[p]), self.at[q], port(self.at[q])) for _ in range(parallel)]
        self.graph = wire(len(self.at), cables, [(s, port(s)) for s in range(len(self.at)) for _ in range(hosts)])

    def beside(self, p, axis, sign):
        q = list(p)
        q[axis] += sign
        if not 0 <= q[axis] < self.radix[axis]:
            if not self.wraps[axis]:
                return None
            q[axis] %= self.radix[axis]
        return tuple(q)

    def config(self, origin=(0, 0, 0), more=""):
        words = [f"{r}{'T' if w else 'M'}" for r, w in zip(self.radix, self.wraps, strict=True)]
        lines = ["# written by a test", "torus " + " ".join(words)]
        for axis, (sign, letter) in itertools.product(range(3), ((1, "p"), (-1, "m"))):
            q = self.beside(origin, axis, sign)
            if self.radix[axis] > 1 and q in self.at:
                lines.append(f"{'xyz'[axis]}{letter}_link {self.at[origin] + 1:#x} {self.at[q] + 1:#x}  # comment")
        return "\n".join(lines) + "\n" + more

    def routed(self, **k):
        r = route(self.graph, "torus-2QoS", RouteOptions(torus_config=self.config(**k)))
        assert r.engine == "torus-2QoS", r.notes
        return r

    def path(self, r, a, b):
        """Positions that a packet from a CA at ``a`` to one at ``b`` passes."""
        end = next(e for e in cas(self.graph) if self.graph.end_switch[e] == self.at[b])
        return [self.position[s] for s, _ in walk(self.graph, r.lft, self.at[a], int(self.graph.end_lid[end]))[1]]
