"""Rows with named columns. Each column is declared once, with a type, a unit and a line of text.

An array of rows is a NumPy array of records. A kernel reads ``table.packet[k].psn``, which compiles
to one load at a fixed distance from the row's address; NumPy code reads the column
``table.packet["psn"]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Array", "Column", "Rows", "f8", "i4", "i8"]

LINE = 64
"""Bytes of a cache line."""


@dataclass(frozen=True)
class Column:
    """A column. ``kind``: NumPy's name of its type. ``many``: number of values per row. ``over``:
    the column whose bytes it shares."""

    name: str
    kind: str
    unit: str
    text: str
    many: int = 1
    over: str = ""


def i4(name: str, unit: str, text: str) -> Column:
    """Return an int32 column."""
    return Column(name, "int32", unit, text)


def i8(name: str, unit: str, text: str, many: int = 1, over: str = "") -> Column:
    """Return an int64 column."""
    return Column(name, "int64", unit, text, many, over)


def f8(name: str, unit: str, text: str) -> Column:
    """Return a float64 column."""
    return Column(name, "float64", unit, text)


class Rows:
    """Declaration of an array's rows. ``dtype`` is a record of the columns in their order, each at
    a multiple of its own size. If ``size`` is given, rows are padded to this number of bytes.

    Raises :class:`TypeError` for a name that records of NumPy cannot have, and for a column without
    unit or text.
    """

    def __init__(self, text: str, *columns: Column, size: int = 0):
        self.text, self.columns = text, columns
        for c in columns:
            if hasattr(np.record, c.name):
                raise TypeError(
                    f"a column cannot be called {c.name}: every record of NumPy has an attribute of that name"
                )
            if not c.unit or not c.text:
                raise TypeError(f"column {c.name} has no unit or no text")
        kinds = [np.dtype(c.kind) for c in columns]
        offsets: dict[str, int] = {}
        end = 0
        for c, kind in zip(columns, kinds, strict=True):
            offsets[c.name] = offsets[c.over] if c.over else -(-end // kind.itemsize) * kind.itemsize
            end = max(end, offsets[c.name] + c.many * kind.itemsize)
        layout: Any = {
            "names": list(offsets),
            "formats": [(kind, (c.many,)) if c.many > 1 else kind for c, kind in zip(columns, kinds, strict=True)],
            "offsets": list(offsets.values()),
            "itemsize": size or -(-end // 8) * 8,
        }
        self.dtype = np.dtype((np.record, np.dtype(layout, align=True)))

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def zeros(self, *shape: int) -> np.ndarray:
        """Return rows filled with zeros. The first row begins at a cache line."""
        rows = int(np.prod(shape, dtype=np.int64))
        raw = np.zeros(rows * self.dtype.itemsize + LINE, np.uint8)
        skip = -raw.ctypes.data % LINE
        return raw[skip : skip + rows * self.dtype.itemsize].view(self.dtype).reshape(shape)


@dataclass(frozen=True)
class Array:
    """An array of a table. ``shape`` names its dimensions (empty: one row, which kernels read as
    ``table.name.column``). ``of`` is :class:`Rows`, or NumPy's name of the type of plain numbers.
    Plain numbers have ``unit`` and ``text`` here."""

    shape: str
    of: Rows | str
    unit: str = ""
    text: str = ""

    @property
    def described(self) -> str:
        """Text of the column."""
        return self.text or (self.of.text if isinstance(self.of, Rows) else "")
