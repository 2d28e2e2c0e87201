"""Predicts, from days of corrected symbols, when a steadily growing bit error ratio before FEC will reach the limit. A
straight line over time is fitted to the logarithm of the ratio. First, the common trend of all links (the room's
temperature) is removed. The growth must also be visible in the second half of the time, because a single step is not a
trend.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.diags.cable_rules.case import Case, Suspicion, span_text
from softib.diags.cable_rules.fec_margin import corrected_and_bits
from softib.diags.finding import Severity, code, finding

FEC_TREND = code(
    "fec-trend",
    Severity.WARNING,
    "errors before correction grow steadily and will reach the limit",
    "clean the connectors or replace the sending module before that day",
)
DAY_S = 86400.0
PARTS = 24
"""Number of equal parts of the time, for each of which one ratio is computed."""
LEAST_PARTS = 16
LEAST_SYMBOLS = 100.0
"""The ratio of a part counts if the part has at least this number of corrected symbols; its uncertainty is then a
tenth."""
COMMON_LINKS = 8
"""Minimum number of links for the removal of their common trend."""


def fec_trend(case: Case) -> Iterator[Suspicion]:
    """Report cables whose bit error ratio before FEC will reach the limit within the number of days in the
    thresholds.
    """
    begin_ns = case.obs.begin_ns[case.obs.end_ns > case.obs.begin_ns]
    if not len(begin_ns):
        return
    span_s = (int(case.obs.end_ns.max()) - int(begin_ns.min())) / 1e9
    if span_s < case.limits["fec_trend_span"]:
        return
    ratio = _ratios(case, int(begin_ns.min()), span_s)
    days = (np.arange(PARTS) + 0.5) * span_s / PARTS / DAY_S
    slope, sigmas, last = _lines(days, ratio)
    recent, _, _ = _lines(days[PARTS // 2 :], ratio[PARTS // 2 :])
    counted = (~np.isnan(ratio)).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        left = (np.log10(case.limits["pre_fec_ber"]) - last) / slope
    grows = (slope > 0) & (recent > slope / 2) & (sigmas >= case.limits["fec_trend_sigmas"]) & (counted >= LEAST_PARTS)
    grows &= (slope * span_s / DAY_S >= np.log10(case.limits["fec_trend_growth"])) & (left > 0)
    for row in np.flatnonzero(grows & (left <= case.limits["fec_trend_days"])).tolist():
        tenfold = 1 / float(slope[row])
        yield Suspicion(
            finding(
                FEC_TREND,
                case.ends(row),
                f"{case.link(row)}: the bit error ratio before FEC into {case.location(row)} grows tenfold in "
                f"{tenfold:.1f} days ({span_text(span_s)} observed, now {10 ** float(last[row]):.2g}); it reaches "
                f"{case.limits['pre_fec_ber']:g} in about {float(left[row]):.0f} days",
                {
                    "pre_fec_ber": 10 ** float(last[row]),
                    "tenfold_days": round(tenfold, 2),
                    "days_left": round(float(left[row]), 1),
                    "sigmas": round(float(sigmas[row]), 1),
                    "limit": case.limits["pre_fec_ber"],
                    "source": case.limits.of("fec_trend_days").source,
                },
            ),
            row,
            0.8,
        )


def _ratios(case: Case, begin_ns: int, span_s: float) -> np.ndarray:
    """Return the logarithm of the ratio in each part of the time (float64[parts, n]), without the common trend of all
    links.
    """
    symbols, bits, _ = corrected_and_bits(case)
    middle_s = (case.obs.begin_ns / 2 + case.obs.end_ns / 2 - begin_ns) / 1e9
    part = np.clip(middle_s / span_s * PARTS, 0, PARTS - 1).astype(np.int64)
    errors, sent = np.zeros((PARTS, case.n)), np.zeros((PARTS, case.n))
    rows = np.broadcast_to(np.arange(case.n), part.shape)
    np.add.at(errors, (part, rows), symbols)
    np.add.at(sent, (part, rows), bits)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((errors >= LEAST_SYMBOLS) & (sent > 0), np.log10(errors / sent), np.nan)
    measured = (~np.isnan(ratio)).sum(axis=0) >= LEAST_PARTS
    if measured.sum() >= COMMON_LINKS:
        of_links = ratio[:, measured] - np.nanmean(ratio[:, measured], axis=0)
        common = np.array([np.median(p[~np.isnan(p)]) if (~np.isnan(p)).any() else 0.0 for p in of_links])
        ratio -= common[:, None]
    return np.asarray(ratio)


def _lines(days: np.ndarray, ratio: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fit a line to the known parts of each port with least squares. Return its slope per day, its slope divided by the
    slope's standard error, and its value at the last part (float64[n] each; NaN if fewer than three parts are
    known).
    """
    stated = ~np.isnan(ratio)
    count = stated.sum(axis=0)
    y = np.where(stated, ratio, 0.0)
    x = np.where(stated, days[:, None], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        x_mean, y_mean = x.sum(axis=0) / count, y.sum(axis=0) / count
        dx, dy = np.where(stated, x - x_mean, 0.0), np.where(stated, y - y_mean, 0.0)
        square = (dx**2).sum(axis=0)
        slope = np.where(count > 2, (dx * dy).sum(axis=0) / square, np.nan)
        rest = np.where(stated, dy - slope * dx, 0.0)
        error = np.sqrt((rest**2).sum(axis=0) / (count - 2) / square)
        return slope, slope / np.maximum(error, 1e-12), y_mean + slope * (days[-1] - x_mean)
