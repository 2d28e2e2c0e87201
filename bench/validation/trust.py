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
LIBRARIES = ("nccl", "mpi", "perftest")
INSIDE = 0.90
LIBRARY = {"nccl": "nccl", "osu": "mpi"}


def library_of(r: Row) -> str:
    """The library of a row, empty where answers have no verdict for it."""
    word = r.metric.split()[0].partition("_")[0]
    return LIBRARY.get(word, "perftest" if word == "ib" else "")


def _ratio(r: Row) -> float:
    """Measured over predicted time."""
    return r.measured / r.predicted if r.unit == "us" else r.predicted / r.measured


def ranges(rows: Sequence[Row]) -> dict[str, float]:
    """By library the half width of a range, as a logarithm of measured over predicted: what :data:`INSIDE` of the rows keep. A machine is off to
    one side or to the other, so the range of one that is not known reaches as far to both. A machine with n rows counts as the root of n, so that a
    long log is not all that there is."""
    out = {}
    for name in LIBRARIES:
        found = [r for r in rows if library_of(r) == name]
        if found:
            count = Counter(r.machine for r in found)
            off, weight = (
                np.array([abs(np.log(_ratio(r))) for r in found]),
                np.array([1 / np.sqrt(count[r.machine]) for r in found]),
            )
            order = np.argsort(off)
            place = (np.cumsum(weight[order]) - weight[order] / 2) / weight.sum()
            out[name] = float(np.interp(INSIDE, place, off[order]))
    return out


def _inside(r: Row, found: dict[str, float]) -> bool:
    return bool(abs(np.log(_ratio(r))) <= found[library_of(r)])


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
        "# What was measured, and half widths of ranges as logarithms of measured over predicted. Written by `make validate`; do not edit.",
        "datasets:",
    ]
    text += [f"- {line}" for line in _datasets(rows)]
    text.append("ranges:")
    seen, unseen = ranges(rows), ranges(left)
    unseen["perftest"] = _of_perftest(rows)
    text += [f"  {name}: {{measured: {seen[name]:.3f}, unseen: {unseen[name]:.3f}}}" for name in LIBRARIES]
    FILE.write_text("\n".join([*text, ""]), encoding="utf-8")


def _of_perftest(rows: Sequence[Row]) -> float:
    """Hardly anything is fitted to perftest, so what it has not seen is all it has: the widest of the machines' ranges."""
    found = [r for r in rows if library_of(r) == "perftest"]
    return max(ranges([r for r in found if r.machine == m])["perftest"] for m in {r.machine for r in found})


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
