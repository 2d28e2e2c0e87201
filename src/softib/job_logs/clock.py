"""The times at the beginning of lines, as seconds since 1970. A time without a zone is of this machine's zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime

__all__ = ["time_of"]

_EPOCH = re.compile(r"\[(1[0-9]{9}\.[0-9]{1,9})\]")
_ISO = re.compile(r"(20\d\d)-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?\s?(Z|[+-]\d\d:?\d\d)?")
_GLOG = re.compile(r"\[[IWEF](\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")
_SYSLOG = re.compile(
    r"(?:^|\[)(?:[A-Z][a-z]{2} )?(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +(\d{1,2}) (\d\d):(\d\d):(\d\d)"
    r"(?: (20\d\d)\])?"
)
_MONTHS = {
    m: i for i, m in enumerate(["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], 1)
}


def time_of(line: str, year: int) -> float | None:
    """Return the time in ``line``; None if it has no valid one. ``year``: for lines without a
    year."""
    head = line[:200]
    if match := _EPOCH.search(head):
        return float(match[1])
    if match := _ISO.search(head):
        y, mo, d, h, mi, s, part, zone = match.groups()
        return _seconds((int(y), int(mo), int(d), int(h), int(mi), int(s)), part, zone)
    if match := _GLOG.search(head):
        mo, d, h, mi, s, part = match.groups()
        return _seconds((year, int(mo), int(d), int(h), int(mi), int(s)), part, None)
    if match := _SYSLOG.search(head):
        month, d, h, mi, s, y = match.groups()
        return _seconds((int(y or year), _MONTHS[month], int(d), int(h), int(mi), int(s)), None, None)
    return None


def _seconds(fields: tuple[int, int, int, int, int, int], part: str | None, zone: str | None) -> float | None:
    try:
        when = datetime(*fields)
        if zone == "Z":
            when = when.replace(tzinfo=UTC)
        elif zone:
            when = datetime.fromisoformat(f"{when.isoformat()}{zone[:3]}:{zone[-2:]}")
        return when.timestamp() + (float(f"0.{part}") if part else 0.0)
    except (ValueError, OverflowError, OSError):
        return None
