"""The error of a dataset when the parameters are fitted without it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

import numpy as np

from bench.validation.fit import fit
from bench.validation.row import Row
from bench.validation.section_values import with_values
from softib.workloads.parameters import Section

__all__ = ["fitted", "without"]

Rows = Callable[[Mapping[str, Section], Collection[str], int], list[Row]]
EVERY = 2
"""A refit looks at each second size of a dataset."""
ZERO = 1.0
"""Where a parameter that is 0 begins, in its unit: logarithms have no zero."""
SMALLEST = 1e-9


def residuals(rows: list[Row]) -> np.ndarray:
    """ln(predicted / measured) of each row, over the root of how many its dataset has: each dataset counts the same."""
    count = Counter(r.dataset for r in rows)
    return np.array([math.log(max(r.predicted, SMALLEST) / r.measured) / math.sqrt(count[r.dataset]) for r in rows])


def fitted(
    parameters: Mapping[str, Section],
    names: Collection[tuple[str, str]],
    datasets: Collection[str],
    rows: Rows,
    rounds: int = 8,
    every: int = EVERY,
) -> Mapping[str, Section]:
    """``parameters`` with those of ``names`` (section, parameter) fitted to ``datasets``."""
    keys = {f"{s} {n}": (s, n) for s, n in names}
    start = {k: parameters[s][n] or ZERO for k, (s, n) in keys.items()}

    def parameters_with(values: Mapping[str, float]) -> Mapping[str, Section]:
        out = dict(parameters)
        for k, value in values.items():
            section, name = keys[k]
            out[section] = with_values(out[section], **{name: value})
        return MappingProxyType(out)

    return parameters_with(fit(start, lambda values: residuals(rows(parameters_with(values), datasets, every)), rounds))


def without(dataset: str, parameters: Mapping[str, Section], rows: Rows) -> tuple[Mapping[str, Section], str]:
    """Parameters that have not seen ``dataset``, and how they were found.

    A parameter that was fitted to other datasets too is fitted to those. One that was fitted to this alone takes the mean of the same parameter of
    sibling sections (``openmpi-a`` for ``openmpi-b``) that have it from elsewhere.
    """
    touched = [(s.name, n) for s in parameters.values() for n, p in s.rows.items() if dataset in p.fitted_to]
    if not touched:
        return parameters, "not fitted to"
    out, again, others, borrowed = dict(parameters), [], set(), 0
    for section, name in touched:
        rest = set(parameters[section].rows[name].fitted_to) - {dataset}
        value = None if rest else _of_siblings(parameters, section, name, dataset)
        if rest:
            again.append((section, name))
            others |= rest
        elif value is not None:
            out[section] = with_values(out[section], **{name: value})
            borrowed += 1
    if not again and not borrowed:
        return parameters, "nothing else to fit to"
    result: Mapping[str, Section] = MappingProxyType(out)
    if again:
        result = fitted(result, again, others, rows)
    how = [
        f"{borrowed} of other machines" * bool(borrowed),
        f"{len(again)} fitted to {', '.join(sorted(others))}" * bool(again),
    ]
    return result, "; ".join(x for x in how if x)


def _of_siblings(parameters: Mapping[str, Section], section: str, name: str, dataset: str) -> float | None:
    """Mean of ``name`` in the other sections with the same first word that were fitted, and not to ``dataset``. Parameters are times that add up, and some are near 0:
    a geometric mean would take the smallest for all."""
    family = section.split("-")[0]
    values = [
        s[name] for s in parameters.values()
        if s.name != section and s.name.startswith(f"{family}-") and name in s.rows and s.rows[name].fitted_to and dataset not in s.rows[name].fitted_to
    ]  # fmt: skip
    return float(np.mean(values)) if values else None
