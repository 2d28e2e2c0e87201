"""The parts of a fabric that measurements may have in common: hosts, adapters, cables, directions
of cables, switches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from softib.analysis.acceptance.expected_pairs import Expectation
from softib.diags.acceptance.measurements import TESTS, Measurements
from softib.diags.acceptance.schedule import Ends
from softib.diags.acceptance.tomography import Parts

__all__ = ["KINDS", "FabricParts", "Kind", "Part", "parts_of"]

Kind = Literal["host", "adapter", "cable", "switch", "direction"]
KINDS: tuple[Kind, ...] = ("host", "adapter", "cable", "switch", "direction")
"""Of parts that explain equally much the first kind is taken."""


@dataclass(frozen=True)
class Part:
    """``kind`` and the row of what it is: a host's number, an end, the smaller port row of a cable,
    a node, the port row that sends. ``same``: further parts that cross the very same measurements,
    so that these cannot tell them apart."""

    kind: Kind
    row: int
    same: tuple[tuple[Kind, int], ...] = ()


@dataclass(frozen=True)
class FabricParts:
    """``parts`` of a test's measurements, and what each is."""

    parts: Parts
    what: tuple[Part, ...]


def parts_of(measured: Measurements, rows: np.ndarray, test: str, expectation: Expectation | None) -> FabricParts:
    """The parts that the measurements ``rows`` (all of ``test``) cross: the paths of both
    directions where data or answers go both ways, by the forwarding tables; without an expectation
    hosts and adapters alone."""
    ends, a, b = measured.ends, measured.source[rows], measured.target[rows]
    host = _host_numbers(ends)
    n = len(rows)
    columns: list[tuple[int, np.ndarray, np.ndarray]] = []  # kind, rows of things, measurements
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
    """Row of the first end of each end's host."""
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
    """One part for all that cross the same measurements: the first kind of :data:`KINDS` leads, the
    others stand in its ``same``."""
    leads: dict[bytes, int] = {}
    same: dict[int, list[tuple[Kind, int]]] = {}
    kept: list[int] = []
    for i, key in enumerate(keys.tolist()):  # in the order of kinds
        mark = row[first[i] : first[i + 1]].tobytes()
        lead = leads.setdefault(mark, i)
        if lead == i:
            kept.append(i)
        else:
            same.setdefault(lead, []).append((KINDS[key // width], key % width))
    what = tuple(Part(KINDS[int(keys[i]) // width], int(keys[i]) % width, tuple(same.get(i, ()))) for i in kept)
    rows = [row[first[i] : first[i + 1]] for i in kept]
    starts = np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int64)
    weight = np.array([KINDS.index(p.kind) for p in what], np.float64)
    return FabricParts(Parts(starts, np.concatenate(rows) if rows else np.zeros(0, np.int64), weight), what)
