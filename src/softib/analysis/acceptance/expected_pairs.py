"""Expected values of pairs of hosts: the bandwidth, from the links of the path, and the latency of the path. Both are
computed as in ``softib simulate`` and with ``--pace``. If a link trained at a lower rate than most links of its kind,
the rate of its kind is expected.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from softib.diags.acceptance.measurements import TESTS, Measurements, PairTest
from softib.diags.acceptance.schedule import Ends, Round, measuring_parts
from softib.diags.acceptance.tomography import Parts
from softib.fabric.identity import models
from softib.fabric.model import Fabric
from softib.sim.messages import messages
from softib.sim.packet_sizes import packets_of, wire_octets
from softib.sim.paths import Plane

__all__ = ["KINDS", "Expectation", "FabricParts", "Kind", "Part", "Paths", "parts_of", "usual_gbps"]


Kind = Literal["host", "adapter", "cable", "switch", "direction"]
KINDS: tuple[Kind, ...] = ("host", "adapter", "cable", "switch", "direction")
"""Kinds of parts. If several parts explain the same measurements, the part whose kind is first here is preferred."""


@dataclass(frozen=True)
class Part:
    """A part of the fabric. ``row`` depends on ``kind``: the number of a host, the row of an adapter in :class:`Ends`,
    the smaller of a cable's two port rows, the node of a switch, or the port row of the sender of a direction.
    ``same``: further parts that exactly the same measurements cross, so that they cannot be distinguished from this
    one."""

    kind: Kind
    row: int
    same: tuple[tuple[Kind, int], ...] = ()


@dataclass(frozen=True)
class FabricParts:
    """The ``parts`` that the measurements of a test cross, with a description of each."""

    parts: Parts
    what: tuple[Part, ...]


def parts_of(measured: Measurements, rows: np.ndarray, test: str, expectation: Expectation | None) -> FabricParts:
    """Return the parts that the measurements ``rows`` (all of ``test``) cross, according to the forwarding tables. If
    data or answers flow in both directions, the parts of both directions' paths are included. If ``expectation`` is
    None, only hosts and adapters are returned."""
    ends, a, b = measured.ends, measured.source[rows], measured.target[rows]
    host = _host_numbers(ends)
    n = len(rows)
    columns: list[tuple[int, np.ndarray, np.ndarray]] = []  # kind, rows of parts, measurements
    both, twice = np.concatenate([a, b]), np.tile(np.arange(n), 2)
    columns.append((KINDS.index("host"), host[both], twice))
    columns.append((KINDS.index("adapter"), both, twice))
    if expectation is not None:
        columns += _on_paths(expectation, a, b, TESTS[test].both or TESTS[test].latency)
    kind = np.concatenate([np.full(len(t), k) for k, t, _ in columns])
    thing = np.concatenate([t for _, t, _ in columns]).astype(np.int64)
    row = np.concatenate([r for _, _, r in columns]).astype(np.int64)
    width = int(thing.max(initial=0)) + 1
    key = np.unique((kind * width + thing) * n + row) if n else np.zeros(0, np.int64)
    part_key, crossing = key // max(n, 1), key % max(n, 1)
    keys, start = np.unique(part_key, return_index=True)
    return _without_doubles(keys, np.append(start, len(key)), crossing, width)


def _host_numbers(ends: Ends) -> np.ndarray:
    """Return a number for the host of each measured port: the row of the host's first port."""
    first: dict[str, int] = {}
    return np.array([first.setdefault(h, i) for i, h in enumerate(ends.host)], np.int64)


def _on_paths(e: Expectation, a: np.ndarray, b: np.ndarray, both: bool) -> list[tuple[int, np.ndarray, np.ndarray]]:
    f = e.fabric
    port, row = [], []
    for x, y in ((a, b), (b, a)) if both else ((a, b),):
        there = e.paths(x, y)
        port.append(there.port)
        row.append(np.repeat(np.arange(len(a)), np.diff(there.first)))
    ports, rows = np.concatenate(port), np.concatenate(row)
    cable = np.minimum(ports, f.port_peer[ports])
    sender = f.port_node[ports]
    switch = f.is_switch[sender]
    return [
        (KINDS.index("cable"), cable, rows),
        (KINDS.index("switch"), sender[switch], rows[switch]),
        (KINDS.index("direction"), ports, rows),
    ]


