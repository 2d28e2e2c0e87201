"""Readers: each has the regular expressions for the lines of one program. An expression recognises one symptom, and has
a literal that such lines contain."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["STATUS", "SYNDROME", "Pattern", "Reader", "pattern"]

STATUS: dict[int, str] = {
    1: "local-length",
    2: "local-operation",
    4: "local-protection",
    5: "flushed",
    6: "local-operation",
    7: "local-operation",
    8: "local-protection",
    9: "invalid-request",
    10: "remote-access",
    11: "remote-operation",
    12: "retry-exceeded",
    13: "receiver-not-ready",
}
"""``enum ibv_wc_status`` (ibv_poll_cq(3)) → symptom."""
SYNDROME: dict[int, int] = {
    0x01: 1,
    0x02: 2,
    0x04: 4,
    0x05: 5,
    0x06: 6,
    0x10: 7,
    0x11: 8,
    0x12: 9,
    0x13: 10,
    0x14: 11,
    0x15: 12,
    0x16: 13,
}
"""Syndrome in an mlx5 completion → status (rdma-core, providers/mlx5/cq.c)."""


@dataclass(frozen=True)
class Pattern:
    """A regular expression for lines of one symptom. Its named groups are ``host``, ``dev``, ``gid``, ``rgid``,
    ``lid``, ``rlid``, ``rhost``, ``status`` and ``synd`` (numbers that give the symptom where :attr:`symptom` is
    empty), ``detail``."""

    trigger: bytes
    """A literal that each such line contains. Lines without it, which are most of a log, are skipped."""
    regex: re.Pattern[str]
    symptom: str = ""
    continues: bool = False
    """The line names ends of the preceding event and is not an event itself."""
    pair: bool = False
    """The line names an end of a working connection (first the local end, then the remote one), and is not an error."""
    starts: bool = False
    """The program prints the line when its work starts (or, if it is also :attr:`pair`, when it is connected)."""
    ends: int = 0
    """The program prints the line when its work has ended normally, at least this many lines after its start (0: it is
    not such a line)."""


@dataclass(frozen=True)
class Reader:
    """Patterns of one program."""

    name: str
    patterns: tuple[Pattern, ...]


def pattern(
    trigger: str,
    regex: str,
    symptom: str = "",
    *,
    continues: bool = False,
    pair: bool = False,
    starts: bool = False,
    ends: int = 0,
) -> Pattern:
    """Return a :class:`Pattern` made from texts."""
    return Pattern(trigger.encode(), re.compile(regex), symptom, continues, pair, starts, ends)
