"""Error ratios of links, and the share of time in which data waited, computed from increases of counters. The divisors
are the bits that a link carried and the observed time, in units of PortXmitWait's ticks.

A link that is up carries symbols all the time, so bits are lanes × signalling rate × seconds, independent of
traffic. Sources: IBA 5.6 (symbols flow on an idle link), 16.1.3.2 (a tick is (n + 1) × 10
bit times of a lane), 16.1.3.5 (PortXmitWait counts ticks with data to send and no transmission).
"""

from __future__ import annotations

import numpy as np

from softib.monitor.intervals import LEAST, SYMBOLS, Interval
from softib.monitor.reading import Reading
from softib.monitor.registers import HISTOGRAM

__all__ = ["ErrorRatios", "bit_error_ratios", "upper_bound", "utilization", "wait_ratio"]

SYMBOL_BITS = 10
"""Bit times in a symbol time, which is the unit of PortSamplesControl.Tick."""
ERRORS = {"symbol": "symbol_error_counter", "effective": "port_fec_uncorrectable_block_ctr"}
"""Ratio → the counter whose increase is its numerator."""
KINDS = ("symbol", "raw", "effective")
STATED = ("symbol_ber", "pre_fec_ber", "effective_ber")
"""Levels that contain the ratios stated in files, in the order of :data:`KINDS`."""


def wait_ratio(one: Interval) -> np.ndarray:
    """Return the share of the interval in which data waited (float64[n], at most 1; NaN if the duration of a tick, the
    link's rate or the increase is unknown)."""
    name = "port_xmit_wait"
    if name not in one.increase or "lane_gbps" not in one.level or "tick_symbols" not in one.level:
        return np.full(len(one.guid), np.nan)
    seconds = (one.end_ns - one.begin_ns) / 1e9
    with np.errstate(divide="ignore", invalid="ignore"):
        tick_s = one.level["tick_symbols"] * SYMBOL_BITS / (one.level["lane_gbps"] * 1e9)
        share = one.increase[name] * tick_s / seconds
    return np.where(one.known[name], np.minimum(share, 1.0), np.nan)


def utilization(one: Interval) -> np.ndarray:
    """Return the share of the link's data rate that was used for sending (float64[n]; NaN unknown)."""
    name = "port_xmit_data"
    if name not in one.increase or "rate_gbps" not in one.level:
        return np.full(len(one.guid), np.nan)
    seconds = (one.end_ns - one.begin_ns) / 1e9
    with np.errstate(divide="ignore", invalid="ignore"):
        share = one.increase[name] * 32.0 / (one.level["rate_gbps"] * 1e9 * seconds)
    return np.where(one.known[name] & (one.level["rate_gbps"] > 0), share, np.nan)


def upper_bound(errors: np.ndarray) -> np.ndarray:
    """Return the upper bound, with 95 % confidence, of the mean of a Poisson count, by the cube-root approximation of
    Wilson and Hilferty; 3.0 for a count of 0 (the rule of three)."""
    n = errors.astype(np.float64) + 1.0
    return np.asarray(n * (1 - 1 / (9 * n) + 1.645 / (3 * np.sqrt(n))) ** 3)


def bit_error_ratios(reading: Reading, ratios: ErrorRatios) -> dict[str, np.ndarray]:
    """Return, for each of :data:`KINDS`, the ratio computed from counters, or else the ratio stated in a file
    (float64[n of the reading]; NaN unknown)."""
    ratio_of: dict[str, np.ndarray] = {}
    for kind, level in zip(KINDS, STATED, strict=True):
        errors, bits, _ = ratios.of(kind)
        with np.errstate(divide="ignore", invalid="ignore"):
            counted = np.where(bits > 0, errors / bits, np.nan)
        ratio_of[kind] = (
            np.where(np.isnan(counted), reading.level[level], counted) if level in reading.level else counted
        )
    return ratio_of


