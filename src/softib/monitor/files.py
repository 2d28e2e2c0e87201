"""Readings from files collected by other tools: ibdiagnet's .db_csv, UFM telemetry, and the output of perfquery,
ibqueryerrors and ibdiagnet's .pm, whose ports are in another file of the fabric.

Two files with different times give one interval. The time of a .db_csv is the one that it states (RUN_INFO, Date); the
time of any other file is its modification time.

ibqueryerrors prints only values above its thresholds: the value of an omitted port or counter is not unknown, but at
most its threshold. The tool's last lines list what it read::

    ##          32 ports checked, 0 ports have errors beyond threshold
    ## Thresholds: [SymbolErrorCounter = 20][LinkDownedCounter = 3]       none: 0
    ## Suppressed: PortXmitWait PortXmitDiscards                          these are unknown
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from softib.diags.cables.counters import SHORT
from softib.diags.observations import Observations, ObservedPorts
from softib.errors import InputError, UnknownFormat, UnreadableFile
from softib.fabric.counters import COUNTER_NAMES, DETAIL_COUNTERS
from softib.fabric.formats.base import Problem, Problems, ReadResult, read_lines
from softib.fabric.formats.counters_text import read_counters
from softib.fabric.model import Fabric
from softib.monitor.db_csv_readings import put_counter, read_db_csv
from softib.monitor.fabric_ports import optics, ports_of, rows_of
from softib.monitor.intervals import Interval, between, merged_ports, observations_of
from softib.monitor.reading import Reading
from softib.monitor.ufm_telemetry import is_telemetry, read_telemetry
from softib.plural import counted, plural
from softib.source import load

__all__ = [
    "LeftOut",
    "ObservedFiles",
    "Snapshot",
    "checked_pair",
    "left_out",
    "observations_of_files",
    "read_snapshot",
    "snapshot_of",
]


_CHECKED = re.compile(r"##\s+(\d{1,9}) ports checked\b")
_THRESHOLDS = re.compile(r"## Thresholds:(.*)")
_SUPPRESSED = re.compile(r"## Suppressed:(.*)")
_ONE = re.compile(r"\[(\w{1,60}) = (\d{1,20})\]")
_COUNTERS = {name.lower(): counter for counter, name in SHORT.items()}
"""Names that the tool prints → counters."""


@dataclass(frozen=True)
class LeftOut:
    """Data about the values that ibqueryerrors did not print. ``checked``: number of ports that it read; ``most``: for
    each counter, the largest value that it does not print."""

    checked: int
    most: dict[str, int]


def left_out(file: str) -> LeftOut | None:
    """Return the data at the end of an output of ibqueryerrors; None for any other file."""
    checked, thresholds, suppressed = -1, {}, set()
    for line in read_lines(Path(file), Problems("")):
        if m := _CHECKED.match(line):
            checked = int(m[1])
        elif m := _THRESHOLDS.match(line):
            thresholds = {name.lower(): int(value) for name, value in _ONE.findall(m[1])}
        elif m := _SUPPRESSED.match(line):
            suppressed = {word.lower() for word in re.findall(r"\w+", m[1])}
    if checked < 0:
        return None
    return LeftOut(checked, {c: thresholds.get(n, 0) for n, c in _COUNTERS.items() if n not in suppressed})


UNREAD = np.uint64(2**64 - 1)
"""Value in a fabric's columns for a counter that the file does not contain."""
MOST_OF_ADAPTER = 2
"""Maximum number of ports of any channel adapter on the market."""
COMMON = 0.5
"""Two files belong to one fabric if at least this share of the devices in the smaller file are also in the larger
one."""


@dataclass
class Snapshot:
    """One file: its ports, their readings, and the parts that could not be used."""

    file: str
    ports: ObservedPorts
    reading: Reading
    problems: list[Problem]


class ObservedFiles(NamedTuple):
    """Readings of files, and the problems of the files."""

    observations: Observations
    problems: list[Problem]


