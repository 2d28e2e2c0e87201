"""Measurements, read in place from ``shared/``; where that is absent, there are none."""

from __future__ import annotations

import csv
import re
from functools import cache
from pathlib import Path

__all__ = ["SHARED", "host_names", "imb_pingpong", "measured", "osu"]

SHARED = next(
    (p / "shared" for p in Path(__file__).resolve().parents if (p / "shared" / "reference").is_dir()), Path("shared")
)


@cache
def measured(dataset: str, metric: str) -> tuple[tuple[int, float, int], ...]:
    """(size, value, nodes) of ``reference/measured.csv``; none where the file is absent."""
    path = SHARED / "reference" / "measured.csv"
    if not path.is_file():
        return ()
    with path.open() as file:
        return tuple(
            (int(r["size_bytes"]), float(r["value"]), int(r["nodes"]))
            for r in csv.DictReader(file)
            if (r["dataset"], r["metric"]) == (dataset, metric)
        )


@cache
def osu(pattern: str) -> tuple[tuple[int, float], ...]:
    """(size, value) of the one file ``data/PATTERN`` that an OSU benchmark printed; none where it is absent."""
    found = sorted((SHARED / "data").glob(pattern))
    if not found:
        return ()
    lines = found[0].read_text(errors="replace").splitlines()
    return tuple((int(s[0]), float(s[1])) for s in (x.split() for x in lines) if len(s) > 1 and s[0].isdigit())


@cache
def imb_pingpong(name: str) -> tuple[tuple[int, float], ...]:
    """(size, µs) of the first table of PingPong in ``data/NAME``, which Intel's MPI benchmarks printed."""
    path = SHARED / "data" / name
    if not path.is_file():
        return ()
    text = path.read_text(errors="replace").split("Benchmarking PingPong", 1)[1].split("Benchmarking", 1)[0]
    return tuple((int(a), float(t)) for a, t in re.findall(r"^ +(\d+) +\d+ +([\d.]+) +[\d.]+ *$", text, re.M))


@cache
def host_names(pattern: str) -> tuple[str, ...]:
    """The hosts of the job whose log nccl-tests printed into the one file ``data/PATTERN``, each once, by rank; none where it is absent."""
    found = sorted((SHARED / "data").glob(pattern))
    text = found[0].read_text(errors="replace") if found else ""
    return tuple(dict.fromkeys(re.findall(r"^# +Rank +\d+ Pid +\d+ on +(\w+) ", text, re.M)))
