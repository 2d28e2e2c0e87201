"""Reader of the layouts and constants that C and Python share. They come from the C header, so that each is declared
only once.

Only constructs that a shared layout may use are read: ``struct name { … };`` of fixed-width integers, ``char`` and
arrays of them. Anything else in a structure is an error. Alignment is C's
(natural).
"""

from __future__ import annotations

import re
import struct
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np

from softib.errors import SoftibBug

__all__ = ["PRELOAD", "CHeader", "Layout"]

PRELOAD = Path(__file__).resolve().parent.parent / "preload"
"""The folder of the C sources, whose headers declare every layout that C and Python share."""

TYPES = {
    f"{sign}int{bits}_t": f"{kind}{bits // 8}" for sign, kind in (("u", "u"), ("", "i")) for bits in (8, 16, 32, 64)
}
TYPES |= {"float": "f4", "double": "f8"}
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_STRUCT = re.compile(r"struct\s+(\w+)\s*\{([^{}]*)\}\s*;")
_MEMBER = re.compile(r"(\w+)\s+(\w+)(?:\[(\d+)\])?")


class CHeader:
    """The header at ``path`` below the C sources, read on first use. ``prefix``: the prefix of the header's macro
    names."""

    def __init__(self, path: str, prefix: str = "SOFTIB_"):
        self.path, self.prefix = PRELOAD / path, prefix
        self._types: dict[str, np.dtype] | None = None
        self._layouts: dict[str, Layout] = {}
        self._constants: dict[str, int] = {}

    def types(self) -> dict[str, np.dtype]:
        """Return every structure by name. Raises :class:`SoftibBug` if a member is not allowed."""
        if self._types is None:
            text = _COMMENT.sub(" ", self.path.read_text(encoding="ascii"))
            self._types = {name: np.dtype(self._members(body), align=True) for name, body in _STRUCT.findall(text)}
        return self._types

    def _members(self, body: str) -> list[tuple]:
        members = (" ".join(m.split()) for m in body.split(";"))
        return [_member(self.path, m) for m in members if m]

    def layout(self, name: str) -> Layout:
        """Return structure ``name`` as a :class:`Layout`, which is faster for single messages than a dtype."""
        if name not in self._layouts:
            self._layouts[name] = Layout(self.types()[name], name)
        return self._layouts[name]

    def constant(self, name: str) -> int:
        """Return the number of the macro ``prefix`` + ``name``."""
        return self.macro(self.prefix + name)

    def macro(self, name: str) -> int:
        """Return the number of the macro ``name``. Raises :class:`SoftibBug` if there is none."""
        if name not in self._constants:
            text = self.path.read_text(encoding="ascii")
            hit = re.search(rf"^#define\s+{name}\s+(\w+)\s*$", text, re.MULTILINE)
            if hit is None:
                raise SoftibBug(f"{self.path}: no macro {name}")
            self._constants[name] = int(hit[1], 0)
        return self._constants[name]


class Layout:
    """The layout of a structure, which is read as a named tuple: ``unpack(octets)``, ``pack(name=value, …)`` (other
    members are zero)."""

    def __init__(self, dtype: np.dtype, name: str):
        code, at, names = "=", 0, []
        defaults: list[Any] = []
        for field in dtype.names or ():
            kind, offset = dtype.fields[field][:2]  # type: ignore[index]
            code += f"{offset - at}x" if offset > at else ""
            octets = kind.subdtype is not None or kind.kind == "S"
            code += f"{kind.itemsize}s" if octets else {1: "B", 2: "H", 4: "I", 8: "Q"}[kind.itemsize]
            defaults.append(b"" if octets else 0)
            names.append(field)
            at = offset + kind.itemsize
        code += f"{dtype.itemsize - at}x" if dtype.itemsize > at else ""
        self.struct = struct.Struct(code)
        self.size = self.struct.size
        row_type: Any = namedtuple(name, names)  # type: ignore[misc]
        self._make = row_type._make
        self._defaults = defaults
        self._at = {n: i for i, n in enumerate(names)}

    def unpack(self, octets: bytes) -> Any:
        """Return the structure at the start of ``octets``."""
        return self._make(self.struct.unpack_from(octets))

    def pack(self, values: dict[str, Any]) -> bytes:
        """Return the bytes of a structure with these values."""
        row = self._defaults.copy()
        at = self._at
        for name, value in values.items():
            row[at[name]] = value
        return self.struct.pack(*row)


def _member(header: Path, text: str) -> tuple:
    hit = _MEMBER.fullmatch(text)
    if hit is None or (hit[1] not in TYPES and (hit[1] != "char" or not hit[3])):
        raise SoftibBug(f"{header}: {text!r} is not a member that a shared layout may have")
    if hit[1] == "char":
        return hit[2], f"S{hit[3]}"
    return (hit[2], TYPES[hit[1]], (int(hit[3]),)) if hit[3] else (hit[2], TYPES[hit[1]])
