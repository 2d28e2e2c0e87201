"""Structures of a C header as NumPy dtypes, so that a layout is declared once.

Only what a shared layout may use is read: ``struct name { … };`` of fixed-width integers, ``char`` and arrays of them.
Everything else in a structure is an error, never a guess. Alignment is C's (natural).
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from softib.errors import SoftibBug

__all__ = ["PRELOAD", "define", "structures"]

PRELOAD = Path(__file__).resolve().parent.parent / "preload"
"""The folder of the C sources, whose headers declare every layout that C and Python share."""

TYPES = {
    f"{sign}int{bits}_t": f"{kind}{bits // 8}" for sign, kind in (("u", "u"), ("", "i")) for bits in (8, 16, 32, 64)
}
TYPES |= {"float": "f4", "double": "f8"}
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_STRUCT = re.compile(r"struct\s+(\w+)\s*\{([^{}]*)\}\s*;")
_MEMBER = re.compile(r"(\w+)\s+(\w+)(?:\[(\d+)\])?")


def structures(header: Path) -> dict[str, np.dtype]:
    """``{name: dtype}`` of every structure in ``header``. Raises :class:`SoftibBug` where a member is none of the
    allowed."""
    text = _COMMENT.sub(" ", header.read_text(encoding="ascii"))
    found = {}
    for name, body in _STRUCT.findall(text):
        members = [" ".join(m.split()) for m in body.split(";")]
        found[name] = np.dtype([_member(header, m) for m in members if m], align=True)
    return found


def define(header: Path, name: str) -> int:
    """The number that ``header`` gives to a macro."""
    hit = re.search(rf"^#define\s+{name}\s+(\w+)\s*$", header.read_text(encoding="ascii"), re.MULTILINE)
    if hit is None:
        raise SoftibBug(f"{header}: no macro {name}")
    return int(hit[1], 0)


def _member(header: Path, text: str) -> tuple:
    hit = _MEMBER.fullmatch(text)
    if hit is None or (hit[1] not in TYPES and (hit[1] != "char" or not hit[3])):
        raise SoftibBug(f"{header}: {text!r} is no member that a shared layout may have")
    if hit[1] == "char":
        return hit[2], f"S{hit[3]}"
    return (hit[2], TYPES[hit[1]], (int(hit[3]),)) if hit[3] else (hit[2], TYPES[hit[1]])
