"""Increases of counters between two readings, as far as they are known, and tables of consecutive intervals.

The counters of a port never decrease by themselves, and stop at the largest value of their field (IBA 16.1.3.5). The
increase of a counter is therefore unknown in these cases: the counter decreased (it was cleared, or the device
restarted); another counter of its port decreased in the interval (all were cleared together, and this one may since
have exceeded its old value); the counter is at its largest value; the port is missing in one of the readings. No
increase is ever negative. The level ``stuck_NAME`` of a counter is 2 if it reached its largest value in this interval
(so that its increase is unknown), 1 if it reached it earlier, and 0 if it is below it. The level
``least_port_fec_corrected_symbol_ctr`` is the known minimum of that counter's increase, if the counter reached or
passed its largest value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from softib.diags.observations import Observations, ObservedPorts
from softib.errors import InputError
from softib.monitor.reading import Reading
from softib.monitor.targets import port_keys

__all__ = [
    "LEAST",
    "STUCK",
    "Interval",
    "between",
    "carried",
    "interval_at",
    "merged_ports",
    "observations_of",
    "same_cables",
    "same_ports",
]

STUCK = "stuck_"
"""Prefix of the level that shows whether a counter is at its largest value."""

LEAST = "least_"
"""Prefix of the level with the known minimum of the increase of a counter that reached or passed its largest value in
the interval."""
SYMBOLS, BLOCKS = "port_fec_corrected_symbol_ctr", "port_fec_correctable_block_ctr"
"""Counters of corrected symbols and blocks. They have 32 bits: at 4x NDR and a bit error ratio of 1e-3, the first
saturates after 10 s. On some devices they restart at 0 instead."""

RESTARTED = 0.5
"""Share of a device's ports with nonzero counters. If the counters of a larger share have decreased, the device has
restarted, and the increases of all its ports are unknown."""


@dataclass
class Interval:
    """Increases between two readings of the same ports (``guid``, ``portnum``): columns as in
    :class:`~softib.diags.observations.Observations`."""

    guid: np.ndarray
    portnum: np.ndarray
    begin_ns: np.ndarray
    end_ns: np.ndarray
    increase: dict[str, np.ndarray]
    known: dict[str, np.ndarray]
    level: dict[str, np.ndarray]


def between(before: Reading, after: Reading) -> Interval:
    """Return the increases from ``before`` to ``after``, with the rows of ``after``. For a port that is missing in
    ``before``, the interval has no duration."""
    rows, there = same_ports(after.guid, after.portnum, before.guid, before.portnum)
    good = there & after.answered & before.answered[rows]
    begin = np.where(good, before.time_ns[rows], after.time_ns)
    good &= after.time_ns > begin
    begin = np.where(good, begin, after.time_ns)
    fell = np.zeros(len(after), bool)
    counted = np.zeros(len(after), bool)
    both: dict[str, np.ndarray] = {}
    for name, now in after.value.items():
        if name not in before.value:
            both[name] = np.zeros(len(after), bool)
            continue
        both[name] = good & after.have[name] & before.have[name][rows]
        then = before.value[name][rows]
        if name != SYMBOLS:
            fell |= both[name] & (now < then) & ~_at_most(before, name)[rows]
        counted |= both[name] & (then > 0)
    wrapped = _wrapped(before, after, rows, both)
    if SYMBOLS in both and SYMBOLS in before.value:
        fell |= both[SYMBOLS] & (after.value[SYMBOLS] < before.value[SYMBOLS][rows]) & ~wrapped
    fell |= _restarted(after.guid, fell, counted)
    increase, known, level = {}, {}, dict(after.level)
    for name, now in after.value.items():
        if after.stuck[name].any():
            level[STUCK + name] = _stuck(name, after, before, rows, both[name])
        then = before.value[name][rows] if name in before.value else now
        sure = both[name] & ~fell & ~after.stuck[name] & ~_at_most(after, name)
        # If a counter was at most T before, the excess over T is the known minimum of its increase.
        sure &= ~_at_most(before, name)[rows] | (now > then)
        if name == SYMBOLS and name in before.value:
            full = both[name] & after.stuck[name] & ~before.stuck[name][rows] & ~fell
            if full.any() or wrapped.any():
                least = now.astype(np.float64) - then.astype(np.float64) + np.where(wrapped, 2.0**32, 0.0)
                level[LEAST + name] = np.where(full | (wrapped & ~fell), least, np.nan)
            sure &= ~wrapped
        known[name] = sure
        increase[name] = np.where(sure, now - np.minimum(then, now), np.uint64(0))
    return Interval(after.guid, after.portnum, begin, after.time_ns.copy(), increase, known, level)


def carried(before: Reading | None, now: Reading) -> Reading:
    """Return ``now``, with the counters of ``before`` for each port that ``now`` did not read. When a silent port
    answers again, its counts are therefore the increase of one long interval. Levels of ports that ``now`` did not read
    are unknown. Rows are sorted by NodeGUID and portnum."""
    if before is None:
        return now
    keys, old = port_keys(now.guid, now.portnum), port_keys(before.guid, before.portnum)
    removed = ~np.isin(old, keys)
    rows, there = same_ports(now.guid, now.portnum, before.guid, before.portnum)
    silent = there & ~now.answered
    silent[silent] = before.answered[rows[silent]]
    if not removed.any() and not silent.any():
        return now
    order = np.argsort(np.concatenate([keys, old[removed]]), kind="stable")

    def column(new: np.ndarray | None, then: np.ndarray | None, like: np.ndarray) -> np.ndarray:
        first = np.zeros(len(now), like.dtype) if new is None else new.copy()
        last = np.zeros(len(before), like.dtype) if then is None else then
        first[silent] = last[rows[silent]]
        return np.concatenate([first, last[removed]])[order]

    def columns(new: dict[str, np.ndarray], then: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {n: column(new.get(n), then.get(n), {**then, **new}[n]) for n in dict.fromkeys((*new, *then))}

    unknown = np.full(int(removed.sum()), np.nan)
    return Reading(
        guid=np.concatenate([now.guid, before.guid[removed]])[order],
        portnum=np.concatenate([now.portnum, before.portnum[removed]])[order],
        time_ns=column(now.time_ns, before.time_ns, now.time_ns),
        answered=column(now.answered, before.answered, now.answered),
        value=columns(now.value, before.value),
        have=columns(now.have, before.have),
        stuck=columns(now.stuck, before.stuck),
        at_most=columns(now.at_most, before.at_most),
        level={name: np.concatenate([values, unknown])[order] for name, values in now.level.items()},
    )


def _wrapped(before: Reading, after: Reading, rows: np.ndarray, both: dict[str, np.ndarray]) -> np.ndarray:
    """Return the ports whose count of corrected symbols decreased while their count of corrected blocks rose (bool[n]):
    the counter of symbols passed its largest value and was not cleared."""
    if not all(name in both and name in before.value for name in (SYMBOLS, BLOCKS)):
        return np.zeros(len(after), bool)
    symbols, blocks = (after.value[name] > before.value[name][rows] for name in (SYMBOLS, BLOCKS))
    same = after.value[SYMBOLS] == before.value[SYMBOLS][rows]
    return np.asarray(both[SYMBOLS] & both[BLOCKS] & ~symbols & ~same & blocks)


def _at_most(reading: Reading, name: str) -> np.ndarray:
    return reading.at_most.get(name, np.zeros(len(reading), bool))


def _stuck(name: str, after: Reading, before: Reading, rows: np.ndarray, both: np.ndarray) -> np.ndarray:
    """Return the level ``stuck_NAME`` (float64[n]; NaN if the counter was not read)."""
    stands = after.stuck[name]
    arrived = both & stands
    if name in before.stuck:
        arrived &= ~before.stuck[name][rows]
    return np.where(after.have[name], np.where(arrived, 2.0, stands.astype(np.float64)), np.nan)


def same_ports(
    guid: np.ndarray, portnum: np.ndarray, of_guid: np.ndarray, of_portnum: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the row of each port (``guid``, ``portnum``) among the ports (``of_guid``, ``of_portnum``, sorted by
    both), and whether it exists there."""
    if len(of_guid) == len(guid) and (of_guid == guid).all() and (of_portnum == portnum).all():
        return np.arange(len(guid)), np.ones(len(guid), bool)
    if not len(of_guid):
        return np.zeros(len(guid), np.int64), np.zeros(len(guid), bool)
    old, new = port_keys(of_guid, of_portnum), port_keys(guid, portnum)
    rows = np.minimum(np.searchsorted(old, new), len(old) - 1)
    return rows, old[rows] == new


