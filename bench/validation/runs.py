"""Programs of MPI on small fabrics, in the fluid layer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from softib.fabric.builder import FabricBuilder
from softib.iba.constants import NodeType
from softib.iba.smp import PortInfo
from softib.scenario.bring_up import bring_up
from softib.sim.fluid import run
from softib.sim.messages import messages
from softib.sim.paths import Plane
from softib.workloads.mpi.collective import ALGORITHMS, REDUCTIONS, program_of
from softib.workloads.mpi.cost import Costs, costs_of
from softib.workloads.mpi.decision import choose
from softib.workloads.mpi.job import rails_of
from softib.workloads.mpi.program import Program
from softib.workloads.mpi.scattering import BARRIERS
from softib.workloads.parameters import Section
from softib.workloads.schedule.messages import part_of
from softib.workloads.schedule.schedule import Schedule

__all__ = ["allreduce_us", "bandwidth_mb_s", "bcast_us", "latency_us", "plane", "sharp_us"]


SPINE_M = 20.0
"""Metres from a leaf switch to the spine."""


@cache
def plane(ports: int, speed: str, leaves: tuple[int, ...] = ()) -> Plane:
    """``ports`` host ports on one switch, cables of 2 m; LIDs in the order of hosts. ``leaves``: so many of them on each of several switches instead, which have as many
    cables to one spine as host ports at most."""
    b = FabricBuilder("validation")
    each = leaves or (ports,)
    up = max(each) if len(each) > 1 else 0
    host = b.nodes(ports, NodeType.CA, 1, desc=[f"host-{i:04}" for i in range(ports)], speed=speed)
    leaf = b.nodes(
        len(each), NodeType.SWITCH, max(each) + up, desc=[f"leaf-{i}" for i in range(len(each))], speed=speed
    )
    at = np.arange(ports)
    of = np.repeat(np.arange(len(each)), each)
    place = at - np.concatenate([[0], np.cumsum(each)[:-1]])[of]
    b.links(leaf[of], 1 + place, host, 1, length_m=2.0)
    if up:
        spine = b.nodes(1, NodeType.SWITCH, up * len(each), desc=["spine"], speed=speed)
        k = np.arange(up * len(each))
        b.links(leaf[k // up], 1 + max(each) + k % up, spine[0 * k], 1 + k, length_m=SPINE_M)
    fabric = b.build()
    lid = np.zeros(fabric.sizes.ports, np.int64)
    lid[fabric.node_base[host] + 1] = 1 + at
    PortInfo.lid.set(fabric.port_info, lid)
    bring_up(fabric, "minhop")
    return Plane(fabric)


@dataclass(frozen=True)
class _Job:
    """Hosts with ranks and rails each, of one generation; ``leaves``: hosts on each leaf switch (:func:`plane`), where it is not one switch."""

    hosts: int
    each: int
    rails: int
    speed: str
    leaves: tuple[int, ...] = ()


def _ends_ps(program: Program, what: str, costs: Costs, job: _Job) -> np.ndarray:
    """When each operation of the program ended, in the order in which the program got them (int64[n])."""
    host, stripes = rails_of(np.arange(job.hosts * job.rails), program.ranks, job.each, job.rails)
    schedule = program.schedule(what)
    part, ended = part_of(schedule, host, costs.overheads, stripes)
    order = np.argsort(part.waits, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(part.waits, minlength=len(part.src)))])
    made = messages(
        part.src, part.dst, part.size, qp=part.qp, opcode=part.opcode, delay_ps=part.delay_ps, first=first, needs=part.needs[order]
    )  # fmt: skip
    on = plane(max(job.hosts * job.rails, 2), job.speed, tuple(n * job.rails for n in job.leaves))
    return np.asarray(run(on, made, judge=False).arrived_ps[ended[_rows_of(schedule, program)]], np.int64)


def _rows_of(schedule: Schedule, program: Program) -> np.ndarray:
    """Row in ``schedule`` of each operation, in the order in which the program got them (int64[n])."""
    order = np.argsort(program._all()[0], kind="stable")
    rows = np.empty(len(schedule), np.int64)
    rows[order] = np.arange(len(order))
    return rows


def _end_us(what: str, size: int, job: _Job, s: Section, **given: Any) -> float:
    """When the last rank has ended."""
    costs = costs_of(s, size, job.each)
    program, _ = program_of(what, size, job.hosts * job.each, costs, each=job.each, **given)
    return int(_ends_ps(program, what, costs, job).max()) / 1e6


def _mean_us(what: str, size: int, job: _Job, s: Section, version: str, algorithm: str) -> float:
    """What OSU's benchmarks of collectives print (osu_allreduce.c, osu_bcast.c): each rank times each of its calls alone, and enters a barrier behind it; the mean over the
    ranks. So a call begins when the rank has left the barrier of the iteration before, and ends when this rank is done, not when the last one is."""
    costs = costs_of(s, size, job.each)
    program, chosen = program_of(
        what, size, job.hosts * job.each, costs, each=job.each, version=version, algorithm=algorithm
    )
    BARRIERS[choose("barrier", 0, program.ranks, version).algorithm](program, 0, 0)
    began = program.last.copy()
    if what in REDUCTIONS:
        program.compute(program.every, costs.call_ns)
    ALGORITHMS[what][chosen.algorithm](program, size // program.element, chosen.segment)
    ends = _ends_ps(program, what, costs, job)
    of = lambda last: np.where(last >= 0, ends[last], 0).max(axis=1)
    return float((of(program.last) - of(began)).mean()) / 1e6


def latency_us(size: int, rails: int, speed: str, s: Section) -> float:
    """osu_latency: half of a round trip."""
    return _end_us("latency", size, _Job(2, 1, rails, speed), s) / 2


def bandwidth_mb_s(size: int, rails: int, speed: str, s: Section) -> float:
    """osu_bw: the second window of 64 messages."""
    one, two = (_end_us("bandwidth", size, _Job(2, 1, rails, speed), s, iterations=k) for k in (1, 2))
    return 64 * size / (two - one)


def allreduce_us(
    size: int, hosts: int, each: int, rails: int, speed: str, s: Section, version: str = "4.0", algorithm: str = "", leaves: tuple[int, ...] = ()
) -> float:  # fmt: skip
    """osu_allreduce; ``leaves``: hosts on each leaf switch (:func:`plane`), where it is not one switch."""
    return _mean_us("allreduce", size, _Job(hosts, each, rails, speed, leaves), s, version, algorithm)


def bcast_us(
    size: int, hosts: int, each: int, rails: int, speed: str, s: Section, version: str = "4.0", leaves: tuple[int, ...] = ()
) -> float:  # fmt: skip
    """osu_bcast, as :func:`allreduce_us`."""
    return _mean_us("bcast", size, _Job(hosts, each, rails, speed, leaves), s, version, "")


def sharp_us(size: int, sharp_operation_ns: float) -> float:
    """An all-reduce of 128 hosts by the aggregation nodes of an HDR fat tree of two levels (packet layer), with the library's time for its operations."""
    from softib.workloads.mpi.job import SHARP_PAYLOAD

    return _reduced_us(size) + -(-size // SHARP_PAYLOAD) * sharp_operation_ns / 1000


@cache
def _reduced_us(size: int) -> float:
    import softib

    tree = softib.generate("fat-tree", radix=16, levels=2, generation="HDR", aggregation_nodes=True)
    return softib.simulate(tree, f"aggregation:{size}", layer="packet").simulated_us
