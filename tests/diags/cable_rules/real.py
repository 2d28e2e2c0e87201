"""Observations from one ibdiagnet dump: what rose between its two readings (PM_DELTA), or the totals (PM_INFO) over a time that is assumed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import softib
from softib.diags.observations import Observations, ObservedPorts
from softib.fabric.end_ports import port_gbps
from softib.fabric.formats.base import Problems, read_lines
from softib.fabric.formats.ibdiagnet import db_csv_columns as names
from softib.fabric.formats.ibdiagnet.csv_sections import read_sections


def dump(path: Path, section: str, seconds: float) -> Observations:
    """The ports with a cable of the dump at ``path``; ``section`` PM_DELTA or PM_INFO, taken as the increase of ``seconds``."""
    f = softib.load(path).arrays
    rows = np.flatnonzero((f.port_peer >= 0) & (f.port_num > 0))
    rows = rows[np.lexsort((f.port_num[rows], f.node_guid[f.port_node[rows]]))]
    at = np.full(f.sizes.ports, -1, np.int32)
    at[rows] = np.arange(len(rows))
    node, called = f.port_node[rows], f.node_names()
    firmware = np.array([".".join(map(str, v)) if any(v) else "" for v in f.node_firmware.tolist()], object)[node]
    ports = ObservedPorts(
        f.node_guid[node],
        f.port_num[rows].astype(np.int32),
        f.is_switch[node],
        tuple(called[n] for n in node.tolist()),
        f.lid[rows].astype(np.int32),
        at[f.port_peer[rows]],
        port_gbps(f, rows),
        {"firmware": firmware},
    )
    quiet = Problems("")
    sections = read_sections(
        read_lines(path, quiet), lambda name: name in (section, "PM_PORT_SAMPLES_CONTROL"), quiet
    ).wanted
    pm = sections[section]
    place = {key: i for i, key in enumerate(zip(ports.node_guid.tolist(), ports.portnum.tolist(), strict=True))}
    keys = zip(pm.column("NodeGUID", quiet, np.uint64).tolist(), pm.column("PortNumber", quiet).tolist(), strict=True)
    line = np.array([place.get(k, -1) for k in keys])
    increase, known = {}, {}
    for name, columns in {**names.COUNTERS, **names.DETAIL_COUNTERS}.items():
        best, there = np.zeros((1, len(rows)), np.uint64), np.zeros((1, len(rows)), bool)
        for column in (c for c in columns if pm.has(c)):
            values, present = pm.counters(column)
            ok = (line >= 0) & present & (values < np.uint64(1 << 63))
            best[0, line[ok]] = np.maximum(best[0, line[ok]], values[ok])
            there[0, line[ok]] = True
        increase[name], known[name] = best, there
    ticks = sections["PM_PORT_SAMPLES_CONTROL"]
    tick = np.full((1, len(rows)), np.nan)
    for g, p, t in zip(
        ticks.column("NodeGUID", quiet, np.uint64).tolist(),
        ticks.column("PortNumber", quiet).tolist(),
        ticks.column("Tick", quiet).tolist(),
        strict=True,
    ):
        if (g, p) in place:
            tick[0, place[g, p]] = t + 1.0
    begin = np.zeros((1, len(rows)), np.int64)
    return Observations(ports, begin, begin + int(seconds * 1e9), increase, known, {"tick_symbols": tick})
