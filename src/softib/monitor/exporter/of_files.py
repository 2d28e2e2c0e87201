"""Metrics of files that others collected: what a scrape would get at the time of the newest."""

from __future__ import annotations

import math
from collections.abc import Sequence

from softib.monitor.exporter.ratios import ErrorRatios
from softib.monitor.exporter.text import PortText
from softib.monitor.files import checked_pair, read_snapshot
from softib.monitor.increase import between

__all__ = ["text_of_files"]


def text_of_files(files: Sequence[str], scheme: str, fabric: str | None) -> str:
    """Counters and levels of the newest of one or two ``files``; error ratios and shares of time
    are of the time between both. Raises :class:`InputError` where they are of one time or of two
    fabrics."""
    shots = sorted((read_snapshot(f, fabric) for f in files), key=lambda s: int(s.reading.time_ns.max(initial=0)))
    last = shots[-1]
    ratios, interval = ErrorRatios(len(last.reading), math.inf, math.inf), None
    if len(shots) > 1:
        checked_pair(shots[0], last)
        interval = between(shots[0].reading, last.reading)
        ratios.add(interval)
    return PortText(last.ports, scheme).text(last.reading, interval, ratios).decode()
