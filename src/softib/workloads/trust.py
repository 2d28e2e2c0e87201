"""Reliability of a predicted time: whether similar cases were measured, and the range that contains nine of ten
measurements.

``measured.yaml`` lists the measured cases. For each library it also has the deviations of measured from predicted
times, separately for the datasets used in fits and for machines that no fit used. ``make validate`` writes it.
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
"""For a case unlike all datasets, the range of machines that no fit used is widened by this factor on a logarithmic
scale. The factor is an assumption; it cannot be measured."""
CLASSES = (32 << 10, 1 << 20, 64 << 20)
"""Upper limits in bytes of the size classes that have separate ranges. A further class has no limit."""
BEYOND = 2.0
"""A prediction counts as interpolated up to this factor times the largest measured number of nodes."""


@dataclass(frozen=True)
class Case:
    """A predicted case: ``library`` (nccl, mpi, perftest), ``what``: the collective or test,
    ``generation`` of the links, ``gpu`` (empty: none), ``nodes``, ``size`` in bytes, ``version`` of the
    library (empty: irrelevant)."""

    library: str
    what: str
    generation: str
    nodes: int
    size: int
    gpu: str = ""
    version: str = ""


@dataclass(frozen=True)
class Dataset:
    """Measurements of one cluster: fields as in :class:`Case`, with the smallest and largest
    ``nodes`` and ``size``; ``error``: mean error of its predictions. ``half``: half width of the range if the machine
    was calibrated with this dataset (0: use the library's range)."""

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
        """Return the fields in which ``case`` differs from the dataset."""
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
    measurements lie; ``nearest``: the dataset most like the case, its mean ``error``, and the
    fields in which the case ``differs`` from it."""

    verdict: str
    low: float
    high: float
    nearest: str
    error: float
    differs: tuple[str, ...]

    def of(self, took_us: float) -> dict[str, Any]:
        """Return the figures for results."""
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
    """Return the reliability of a prediction of ``case``; None without measurements of its
    library. ``of_machine``: measurements of this machine, which are preferred over others that are equally similar."""
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
    """Return ``{"trust": …}`` for a result; {} if there are no measurements of the library."""
    trust = trust_in(case, of_machine)
    return {} if trust is None else {"trust": trust.of(took_us)}


def _apart(d: Dataset, case: Case) -> float:
    """Return the ratio by which the number of nodes of ``case`` is outside the range of ``d``; at most 1 if it is
    inside."""
    least, most = d.nodes
    return max(least / case.nodes, case.nodes / most)


def _between(case: Case, measured: list[Dataset]) -> bool:
    """Return whether a dataset has measurements of these links, GPU, version and collective on at least half as many
    nodes, and any dataset has similar sizes."""
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
