"""Reliability of a predicted time: whether such a case was measured, and the range that contains
nine of ten measurements.

``measured.yaml`` has what was measured, and by library how far measured and predicted are apart:
of the datasets themselves, and of machines that were left out of every fit. ``make
validate`` writes it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from softib.plural import counted

__all__ = ["CLASSES", "Case", "Dataset", "Trust", "trust_in", "trusted"]

MEASURED, INTERPOLATED, NEVER = "measured", "interpolated", "never measured"
WIDER = 2.0
"""Of the range of machines left out, on a logarithmic scale, where a case is unlike all datasets.
An assumption: no measurement can say it."""
CLASSES = (32 << 10, 1 << 20, 64 << 20)
"""Largest bytes of the classes of sizes that have ranges of their own; the last class is above."""
BEYOND = 2.0
"""Times the most nodes that were measured, up to which an answer is interpolated."""


@dataclass(frozen=True)
class Case:
    """What is predicted: ``library`` (nccl, mpi, perftest), ``what`` it runs, ``generation`` of the
    links, ``gpu`` (empty: none), ``nodes``, ``size`` in bytes, ``version`` of the library (empty:
    of no matter)."""

    library: str
    what: str
    generation: str
    nodes: int
    size: int
    gpu: str = ""
    version: str = ""


@dataclass(frozen=True)
class Dataset:
    """Measurements of one cluster: fields as of :class:`Case`, of ``nodes`` and ``size`` the least
    and the most; ``error``: mean error of its predictions. ``half``: half width of the range of its
    own, of a machine's own measurements (0: the library's)."""

    name: str
    library: str
    what: str
    generation: str
    nodes: tuple[int, int]
    size: tuple[int, int]
    error: float
    gpu: str = ""
    version: str = ""
    half: float = 0.0

    def differs(self, case: Case) -> Iterator[str]:
        """Return the fields in which ``case`` differs from it."""
        if self.what != case.what:
            yield case.what
        if self.generation != case.generation:
            yield case.generation
        if self.gpu != case.gpu:
            yield case.gpu or "no GPU"
        if self.version.split(".")[:2] != case.version.split(".")[:2]:
            yield f"version {case.version}"
        if not self.nodes[0] <= case.nodes <= self.nodes[1]:
            yield counted(case.nodes, "node")
        if not self.size[0] <= case.size <= self.size[1]:
            yield counted(case.size, "byte")


@dataclass(frozen=True)
class Trust:
    """``verdict``; ``low`` and ``high``: factors of the predicted time between which nine of ten
    measurements lie; ``nearest``: the dataset most like the case, its mean ``error``, and in what
    the case ``differs`` from it."""

    verdict: str
    low: float
    high: float
    nearest: str
    error: float
    differs: tuple[str, ...]

    def of(self, took_us: float) -> dict[str, Any]:
        """The figures that answers have."""
        return {
            "verdict": self.verdict,
            "low_us": took_us * self.low,
            "high_us": took_us * self.high,
            "nearest": self.nearest,
            "error": self.error,
            "differs": list(self.differs),
        }


@cache
def _read() -> tuple[tuple[Dataset, ...], Mapping[str, Mapping[str, Sequence[float]]]]:
    import yaml

    data = yaml.safe_load(resources.files("softib.workloads").joinpath("measured.yaml").read_text(encoding="utf-8"))
    rows = [{**row, "nodes": tuple(row["nodes"]), "size": tuple(row["size"])} for row in data["datasets"]]
    return tuple(Dataset(**row) for row in rows), data["ranges"]


def trust_in(case: Case, of_machine: Sequence[Dataset] = ()) -> Trust | None:
    """Return the reliability of a prediction of ``case``; None if nothing of its library was
    measured. ``of_machine``: the machine's own measurements, which are nearer than others that are
    as like."""
    datasets, ranges = _read()
    measured = [d for d in (*of_machine, *datasets) if d.library == case.library]
    if not measured:
        return None
    nearest = min(measured, key=lambda d: (len(tuple(d.differs(case))), d not in of_machine, _apart(d, case)))
    differs = tuple(nearest.differs(case))
    verdict = MEASURED if not differs else INTERPOLATED if _between(case, measured) else NEVER
    halves = ranges[case.library]["measured" if verdict == MEASURED else "unseen"]
    half = halves[bisect_left(CLASSES, case.size)] * (WIDER if verdict == NEVER else 1.0)
    if nearest.half and verdict == MEASURED:
        half = nearest.half
    return Trust(verdict, math.exp(-half), math.exp(half), nearest.name, nearest.error, differs)


def trusted(case: Case, took_us: float, of_machine: Sequence[Dataset] = ()) -> dict[str, Any]:
    """Return ``{"trust": …}`` of an answer, empty where nothing of its library was measured."""
    trust = trust_in(case, of_machine)
    return {} if trust is None else {"trust": trust.of(took_us)}


def _apart(d: Dataset, case: Case) -> float:
    """Ratio of the nodes of ``case`` to the nearest that ``d`` has."""
    least, most = d.nodes
    return max(least / case.nodes, case.nodes / most)


def _between(case: Case, measured: list[Dataset]) -> bool:
    """Were links, GPU, version and what runs measured together, on at least half as many nodes, and
    sizes like this at all?"""
    alike = [
        d
        for d in measured
        if (d.what, d.generation, d.gpu) == (case.what, case.generation, case.gpu)
        and d.version.split(".")[:2] == case.version.split(".")[:2]
    ]
    if not alike:
        return False
    nodes, sizes = [n for d in alike for n in d.nodes], [s for d in measured for s in d.size]
    return min(nodes) <= case.nodes <= BEYOND * max(nodes) and min(sizes) <= case.size <= max(sizes)
