"""Lines and numbers as OpenSM's parser of partitions.conf reads them: C strings in one buffer, and
strtoul.

OpenSM replaces each separator with a zero byte. If an earlier line was longer, the buffer still
contains the end of that line.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["MOST_OCTETS", "LineBuffer", "strtoul"]

BUFFER, MOST_OCTETS = 4096, 4094
BLANK = b" \t\n"
MOST = (1 << 64) - 1
LONGEST = 22
"""Number of octal digits in 64 bits. A number with more digits is too large in every base."""
PREFIX = re.compile(r"\s*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9]\d*)", re.ASCII)


class Token(NamedTuple):
    """``name`` or ``name=value``."""

    name: str
    value: str | None
    after: int
    """Position behind it."""


class LineBuffer:
    """The buffer is ``octets``. The current line ends at ``end``, and the longest line so far at ``written``."""

    def __init__(self) -> None:
        self.octets = bytearray(2 * BUFFER)
        self.end = self.written = 0

    def put(self, line: bytes) -> None:
        """Store the next line, without its comment."""
        self.end = len(line)
        self.written = max(self.written, self.end)
        self.octets[: self.end + 1] = line + b"\0"
        self.cut(b"#", 0)

    def string(self, at: int) -> str:
        """Return the C string at ``at``."""
        return self.octets[at : self.octets.index(0, at)].decode(errors="replace")

    def skip(self, at: int) -> int:
        while self.octets[at] in BLANK:
            at += 1
        return at

    def word(self, at: int, end: int) -> str:
        """Return the text between ``at`` and ``end``, without surrounding blanks. Its trailing
        blanks become zeros."""
        first, last = self.skip(at), end
        while last > first and self.octets[last] in b"\0" + BLANK:
            self.octets[last] = 0
            last -= 1
        return self.string(first)

    def token(self, at: int) -> Token:
        """Return ``name`` or ``name=value`` up to a zero."""
        end = self.octets.index(0, at)
        equals = self.cut(b"=", at)
        if equals < 0:
            return Token(self.word(at, end), None, end + 1)
        return Token(self.word(at, equals), self.word(equals + 1, end), end + 1)

    def cut(self, separator: bytes, at: int) -> int:
        """Replace the first ``separator`` in the string at ``at`` with a zero; return its position, or -1."""
        position = self.octets.find(separator, at, self.octets.index(0, at))
        if position >= 0:
            self.octets[position] = 0
        return position


def strtoul(text: str) -> tuple[int, str]:
    """Return the number at the beginning, as C's strtoul with base 0 reads it, and the rest."""
    match = PREFIX.match(text)
    if match is None:
        return 0, text
    digits = match[2].lower()
    base = 16 if digits.startswith("0x") else 8 if digits.startswith("0") else 10
    significant = digits.removeprefix("0x").lstrip("0")
    value = min(int(significant or "0", base), MOST) if len(significant) <= LONGEST else MOST
    return (-value if match[1] == "-" else value) & MOST, text[match.end() :]
