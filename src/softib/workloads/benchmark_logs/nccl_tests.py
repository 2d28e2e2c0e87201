"""Logs of nccl-tests: a table of sizes, times and bandwidths, and the list of devices above it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from softib.errors import InputError
from softib.foreign_text import shown
from softib.workloads.benchmark_logs.log import BenchmarkLog, by_size
from softib.workloads.nccl.constants import Collective, busbw_factor
from softib.workloads.nccl.machine import GPUS

__all__ = ["nccl_log"]

PROGRAMS = {
    "all_reduce_perf": "all-reduce",
    "all_gather_perf": "all-gather",
    "reduce_scatter_perf": "reduce-scatter",
    "broadcast_perf": "broadcast",
    "alltoall_perf": "all-to-all",
    "sendrecv_perf": "send-recv",
}
"""Program → collective."""
UNKNOWN = ("reduce_perf", "gather_perf", "scatter_perf", "hypercube_perf")
"""Programs whose collective softib does not predict."""
_PROGRAM = re.compile(r"\b(?<!_)((?:\w+_)?\w+_perf)\b")
_PREFIX = re.compile(r"^\s*(?:\[[^\]]*\](?:<std\w+>)?:?|\d+:)\s*")
"""Prefix of a line written by mpirun --tag-output and srun --label."""
_RANK = re.compile(
    r"^#?\s+Rank\s+(?P<rank>\d+)\s+(?:Group\s+\d+\s+)?Pid\s+(?P<pid>\d+) on\s+(?P<host>\S+) device.*?\]\s+(?P<gpu>.*)$"
)
_VERSION = re.compile(r"NCCL version (\d+\.\d+(?:\.\d+)?)|nccl-library=(\d)(\d\d)(\d\d)")
_UNITS = re.compile(r"^#?\s*\(B\)\s+\(elements\)")
REDUCING = {"sum", "prod", "max", "min", "avg", "mulsum"}
"""Operations in the column redop. sendrecv_perf also prints an operation."""
TOLERANCE = 0.02
"""Tolerance of the ratio of bus bandwidth to algorithm bandwidth, which the log prints with two decimals."""
LEAST_GBYTES = 1.0
"""Algorithm bandwidth in GB/s above which two decimals are precise enough for the ratio."""


def nccl_log(text: str, path: str, patterns: Sequence[str]) -> BenchmarkLog:
    """Return the log of one program from its ``text``. Raises :class:`InputError`, one line, for other units, for a
    table of a collective that is not in ``patterns``, and for a table that several collectives could have produced."""
    lines = [_PREFIX.sub("", line) for line in text.splitlines()]
    for line in lines:
        if _UNITS.match(line) and "(us)" not in line:
            raise InputError(
                f"{path}: times in {shown(line.split('(elements)')[1].split()[0])}; nccl-tests prints them in (us)"
            )
    table = list(_rows(lines))
    rows = by_size((row.size, row.us) for row in table)
    if not rows:
        raise InputError(f"{path}: the table of nccl-tests has no rows")
    devices = [hit for line in lines if (hit := _RANK.match(line))]
    ranks = len({hit["rank"] for hit in devices})
    hosts, processes = {hit["host"] for hit in devices}, {(hit["host"], hit["pid"]) for hit in devices}
    collective = _collective(path, "\n".join(lines), table, ranks, _wanted(path, patterns))
    version = _VERSION.search(text)
    return BenchmarkLog(
        path,
        "nccl-tests",
        f"nccl-{collective}",
        rows,
        ranks=ranks,
        nodes=len(hosts),
        gpu=_gpu(path, devices[0]["gpu"]) if devices else "",
        per_process=round(ranks / len(processes)) if processes else 0,
        version="" if version is None else version[1] or ".".join(str(int(part)) for part in version.groups()[1:]),
    )


class _Row(NamedTuple):
    """The out-of-place half of one row of a table: ``ratio`` of bus to algorithm bandwidth (0: too few decimals), and
    whether the row states an operation (``reduces``) and a root (``rooted``)."""

    size: int
    us: float
    ratio: float
    reduces: bool
    rooted: bool


def _rows(lines: list[str]) -> Iterator[_Row]:
    head: list[str] = []
    for line in lines:
        columns = line.lstrip("#").split()
        if columns[:2] == ["size", "count"] and "time" in columns:
            head = columns
        elif head and len(columns) >= len(head) - 2 and columns[0].isdecimal() and columns[1].isdecimal():
            at = head.index("time") - max(
                len(head) - len(columns), 0
            )  # columns redop and root are blank in old releases
            try:
                us, algorithm, bus = (float(word) for word in columns[at : at + 3])
            except ValueError:
                continue
            ratio = bus / algorithm if algorithm >= LEAST_GBYTES else 0.0
            rooted = "root" in head and columns[at - 1].isdecimal() and at > 3
            yield _Row(int(columns[0]), us, ratio, bool(REDUCING & set(columns[:at])), rooted)


def _wanted(path: str, patterns: Sequence[str]) -> str:
    """Return the only collective of ``patterns``; empty if there is none."""
    wanted = [p.removeprefix("nccl-") for p in patterns if p.startswith("nccl-")]
    if patterns and not wanted:
        raise InputError(f"{path} is a log of nccl-tests; the workload is {patterns[0]}")
    return wanted[0] if wanted else ""


def _collective(path: str, text: str, table: list[_Row], ranks: int, wanted: str) -> str:
    """Return the collective of the log. It is that of the program, if the log or its file name
    names it; otherwise ``wanted``; otherwise the only collective that prints such columns and
    bandwidths."""
    programs = set(_PROGRAM.findall(text)) | set(_PROGRAM.findall(os.path.basename(path)))
    named = {PROGRAMS[p] for p in programs if p in PROGRAMS}
    if not named and programs & set(UNKNOWN):
        raise InputError(f"{path} is of {min(programs & set(UNKNOWN))}; softib predicts {', '.join(PROGRAMS)}")
    possible = named or _by_columns(path, table[-1], [row.ratio for row in table if row.ratio], ranks)
    if wanted:
        if wanted not in possible:
            raise InputError(f"{path} is of {' or '.join(sorted(possible))}, not of {wanted}")
        return wanted
    if len(possible) == 1:
        return min(possible)
    choice = " or ".join(f"nccl-{name}" for name in sorted(possible))
    raise InputError(f"{path} does not name its collective; add --workload {choice}")


def _by_columns(path: str, row: _Row, ratios: list[float], ranks: int) -> set[str]:
    """Return the collectives that print columns as in ``row`` and, if the row with the largest size is precise enough,
    have its ratio of bandwidths."""
    if row.reduces and row.rooted:
        raise InputError(f"{path} is of reduce_perf; softib predicts {', '.join(PROGRAMS)}")
    columns = {
        (True, False): {"all-reduce", "reduce-scatter", "send-recv"},
        (False, True): {"broadcast"},
        (False, False): {"all-gather", "all-to-all", "send-recv"},
    }[row.reduces, row.rooted]
    if not ratios:
        return columns
    if ranks > 1:
        fit = {c for c in columns if abs(ratios[-1] / busbw_factor(Collective(c), ranks) - 1) < TOLERANCE}
        return fit or columns
    return columns & {"all-reduce"} if ratios[-1] > 1 + TOLERANCE else columns


def _gpu(path: str, text: str) -> str:
    """Return the known GPU whose name is in the list of devices; if several match, the one with the longest name."""
    names = [name for name in GPUS if name.lower() in text.lower()]
    if not names:
        raise InputError(f"{path}: GPU {shown(text.strip())!r} is not described; known are {', '.join(GPUS)}")
    return max(names, key=len)