def _without_doubles(keys: np.ndarray, first: np.ndarray, row: np.ndarray, width: int) -> FabricParts:
    """Merge parts that the same measurements cross, and return the remaining parts. Of such parts, the one whose kind
    is first in :data:`KINDS` stays, and the others are in its ``same``."""
    leads: dict[bytes, int] = {}
    same: dict[int, list[tuple[Kind, int]]] = {}
    kept: list[int] = []
    for i, key in enumerate(keys.tolist()):  # sorted by kind
        mark = row[first[i] : first[i + 1]].tobytes()
        lead = leads.setdefault(mark, i)
        if lead == i:
            kept.append(i)
        else:
            same.setdefault(lead, []).append((KINDS[key // width], key % width))
    leading = tuple(Part(KINDS[int(keys[i]) // width], int(keys[i]) % width, tuple(same.get(i, ()))) for i in kept)
    rows = [row[first[i] : first[i + 1]] for i in kept]
    starts = np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int64)
    weight = np.array([KINDS.index(p.kind) for p in leading], np.float64)
    return FabricParts(Parts(starts, np.concatenate(rows) if rows else np.zeros(0, np.int64), weight), leading)


@dataclass(frozen=True)
class Paths:
    """Paths of ``n`` messages: the fabric's ports that send them, ``port[first[i]:first[i + 1]]``
    (int64), from the adapter to the last switch. Empty: no path."""

    first: np.ndarray
    port: np.ndarray

    def of(self, i: int) -> np.ndarray:
        """Return the ports that send message ``i``."""
        return self.port[self.first[i] : self.first[i + 1]]


def usual_gbps(fabric: Fabric, gbps: np.ndarray) -> np.ndarray:
    """Return the rate of each port's link (``gbps`` float64[ports], 0 = none), or the rate of most
    links of its kind if that is higher. Links are of one kind if they are between the same two
    kinds of device (hosts' adapters by device, switches by device and number of ports)."""
    out = gbps.copy()
    linked = np.flatnonzero((fabric.port_peer >= 0) & (gbps > 0))
    node = fabric.port_node
    kind_of_node = np.unique(
        np.stack([fabric.node_type, models(fabric), np.where(fabric.is_switch, fabric.node_nports, 0)]),
        axis=1,
        return_inverse=True,
    )[1].reshape(-1)
    a, b = kind_of_node[node[linked]], kind_of_node[node[fabric.port_peer[linked]]]
    kind = np.minimum(a, b) * (int(kind_of_node.max(initial=0)) + 1) + np.maximum(a, b)
    for k in np.unique(kind).tolist():
        rows = linked[kind == k]
        rates, count = np.unique(gbps[rows], return_counts=True)
        most = rates[len(rates) - 1 - int(np.argmax(count[::-1]))]
        out[rows] = np.maximum(gbps[rows], most)
    return out


class Expectation:
    """Calculator of expected values on ``fabric``, which has LIDs and forwarding tables. ``row``: the fabric's end port
    of each row of :class:`Ends`."""

    def __init__(self, fabric: Fabric, row: np.ndarray, path_sl: np.ndarray | None = None):
        self.fabric, self.row = fabric, row
        self.plane = Plane(fabric, path_sl)

    @cached_property
    def gbps(self) -> np.ndarray:
        """Return the expected rate of each port's link (float64[ports])."""
        return usual_gbps(self.fabric, self.plane.gbps)

    def paths(self, source: np.ndarray, target: np.ndarray) -> Paths:
        """Return the paths of data from ``source`` to ``target`` (rows of ``Ends``) through the forwarding tables."""
        m = messages(self.row[source], self.row[target], 1)
        laid = self.plane.lay(m)
        return Paths(laid.first, np.asarray(laid.port >> 4, np.int64)[laid.channel])

    def bandwidth(self, source: np.ndarray, target: np.ndarray, size: int, loaded: bool) -> np.ndarray:
        """Return the Gb/s of payload of messages of ``size`` bytes (float64; 0 without a path): the minimum over the
        path's links. With ``loaded``, all flows of this call run at once and share links evenly.
        """
        there = self.paths(source, target)
        rate = self.gbps[there.port]
        if loaded:
            flows = np.bincount(there.port, minlength=len(self.gbps))
            rate = rate / flows[there.port]
        out = np.zeros(len(source))
        some = np.diff(there.first) > 0
        if some.any():
            out[some] = np.minimum.reduceat(rate, there.first[:-1][some])
        m = messages(self.row[source], self.row[target], size)
        octets = wire_octets(m, packets_of(m, np.full(len(m), 4096)))
        return out * size / np.maximum(octets, 1)

    def latency_us(self, source: np.ndarray, target: np.ndarray, size: int) -> np.ndarray:
        """Return half the round-trip time of ``size`` bytes without load in µs (float64; NaN without a path), which is
        the mean of both directions."""
        out = np.zeros(len(source))
        for a, b in ((source, target), (target, source)):
            m = messages(self.row[a], self.row[b], size)
            laid = self.plane.lay(m)
            slowest = self.bandwidth(a, b, size, False)
            forth = self.plane.timing(m, laid).forth_ps / 1e6
            with np.errstate(divide="ignore"):
                out += np.where(laid.why == 0, forth + size * 8e-3 / slowest, np.nan)
        return out / 2

    def of_round(self, test: PairTest, one: Round, size: int, part: np.ndarray | None = None) -> np.ndarray:
        """Return the expected value of each pair of the round in ``test`` (float64, in the test's
        unit). ``part``: for a latency test under load, the part of the round to which each pair belongs (None: as
        planned)."""
        a, b = one.source, one.target
        if test.under_load:
            from softib.analysis.acceptance.loaded_latency import latency_under_load_us

            return latency_under_load_us(self, a, b, measuring_parts(len(one)) if part is None else part, size)
        if test.latency:
            return self.latency_us(a, b, size)
        if not test.both:
            return self.bandwidth(a, b, size, test.loaded)
        if test.loaded:
            both = self.bandwidth(np.concatenate([a, b]), np.concatenate([b, a]), size, True)
            return both[: len(a)] + both[len(a) :]
        return self.bandwidth(a, b, size, False) + self.bandwidth(b, a, size, False)

    def of(self, measured: Measurements, sizes: dict[str, int]) -> np.ndarray:
        """Return the expected value of each measurement (float64), with the load of the other
        measurements in the same test and round. ``sizes``: bytes by test."""
        out = np.full(len(measured), np.nan)
        for name in measured.tests:
            rows = np.flatnonzero(measured.test == name)
            for number in np.unique(measured.round[rows]).tolist() if TESTS[name].loaded else [None]:
                of_round = rows if number is None else rows[measured.round[rows] == number]
                one = Round(number or 0, "", measured.source[of_round], measured.target[of_round])
                part = None if measured.part is None else measured.part[of_round]
                out[of_round] = self.of_round(TESTS[name], one, sizes[name], part)
        return out