def observations_of_files(
    files: Sequence[str], fabric: str | None = None, times_ns: Sequence[int] | None = None
) -> ObservedFiles:
    """Return increases from each of ``files`` to the next, in the order of their times. ``fabric``: a source with the
    ports, for files that contain only counters. A single file of UFM telemetry is sufficient if it states bit error
    ratios or temperatures; the result then has these, but no increases.

    Raises :class:`InputError` if there are fewer than two files, if two files have the same time, if a file is of
    another fabric, or if two files have no port in common.
    """
    if len(files) == 1 and is_telemetry(files[0]):
        return _of_one(read_snapshot(files[0], fabric, None if times_ns is None else times_ns[0]))
    if len(files) < 2:
        raise InputError(f"{files[0] if files else 'observe'}: one file has only one reading; add a second, later file")
    if times_ns is not None and len(times_ns) != len(files):
        raise InputError(f"{len(times_ns)} times for {counted(len(files), 'file')}; use one for each")
    shots = [read_snapshot(f, fabric, None if times_ns is None else times_ns[i]) for i, f in enumerate(files)]
    shots.sort(key=lambda s: int(s.reading.time_ns.max(initial=0)))
    intervals: list[Interval] = []
    ports = shots[0].ports
    for before, after in pairwise(shots):
        checked_pair(before, after)
        rose = between(before.reading, after.reading)
        if not (rose.end_ns > rose.begin_ns).any():
            raise InputError(
                f"{before.file} and {after.file}: no port was read in both; use two readings of the same ports"
            )
        intervals.append(rose)
        ports = merged_ports(ports, after.ports)
    return ObservedFiles(observations_of(ports, intervals), [p for s in shots for p in s.problems])


def _of_one(shot: Snapshot) -> ObservedFiles:
    """Return the data of each port in one file, except counters. Raises :class:`InputError` if there is none."""
    reading = shot.reading
    if not any(np.isfinite(column).any() for column in reading.level.values()):
        raise InputError(f"{shot.file}: one file has only one reading of the counters; add a second, later file")
    when = reading.time_ns
    one = Interval(reading.guid, reading.portnum, when, when, {}, {}, reading.level)
    return ObservedFiles(observations_of(shot.ports, [one]), shot.problems)


def checked_pair(before: Snapshot, after: Snapshot) -> None:
    """Raise :class:`InputError` if the two files are of different fabrics, or if the second is not later than the
    first."""
    old, new = np.unique(before.ports.node_guid), np.unique(after.ports.node_guid)
    both = len(np.intersect1d(old, new))
    if both < COMMON * min(len(old), len(new)) or not both:
        raise InputError(
            f"{after.file} and {before.file} are of different fabrics: only {both} of "
            f"{counted(len(new), 'device')} "
            f"{plural(len(new), 'is', 'are')} in both; use two files of one fabric"
        )
    first, second = (int(s.reading.time_ns.max(initial=0)) for s in (before, after))
    if second <= first:
        raise InputError(f"{before.file} and {after.file} are both of {_when(first)}; use two files of different times")


