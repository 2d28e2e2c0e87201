"""Rows of tables for the REST interface: filtered, in pages, as objects with the words of ``softib``'s tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["MOST", "page"]

MOST = 1000
"""Rows of one page at most."""


def page(columns: Mapping[str, Any], rows: np.ndarray, offset: int, limit: int) -> dict[str, Any]:
    """``{"total", "offset", "rows"}`` of the chosen ``rows`` of ``columns``, at most :data:`MOST`."""
    chosen = rows[offset : offset + min(limit, MOST)].tolist()
    names = list(columns)
    lists = [c.tolist() if isinstance(c, np.ndarray) else c for c in columns.values()]
    return {
        "total": len(rows),
        "offset": offset,
        "rows": [dict(zip(names, (c[i] for c in lists), strict=True)) for i in chosen],
    }
