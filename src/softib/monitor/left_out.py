"""What ibqueryerrors leaves out: a port or counter that it does not print is at most its threshold,
not unknown.

The tool ends with what it looked at::

    ##          32 ports checked, 0 ports have errors beyond threshold
    ## Thresholds: [SymbolErrorCounter = 20][LinkDownedCounter = 3]       none: 0
    ## Suppressed: PortXmitWait PortXmitDiscards                          these are unknown
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from softib.diags.cables.counters import SHORT
from softib.fabric.formats.base import Problems, read_lines

__all__ = ["LeftOut", "left_out"]

_CHECKED = re.compile(r"##\s+(\d{1,9}) ports checked\b")
_THRESHOLDS = re.compile(r"## Thresholds:(.*)")
_SUPPRESSED = re.compile(r"## Suppressed:(.*)")
_ONE = re.compile(r"\[(\w{1,60}) = (\d{1,20})\]")
_COUNTERS = {name.lower(): counter for counter, name in SHORT.items()}
"""Names as the tool prints them → counters."""


@dataclass(frozen=True)
class LeftOut:
    """``checked`` ports were read; ``most``: the largest value of each counter that the tool does
    not print."""

    checked: int
    most: dict[str, int]


def left_out(file: str) -> LeftOut | None:
    """What the end of an output of ibqueryerrors says; None for any other file."""
    checked, thresholds, suppressed = -1, {}, set()
    for line in read_lines(Path(file), Problems("")):
        if m := _CHECKED.match(line):
            checked = int(m[1])
        elif m := _THRESHOLDS.match(line):
            thresholds = {name.lower(): int(value) for name, value in _ONE.findall(m[1])}
        elif m := _SUPPRESSED.match(line):
            suppressed = {word.lower() for word in re.findall(r"\w+", m[1])}
    if checked < 0:
        return None
    return LeftOut(checked, {c: thresholds.get(n, 0) for n, c in _COUNTERS.items() if n not in suppressed})
