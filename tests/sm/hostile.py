"""A manager on a virtual clock among devices that lie, and links that lose packets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from softib.agents.plane import AgentPlane
from softib.fabric.model import Fabric
from softib.fabric.node_finder import default_port
from softib.fabric.power_cycle import power_on
from softib.fabric.topologies.registry import generate
from softib.iba.constants import LFT_NO_ROUTE, Method, PortState, SmpAttr
from softib.iba.smp import DATA_AT, METHOD_AT, MadHeader
from softib.mad.batch import MadBatch
from softib.sm.config import SmConfig
from softib.sm.subnet_manager import SubnetManager

__all__ = ["MS", "HostileWire", "S", "attribute"]

MS, S = 10**9, 10**12
MOST_STEPS = 20_000
Lie = Callable[[np.ndarray, np.ndarray], None]
"""Gets answers (uint8[n, 256]) of one device and attribute, and the requests (uint8[n, 256]); changes the answers in place."""


class HostileWire:
    """``lies``: (node, attribute) → what it does to its answers. ``loses(mad, node)``: is this request lost on the way?
    ``drops(mad, node)``: is this answer? (The device did what it was told.)"""

    def __init__(self, fabric: Fabric | None = None, **settings):
        self.fabric = fabric or generate("fat-tree", radix=4, levels=3)
        power_on(self.fabric)
        self.port = default_port(self.fabric)
        self.plane = AgentPlane(self.fabric)
        self.sm = SubnetManager(SmConfig(**{"window": 64, "chunk": 64, "sweep_interval_ps": 10 * S, **settings}))
        self.now_ps = self.deadline_ps = 0
        self.lies: dict[tuple[int, int], Lie] = {}
        self.loses: Callable[[np.ndarray, int], bool] = lambda mad, node: False
        self.drops: Callable[[np.ndarray, int], bool] = lambda mad, node: False
        self._inbox: MadBatch | None = None
        self.problems: dict[str, int] = {}
        """Each line that a sweep reported, with the first sweep that did."""

    # -- the clock --

    def step(self) -> bool:
        """One step; False where the manager only waits."""
        outbox, self.deadline_ps = self.sm.step(self.now_ps, self._inbox)
        self._inbox = self._carry(outbox) if len(outbox) else None
        if not self.sm.phase:
            for line in (*self.sm.report.problems, *self.sm.report.notes):
                self.problems.setdefault(line, self.sm.sweeps)
        return len(outbox) > 0

    def run(self, seconds: float) -> None:
        """As a daemon does: step at each deadline, for so long."""
        until, steps = self.now_ps + int(seconds * S), 0
        while self.now_ps < until:
            steps += 1
            assert steps < MOST_STEPS, "the manager does not come to rest"
            if not self.step():
                self.now_ps = min(until, max(self.now_ps + 1, self.deadline_ps))

    def _carry(self, outbox: MadBatch) -> MadBatch:
        to = np.array([self.end(mad) for mad in outbox.mad], np.int64)
        arrive = np.array([not self.loses(mad, int(n)) for mad, n in zip(outbox.mad, to, strict=True)], bool)
        outbox, to = outbox[arrive], to[arrive]
        answers = self.plane.send(outbox, self.port, self.now_ps)
        of = {int(tid): i for i, tid in enumerate(MadHeader.tid.get(outbox.mad).tolist())}
        row = np.array([of[int(t)] for t in MadHeader.tid.get(answers.mad).tolist()], np.int64)
        came = np.array([not self.drops(m, int(to[r])) for m, r in zip(answers.mad, row, strict=True)], bool)
        answers, row = answers[came], row[came]
        for (node, attr), lie in self.lies.items():
            mine = np.flatnonzero((to[row] == node) & (MadHeader.attr_id.get(answers.mad) == attr)) if len(row) else row
            if len(mine):
                lied = answers.mad[mine]
                lie(lied, outbox.mad[row[mine]])
                answers.mad[mine] = lied
        return answers

    def end(self, mad: np.ndarray) -> int:
        """Node at the end of a directed route."""
        f = self.fabric
        node = int(f.port_node[self.port])
        for i in range(1, int(mad[7]) + 1):
            peer = int(f.port_peer[f.port(node, int(mad[128 + i]))])
            if peer < 0:
                return -1
            node = int(f.port_node[peer])
        return node

    # -- what came of it --

    def dead_links(self, but: set[int] = frozenset()) -> list[str]:
        """Ends of cables that are not ACTIVE, without those of nodes ``but``."""
        f = self.fabric
        out = []
        for p in np.flatnonzero(f.linked).tolist():
            ends = {int(f.port_node[p]), int(f.port_node[f.port_peer[p]])}
            if not ends & but and f.port_state[p] != PortState.ACTIVE:
                out.append(f.port_name(p))
        return out

    def lost_paths(self, but: set[int] = frozenset()) -> list[tuple[str, str]]:
        """Pairs of hosts between which the tables do not lead, without those of nodes ``but``."""
        f = self.fabric
        hosts = [int(n) for n in f.cas if int(n) not in but]
        lid = {n: int(f.lid[f.port(n, 1)]) for n in hosts}
        return [
            (f.node_name(a), f.node_name(b)) for a in hosts for b in hosts if a != b and not self._leads(a, lid[b], b)
        ]

    def _leads(self, source: int, lid: int, target: int) -> bool:
        f = self.fabric
        port = int(f.port_peer[f.port(source, 1)])
        for _ in range(16):
            if port < 0:
                return False
            node = int(f.port_node[port])
            if node == target:
                return True
            if not f.is_switch[node]:
                return False
            out = int(f.lft[f.switch_of_node[node], lid])
            if out == LFT_NO_ROUTE:
                return False
            port = int(f.port_peer[f.port(node, out)])
        return False

    def converged(self, but: set[int] = frozenset()) -> bool:
        """Are all links up, and all hosts reached, beside those of nodes ``but``?"""
        return not self.dead_links(but) and not self.lost_paths(but)

    def told(self, *words: str) -> bool:
        """Did a report have a line with all these words?"""
        return any(all(w in line for w in words) for line in self.problems)


def attribute(structure: type, **fields: int) -> Lie:
    """A device that answers with other values of these fields of the attribute."""

    def lie(answers: np.ndarray, requests: np.ndarray) -> None:
        data = answers[:, DATA_AT : DATA_AT + 64].copy()
        for name, value in fields.items():
            getattr(structure, name).set(data, value)
        answers[:, DATA_AT : DATA_AT + 64] = data

    return lie


def is_set(mad: np.ndarray, attr: SmpAttr | None = None) -> bool:
    """Is this request (or the answer to it) a Set, of ``attr`` alone where one is named?"""
    return attr is None or int(MadHeader.attr_id.get(mad)) == attr if int(mad[METHOD_AT]) == Method.SET else False
