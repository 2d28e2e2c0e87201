"""Output for terminals that cannot show every character: arrows and frames become ASCII, without
errors.

``LANG=C`` (or POSIX) means ASCII. Python ignores this: under the C locale it writes UTF-8 (PEP 538 and 540), which such
a terminal shows as wrong characters. ``PYTHONIOENCODING`` and ``PYTHONUTF8`` override the locale, as in Python itself.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys
from collections.abc import Mapping

__all__ = ["speak_plainly", "wants_ascii"]

HANDLER = "softib.plain"
"""Name of the error handler of the encoders."""
CODEC = "softib-ascii"
"""ASCII under another name: Click treats a stream in ASCII as misconfigured, and replaces it with
UTF-8."""
COERCED = ("C.UTF-8", "C.utf8", "UTF-8")
"""Values that Python itself may set for LC_CTYPE under the C locale (PEP 538)."""

PLAIN = {
    "→": "->",
    "←": "<-",
    "↔": "<->",
    "–": "-",
    "—": "-",
    "−": "-",
    "…": "...",
    "×": "x",
    "·": "|",
    "•": "*",
    "÷": "/",
    "≥": ">=",
    "≤": "<=",
    "±": "+-",
    "≈": "~",
    "µ": "u",
    "μ": "u",
    "°": " deg",
    "∞": "inf",
    "�": "?",
    "“": '"',
    "”": '"',
    "‘": "'",
    "’": "'",
    "\u00a0": " ",
    "✓": "ok",
    "✗": "x",
}
"""ASCII replacements for the characters in softib's texts. Other characters are written as escapes, for example
``\\u00fc``.
"""


def wants_ascii(environment: Mapping[str, str]) -> bool:
    """Return whether this environment requests ASCII, but Python would write UTF-8."""
    if environment.get("PYTHONIOENCODING") or environment.get("PYTHONUTF8"):
        return False  # the variable sets the encoding explicitly, so the result is used as it is
    kind = environment.get("LC_CTYPE", "")
    locale = environment.get("LC_ALL") or ("" if kind in COERCED else kind) or environment.get("LANG", "")
    return locale in ("C", "POSIX")


def speak_plainly() -> None:
    """Make stdout and stderr replace the characters that their encoding cannot express by ASCII."""
    codecs.register_error(HANDLER, _plain)
    codecs.register(_codec)
    ascii_only = wants_ascii(os.environ)
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        encoding = codecs.lookup(stream.encoding).name
        if not ascii_only and encoding.startswith("utf"):
            continue
        with contextlib.suppress(ValueError, OSError):
            stream.reconfigure(encoding=CODEC if ascii_only or encoding == "ascii" else encoding, errors=HANDLER)


def _codec(name: str) -> codecs.CodecInfo | None:
    if name.replace("_", "-") != CODEC:
        return None
    plain = codecs.lookup("ascii")
    return codecs.CodecInfo(
        plain.encode,
        plain.decode,
        plain.streamreader,
        plain.streamwriter,
        plain.incrementalencoder,
        plain.incrementaldecoder,
        CODEC,
    )


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Return the replacement for characters that an encoder cannot write (an error handler of :mod:`codecs`)."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_letter, error.object[error.start : error.end])), error.end


def _letter(c: str) -> str:
    if c in PLAIN:
        return PLAIN[c]
    number = ord(c)
    if 0x2500 <= number <= 0x257F:  # frames
        return "-" if c in "─━╌┄┈═╴╶╸╺" else "|" if c in "│┃╎┆┊║╵╷╹╻" else "+"
    if 0x2580 <= number <= 0x259F:  # bars
        return "#"
    if 0x2800 <= number <= 0x28FF:  # a spinner's dots
        return "."
    return c.encode("ascii", "backslashreplace").decode()
