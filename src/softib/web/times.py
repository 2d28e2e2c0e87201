"""Times of which something is known: the history of earlier days, and what this server saw itself."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from softib.errors import SoftibError
from softib.web.served import Served

__all__ = ["LAST", "all_times", "port_history", "thinned"]

LAST = 9e9
"""A clock time after all others, in seconds."""
T = TypeVar("T")


def all_times(served: Served, since_s: float, until_s: float) -> list[float]:
    """Oldest first. From the server's first round on its own rounds count; they alone while the
    history cannot be read."""
    mine, before = served.recent.times(), []
    if served.past is not None:
        with contextlib.suppress(SoftibError):
            before = [t for t in served.past.times() if not mine or t < mine[0]]
    return [t for t in (*before, *mine) if since_s <= t <= until_s]


def thinned(values: Sequence[T], most: int) -> list[T]:
    """At most ``most`` of them, evenly, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    return [values[i] for i in np.linspace(0, len(values) - 1, most).round().astype(int).tolist()]


def port_history(served: Served, guid: int, portnum: int, since_s: float, until_s: float, most: int) -> dict[str, Any]:
    """Columns of one port over time."""
    samples = list(served.recent.samples)
    began = samples[0].time_s if samples else until_s
    found = (
        []
        if served.past is None
        else [
            s for s in served.past.of_port(guid, portnum, since_s, min(began, until_s)) if not samples or s[0] < began
        ]
    )
    for s in samples:
        at = np.flatnonzero((s.guid == np.uint64(guid)) & (s.portnum == portnum))
        if len(at) and since_s <= s.time_s <= until_s:
            found.append((s.time_s, float(s.load[at[0]]), float(s.wait[at[0]]), int(s.errors[at[0]])))
    found = thinned(found, most)
    return {
        "time": [f[0] for f in found],
        "load": [_known(f[1]) for f in found],
        "wait": [_known(f[2]) for f in found],
        "errors": [f[3] for f in found],
    }


def _known(share: float) -> float | None:
    return None if math.isnan(share) else round(share, 4)
