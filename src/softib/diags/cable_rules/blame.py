"""Which end of a cable is bad: errors are counted by the end that receives, so a direction accuses
one transmitter and one receiver."""

from __future__ import annotations

import numpy as np

from softib.diags.cable_rules.case import Case

__all__ = ["blame"]

ONE_SIDED = 10.0
"""One direction is the bad one where it has this many times the errors of the other (our choice).
"""
WARM = 10.0
"""A module that is this many degrees warmer than that of the other end is the likelier one
(pdr_deterministic_plugin's 10 degrees)."""


def blame(case: Case, row: int, errors: np.ndarray, stated: np.ndarray) -> tuple[int, str]:
    """(row of the end to begin with, why) of the cable at ``row``, by the ``errors`` that each port
    received (float64[n]); ``stated`` bool[k, n]: where they are known."""
    peer = int(case.ports.peer[row])
    if peer < 0:
        return row, "the other end was not observed: cable, or either module"
    here, there = float(errors[row]), float(errors[peer])
    row, peer, here, there = (row, peer, here, there) if here >= there else (peer, row, there, here)
    if not stated[:, peer].any():
        return row, f"{case.location(peer)} was not observed: cable, or either module"
    if here <= ONE_SIDED * max(there, 1.0):
        return row, "both directions: the cable, or whatever both share"
    warm = case.level("module_temperature_c")
    last = np.array([_last(warm[:, r]) for r in (row, peer)])
    if np.isfinite(last).all() and abs(last[0] - last[1]) >= WARM:
        hot = row if last[0] > last[1] else peer
        return (
            hot,
            f"only what {case.location(row)} receives is damaged, and the module of {case.location(hot)} is the "
            f"warmer one",
        )
    return (
        row,
        f"only what {case.location(row)} receives is damaged: module of {case.location(peer)} (it sends), of "
        f"{case.location(row)}, or the fibre between",
    )


def _last(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(known[-1]) if len(known) else np.nan
