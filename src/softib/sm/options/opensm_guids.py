"""Files of GUIDs, read as OpenSM 3.3.23 reads them (``root_guid_file``, ``cn_guid_file``,
``guid_routing_order_file`` …)."""

from __future__ import annotations

import re

from softib.plural import counted, plural
from softib.sm.options.opensm_line import strtoul

__all__ = ["guid_remarks"]

_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)(?=[\s#]|$)")
"""``strtoull`` with base 0, then a space, a comment or the end of the line."""
WORD = 40
"""Number of characters of a wrong word that a remark shows."""
_HEX = re.compile(r"[0-9a-fA-F]{1,16}")
THEN = "updn uses only the GUIDs above it; ftree is rejected, and OpenSM continues with the next engine, or minhop"


def guid_remarks(text: str) -> list[tuple[int, str]]:
    """Return (line number, remark) for each line that OpenSM does not read as written. OpenSM stops
    at the first line that does not begin with a number, and logs only the name of the file. Numbers
    without 0x are decimal, or octal if they begin with 0."""
    remarks: list[tuple[int, str]] = []
    stopped, ends = 0, text.splitlines()
    for number, line in enumerate(ends, 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        word = re.split(r"[\s#]", line, maxsplit=1)[0]
        if (match := _NUMBER.match(line)) is None:
            fix = f"use 0x{word}: numbers without 0x are decimal" if _HEX.fullmatch(word) else "use 0x and 16 digits"
            after = "" if stopped else _stops(ends[number:])
            stopped = stopped or number
            remarks.append((number, f"{word[:WORD]!r} is not a GUID for OpenSM; {fix}{after}"))
        elif match[0][:2].lower() != "0x":
            value, _ = strtoul(line)
            remarks.append((number, f"{word[:WORD]!r} is read as {value:#018x}; use 0x before hexadecimal digits"))
    return remarks


def _stops(rest: list[str]) -> str:
    lost = sum(bool(line.split("#")[0].strip()) for line in rest)
    lines = f", and {counted(lost, 'line')} after it {plural(lost, 'is', 'are')} not used" if lost else ""
    return f"; OpenSM stops reading here{lines}; {THEN}"
