"""Rows of different lengths as columns: the entries of all rows are stored together, and each row has its number of
entries or its first position.

``count`` int64[rows]: entries of each row. ``first`` int64[rows + 1]: the position at which each row begins (compressed
sparse rows).
"""

from __future__ import annotations

import numpy as np

__all__ = ["inverted", "spread"]


def spread(count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``(row, place)`` of every entry, int64[sum(count)] both: ``spread([2, 0, 1])`` is
    ``([0, 0, 2], [0, 1, 0])``."""
    count = np.asarray(count).astype(np.int64, copy=False)
    row = np.repeat(np.arange(len(count)), count)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)


def inverted(row: np.ndarray, entry: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the pairs ``(row, entry)``, with entries below ``n``, sorted by entry, as ``(first, rows, order)``.

    ``rows[first[e]:first[e + 1]]`` int64 are the rows that have entry e, in the order of the pairs; ``order``
    int64[pairs] is the original position of each pair.
    """
    order = np.argsort(entry, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(entry, minlength=n))]).astype(np.int64, copy=False)
    return first, row[order].astype(np.int64, copy=False), order
