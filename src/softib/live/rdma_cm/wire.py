"""What the rdma_cm device of our preload library and the daemon say to each other (``preload/verbs/cm/wire.h``)."""

from __future__ import annotations

import struct
from collections import namedtuple
from functools import cache
from typing import Any

import numpy as np

from softib.live.c_header import PRELOAD, define, structures

__all__ = ["Layout", "ask_of", "ask_size", "constant", "hello_of", "told"]

HEADER = PRELOAD / "verbs" / "cm" / "wire.h"


class Layout:
    """A structure of the header as a named tuple: ``unpack(octets)``, ``pack(name=value, …)`` (the rest zero)."""

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
        made: Any = namedtuple(name, names)  # type: ignore[misc]
        self._make = made._make
        self._defaults = defaults
        self._at = {n: i for i, n in enumerate(names)}

    def unpack(self, octets: bytes) -> Any:
        """The structure at the front of ``octets``."""
        return self._make(self.struct.unpack_from(octets))

    def pack(self, values: dict[str, Any]) -> bytes:
        """Its octets."""
        row = self._defaults.copy()
        at = self._at
        for name, value in values.items():
            row[at[name]] = value
        return self.struct.pack(*row)


@cache
def _layout(name: str) -> Layout:
    return Layout(structures(HEADER)[f"softib_cm_{name}"], name)


@cache
def constant(name: str) -> int:
    """``SOFTIB_CM_`` + ``name``."""
    return define(HEADER, f"SOFTIB_CM_{name}")


def hello_of(message: bytes) -> Any | None:
    """The greeting in ``message``; None where it is none, or of another version."""
    layout = _layout("hello")
    if len(message) != layout.size:
        return None
    hello = layout.unpack(message)
    return hello if (hello.magic, hello.version) == (constant("MAGIC"), constant("VERSION")) else None


def ask_size() -> int:
    """Octets of a question; POST has a message behind it."""
    return _layout("ask").size


def ask_of(message: bytes) -> Any | None:
    """The question in ``message``; None where it is none."""
    layout = _layout("ask")
    return layout.unpack(message) if len(message) >= layout.size else None


def told(values: dict[str, Any]) -> bytes:
    """An answer or an event."""
    return _layout("reply").pack(values)
