"""Error ratios of links and shares of time, from increases: how many bits a link carried, how long that was, and what the ticks of PortXmitWait last.

A link that is up carries symbols all the time, so bits are lanes × signalling rate × seconds, whatever was sent. Sources: IBA 5.6 (symbols flow on an idle link), 16.1.3.2 (a tick is
(n + 1) × 10 bit times of a lane), 16.1.3.5 (PortXmitWait counts ticks in which there was something to send and nothing went).
"""

from __future__ import annotations

import numpy as np

from softib.monitor.increase import Interval

__all__ = ["ErrorRatios", "upper_bound", "utilization", "wait_ratio"]

SYMBOL_BITS = 10
"""Bit times of a symbol time, the unit of PortSamplesControl.Tick."""
ERRORS = {
    "symbol": "symbol_error_counter",
    "raw": "port_fec_corrected_symbol_ctr",
    "effective": "port_fec_uncorrectable_block_ctr",
}
"""Ratio → the counter whose increase is its numerator."""


def wait_ratio(one: Interval) -> np.ndarray:
    """Share of the interval in which data waited (float64[n], at most 1; NaN where a tick, the link or the increase is unknown)."""
    name = "port_xmit_wait"
    if name not in one.increase or "lane_gbps" not in one.level or "tick_symbols" not in one.level:
        return np.full(len(one.guid), np.nan)
    seconds = (one.end_ns - one.begin_ns) / 1e9
    with np.errstate(divide="ignore", invalid="ignore"):
        tick_s = one.level["tick_symbols"] * SYMBOL_BITS / (one.level["lane_gbps"] * 1e9)
        share = one.increase[name] * tick_s / seconds
    return np.where(one.known[name], np.minimum(share, 1.0), np.nan)


def utilization(one: Interval) -> np.ndarray:
    """Sent bits by the link's data rate (float64[n]; NaN unknown)."""
    name = "port_xmit_data"
    if name not in one.increase or "rate_gbps" not in one.level:
        return np.full(len(one.guid), np.nan)
    seconds = (one.end_ns - one.begin_ns) / 1e9
    with np.errstate(divide="ignore", invalid="ignore"):
        share = one.increase[name] * 32.0 / (one.level["rate_gbps"] * 1e9 * seconds)
    return np.where(one.known[name] & (one.level["rate_gbps"] > 0), share, np.nan)


def upper_bound(errors: np.ndarray) -> np.ndarray:
    """What the mean of a Poisson count is below with 95 % confidence, by Wilson and Hilferty's cube root; 3.0 for a count of 0 (the rule of three)."""
    n = errors.astype(np.float64) + 1.0
    return np.asarray(n * (1 - 1 / (9 * n) + 1.645 / (3 * np.sqrt(n))) ** 3)


class ErrorRatios:
    """Sums of errors, bits and seconds over the last ``window_s`` seconds (between half of it and all of it: two halves, of which the older is dropped whole)."""

    def __init__(self, ports: int, window_s: float = 3600.0):
        self.half_s = window_s / 2
        self._halves = [_Sums(ports), _Sums(ports)]

    def add(self, one: Interval) -> None:
        """One more interval of the same ports."""
        if self._halves[-1].span_s >= self.half_s:
            self._halves = [self._halves[-1], _Sums(len(one.guid))]
        self._halves[-1].add(one)

    def carried(self, rows: np.ndarray) -> ErrorRatios:
        """The same of other ports: ``rows`` int64[n] are their rows here, -1 of one that begins anew."""
        made = ErrorRatios(len(rows), 2 * self.half_s)
        made._halves = [half.taken(rows) for half in self._halves]
        return made

    def of(self, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Errors, bits and seconds of ``symbol``, ``raw`` or ``effective``. float64[n] each"""
        first, second = self._halves
        return (
            first.errors[kind] + second.errors[kind],
            first.bits[kind] + second.bits[kind],
            first.seconds[kind] + second.seconds[kind],
        )


class _Sums:
    def __init__(self, ports: int):
        self.span_s = 0.0
        self.errors, self.bits, self.seconds = ({kind: np.zeros(ports) for kind in ERRORS} for _ in range(3))

    def taken(self, rows: np.ndarray) -> _Sums:
        made = _Sums(len(rows))
        made.span_s = self.span_s
        for name in ("errors", "bits", "seconds"):
            mine, new = getattr(self, name), getattr(made, name)
            for kind in ERRORS:
                new[kind] = np.where(rows >= 0, mine[kind][rows], 0.0) if len(mine[kind]) else new[kind]
        return made

    def add(self, one: Interval) -> None:
        spans = (one.end_ns - one.begin_ns) / 1e9
        self.span_s += float(spans.max(initial=0.0))
        gbps = one.level.get("lane_gbps", np.full(len(spans), np.nan)) * one.level.get(
            "lanes", np.full(len(spans), np.nan)
        )
        for kind, name in ERRORS.items():
            if name not in one.increase:
                continue
            known = one.known[name] & ~np.isnan(gbps)
            seconds = np.where(known, spans, 0.0)
            self.seconds[kind] += seconds
            self.bits[kind] += seconds * np.where(known, gbps, 0.0) * 1e9
            self.errors[kind] += np.where(known, one.increase[name], 0)
