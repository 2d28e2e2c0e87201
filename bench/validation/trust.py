"""Ranges of measured over predicted, calibrated on machines that were left out of every fit: what ``softib.workloads.trust`` reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.validation import mpi, nccl
from bench.validation.row import Row
from softib.workloads.nccl.machine import machine_of

__all__ = ["coverage", "lines", "write"]

FILE = Path(__file__).resolve().parents[2] / "src" / "softib" / "workloads" / "measured.yaml"
CLASSES = {"nccl": (1 << 15, 1 << 20, 1 << 26, 1 << 50), "mpi": (1 << 13, 1 << 17, 1 << 50), "perftest": (1 << 50,)}
"""Most bytes of each class of sizes, by library."""
INSIDE = 0.90
LIBRARY = {"nccl": "nccl", "osu": "mpi"}


def library_of(r: Row) -> str:
    """The library of a row, empty where answers have no verdict for it."""
    word = r.metric.split()[0].partition("_")[0]
    return LIBRARY.get(word, "perftest" if word == "ib" else "")


def _ratio(r: Row) -> float:
    """Measured over predicted time."""
    return r.measured / r.predicted if r.unit == "us" else r.predicted / r.measured


def ranges(rows: Sequence[Row]) -> dict[str, list[tuple[int, float, float]]]:
    """By library (most bytes, low, high) of each class: what :data:`INSIDE` of the rows keep, as many left out on either side."""
    out: dict[str, list[tuple[int, float, float]]] = {}
    for name, classes in CLASSES.items():
        least = 0
        for most in classes:
            found = [r for r in rows if library_of(r) == name and least < max(r.size, 1) <= most]
            least = most
            low, high = _quantiles(found) if found else (1.0, 1.0)
            out.setdefault(name, []).append((most, min(float(low), 1.0), max(float(high), 1.0)))
    return out


def _quantiles(rows: Sequence[Row]) -> tuple[float, float]:
    """What :data:`INSIDE` of the rows keep; a machine with n of them counts as the root of n, so that a long log is not all that there is."""
    count = Counter(r.machine for r in rows)
    ratio, weight = np.array([_ratio(r) for r in rows]), np.array([1 / np.sqrt(count[r.machine]) for r in rows])
    order = np.argsort(ratio)
    place = (np.cumsum(weight[order]) - weight[order] / 2) / weight.sum()
    tail = (1 - INSIDE) / 2
    low, high = np.interp((tail, 1 - tail), place, ratio[order])
    return float(low), float(high)


def _inside(r: Row, found: dict[str, list[tuple[int, float, float]]]) -> bool:
    low, high = next((low, high) for most, low, high in found[library_of(r)] if max(r.size, 1) <= most)
    return low <= _ratio(r) <= high


def coverage(left: Sequence[Row]) -> dict[str, tuple[int, float, float]]:
    """By machine: its rows, the share of them inside the ranges, and inside ranges that were made of the other machines' rows alone."""
    left = [r for r in left if library_of(r)]
    every = ranges(left)
    out = {}
    for name in dict.fromkeys((library_of(r), r.machine) for r in left):
        mine = [r for r in left if (library_of(r), r.machine) == name]
        others = ranges([r for r in left if (library_of(r), r.machine) != name])
        share = lambda found, mine=mine: float(np.mean([_inside(r, found) for r in mine]))
        out[" ".join(name)] = (len(mine), share(every), share(others))
    return out


def lines(left: Sequence[Row]) -> list[str]:
    """What the page says of ranges."""
    found = coverage(left)
    total = sum(n for n, _, _ in found.values())
    share = lambda k: sum(row[0] * row[k] for row in found.values()) / total
    rows = [f"| {name} | {n} | {100 * a:.0f} % | {100 * b:.0f} % |" for name, (n, a, b) in found.items()]
    return [
        "Every answer has a range: nine of ten measurements of machines that were left out lie inside. *From others* counts with ranges made without the machine's own rows.",
        "",
        "| machine left out | rows | inside | from others |",
        "|---|---|---|---|",
        *rows,
        f"| all | {total} | {100 * share(1):.0f} % | {100 * share(2):.0f} % |",
    ]


def write(rows: Sequence[Row], left: Sequence[Row]) -> None:
    """Write ``measured.yaml``."""
    text = [
        "# What was measured, and ranges of measured over predicted. Written by `make validate`; do not edit.",
        "datasets:",
    ]
    text += [f"- {line}" for line in _datasets(rows)]
    text.append("ranges:")
    seen, unseen = ranges(rows), ranges(left)
    unseen["perftest"] = _of_perftest(rows)
    for name in CLASSES:
        shown = lambda found: "[" + ", ".join(f"[{m}, {a:.3f}, {b:.3f}]" for m, a, b in found) + "]"
        text.append(f"  {name}: {{measured: {shown(seen[name])}, unseen: {shown(unseen[name])}}}")
    FILE.write_text("\n".join([*text, ""]), encoding="utf-8")


def _of_perftest(rows: Sequence[Row]) -> list[tuple[int, float, float]]:
    """Hardly anything is fitted to perftest, so what it has not seen is all it has: the widest of the machines' ranges."""
    found = [r for r in rows if library_of(r) == "perftest"]
    each = [ranges([r for r in found if r.machine == m])["perftest"][0] for m in {r.machine for r in found}]
    return [(1 << 50, min(e[1] for e in each), max(e[2] for e in each))]


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
    "osu_bw": "bandwidth", "ib_write_lat": "latency write rc", "ib_read_lat": "latency read rc", "ib_send_lat": "latency send rc",
    "ib_send_lat_UD": "latency send ud", "ib_write_bw": "bandwidth write rc", "ib_send_bw": "bandwidth send rc", "ib_send_bw_UD": "bandwidth send ud",
}  # fmt: skip
"""Benchmark → what a job of softib calls it."""
