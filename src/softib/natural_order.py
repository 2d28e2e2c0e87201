"""Names in natural order: ``leaf-2`` before ``leaf-10``."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

__all__ = ["natural_key", "natural_rank"]


_PARTS = re.compile(r"[0-9]{1,18}|[^0-9]+")
"""Runs of digits (as many as an int64 holds), and the text between them."""


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return the sort key of ``name``. Names that differ only in leading zeros are equal."""
    return tuple((0, int(p), "") if p[0] in "0123456789" else (1, 0, p) for p in _PARTS.findall(name))


def natural_rank(names: Sequence[str]) -> np.ndarray:
    """Return the position of each name in natural order, int64[names]; equal names keep their order."""
    rank = np.empty(len(names), np.int64)
    rank[sorted(range(len(names)), key=lambda i: (natural_key(names[i]), i))] = np.arange(len(names))
    return rank
