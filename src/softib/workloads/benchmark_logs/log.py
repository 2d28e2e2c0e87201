"""The log of one benchmark: the measured value for each size, and what the log states about the machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from softib.errors import InputError
from softib.input_files import read_text, shown_name

__all__ = ["BenchmarkLog", "by_size", "read_log"]

MOST = 16 << 20
"""Largest size of a log in bytes."""


@dataclass(frozen=True)
class BenchmarkLog:
    """``rows``: (bytes, value), ascending by bytes; if a size is repeated, the value is the median. ``unit`` of the
    values: us or MB/s. ``pattern``: the workload pattern that predicts them. The other fields are what the log states
    about the machine, 0 or empty if it does not: ``ranks``, ``nodes``, ``gpu``, ``per_process`` (GPUs of a process) and
    ``version`` of the library."""

    path: str
    program: str
    pattern: str
    rows: tuple[tuple[int, float], ...]
    unit: str = "us"
    ranks: int = 0
    nodes: int = 0
    gpu: str = ""
    per_process: int = 0
    version: str = ""

    @property
    def library(self) -> str:
        """Return ``nccl`` or ``mpi``."""
        return self.pattern.partition("-")[0]

    @property
    def what(self) -> str:
        """Return the name of the collective or test, without that of its library."""
        return self.pattern.partition("-")[2]

    @property
    def sizes(self) -> tuple[int, int]:
        """Return the smallest and the largest size in bytes."""
        return self.rows[0][0], self.rows[-1][0]


def by_size(pairs: Iterable[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """Return (bytes, median of the values), ascending by bytes; pairs with a size or value of 0 are left out."""
    values: dict[int, list[float]] = {}
    for size, value in pairs:
        if size > 0 and value > 0:
            values.setdefault(size, []).append(value)
    return tuple((size, median(values[size])) for size in sorted(values))


def read_log(path: str | os.PathLike[str], patterns: Sequence[str] = ()) -> BenchmarkLog:
    """Return the log in the file ``path``, which is the output of nccl-tests or of an OSU benchmark. ``patterns``: the
    patterns of the workload with which the log is compared; the log must be of one of them. Raises :class:`InputError`,
    one line.
    """
    from softib.workloads.benchmark_logs.nccl_tests import nccl_log
    from softib.workloads.benchmark_logs.osu import osu_log

    text, name = read_text(path, "benchmark log", MOST, errors="replace"), shown_name(path)
    if "# OSU " in text:
        return osu_log(text, name, patterns)
    if "algbw" in text and "busbw" in text:
        return nccl_log(text, name, patterns)
    raise InputError(f"{name}: neither a log of nccl-tests (algbw, busbw) nor of an OSU benchmark (# OSU …)")