def _restarted(guid: np.ndarray, fell: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Return the ports of devices that have restarted (bool[n]), see :data:`RESTARTED`."""
    if not fell.any():
        return np.zeros(len(guid), bool)
    _, device = np.unique(guid, return_inverse=True)
    device = device.reshape(-1)
    down, all_of = np.bincount(device, fell), np.bincount(device, counted)
    return np.asarray((down > RESTARTED * np.maximum(all_of, 1))[device])


def observations_of(ports: ObservedPorts, intervals: Sequence[Interval]) -> Observations:
    """Return ``intervals`` over the rows of ``ports`` (sorted by NodeGUID and portnum). For a port that is missing in
    an interval, the start time equals the end time, and all values are unknown."""
    n, k = len(ports), len(intervals)
    begin, end = np.zeros((k, n), np.int64), np.zeros((k, n), np.int64)
    names = list(dict.fromkeys(name for one in intervals for name in one.increase))
    levels = list(dict.fromkeys(name for one in intervals for name in one.level))
    increase = {name: np.zeros((k, n), np.uint64) for name in names}
    known = {name: np.zeros((k, n), bool) for name in names}
    level = {name: np.full((k, n), np.nan) for name in levels}
    for i, one in enumerate(intervals):
        rows = _rows(ports, one)
        begin[i], end[i] = one.end_ns.max(initial=0), one.end_ns.max(initial=0)
        read = one.end_ns > 0
        begin[i, rows[read]], end[i, rows[read]] = one.begin_ns[read], one.end_ns[read]
        for name in one.increase:
            increase[name][i, rows], known[name][i, rows] = one.increase[name], one.known[name]
        for name, values in one.level.items():
            level[name][i, rows] = values
    return Observations(ports, begin, end, increase, known, level)


def interval_at(seen: Observations, k: int) -> Interval:
    """Return interval ``k`` of observations."""
    return Interval(
        seen.ports.node_guid,
        seen.ports.portnum,
        seen.begin_ns[k],
        seen.end_ns[k],
        {n: v[k] for n, v in seen.increase.items()},
        {n: v[k] for n, v in seen.known.items()},
        {n: v[k] for n, v in seen.level.items()},
    )


def _rows(ports: ObservedPorts, one: Interval) -> np.ndarray:
    rows, there = same_ports(one.guid, one.portnum, ports.node_guid, ports.portnum)
    if not there.all():
        raise InputError("an interval has ports missing in the table of ports")
    return rows


def same_cables(older: ObservedPorts, newer: ObservedPorts) -> np.ndarray:
    """Return the row in ``older`` of each port of ``newer`` with the same cable (int64[n]; -1: the
    port is new, or has another peer)."""
    a, b = port_keys(older.node_guid, older.portnum), port_keys(newer.node_guid, newer.portnum)
    if not len(a):
        return np.full(len(b), -1, np.int64)
    rows = np.minimum(np.searchsorted(a, b), len(a) - 1)
    there = a[rows] == b
    was, now = older.peer[rows], np.asarray(newer.peer)
    other = (was >= 0) & (now >= 0) & (a[np.maximum(was, 0)] != b[np.maximum(now, 0)])
    return np.where(there & ~other, rows, -1)


def merged_ports(older: ObservedPorts, newer: ObservedPorts) -> ObservedPorts:
    """Return the ports of both lists. A port in both has the data of ``newer`` (LID, peer). If it has no peer in
    ``newer``, it keeps its peer from ``older``, unless that peer now has another cable."""
    a, b = port_keys(older.node_guid, older.portnum), port_keys(newer.node_guid, newer.portnum)
    if len(a) == len(b) and (a == b).all() and not ((newer.peer < 0) & (older.peer >= 0)).any():
        return newer
    lost = np.flatnonzero(~np.isin(a, b))
    keys = np.concatenate([b, a[lost]])
    order = np.argsort(keys, kind="stable")
    place = np.empty(len(keys), np.int64)
    place[order] = np.arange(len(keys))

    def column(new: np.ndarray, old: np.ndarray) -> np.ndarray:
        return np.concatenate([new, old[lost]])[order]

    peer = np.concatenate([np.where(newer.peer >= 0, place[np.maximum(newer.peer, 0)], -1), np.full(len(lost), -1)])[
        order
    ].astype(np.int32)
    was = np.searchsorted(keys[order], a[older.peer])
    ends = np.searchsorted(keys[order], a)
    down = np.flatnonzero((older.peer >= 0) & (peer[ends] < 0) & (peer[was] < 0)) if len(a) else ends
    peer[ends[down]] = was[down]
    nodes = np.array([*newer.node, *(older.node[i] for i in lost.tolist())], object)[order]
    text: Mapping[str, np.ndarray] = {
        name: column(
            newer.text.get(name, np.full(len(b), "", object)), older.text.get(name, np.full(len(a), "", object))
        )
        for name in dict.fromkeys([*newer.text, *older.text])
    }
    return ObservedPorts(
        column(newer.node_guid, older.node_guid),
        column(newer.portnum, older.portnum),
        column(newer.switch, older.switch),
        tuple(nodes.tolist()),
        column(newer.lid, older.lid),
        peer,
        column(newer.rate_gbps, older.rate_gbps),
        text,
    )
