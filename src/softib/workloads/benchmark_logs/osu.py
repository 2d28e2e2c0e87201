"""Logs of the OSU microbenchmarks: tables of sizes and latencies or bandwidths, each below its title."""

from __future__ import annotations

import re
from collections.abc import Sequence

from softib.errors import InputError
from softib.foreign_text import shown
from softib.workloads.benchmark_logs.log import BenchmarkLog, by_size

__all__ = ["osu_log"]

PATTERNS = {
    "latency": "mpi-latency",
    "multi latency": "mpi-latency",
    "bandwidth": "mpi-bandwidth",
    "multiple bandwidth / message rate": "mpi-bandwidth",
    "allreduce latency": "mpi-allreduce",
    "reduce latency": "mpi-reduce",
    "broadcast latency": "mpi-bcast",
    "reduce_scatter latency": "mpi-reduce-scatter",
    "allgather latency": "mpi-allgather",
    "all-to-all personalized exchange latency": "mpi-alltoall",
    "gather latency": "mpi-gather",
    "scatter latency": "mpi-scatter",
}
"""Title of a benchmark, without program and version → pattern."""
_TITLE = re.compile(r"^# OSU (?P<program>\S+) (?P<title>.*?) Test(?: v(?P<version>\S+))?\s*$", re.MULTILINE)
_ROW = re.compile(r"^\s*(\d+)[ \t]+(\d+(?:\.\d+)?)(?=\s|$)", re.MULTILINE)
_PAIRS = re.compile(r"pairs:\s*(\d+)")


def osu_log(text: str, path: str, patterns: Sequence[str]) -> BenchmarkLog:
    """Return the tables of one benchmark in ``text``. Raises :class:`InputError`, one line, for other
    units, a benchmark not in ``patterns``, several benchmarks, and tables that no pattern predicts."""
    if patterns and not any(p.startswith("mpi-") for p in patterns):
        raise InputError(f"{path} is a log of an OSU benchmark; the workload is {patterns[0]}")
    hits = list(_TITLE.finditer(text))
    ends = [hit.start() for hit in hits[1:]] + [len(text)]
    tables: dict[str, list[tuple[re.Match[str], str]]] = {}
    others: list[str] = []
    for hit, end in zip(hits, ends, strict=True):
        pattern = PATTERNS.get(hit["title"].lower(), "") if hit["program"] == "MPI" else ""
        if pattern:
            tables.setdefault(pattern, []).append((hit, text[hit.end() : end]))
        else:
            others.append(f"{hit['program']} {hit['title']}")
    wanted = [p for p in tables if p in patterns] if patterns else list(tables)
    if len(wanted) != 1:
        raise InputError(_none_or_several(path, list(tables), others, patterns))
    rows: list[tuple[int, float]] = []
    units = set()
    for hit, body in tables[wanted[0]]:
        units.add(_unit(path, hit["title"], body))
        if (pairs := _PAIRS.search(body)) and int(pairs[1]) > 1:
            raise InputError(f"{path}: a table of {pairs[1]} pairs of ranks; mpi-bandwidth predicts one pair")
        rows += [(int(size), float(value)) for size, value in _ROW.findall(body)]
    if not (by := by_size(rows)):
        raise InputError(f"{path}: the table of {wanted[0]} has no rows")
    return BenchmarkLog(path, "OSU", wanted[0], by, min(units))


def _unit(path: str, title: str, body: str) -> str:
    """Return the unit of a table's values: MB/s for a bandwidth test, otherwise us. Raises :class:`InputError` if the
    table has another unit."""
    unit = "MB/s" if "bandwidth" in title.lower() else "us"
    head = next((line for line in body.splitlines() if line.startswith("# Size")), "")
    if unit not in head:
        raise InputError(f"{path}: columns {shown(head[2:].strip())!r}; OSU's {title} Test has {unit}")
    return unit


def _none_or_several(path: str, here: list[str], others: list[str], patterns: Sequence[str]) -> str:
    """Return the reason why no single benchmark of the log can be chosen."""
    if not here:
        return f"{path}: {shown(others[0]) if others else 'no table'} is not a benchmark that softib predicts"
    if patterns:
        return f"{path} is of {' and '.join(here)}, not of {patterns[0]}"
    return f"{path} has tables of {' and '.join(here)}; add --workload {here[0]}"
