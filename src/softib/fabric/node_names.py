"""Names that tell every node from the others: several nodes may have one NodeDescription, or two
that people take for one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from softib.fabric.model import Fabric

__all__ = ["distinct_names", "natural_key", "natural_rank"]


_PARTS = re.compile(r"[0-9]{1,18}|[^0-9]+")
"""Runs of digits (as many as an int64 holds), and what is between them."""


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key of ``name``. Names that differ in leading zeros alone are equal."""
    return tuple((0, int(p), "") if p[0] in "0123456789" else (1, 0, p) for p in _PARTS.findall(name))


def natural_rank(names: Sequence[str]) -> np.ndarray:
    """int64[names]: the place of each in natural order; of equal names the earlier is first."""
    rank = np.empty(len(names), np.int64)
    rank[sorted(range(len(names)), key=lambda i: (natural_key(names[i]), i))] = np.arange(len(names))
    return rank


_SEPARATORS = re.compile(r"[\s\-_.:;,/]+")


def distinct_names(f: Fabric) -> list[str]:
    """Name of each node, with the GUID behind it where another node's name is equal or differs only
    in case or separators."""
    names = f.node_names()
    alike = [_SEPARATORS.sub(" ", name.casefold()).strip() for name in names]
    times = Counter(alike)
    guids = f.node_guid.tolist()
    return [n if times[a] == 1 else f"{n} ({g:#018x})" for n, a, g in zip(names, alike, guids, strict=True)]
