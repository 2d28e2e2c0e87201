"""Finds racks that are warmer than other racks, although no module is beyond its alarm threshold.

A rack is a switch with its hosts; its modules are those at both ends of the hosts' cables. Only present temperatures
are compared, so a rack is found even if its air flow was blocked before the first observation.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.diags.cable_rules.case import Case, Suspicion
from softib.diags.cable_rules.module_alarms import LEVEL, last_known
from softib.diags.finding import Severity, code, finding

__all__ = ["warm_racks"]

WARM_RACK = code(
    "warm-rack",
    Severity.INFO,
    "the modules of a switch and of its hosts are much warmer than those of the other switches, though none is at its "
    "alarm",
    "check blanking panels, fans and sources of warm air at this rack; modules there fail earlier",
)
LEAST_RACKS = 4
"""Minimum number of racks for a comparison."""


def warm_racks(case: Case) -> Iterator[Suspicion]:
    """Yield racks whose median module temperature exceeds the median of all racks by at least the limit."""
    last = last_known(case, LEVEL)
    peer = np.asarray(case.ports.peer, np.int64)
    switch = np.asarray(case.ports.switch)
    rack = np.where(switch, case.node, np.where(peer >= 0, case.node[np.maximum(peer, 0)], -1))
    rows = np.flatnonzero(case.to_host & (peer >= 0) & ~np.isnan(last))
    nodes, of, count = np.unique(rack[rows], return_inverse=True, return_counts=True)
    if len(nodes) < LEAST_RACKS:
        return
    middle = _medians(last[rows], of.reshape(-1), count)
    middle = np.where(count >= case.limits["group_least"], middle, np.nan)
    usual = float(np.nanmedian(middle)) if not np.isnan(middle).all() else np.nan
    warm = (middle - usual >= case.limits["temperature_rise"]) & (middle < case.limits["temperature"])
    for i in np.flatnonzero(warm).tolist():
        row = int(np.flatnonzero(switch & (case.node == nodes[i]))[0])
        text = (
            f"{case.node_location(row)} and its hosts: {int(count[i]):,} modules at {middle[i]:.0f} °C in the middle, "
            f"{middle[i] - usual:.0f} more than the {len(nodes):,} switches have"
        )
        evidence = {
            "modules": int(count[i]),
            "temperature_c": float(middle[i]),
            "usual_c": usual,
            "limit_c": case.limits["temperature_rise"],
            "source": case.limits.of("temperature_rise").source,
        }
        yield Suspicion(finding(WARM_RACK, [case.node_location(row)], text, evidence), row, 0.8, cable=False)


def _medians(values: np.ndarray, of: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return the median of ``values`` for each group in ``of``."""
    order = np.lexsort((values, of))
    first = np.cumsum(count) - count
    low, high = first + (count - 1) // 2, first + count // 2
    return np.asarray((values[order[low]] + values[order[high]]) / 2)
