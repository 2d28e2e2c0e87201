"""Intervals in a row as one table of observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from softib.diags.observations import Observations, ObservedPorts
from softib.errors import InputError
from softib.monitor.increase import Interval
from softib.monitor.targets import port_keys

__all__ = ["interval_at", "merged_ports", "observations_of", "same_cables"]


def observations_of(ports: ObservedPorts, intervals: Sequence[Interval]) -> Observations:
    """``intervals`` over the rows of ``ports`` (sorted by NodeGUID and portnum). A port that an
    interval lacks has begin = end and nothing known there."""
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
    """Interval ``k`` of observations."""
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
    if len(one.guid) == len(ports) and (one.guid == ports.node_guid).all() and (one.portnum == ports.portnum).all():
        return np.arange(len(ports))
    keys = port_keys(ports.node_guid, ports.portnum)
    wanted = port_keys(one.guid, one.portnum)
    rows = np.minimum(np.searchsorted(keys, wanted), max(0, len(keys) - 1))
    if not len(keys) or (keys[rows] != wanted).any():
        raise InputError("an interval has ports that the table of ports lacks")
    return rows


def same_cables(older: ObservedPorts, newer: ObservedPorts) -> np.ndarray:
    """The row in ``older`` of each port of ``newer``, where the same cable is in it (int64[n]; -1:
    the port is new, or leads to another one)."""
    a, b = port_keys(older.node_guid, older.portnum), port_keys(newer.node_guid, newer.portnum)
    if not len(a):
        return np.full(len(b), -1, np.int64)
    rows = np.minimum(np.searchsorted(a, b), len(a) - 1)
    there = a[rows] == b
    was, now = older.peer[rows], np.asarray(newer.peer)
    other = (was >= 0) & (now >= 0) & (a[np.maximum(was, 0)] != b[np.maximum(now, 0)])
    return np.where(there & ~other, rows, -1)


def merged_ports(older: ObservedPorts, newer: ObservedPorts) -> ObservedPorts:
    """All ports of both; of a port that both have, what ``newer`` says (its LID, its peer). A port
    without a peer in ``newer`` keeps that of ``older``, unless this one has another peer now."""
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
