"""Acceptance runs that were made up: what perftest would measure on a fabric with planted slow parts, with the noise of real hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import softib
from softib.analysis.acceptance.expected_pairs import Expectation
from softib.analysis.acceptance.findings import judge
from softib.analysis.acceptance.plan import ends_of_fabric
from softib.analysis.routed import routed
from softib.api.fabric import result_of
from softib.api.progress import unwatched
from softib.diags.acceptance.measurements import TESTS, Measurements
from softib.diags.acceptance.schedule import rounds_of
from softib.diags.finding import Finding

SIZES = {name: 2 if t.latency else 1 << 20 for name, t in TESTS.items()}
ALONE = tuple(n for n, t in TESTS.items() if not t.under_load)
"""Tests whose expectation needs no run of the packet layer."""
NOISE, HICCUPS = 0.02, 0.01
"""Spread of a measurement, and the share of them that the system disturbs (by 30 % on average)."""


@dataclass(frozen=True)
class Planted:
    """``kind`` host, adapter or cable; ``row`` of an end, or a port of the cable; ``loss`` of bandwidth (latency rises by as much)."""

    kind: str
    row: int
    loss: float


class Lab:
    """A fabric that is brought up, its rounds and the paths of their pairs."""

    def __init__(self, per_class: int = 4, tests: Sequence[str] = ALONE, **parameters: object):
        self.tests = {n: TESTS[n] for n in tests}
        made = softib.generate(**parameters)
        found = routed(result_of(made), None, None, unwatched)
        place = ends_of_fabric(found.fabric, found.graph)
        self.fabric, self.ends = found.fabric, place.ends
        self.expectation = Expectation(found.fabric, place.row, None)
        self.rounds = rounds_of(self.ends, per_class)
        f = self.fabric
        inside = (f.port_peer >= 0) & f.is_switch[f.port_node] & f.is_switch[f.port_node[np.maximum(f.port_peer, 0)]]
        self.cables = np.flatnonzero(inside & (np.arange(f.sizes.ports) < f.port_peer))
        self._of = [self._lay(one) for one in self.rounds]

    def _lay(self, one):
        there, back = self.expectation.paths(one.source, one.target), self.expectation.paths(one.target, one.source)
        return there, back, {n: self.expectation.of_round(t, one, SIZES[n]) for n, t in self.tests.items()}

    def measure(self, seed: int, planted: Sequence[Planted]) -> Measurements:
        rng = np.random.default_rng(seed)
        columns: dict[str, list[np.ndarray]] = {k: [] for k in ("test", "round", "source", "target", "value")}
        for one, (there, back, expected) in zip(self.rounds, self._of, strict=True):
            for name, test in self.tests.items():
                both = test.both or test.latency
                share = np.ones(len(one))
                for p in planted:
                    hit = self._hit(p, one, there, back if both else None)
                    share = np.where(hit, share + p.loss if test.latency else np.minimum(share, 1 - p.loss), share)
                odd = np.where(rng.random(len(one)) < HICCUPS, rng.exponential(0.3, len(one)), 0.0)
                noise = 1 + np.abs(rng.normal(0, NOISE, len(one))) + odd
                value = expected[name] * share * noise if test.latency else expected[name] * share / noise
                for key, column in (
                    ("test", np.array([name] * len(one), object)),
                    ("round", np.full(len(one), one.number)),
                    ("source", one.source),
                    ("target", one.target),
                    ("value", value),
                ):
                    columns[key].append(column)
        return Measurements(self.ends, **{k: np.concatenate(v) for k, v in columns.items()})

    def _hit(self, p: Planted, one, there, back) -> np.ndarray:
        if p.kind == "host":
            hosts = np.array([h == self.ends.host[p.row] for h in self.ends.host])
            return hosts[one.source] | hosts[one.target]
        if p.kind == "adapter":
            return (one.source == p.row) | (one.target == p.row)
        out = np.zeros(len(one), bool)
        for paths in (there, back):
            if paths is not None:
                crossing = (paths.port == p.row) | (paths.port == self.fabric.port_peer[p.row])
                out[np.repeat(np.arange(len(one)), np.diff(paths.first))[crossing]] = True
        return out

    def judge(self, seed: int, planted: Sequence[Planted]) -> list[Finding]:
        found = judge(self.measure(seed, planted), self.expectation, SIZES).findings
        return [f for f in found if f.code.startswith("slow-")]

    def crossed(self, port: int) -> int:
        """Measured pairs whose data takes the cable of this port, in either direction."""
        return sum(
            int(self._hit(Planted("cable", port, 1.0), one, there, back).sum())
            for one, (there, back, _) in zip(self.rounds, self._of, strict=True)
        )

    def draw(self, rng: np.random.Generator, kinds: Sequence[str]) -> list[Planted]:
        """One of each kind, losses 10 to 60 %; cables that some pair takes."""
        out = []
        for kind in kinds:
            loss = float(rng.uniform(0.1, 0.6))
            if kind == "cable":
                taken = [c for c in rng.permutation(self.cables).tolist()[:50] if self.crossed(c)]
                out.append(Planted(kind, int(taken[0]), loss))
            else:
                out.append(Planted(kind, int(rng.integers(len(self.ends))), loss))
        return out

    def names(self, found: Finding, p: Planted) -> bool:
        """The finding is about what was planted: the cable by either end, the host or adapter by its name."""
        f = self.fabric
        if p.kind == "cable":
            port = (int(f.node_guid[f.port_node[p.row]]), int(f.port_num[p.row]))
            return found.code == "slow-cable" and port in {(w.guid, w.portnum) for w in found.where}
        host, name = self.ends.host[p.row], self.ends.name(p.row)
        single = sum(h == host for h in self.ends.host) == 1
        if p.kind == "host" or single:
            return found.code == "slow-host" and found.message.startswith(f"{host}:")
        return found.code == "slow-adapter" and found.message.startswith(f"{name}:")


def tally(lab: Lab, seeds: range, kinds: Sequence[str]) -> tuple[int, int, int]:
    """(planted, named, findings about nothing that was planted) over stories with one part of each of ``kinds``."""
    planted = named = false = 0
    for seed in seeds:
        rng = np.random.default_rng([seed, 77])
        parts = lab.draw(rng, kinds)
        found = lab.judge(seed, parts)
        planted += len(parts)
        named += sum(any(lab.names(f, p) for f in found) for p in parts)
        false += sum(not any(lab.names(f, p) for p in parts) for f in found)
    return planted, named, false
