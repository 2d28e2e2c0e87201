"""Times that a user types."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

import click

__all__ = ["clock"]


def clock(option: str, text: str | None) -> float | None:
    """Return a time in seconds since 1970 from a text like ``6h`` (six hours ago) or a clock time. Errors name
    ``option``.
    """
    if text is None:
        return None
    if ago := re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smhd])", text):
        return max(0.0, time.time() - float(ago[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[ago[2]])
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a time; use an age (90m, 6h, 3d) or a clock time (2026-11-24T08:00)", param_hint=option
        ) from None
    return max(0.0, (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp())
