"""Numbers with units: ``2MB``, ``64KiB``, ``10us``, ``25Gb/s``."""

from __future__ import annotations

import math
import re

__all__ = ["rate_of", "size_of", "time_ps_of"]

SIZE = re.compile(r"([0-9.]+(?:e[+-]?[0-9]+)?) ?([kmgtpe]?)(i?)b?", re.IGNORECASE)
POWERS = " kmgtpe"
TIME = re.compile(r"([0-9.]+(?:e[+-]?[0-9]+)?) ?(ps|ns|us|µs|ms|s)", re.IGNORECASE)
LARGEST = 1e290
PS = {"ps": 1, "ns": 10**3, "us": 10**6, "µs": 10**6, "ms": 10**9, "s": 10**12}
RATE = re.compile(r"([0-9.]+(?:e[+-]?[0-9]+)?) ?(?:(g|m)(?:b/s|bps|bit/s)?)?", re.IGNORECASE)


def size_of(text: str) -> float:
    """Return the number of bytes from a text like ``1048576``, ``1e6``, ``1.5 GB`` (10^9) or ``1GiB`` (2^30). Raises
    ValueError."""
    hit = SIZE.fullmatch(text.strip())
    if hit is None:
        raise ValueError(text)
    power = POWERS.index(hit[2].lower()) if hit[2] else 0
    if hit[3] and not power:
        raise ValueError(text)
    return _finite(hit[1]) * float((1024 if hit[3] else 1000) ** power)


def time_ps_of(text: str) -> int:
    """Return the number of picoseconds from a text like ``10us``, ``1.5 ms`` or ``0``; a number other than 0 needs a
    unit. Raises ValueError."""
    if text.strip() in ("0", "0.0"):
        return 0
    hit = TIME.fullmatch(text.strip())
    if hit is None:
        raise ValueError(text)
    return round(_finite(hit[1]) * PS[hit[2].lower()])


def rate_of(text: str) -> float:
    """Return the rate in Gb/s from a text like ``25``, ``25Gb/s`` or ``500 Mb/s``. Raises ValueError."""
    hit = RATE.fullmatch(text.strip())
    if hit is None:
        raise ValueError(text)
    return _finite(hit[1]) / (1000 if (hit[2] or "g").lower() == "m" else 1)


def _finite(text: str) -> float:
    """Return ``text`` as a number. Raises ValueError for a number above 10^290, because its product with a unit could
    be infinite."""
    value = float(text)
    if not math.isfinite(value) or value > LARGEST:
        raise ValueError(text)
    return value
