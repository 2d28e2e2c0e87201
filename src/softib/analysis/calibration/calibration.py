"""Fits the constants of a machine on which the rows of a log depend. To judge the fit, each half of the rows is
predicted with constants fitted to the other half."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from softib.analysis.calibration.fit import fit
from softib.analysis.calibration.predicting import log_ratio
from softib.errors import InputError
from softib.plural import counted
from softib.workloads.benchmark_logs.log import BenchmarkLog

__all__ = ["INSIDE", "Calibrated", "Knob", "calibrated", "half_width"]

INSIDE = 0.9
"""Share of measurements that a range must contain."""
CHANGE = 1.25
"""Factor by which a constant is changed to determine the rows that depend on it."""
LEAST = 0.03
"""A row depends on a constant if its time changes by at least this share."""
ROWS = 2
"""Minimum number of rows that must depend on a constant."""
SHARES = (1.0, 0.6, 0.36)
"""For a constant with a ``limit``, one fit is started from the start value times each of these factors."""
MOST = 0.35
"""In a fit, an error, log(predicted / measured), is limited to this value, so that a larger error has no larger
effect."""

Predict = Callable[[Mapping[str, float]], np.ndarray]
"""Function from values of the constants to predictions of the log's rows."""


@dataclass(frozen=True)
class Knob:
    """A constant of a machine that a log may determine. ``now``: its value without the log. ``limit``: largest value,
    for a rate that affects results only if it is lower than other rates."""

    name: str
    now: float
    unit: str
    limit: bool = False

    @property
    def start(self) -> float:
        """The start value of a fit. It is above 0, because the scale is logarithmic."""
        return self.now or 1.0

    @property
    def most(self) -> float:
        """The largest value of the constant."""
        return self.start if self.limit else math.inf

    @property
    def starts(self) -> tuple[float, ...]:
        """Return the starting points of fits."""
        return tuple(self.start * share for share in SHARES) if self.limit else (self.start,)


@dataclass(frozen=True)
class Calibrated:
    """Result of a calibration. ``values``: those of the fitted constants; ``kept``: constants on which the rows do not
    depend. ``before``, ``after`` and ``left_out`` contain log(measured / predicted time) of each row: before the fit,
    after it, and with each half of the rows predicted by a fit to the other half."""

    values: dict[str, float]
    kept: tuple[str, ...]
    before: np.ndarray
    after: np.ndarray
    left_out: np.ndarray


def calibrated(log: BenchmarkLog, knobs: tuple[Knob, ...], predict: Predict) -> Calibrated:
    """Return the result of a fit of those ``knobs`` on which the rows of ``log`` depend. Raises :class:`InputError` if
    the log depends on none of them, or has too few rows for them."""
    predict = _remembered(predict)
    start = {k.name: k.start for k in knobs}
    moved = {k.name: _moved(start, k, predict) for k in knobs}
    fitted = [k for k in knobs if moved[k.name] >= ROWS]
    if not fitted:
        raise InputError(
            f"{log.path}: no row depends on {', '.join(start)}; give a log of other sizes, or of more nodes"
        )
    least = 2 * (len(fitted) + 1)
    if len(log.rows) < least:
        raise InputError(
            f"{log.path}: {counted(len(log.rows), 'row')} for {counted(len(fitted), 'constant')} "
            f"({', '.join(k.name for k in fitted)}); a log takes at least {least} sizes"
        )
    start |= {k.name: k.now for k in knobs if k not in fitted}
    every = np.ones(len(log.rows), bool)
    values = _fitted(log, fitted, start, predict, every)
    left_out = np.zeros(len(log.rows))
    for half in (0, 1):
        out = np.arange(len(log.rows)) % 2 == half
        left_out[out] = log_ratio(log, predict(start | _fitted(log, fitted, start, predict, ~out)))[out]
    return Calibrated(
        values,
        tuple(k.name for k in knobs if k not in fitted),
        log_ratio(log, predict({k.name: k.now for k in knobs})),
        log_ratio(log, predict(start | values)),
        left_out,
    )


def _remembered(predict: Predict) -> Predict:
    """Return ``predict`` with a cache, so that it runs only once for each set of values."""
    predictions: dict[tuple[tuple[str, float], ...], np.ndarray] = {}

    def once(values: Mapping[str, float]) -> np.ndarray:
        key = tuple(sorted(values.items()))
        if key not in predictions:
            predictions[key] = predict(values)
        return predictions[key]

    return once


def _moved(start: Mapping[str, float], knob: Knob, predict: Predict) -> int:
    """Return the number of rows that depend on ``knob``."""
    first = predict(start)
    tries = (min(knob.start * CHANGE, knob.most), *(value / CHANGE for value in knob.starts))
    changes = [np.abs(predict({**start, knob.name: value}) / first - 1) for value in tries]
    return int((np.max(changes, axis=0) > LEAST).sum())


def _fitted(
    log: BenchmarkLog, knobs: list[Knob], start: Mapping[str, float], predict: Predict, rows: np.ndarray
) -> dict[str, float]:
    """Return the values of ``knobs`` with the smallest sum of squares of the logarithms of ``rows``."""
    within = lambda v: {k.name: min(v[k.name], k.most) for k in knobs}
    residuals = lambda v: np.clip(log_ratio(log, predict({**start, **within(v)}))[rows], -MOST, MOST)
    starts = [dict(zip([k.name for k in knobs], s, strict=True)) for s in product(*(k.starts for k in knobs))]
    fits = [fit(s, residuals) for s in starts]
    return within(min(fits, key=lambda v: float(residuals(v) @ residuals(v))))


def half_width(ratios: np.ndarray) -> float:
    """Return half the width, as a logarithm, of a range that contains the share :data:`INSIDE` of future rows. It is a
    quantile of ``ratios``, corrected for their finite number (split conformal prediction)."""
    ordered = np.sort(np.abs(ratios))
    return float(ordered[min(math.ceil(INSIDE * (len(ordered) + 1)), len(ordered)) - 1])