def _when(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def read_snapshot(file: str, fabric: str | None = None, time_ns: int | None = None) -> Snapshot:
    """Return the ports and counters of one file. Raises :class:`InputError` or a subclass if the file has no
    counters."""
    if is_telemetry(file):
        return _telemetry(file, fabric, time_ns)
    if fabric is None:
        try:
            result = load(file, notice=lambda line: None)
        except UnknownFormat as error:
            raise UnknownFormat(
                f"{error}; counters alone (perfquery, ibqueryerrors) also need the fabric's file"
            ) from None
        shot = snapshot_of(result, file, time_ns)
    else:
        result = load(fabric, notice=lambda line: None)
        f, rows = result.fabric, rows_of(result.fabric)
        ports = ports_of(f, rows, result.extra)
        reading = Reading.empty(ports.node_guid, ports.portnum)
        shot = Snapshot(file, ports, reading, _text_counters(file, f, rows, reading))
        _finish(shot, f, rows, time_ns)
    if not shot.reading.answered.any():
        why = f" ({shot.problems[0].reason})" if shot.problems else ""
        raise InputError(
            f"{file}: contains no counters{why}; use the output of ibdiagnet --pm, which writes PM_INFO, or "
            f"perfquery's output"
        )
    return shot


def snapshot_of(result: ReadResult, file: str, time_ns: int | None = None) -> Snapshot:
    """Return the ports and counters of ``result``, which was read from ``file`` or another input."""
    f, rows, stated = result.fabric, rows_of(result.fabric), None
    ports = ports_of(f, rows, result.extra)
    reading = Reading.empty(ports.node_guid, ports.portnum)
    if result.format == "db_csv" and os.path.isfile(file):
        stated = read_db_csv(file, reading)
    elif "counters" in f.source.records:
        _from_fabric(f, rows, reading)
    shot = Snapshot(file, ports, reading, list(result.problems))
    _finish(shot, f, rows, time_ns or stated)
    return shot


def _finish(shot: Snapshot, f: Fabric, rows: np.ndarray, time_ns: int | None) -> None:
    """Add times and levels to a reading that already has its counters."""
    if shot.reading.answered.any():
        when = time_ns or (os.stat(shot.file).st_mtime_ns if os.path.exists(shot.file) else time.time_ns())
        shot.reading.time_ns[:] = np.where(shot.reading.answered, when, 0)
    shot.reading.level.update(optics(f, rows))


def _telemetry(file: str, fabric: str | None, time_ns: int | None) -> Snapshot:
    """Read UFM telemetry. Ports and their peers come from ``fabric``; without it, ports have only the GUIDs and names
    in the file. A node with more than :data:`MOST_OF_ADAPTER` ports is a switch."""
    samples, problems = read_telemetry(file)
    if fabric is None:
        guid = np.array([s.guid for s in samples], np.uint64)
        portnum = np.array([s.portnum for s in samples], np.int32)
        ports = ObservedPorts(
            guid,
            portnum,
            np.isin(guid, guid[portnum > MOST_OF_ADAPTER]),
            tuple(s.node or f"{s.guid:#018x}" for s in samples),
            np.zeros(len(samples), np.int32),
            np.full(len(samples), -1, np.int32),
            np.zeros(len(samples)),
        )
        reading = Reading.empty(ports.node_guid, ports.portnum)
    else:
        result = load(fabric, notice=lambda line: None)
        rows = rows_of(result.fabric)
        ports = ports_of(result.fabric, rows, result.extra)
        reading = Reading.empty(ports.node_guid, ports.portnum)
        reading.level.update(optics(result.fabric, rows))
    row = {key: i for i, key in enumerate(zip(reading.guid.tolist(), reading.portnum.tolist(), strict=True))}
    for s in samples:
        at = row.get((s.guid, s.portnum))
        if at is None:
            problems.append(Problem(file, 0, f"port {s.portnum} of {s.guid:#018x} is not in {fabric}"))
            continue
        for name, value in s.counters.items():
            put_counter(reading, name, np.array([at]), np.array([value], np.uint64))
        for name, real in s.levels.items():
            reading.level.setdefault(name, np.full(len(reading), np.nan))[at] = real
            reading.answered[at] = True
        reading.time_ns[at] = time_ns or s.time_ns or os.stat(file).st_mtime_ns
    if not reading.answered.any():
        raise InputError(f"{file}: contains counters, but of no port of this fabric; use the fabric of these counters")
    reading.time_ns[~reading.answered] = 0
    return Snapshot(file, ports, reading, problems)


def _text_counters(file: str, f: Fabric, rows: np.ndarray, reading: Reading) -> list[Problem]:
    for column in (f.counters, f.detail_counters):
        for name in column.dtype.names or ():
            column[name] = UNREAD
    out = left_out(file)
    try:
        problems = read_counters(Path(file), f)
    except UnreadableFile:
        if out is None:  # ibqueryerrors may have found no port above its thresholds
            raise
        problems = []
    _from_fabric(f, rows, reading)
    return problems + (_bounded(file, f, rows, reading, out) if out else [])


def _bounded(file: str, f: Fabric, rows: np.ndarray, reading: Reading, out: LeftOut) -> list[Problem]:
    """For the ports that ibqueryerrors read, record that the values that it did not print are at most the threshold."""
    cabled = int((f.port_cable[rows] >= 0).sum())
    whole = out.checked >= cabled
    for name, most in out.most.items():
        missing = ~reading.have.get(name, np.zeros(len(reading), bool))
        missing &= (f.port_cable[rows] >= 0) if whole else reading.answered
        reading.put_at_most(name, np.flatnonzero(missing), most)
    if whole:
        reading.answered |= f.port_cable[rows] >= 0
        return []
    return [
        Problem(
            file,
            0,
            f"ibqueryerrors read {out.checked} of {cabled} cabled ports; the counters of unlisted ports are unknown",
        )
    ]


def _from_fabric(f: Fabric, rows: np.ndarray, reading: Reading) -> None:
    for column, of in ((f.counters, COUNTER_NAMES), (f.detail_counters, DETAIL_COUNTERS.names or ())):
        for name in of:
            values = column[name][rows]
            there = np.flatnonzero(values != UNREAD)
            if len(there):
                put_counter(reading, name, there, values[there])
