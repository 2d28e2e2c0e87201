"""Finds links whose rate is below the rate that, according to PortInfo, both ends support, although most links of their
kind reach this rate. Such links trained with fewer lanes or at a lower speed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.diags.cable_rules.case import Case, Suspicion
from softib.diags.cables.links import LINK_NARROW, LINK_SLOW
from softib.diags.finding import finding

__all__ = ["slow_links"]

FULL = 0.999


def slow_links(case: Case) -> Iterator[Suspicion]:
    """Report cables whose last rate is a smaller share of their possible rate than for most cables of the same kind (to
    hosts, or between switches). If most links are slow, this is taken as the design of the fabric.
    """
    rate, best, lanes = (_latest(case.level(name)) for name in ("rate_gbps", "best_gbps", "lanes"))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where((best > 0) & (rate > 0), rate / best, np.nan)
    cables = case.cables[~np.isnan(share[case.cables])]
    for kind in (case.to_host, ~case.to_host):
        of_kind = cables[kind[cables]]
        if not len(of_kind):
            continue
        usual = float(np.median(share[of_kind]))
        for row in of_kind[share[of_kind] < usual * FULL].tolist():
            yield _of_cable(case, row, (float(rate[row]), float(best[row])), int(lanes[row]) if lanes[row] > 0 else 0)


def _of_cable(case: Case, row: int, gbps: tuple[float, float], lanes: int) -> Suspicion:
    rate, best = gbps
    narrow = 0 < lanes < 4 and abs(rate / best * 4 / lanes - 1) < 0.05
    on = f" on {lanes} of 4 lanes" if narrow else ""
    return Suspicion(
        finding(
            LINK_NARROW if narrow else LINK_SLOW,
            case.ends(row),
            f"{case.link(row)} runs at {rate:.0f} Gb/s{on}, both ends support {best:.0f}",
            {"gbps": rate, "could_gbps": best, "lanes": lanes},
        ),
        row,
        0.95,
    )


def _latest(level: np.ndarray) -> np.ndarray:
    """Return the last known value of each port (float64[n]; NaN: never known)."""
    read = ~np.isnan(level)
    if not len(level):
        return np.full(level.shape[1], np.nan)
    last = len(level) - 1 - read[::-1].argmax(axis=0)
    return np.asarray(level[last, np.arange(level.shape[1])])
