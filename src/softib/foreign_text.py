"""Text from files, devices and schedulers in a form that is safe to show: printable, on one line,
of bounded length.

Names are untrusted, and a terminal obeys the text that it shows: escape sequences, C1 controls, characters that change
the direction of writing. Names, messages and pages pass :func:`shown` or :func:`shown_lines` before people see them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

__all__ = ["LINE", "NAME", "field_text", "shown", "shown_lines"]

NAME = 128
"""Maximum length of a name: a NodeDescription has 64 bytes."""
LINE = 1000
"""Longest message."""
_INSTEAD = "\N{REPLACEMENT CHARACTER}"


def shown(text: str, most: int = LINE) -> str:
    """Return ``text`` on one line of at most ``most`` characters: white space as blanks, U+FFFD for
    characters that cannot be printed."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " if c.isspace() else _INSTEAD for c in text[: 4 * most])
    return text if len(text) <= most else text[: most - 1] + "…"


def field_text(field: bytes | np.ndarray) -> str:
    """Return the text of a field of bytes, which ends at the first zero byte, with at most :data:`NAME` characters."""
    return shown(bytes(field).split(b"\0")[0].decode("utf-8", "replace"), NAME)


def shown_lines(text: str) -> str:
    """Return ``text`` with its line ends, of any length, U+FFFD for characters that cannot be printed."""
    return "\n".join(line if line.isprintable() else shown(line, len(line)) for line in text.split("\n"))
