"""The plan of an acceptance run (rounds, tests and batches, with the expected duration of each pair), and the
conversion of journal entries to measurements."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.analysis.acceptance.expected_pairs import Expectation
from softib.analysis.endpoints import MAX_RAILS
from softib.components import components
from softib.diags.acceptance.measurements import Failure, Measurements, PairTest
from softib.diags.acceptance.schedule import Ends, Round, measuring_parts, rounds_of, sub_rounds
from softib.diags.structure.recognise import Structure, recognise
from softib.errors import UnknownName
from softib.fabric.end_ports import end_ports
from softib.fabric.model import Fabric
from softib.live.acceptance.campaign import Batch, Exchange
from softib.live.acceptance.launchers import HostPort
from softib.natural_order import natural_key
from softib.routing.graph import SwitchGraph

__all__ = [
    "AcceptancePlan",
    "FabricEnds",
    "ends_of_fabric",
    "ends_of_hosts",
    "host_ports",
    "measurements_of",
    "plan_batches",
]


NODE_DESCRIPTION = re.compile(r"^(?P<host>\S+)[ /:]+(?P<device>[a-z][a-z0-9]*_?\d+)\b")
"""Node description as rdma-ndd writes it (``%h %d``), for example ``node-1 mlx5_0``."""


@dataclass(frozen=True)
class FabricEnds:
    """The measured ports of a fabric, ``ends``. For each, ``row`` is its row among the fabric's end ports (int64), and
    ``port`` its port row (int64). ``tree``: whether the fabric is a tree, so that its tiers have names."""

    ends: Ends
    row: np.ndarray
    port: np.ndarray
    tree: bool


def ends_of_fabric(fabric: Fabric, graph: SwitchGraph, hosts: Sequence[str] | None = None) -> FabricEnds:
    """Return the ports of all hosts with a LID, or only of ``hosts``, in natural order of their
    names.

    Raises :class:`UnknownName` for a host that is not in the fabric.
    """
    all_ends = end_ports(fabric)
    node = fabric.port_node[all_ends]
    rows = np.flatnonzero((fabric.port_num[all_ends] > 0) & fabric.is_host[node])
    names = [fabric.node_name(int(n)) for n in node[rows]]
    split = [_split(name) for name in names]
    many: dict[str, int] = {}
    for host, _ in split:
        many[host] = many.get(host, 0) + 1
    split = [s if many[s[0]] <= MAX_RAILS else (n, "") for s, n in zip(split, names, strict=True)]
    if hosts is not None:
        hosts_here = {h for h, _ in split} | {h.partition(".")[0] for h, _ in split}
        for wanted in hosts:
            if wanted not in hosts_here and wanted.partition(".")[0] not in hosts_here:
                raise UnknownName("host", wanted, sorted(hosts_here))
        short = {h.partition(".")[0] for h in hosts}
    kept = [i for i in range(len(rows)) if hosts is None or split[i][0].partition(".")[0] in short]
    kept.sort(key=lambda i: (natural_key(names[i]), int(fabric.port_num[all_ends[rows[i]]])))
    chosen = rows[kept].astype(np.int64)
    port = all_ends[chosen].astype(np.int64)
    peer = fabric.port_node[np.maximum(fabric.port_peer[port], 0)]
    structure = recognise(fabric)
    ends = Ends(
        tuple(names[i] for i in kept),
        tuple(split[i][0] for i in kept),
        tuple(split[i][1] for i in kept),
        fabric.port_num[port].astype(np.int32),
        _rails([split[i][0] for i in kept]),
        peer.astype(np.int32),
        _pods(fabric, graph, structure)[peer],
    )
    return FabricEnds(ends, chosen, port, structure.kind in ("fat-tree", "rail-optimized", "dragonfly+"))


def ends_of_hosts(hosts: Sequence[str], devices: Sequence[str] = ()) -> Ends:
    """Return the ports to measure when no fabric is given: one per host and adapter in ``devices`` (default: the first
    adapter of each host)."""
    rows = [(h, d, r) for h in hosts for r, d in enumerate(devices or [""])]
    none = np.zeros(len(rows), np.int32)
    names = tuple(h for h, _, _ in rows)
    return Ends(
        names,
        names,
        tuple(d for _, d, _ in rows),
        np.ones(len(rows), np.int32),
        np.array([r for _, _, r in rows], np.int32),
        none,
        none.copy(),
    )


def _split(name: str) -> tuple[str, str]:
    hit = NODE_DESCRIPTION.match(name)
    return (hit["host"], hit["device"]) if hit else (name, "")


def _rails(hosts: Sequence[str]) -> np.ndarray:
    """Return the position of each port among the ports of its host, in the order of adapters and ports."""
    seen: dict[str, int] = {}
    out = np.zeros(len(hosts), np.int32)
    for i, host in enumerate(hosts):
        out[i] = seen.get(host, 0)
        seen[host] = seen.get(host, 0) + 1
    return out


def _pods(fabric: Fabric, graph: SwitchGraph, structure: Structure) -> np.ndarray:
    """Return int32[nodes]: the number of the connected part below the top tier to which a switch
    belongs; 0 with fewer than three tiers."""
    out = np.zeros(fabric.sizes.nodes, np.int32)
    rank = np.asarray(structure.rank)[graph.switch_node]
    top = int(rank.max(initial=0))
    if top < 3:
        return out
    owner = graph.link_switch
    inside = (rank[owner] < top) & (rank[graph.peer] < top)
    out[graph.switch_node] = components(graph.n_switches, owner[inside], graph.peer[inside])
    return out


UNKNOWN_GBPS = 100.0
"""Rate in Gb/s that is assumed to choose the number of iterations if there is no fabric."""
LATENCY_SIZE = 2
"""Message size in bytes for latency (perftest's default)."""
LATENCIES_PER_SECOND = 1000
LEAST_ITERATIONS = 20


@dataclass(frozen=True)
class AcceptancePlan:
    """The plan of a run: ``rounds``, ``tests``, and the ``batches`` in which they run, in order; ``sizes``: bytes of a
    message by test."""

    rounds: tuple[Round, ...]
    tests: tuple[PairTest, ...]
    batches: tuple[Batch, ...]
    sizes: Mapping[str, int]


def host_ports(ends: Ends) -> list[HostPort]:
    """Return the measured ports as launchers need them."""
    return [
        HostPort(n, h, d, int(p))
        for n, h, d, p in zip(ends.node, ends.host, ends.device, ends.portnum.tolist(), strict=True)
    ]


def plan_batches(
    ends: Ends,
    expectation: Expectation | None,
    tests: Sequence[PairTest],
    *,
    per_class: int | None,
    size: int,
    seconds: float,
    at_once: int | None,
    seed: int = 0,
) -> AcceptancePlan:
    """Plan the run. ``seconds``: duration of each program at the expected rate. ``at_once``: maximum number of pairs
    that run at the same time in tests whose pairs must not share links."""
    rounds = rounds_of(ends, per_class, seed)
    sizes = {t.name: LATENCY_SIZE if t.latency else size for t in tests}
    batches: list[Batch] = []
    for one in rounds:
        crossed = None if expectation is None else _crossed(expectation, one)
        alone = sub_rounds(ends, one, crossed, at_once) if any(not t.loaded for t in tests) else []
        for test in tests:
            count = _iterations(expectation, test, one, sizes[test.name], seconds)
            pairs = [
                Exchange(int(one.source[i]), int(one.target[i]), sizes[test.name], int(count[i]), seconds)
                for i in range(len(one))
            ]
            if test.under_load:
                batches += _under_load(one, test, pairs)
                continue
            for part, rows in enumerate([np.arange(len(one))] if test.loaded else alone):
                chosen = tuple(pairs[i] for i in rows.tolist())
                batches.append(Batch(one.number, test.name, part, test.latency, test.both, chosen))
    return AcceptancePlan(tuple(rounds), tuple(tests), tuple(batches), sizes)


def _under_load(one: Round, test: PairTest, pairs: Sequence[Exchange]) -> list[Batch]:
    """Return a batch for each part of the round, in which the pairs of the part are measured and all other pairs send
    the load. Return no batch if the round has a single pair."""
    part = measuring_parts(len(one))
    out = []
    for number in range(int(part.max(initial=-1)) + 1):
        measuring = tuple(pairs[i] for i in np.flatnonzero(part == number).tolist())
        load = tuple(pairs[i] for i in np.flatnonzero(part != number).tolist())
        out.append(Batch(one.number, test.name, number, test.latency, test.both, measuring, load))
    return out


def _crossed(e: Expectation, one: Round) -> list[set[int]]:
    """Return, for each pair, the ports that send its data in either direction."""
    there, back = e.paths(one.source, one.target), e.paths(one.target, one.source)
    return [set(there.of(i).tolist()) | set(back.of(i).tolist()) for i in range(len(one))]


def _iterations(e: Expectation | None, test: PairTest, one: Round, size: int, seconds: float) -> np.ndarray:
    if test.latency:
        return np.full(len(one), max(int(LATENCIES_PER_SECOND * seconds), LEAST_ITERATIONS))
    gbps = np.full(len(one), UNKNOWN_GBPS)
    if e is not None:
        expected = e.of_round(test, one, size) / (2 if test.both else 1)
        gbps = np.where(expected > 0, expected, UNKNOWN_GBPS)
    return np.maximum(seconds * gbps * 1e9 / 8 / size, LEAST_ITERATIONS).astype(np.int64)


def measurements_of(ends: Ends, entries: Iterable[Mapping[str, Any]]) -> Measurements:
    """Return the measurements of a journal; a failure that a later run resolved is skipped."""
    values: dict[tuple[int, str, int, int], tuple[float, int]] = {}
    failed: dict[tuple[int, str, int, int], tuple[int, str]] = {}
    for e in entries:
        for source, target, value in e["values"]:
            values[e["round"], e["test"], source, target] = (float(value), int(e["part"]))
        for source, target, end, reason in e["failures"]:
            failed[e["round"], e["test"], source, target] = (end, reason)
    rows = [
        {"round": r, "test": t, "source": a, "target": b, "value": v, "part": part}
        for (r, t, a, b), (v, part) in values.items()
    ]
    failures = [
        Failure(r, t, a, b, (a, b)[end] if end >= 0 else -1, reason)
        for (r, t, a, b), (end, reason) in failed.items()
        if (r, t, a, b) not in values
    ]
    return Measurements.of(ends, rows, failures)
