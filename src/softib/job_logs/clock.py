"""The times at the beginning of lines, as seconds since 1970. A time without a zone is in this machine's zone."""

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
_DMESG = re.compile(r"^\[(?:\S+ +)?(?:(\d{1,2})[^\W\d_]|([^\W\d_]+)\.?) +(\d{1,2}) (\d\d):(\d\d):(\d\d) (20\d\d)\]")
"""The time that ``dmesg -T`` prints, in the language of its host: weekday and month are strftime's %a and %b. In
Chinese, Japanese and Korean the month is a number."""
_ABBREVIATED = (
    "jan jän janv ene gen sty янв",
    "feb févr fev lut фев",
    "mar mär mars mrt мар",
    "apr avril abr kwi апр",
    "may mai mag mei maj мая май",
    "jun juin giu cze июн",
    "jul juil lug lip июл",
    "aug août ago sie авг",  # codespell:ignore sie
    "sep sept set wrz сен",
    "oct okt ott out paź окт",
    "nov lis ноя",
    "dec déc dez dic gru дек",
)
"""Months in English, German, French, Spanish, Italian, Portuguese, Dutch, Polish and Russian (glibc's locales)."""
_LOCAL_MONTHS = {name: i for i, names in enumerate(_ABBREVIATED, 1) for name in names.split()}


def time_of(line: str, year: int) -> float | None:
    """Return the time in ``line``; None if it has no valid one. ``year`` is used for lines without a year."""
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
    if match := _DMESG.search(head):
        number, month, d, h, mi, s, y = match.groups()
        at = int(number) if number else _LOCAL_MONTHS.get(month.lower(), 0)
        return _seconds((int(y), at, int(d), int(h), int(mi), int(s)), None, None)
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
