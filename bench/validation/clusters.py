"""Clusters of the datasets as fabrics, and their answers through the public verb: ``softib.simulate(FABRIC, WORKLOAD)``, nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

import softib
from softib.analysis import routed as routing
from softib.fabric.builder import FabricBuilder
from softib.fabric.formats.base import ReadResult
from softib.iba.constants import NodeType
from softib.iba.smp import PortInfo
from softib.workloads import parameters
from softib.workloads.parameters import Section

__all__ = ["leaves", "line", "rails", "simulated", "using"]

SPINE_M = 20.0
"""Metres from a leaf switch to the spine."""


@cache
def rails(nodes: int, each: int, generation: str) -> softib.Fabric:
    """``nodes`` with ``each`` adapters, one rail switch for each."""
    return softib.generate("rail-optimized", nodes=nodes, rails=each, generation=generation, ufm=False)


@cache
def leaves(ports: int, generation: str, counts: tuple[int, ...] = (), mtu: int = 4096) -> softib.Fabric:
    """``ports`` host ports on one switch, cables of 2 m. ``counts``: that many of them on each of several switches instead, which have as many cables to one spine as host
    ports at most."""
    b = FabricBuilder("validation")
    each = counts or (ports,)
    up = max(each) if len(each) > 1 else 0
    host = b.nodes(ports, NodeType.CA, 1, desc=[f"host-{i:04}" for i in range(ports)], speed=generation)
    leaf = b.nodes(
        len(each), NodeType.SWITCH, max(each) + up, desc=[f"leaf-{i}" for i in range(len(each))], speed=generation
    )
    of = np.repeat(np.arange(len(each)), each)
    place = np.arange(ports) - np.concatenate([[0], np.cumsum(each)[:-1]])[of]
    b.links(leaf[of], 1 + place, host, 1, length_m=2.0)
    if up:
        spine = b.nodes(1, NodeType.SWITCH, up * len(each), desc=["spine"], speed=generation)
        k = np.arange(up * len(each))
        b.links(leaf[k // up], 1 + max(each) + k % up, spine[0 * k], 1 + k, length_m=SPINE_M)
    fabric = b.build()
    code = {2048: 4, 4096: 5}[mtu]  # IBA 14.2.5.6
    PortInfo.mtu_cap.set(fabric.port_info, np.full(fabric.sizes.ports, code))
    return _as_read(fabric)


@cache
def line(switches: int) -> softib.Fabric:
    """Two hosts at the ends of a line of switches."""
    b = FabricBuilder("line")
    switch = b.nodes(switches, NodeType.SWITCH, 2, desc=[f"switch-{i}" for i in range(switches)], speed="EDR")
    host = b.nodes(2, NodeType.CA, 1, desc=["host-0", "host-1"], speed="EDR")
    b.links(switch[[0, -1]], np.array([1, 2]), host, 1, length_m=2.0)
    b.links(switch[:-1], 2, switch[1:], 1, length_m=2.0)
    return _as_read(b.build())


def _as_read(fabric: Any) -> softib.Fabric:
    return softib.Fabric(ReadResult(fabric, [], "generated"), "validation")


_routed: dict[Any, Any] = {}


def _once(result: Any, engine: Any, steps: Any, guid_files: Any = None, bring_up: Any = routing.from_engine) -> Any:
    """The subnet manager brings each fabric up once, not for each of its rows."""
    key = (id(result.fabric), engine, str(result.extra.get("sm")))
    if key not in _routed:
        _routed[key] = result.fabric, bring_up(result, engine, steps, guid_files)
    return _routed[key][1]


def simulated(
    fabric: softib.Fabric, workload: str, hosts: Mapping[str, Any] | None = None, **options: Any
) -> softib.Simulation:
    """What ``softib simulate`` answers."""
    kept, routing.from_engine = routing.from_engine, _once
    try:
        return softib.simulate(fabric, workload, record=softib.Record(hosts=dict(hosts or {})), **options)
    finally:
        routing.from_engine = kept


@contextmanager
def using(sections: Mapping[str, Section] | None) -> Iterator[None]:
    """Let predictions take ``sections`` in place of those of the file, as a fit tries them."""
    kept = parameters.sections
    read = parameters._read
    if sections is not None:
        parameters._read = lambda: {**read(), **sections}  # type: ignore[assignment]
    try:
        yield
    finally:
        parameters._read, parameters.sections = read, kept
