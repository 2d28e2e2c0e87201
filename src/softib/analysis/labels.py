"""Short labels for the boxes of a drawing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["DistinctParts", "distinct_parts", "short_name"]

_TOKEN = re.compile(r"[^\W\d_]+|\d+|[\W_]")
MIN_SAVED = 3
"""Minimum number of common letters; labels with fewer are not shortened."""


def short_name(name: str) -> str:
    """Return the short name of a node: ``leaf-1`` for ``MF0;leaf-1:MQM9700/U1``, and ``core/L16/U2`` for
    ``MF0;core:MCS8500/L16/U2``, a chip of a director."""
    match = re.fullmatch(r"[^;]*;([^:;]+):[^/]*/?(.*)", name)
    if not match:
        return name
    return match[1] if match[2] in ("", "U1") else f"{match[1]}/{match[2]}"


class DistinctParts(NamedTuple):
    """Names without their common part."""

    parts: list[str]
    common: str
    """The common part, for example ``leaf-…``; empty if nothing is removed."""


def distinct_parts(names: Sequence[str]) -> DistinctParts:
    """Return the distinct parts of the names; only whole words and numbers are removed. Nothing is
    removed if the names have fewer than :data:`MIN_SAVED` common letters, or if one would become
    empty."""
    rows = [_TOKEN.findall(n) for n in names]
    if len(set(names)) < 2:
        return DistinctParts(list(names), "")
    head = _alike(rows)
    tail = _alike([r[head:][::-1] for r in rows])
    first = rows[0]
    before, after = "".join(first[:head]), "".join(first[len(first) - tail :])
    middle = ["".join(r[head : len(r) - tail]) for r in rows]
    if len(before) + len(after) < MIN_SAVED or not all(middle):
        return DistinctParts(list(names), "")
    return DistinctParts(middle, f"{before}…{after}")


def _alike(rows: list[list[str]]) -> int:
    """Return the number of words with which all rows begin."""
    low, high = min(rows), max(rows)
    return next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
