"""Ranges of measured over predicted, calibrated on machines that were left out of every fit: what ``softib.workloads.trust`` reads."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.validation import mpi, nccl
from bench.validation.row import Row
from softib.workloads.nccl.machine import machine_of
from softib.workloads.trust import CLASSES, WIDER

__all__ = ["coverage", "lines", "width", "write"]

FILE = Path(__file__).resolve().parents[2] / "src" / "softib" / "workloads" / "measured.yaml"
LIBRARIES = ("nccl", "mpi", "perftest")
INSIDE = 0.90
MACHINES = 5
LIBRARY = {"nccl": "nccl", "osu": "mpi"}


def library_of(r: Row) -> str:
    """The library of a row, empty where answers have no verdict for it."""
    word = r.metric.split()[0].partition("_")[0]
    return LIBRARY.get(word, "perftest" if word == "ib" else "")


def _ratio(r: Row) -> float:
    """Measured over predicted time."""
    return r.measured / r.predicted if r.unit == "us" else r.predicted / r.measured


def _class(r: Row) -> int:
    return bisect_left(CLASSES, max(r.size, 1))


def ranges(rows: Sequence[Row]) -> dict[str, list[float]]:
    """By library and class of sizes the half width of a range, as a logarithm of measured over predicted: what :data:`INSIDE` of the rows keep. A machine is off to
    one side or to the other, so the range of one that is not known reaches as far to both. A library that fewer than :data:`MACHINES` measured has one range for all sizes: nine
    in ten of a class of three machines is whatever one of them does."""
    out = {}
    for name in LIBRARIES:
        found = [r for r in rows if library_of(r) == name]
        if found:
            apart = len({r.machine for r in found}) >= MACHINES
            of = [[r for r in found if _class(r) == k] for k in range(len(CLASSES) + 1)]
            out[name] = [_half(part if apart else found) for part in of]
    return out


def _half(rows: Sequence[Row]) -> float:
    """The range of ``rows``. A machine with n of them counts as the root of n, so that a long log is not all that there is."""
    count = Counter(r.machine for r in rows)
    off = np.array([abs(np.log(_ratio(r))) for r in rows])
    weight = np.array([1 / np.sqrt(count[r.machine]) for r in rows])
    order = np.argsort(off)
    place = (np.cumsum(weight[order]) - weight[order] / 2) / weight.sum()
    return float(np.interp(INSIDE, place, off[order]))


def _halves(rows: Sequence[Row], found: dict[str, list[float]], others: Sequence[Row]) -> np.ndarray:
    """Half width of each row, as an answer has it that knows ``others`` alone: wider where none of them measured the same operation."""
    known = {r.metric for r in others}
    return np.array([found[library_of(r)][_class(r)] * (1.0 if r.metric in known else WIDER) for r in rows])


def coverage(left: Sequence[Row]) -> dict[str, tuple[int, float, float, float]]:
    """By machine: its rows, the share of them inside the ranges, inside ranges that were made of the other machines' rows alone, and how many times the median error the
    median half width of these is."""
    left = [r for r in left if library_of(r)]
    every = ranges(left)
    out = {}
    for name in dict.fromkeys((library_of(r), r.machine) for r in left):
        mine = [r for r in left if (library_of(r), r.machine) == name]
        others = [r for r in left if library_of(r) == name[0] and r.machine != name[1]]
        off = np.array([abs(np.log(_ratio(r))) for r in mine])
        half = _halves(mine, ranges(others), others)
        inside = lambda halves, off=off: float(np.mean(off <= halves))
        out[" ".join(name)] = (
            len(mine),
            inside(_halves(mine, every, others)),
            inside(half),
            float(np.median(half) / np.median(off)),
        )
    return out


def width(left: Sequence[Row], library: str) -> float:
    """Median half width of ranges that other machines made over the median error, both as logarithms, of operations that others measured: 2.44 where errors are normal and of
    one size."""
    left = [r for r in left if library_of(r) == library]
    halves, off = [], []
    for machine in dict.fromkeys(r.machine for r in left):
        others = [r for r in left if r.machine != machine]
        known = [r for r in left if r.machine == machine and r.metric in {o.metric for o in others}]
        halves += _halves(known, ranges(others), others).tolist()
        off += [abs(np.log(_ratio(r))) for r in known]
    return float(np.median(halves) / np.median(off)) if off else math.nan


def in_hindsight(left: Sequence[Row], library: str) -> float:
    """Median half width over the median error if the range of each row were that of its own machine's rows of its class: the smallest that holds :data:`INSIDE` of
    them. An answer about a machine that no one measured cannot have it."""
    rows = [r for r in left if library_of(r) == library]
    if not rows:
        return math.nan
    off = np.array([abs(np.log(_ratio(r))) for r in rows])
    cell = [(r.machine, _class(r)) for r in rows]
    half = np.empty(len(rows))
    for name in dict.fromkeys(cell):
        own = [k for k, c in enumerate(cell) if c == name]
        half[own] = np.sort(off[own])[math.ceil(INSIDE * len(own)) - 1]
    return float(np.median(half) / np.median(off))


def lines(left: Sequence[Row]) -> list[str]:
    """What the page says of ranges."""
    found = coverage(left)
    total = sum(row[0] for row in found.values())
    share = lambda k: sum(row[0] * row[k] for row in found.values()) / total
    rows = [f"| {name} | {n} | {100 * a:.0f} % | {100 * b:.0f} % | {c:.1f} |" for name, (n, a, b, c) in found.items()]
    shown = lambda of: ", ".join(f"{of(left, name):.1f} ({name})" for name in LIBRARIES[:2])
    return [
        "Every answer has a range that contains nine of ten measurements of machines left out of the fit; for NCCL, one range for each class of sizes (to 32 KiB, 1 MiB, 64 MiB, above). *From others*: the share inside ranges computed without the",
        "machine's rows; for an operation that no other machine measured, the range is twice as wide on a logarithmic scale. *Times the error*: the median half width of these ranges divided by the median error.",
        f"Over all machines that is {shown(width)}; the aim is 2 and is not reached. Normally distributed errors of one size would give 2.4. Ranges made in hindsight, each from the errors of its own machine and class of",
        f"sizes, have {shown(in_hindsight)}: errors of NCCL have longer tails, since most sizes are within a few per cent, except where NCCL changes its protocol. From the low to the high end a range is twice as wide as its half width.",
        "",
        "| machine left out | rows | inside | from others | times the error |",
        "|---|---|---|---|---|",
        *rows,
        f"| all | {total} | {100 * share(1):.0f} % | {100 * share(2):.0f} % | |",
    ]


def write(rows: Sequence[Row], left: Sequence[Row]) -> None:
    """Write ``measured.yaml``."""
    text = [
        "# The measured cases, and half widths of ranges by class of sizes (to 32 KiB, 1 MiB, 64 MiB, above) as logarithms of measured / predicted. Written by `make validate`; do not edit.",
        "datasets:",
    ]
    text += [f"- {line}" for line in _datasets(rows)]
    text.append("ranges:")
    seen, unseen = ranges(rows), ranges(left)
    unseen["perftest"] = [_of_perftest(rows)] * (len(CLASSES) + 1)
    shown = lambda halves: f"[{', '.join(f'{half:.3f}' for half in halves)}]"
    text += [f"  {name}: {{measured: {shown(seen[name])}, unseen: {shown(unseen[name])}}}" for name in LIBRARIES]
    FILE.write_text("\n".join([*text, ""]), encoding="utf-8")


def _of_perftest(rows: Sequence[Row]) -> float:
    """Hardly anything is fitted to perftest, so what it has not seen is all it has: the widest of the machines' ranges."""
    found = [r for r in rows if library_of(r) == "perftest"]
    return max(_half([r for r in found if r.machine == m]) for m in {r.machine for r in found})


