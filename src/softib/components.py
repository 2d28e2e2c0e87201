"""The connected parts of a graph, as columns."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["components"]


def components(n: int, a: Any, b: Any) -> np.ndarray:
    """Return, for each of ``n`` vertices with edges ``a[i]``–``b[i]``, the smallest member of its connected component.

    Hooking and pointer jumping (Shiloach and Vishkin, J. Algorithms 3, 1982): near-linear, columns
    only.
    """
    root = np.arange(n)
    while len(a):
        ra, rb = root[a], root[b]
        differ = ra != rb
        if not differ.any():
            break
        low, high = np.minimum(ra, rb)[differ], np.maximum(ra, rb)[differ]
        np.minimum.at(root, high, low)
        while True:
            jumped = root[root]
            if (jumped == root).all():
                break
            root = jumped
    return root
