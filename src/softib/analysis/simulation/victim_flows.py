"""Flows through a port of a simulated run, and the messages that waited behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from softib.result import Result
from softib.sim.fluid.tables import queue_pairs
from softib.sim.packet_sizes import packets_of, wire_octets

if TYPE_CHECKING:
    from softib.analysis.simulation.result import RunResult

__all__ = ["Flow", "Victims", "alone_ps", "flows_through", "queue_wait_ps", "slowdowns", "victims_of"]

SHOWN_FLOWS = 5
SLOWED = 1.2
"""A message is a victim if it takes at least this many times as long as it would alone."""


@dataclass(frozen=True)
class Flow(Result):
    """The messages of a job from one host to another on one SL, through a port."""

    source: str
    destination: str
    job: str
    messages: int
    octets: float
    """Bytes on the wire."""
    share: float
    """Share of the port's bytes."""
    sl: int
    vl: int
    """Virtual lane at the port."""
    hop: int
    """Position of the port on the path, from 1 to ``hops``."""
    hops: int


@dataclass(frozen=True)
class Victims:
    """Messages that took at least :data:`SLOWED` times as long as they would alone. They do not cross the port, but
    share a link and VL in front of it with flows that do. ``worst``: row of the message with the largest slowdown;
    ``slowdown``: that slowdown."""

    messages: int
    jobs: tuple[str, ...]
    worst: int
    slowdown: float


def alone_ps(run: RunResult) -> np.ndarray:
    """Return the time in ps that each message would take alone (float64): its bytes over its
    slowest link, plus the delays of its path."""
    m, laid, plane = run.messages, run.plane.lay(run.messages), run.plane
    timing = plane.timing(m, laid)
    gbps = plane.carried_gbps[laid.port >> 4][laid.channel]
    lengths = np.diff(laid.first)
    slowest = np.full(len(m), np.inf)
    some = lengths > 0
    if some.any():
        slowest[some] = np.minimum.reduceat(gbps, laid.first[:-1][some])
    slowest = np.minimum(slowest, np.where(m.rate_gbps > 0, m.rate_gbps, np.inf))
    octets = wire_octets(m, packets_of(m, laid.mtu))
    return np.asarray(timing.request_ps + timing.forth_ps + np.where(np.isfinite(slowest), octets * 8e3 / slowest, 0.0))


def queue_wait_ps(run: RunResult) -> np.ndarray:
    """Return the time for which each message waited for the previous message of its queue pair (int64, ps). This wait
    is caused by the program and not by other flows."""
    m, o = run.messages, run.outcome
    before = queue_pairs(m)[1]
    forth = run.plane.timing(m, run.plane.lay(m)).forth_ps
    left = np.where((before >= 0) & (o.arrived_ps[before] >= 0), o.arrived_ps[before] - forth[before], 0)
    return np.where(before >= 0, np.maximum(left - o.began_ps, 0), 0)


def flows_through(run: RunResult, port: int) -> tuple[list[Flow], int]:
    """Return the :data:`SHOWN_FLOWS` largest flows through ``port``, and the number of all flows."""
    m, laid = run.messages, run.plane.lay(run.messages)
    entries = np.flatnonzero((laid.port >> 4 == port)[laid.channel])
    rows = np.searchsorted(laid.first, entries, side="right") - 1
    sl = run.plane.sl_of(m)
    size = wire_octets(m, packets_of(m, laid.mtu))[rows]
    key = np.stack([m.src[rows].astype(np.int64), m.dst[rows], m.job[rows], sl[rows]], axis=1)
    unique, at, which = np.unique(key, axis=0, return_index=True, return_inverse=True)
    octets = np.bincount(which.ravel(), size, minlength=len(unique))
    count = np.bincount(which.ravel(), minlength=len(unique))
    flows = []
    for k in np.argsort(-octets, kind="stable")[:SHOWN_FLOWS].tolist():
        row, entry = int(rows[at[k]]), int(entries[at[k]])
        flows.append(
            Flow(
                source=str(run.names[m.src[row]]),
                destination=str(run.names[m.dst[row]]),
                job=run.jobs[int(m.job[row])],
                messages=int(count[k]),
                octets=float(octets[k]),
                share=float(octets[k] / octets.sum()),
                sl=int(sl[row]),
                vl=int(laid.port[laid.channel[entry]] & 15),
                hop=entry - int(laid.first[row]) + 1,
                hops=int(laid.first[row + 1] - laid.first[row]),
            )
        )
    return flows, len(unique)


def slowdowns(run: RunResult) -> np.ndarray:
    """Return each message's time divided by its time alone (float64; 0: alone it takes no time). The wait for the
    previous message of its queue pair does not count."""
    alone = alone_ps(run)
    return np.divide(run.took_ps - queue_wait_ps(run), alone, out=np.zeros(len(alone)), where=alone > 0)


def victims_of(run: RunResult, port: int, slow: np.ndarray) -> Victims | None:
    """Return the messages that waited behind messages through ``port``; None if there are none. ``slow``:
    :func:`slowdowns`."""
    m, laid = run.messages, run.plane.lay(run.messages)
    owner = np.repeat(np.arange(len(m)), np.diff(laid.first))
    on = (laid.port >> 4 == port)[laid.channel]
    place = np.full(len(m), -1, np.int64)  # position of the port in each message's path
    place[owner[on]] = np.flatnonzero(on)
    takes = place >= 0
    before = takes[owner] & (np.arange(len(owner)) < place[owner])
    shared = np.zeros(laid.channels, bool)
    shared[laid.channel[before]] = True
    behind = np.zeros(len(m), bool)
    behind[owner[shared[laid.channel]]] = True
    rows = np.flatnonzero(behind & ~takes & (slow > SLOWED))
    if not len(rows):
        return None
    worst = int(rows[np.argmax(slow[rows])])
    jobs = tuple(run.jobs[j] for j in np.unique(m.job[rows]).tolist())
    return Victims(len(rows), jobs, worst, float(slow[worst]))