class ErrorRatios:
    """Sums of errors, bits and seconds over the last ``window_s`` seconds (for ``raw``: ``raw_window_s``). The sums are
    kept for two halves of the window, and the older half is dropped as a whole. So the actual time is between half of
    the window and the whole window.

    Errors before correction are frequent, so a short window is sufficient for their ratio, and a long one would hide an
    increase.
    """

    def __init__(self, ports: int, window_s: float = 3600.0, raw_window_s: float = 300.0):
        self.window_s = {kind: min(raw_window_s, window_s) if kind == "raw" else window_s for kind in KINDS}
        self._halves = {kind: (_Sums(ports), _Sums(ports)) for kind in KINDS}

    def add(self, one: Interval) -> None:
        """Add an interval of the same ports."""
        for kind in KINDS:
            older, newer = self._halves[kind]
            if newer.span_s >= self.window_s[kind] / 2:
                older, newer = newer, _Sums(len(one.guid))
                self._halves[kind] = older, newer
            errors, readable = errors_of(one, kind)
            if kind == "raw" and LEAST + SYMBOLS in one.level:  # the counter saturated; use only this interval
                full = ~np.isnan(one.level[LEAST + SYMBOLS])
                for half in (older, newer):
                    half.clear(full)
            newer.add(one, errors, readable)

    def carried(self, rows: np.ndarray) -> ErrorRatios:
        """Return the sums for other ports: ``rows`` int64[n] are their rows in this object, -1 for a port whose sums
        begin at 0."""
        carried = ErrorRatios(len(rows), self.window_s["symbol"], self.window_s["raw"])
        carried._halves = {kind: (a.taken(rows), b.taken(rows)) for kind, (a, b) in self._halves.items()}
        return carried

    def of(self, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the errors, bits and seconds for kind ``symbol``, ``raw`` or ``effective`` (float64[n] each)."""
        first, second = self._halves[kind]
        return first.errors + second.errors, first.bits + second.bits, first.seconds + second.seconds


class _Sums:
    def __init__(self, ports: int):
        self.span_s = 0.0
        self.errors, self.bits, self.seconds = (np.zeros(ports) for _ in range(3))

    def taken(self, rows: np.ndarray) -> _Sums:
        sums = _Sums(len(rows))
        sums.span_s = self.span_s
        if len(self.errors):
            for name in ("errors", "bits", "seconds"):
                setattr(sums, name, np.where(rows >= 0, getattr(self, name)[rows], 0.0))
        return sums

    def clear(self, rows: np.ndarray) -> None:
        for column in (self.errors, self.bits, self.seconds):
            column[rows] = 0.0

    def add(self, one: Interval, errors: np.ndarray, known: np.ndarray) -> None:
        spans = (one.end_ns - one.begin_ns) / 1e9
        self.span_s += float(np.median(spans[spans > 0])) if (spans > 0).any() else 0.0
        unknown = np.full(len(spans), np.nan)
        gbps = one.level.get("lane_gbps", unknown) * one.level.get("lanes", unknown)
        known = known & ~np.isnan(gbps)
        seconds = np.where(known, spans, 0.0)
        self.seconds += seconds
        self.bits += seconds * np.where(known, gbps, 0.0) * 1e9
        self.errors += np.where(known, errors, 0.0)


def errors_of(one: Interval, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the errors of ``kind`` in the interval (float64[n]), and whether they are known (bool[n]). The number of
    corrected symbols comes from the histogram of codewords, whose bins have 64 bits; without a histogram, from the
    counter of corrected symbols; if that is saturated, from the known minimum of its increase."""
    name = ERRORS.get(kind, SYMBOLS)
    nothing = np.zeros(len(one.guid))
    errors = np.asarray(one.increase.get(name, nothing), np.float64)
    readable = np.asarray(one.known.get(name, nothing), bool)
    if kind != "raw":
        return errors, readable
    least = one.level.get(LEAST + SYMBOLS)
    if least is not None:
        errors, readable = np.where(readable | np.isnan(least), errors, least), readable | ~np.isnan(least)
    if all(h in one.increase for h in HISTOGRAM):
        binned = np.logical_and.reduce([one.known[h] for h in HISTOGRAM])
        corrected = sum(k * one.increase[h].astype(np.float64) for k, h in enumerate(HISTOGRAM))
        errors, readable = np.where(binned, corrected, errors), readable | binned
    return errors, readable