def _datasets(rows: Sequence[Row]) -> list[str]:
    """A line for each dataset and what it ran."""
    out = []
    for s in nccl.sets():
        line = dict(x.split("=") for x in s.line.split(","))
        about = f', gpu: {machine_of(line["machine"]).gpu.name}, version: "{line["nccl"]}"'
        for kind in dict.fromkeys(c for c, _, _ in s.rows):
            of = [r for r in rows if (r.dataset, r.metric, r.nodes) == (s.name, f"nccl {kind}", s.nodes)]
            out.append(_line(of, "nccl", str(kind), s.generation, about))
    for t in mpi.sets():
        of = [r for r in rows if (r.dataset, r.metric, r.nodes) == (t.name, t.metric, t.nodes)]
        if of and library_of(of[0]):
            what = KINDS.get(t.metric, t.metric.partition("_")[2].replace("_", "-"))
            out.append(_line(of, library_of(of[0]), what, t.generation, ""))
    return list(dict.fromkeys(out))


def _line(of: Sequence[Row], library: str, kind: str, generation: str, more: str) -> str:
    error = float(np.mean([abs(r.error) for r in of]))
    nodes = [min(r.nodes for r in of), max(r.nodes for r in of)]
    size = [max(min(r.size for r in of), 1), max(r.size for r in of)]
    about = f"library: {library}, what: {kind}, generation: {generation}{more}"
    return f"{{name: {of[0].dataset!r}, {about}, nodes: {nodes}, size: {size}, error: {error:.3f}}}"


KINDS = {
    "osu_bw": "bandwidth",
    "ib_write_lat": "latency write rc",
    "ib_read_lat": "latency read rc",
    "ib_send_lat": "latency send rc",
    "ib_send_lat_UD": "latency send ud",
    "ib_write_bw": "bandwidth write rc",
    "ib_send_bw": "bandwidth send rc",
    "ib_send_bw_UD": "bandwidth send ud",
}
"""Benchmark → what a job of softib calls it."""
