"""Modules that are hot, or that have become much warmer while they were observed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.diags.cable_rules.case import Case, Suspicion, rule
from softib.diags.finding import Severity
from softib.diags.registry import code, finding

HOT_MODULE = code(
    "hot-module", Severity.WARNING, "a cable's module is hot, or has become much warmer",
    "look at the air flow and the fans there; a hot module makes bit errors and ages")  # fmt: skip


def last_known(case: Case, level: str) -> np.ndarray:
    """What a level of each port was told last (float64[n]); NaN where nothing was told."""
    values = case.level(level)
    known = ~np.isnan(values)
    if not len(values):
        return np.full(case.n, np.nan)
    return np.asarray(values[len(values) - 1 - known[::-1].argmax(axis=0), np.arange(case.n)])


@rule
def temperature(case: Case) -> Iterator[Suspicion]:
    """Ports whose module is at the limit now (where it states no alarm threshold of its own: :mod:`~softib.diags.cable_rules.module_alarms` has the others), or rose by the limit above
    its lowest value of the observed time."""
    values = case.level("module_temperature_c")
    if not (~np.isnan(values)).any():
        return
    lowest, highest = np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
    known = ~np.isnan(values)
    last, alarm = last_known(case, "module_temperature_c"), last_known(case, "module_temperature_high_c")
    hot = (last >= case.limits["temperature"]) & np.isnan(alarm)
    rise = last - lowest >= case.limits["temperature_rise"]
    for row in np.flatnonzero(known.any(axis=0) & (hot | rise) & ~(last > alarm)).tolist():
        since = f", {last[row] - lowest[row]:.0f} more than at its coolest" if rise[row] else ""
        yield Suspicion(
            finding(HOT_MODULE, case.ends(row), f"{case.location(row)}: its module is at {last[row]:.0f} °C{since}",
                    {"temperature_c": float(last[row]), "lowest_c": float(lowest[row]), "highest_c": float(highest[row]),
                     "limit_c": case.limits["temperature"], "source": case.limits.of("temperature").source}),
            row, 0.9, cable=False,
        )  # fmt: skip
