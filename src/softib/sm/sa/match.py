"""Which records a question means: the component mask over columns (IBA 15.4.4)."""

from __future__ import annotations

import numpy as np

from softib.iba.sa import COMPONENTS
from softib.iba.structure import Field, Structure

__all__ = ["matching", "selected_components"]


def selected_components(record: type[Structure], comp_mask: int) -> list[str]:
    """Names of the components that a mask selects, in the order of the record. Reserved ones are
    left out."""
    return [n for bit, n in enumerate(COMPONENTS[record]) if n is not None and comp_mask >> bit & 1]


def matching(
    record: type[Structure], table: np.ndarray, comp_mask: int, query: np.ndarray, skip: frozenset[str] = frozenset()
) -> np.ndarray:
    """Rows of ``table`` (uint8[n, size]) whose selected components equal those of ``query``
    (uint8[size]). int64[m]

    Components in ``skip`` are not compared: the kind of record has a rule of its own for them.
    """
    rows: np.ndarray | None = None
    for name in dict.fromkeys(selected_components(record, comp_mask)):
        if name in skip:
            continue
        some = table if rows is None else table[rows]
        same = np.flatnonzero(_equal(record, name, some, query))
        rows = same if rows is None else rows[same]
        if not len(rows):
            break
    return np.arange(len(table)) if rows is None else rows


def _equal(record: type[Structure], name: str, table: np.ndarray, query: np.ndarray) -> np.ndarray:
    name, _, element = name.partition(":")
    f: Field = record.fields[name]
    bits, offset = (f.bits, f.offset + int(element) * f.bits) if element else (f.width, f.offset)
    if offset % 8 == 0 and bits % 8 == 0:
        octets = slice(offset // 8, (offset + bits) // 8)
        same: np.ndarray = (table[:, octets] == query[octets]).all(axis=1)
        return same
    values = f.get(table) == f.get(query)
    return values.all(axis=1) if values.ndim > 1 else np.asarray(values)
