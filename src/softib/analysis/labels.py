"""Short labels for boxes of a drawing, and names where notes have GUIDs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = ["Labels", "distinct_parts", "short_name", "with_names"]

_TOKEN = re.compile(r"[^\W\d_]+|\d+|[\W_]")
_GUID = re.compile(r"\b(?:0x)?([0-9a-fA-F]{16})\b")
MIN_SAVED = 3
"""Fewer letters in common are not worth a pattern that has to be put together again by eye."""


class Labels:
    """Makes ``0x0002c90300000001`` in a note ``leaf-1``; GUIDs that several nodes carry stay."""

    def __init__(self, fabric: Fabric):
        self.name: dict[int, str] = {}
        several: set[int] = set()
        names = fabric.node_names()
        for guids, owners in ((fabric.port_guid, fabric.port_node), (fabric.node_guid, range(len(names)))):
            for guid, node in zip(guids.tolist(), owners, strict=True):
                if guid and self.name.setdefault(guid, names[int(node)]) != names[int(node)]:
                    several.add(guid)
        for guid in several:
            del self.name[guid]

    def named(self, text: str) -> str:
        """``text`` with names for the GUIDs that one node carries."""
        return _GUID.sub(lambda m: self.name.get(int(m[1], 16)) or m[0], text)


def with_names(texts: Sequence[str], fabric: Fabric) -> list[str]:
    """``texts`` with node names for GUIDs; the table of names is only made where one is needed."""
    if not any(_GUID.search(t) for t in texts):
        return list(texts)
    labels = Labels(fabric)
    return [labels.named(t) for t in texts]


def short_name(name: str) -> str:
    """What people call a node: ``MF0;leaf-1:MQM9700/U1`` is ``leaf-1``, the chip
    ``MF0;core:MCS8500/L16/U2`` of a director ``core/L16/U2``."""
    found = re.fullmatch(r"[^;]*;([^:;]+):[^/]*/?(.*)", name)
    if not found:
        return name
    return found[1] if found[2] in ("", "U1") else f"{found[1]}/{found[2]}"


def distinct_parts(names: Sequence[str]) -> tuple[list[str], str]:
    """(what tells the names apart, what they have in common as ``leaf-…``): whole words and numbers
    only.

    Nothing is taken away where the names have less than :data:`MIN_SAVED` letters in common, or
    where one is empty then.
    """
    rows = [_TOKEN.findall(n) for n in names]
    if len(set(names)) < 2:
        return list(names), ""
    head = _alike(rows)
    tail = _alike([r[head:][::-1] for r in rows])
    first = rows[0]
    before, after = "".join(first[:head]), "".join(first[len(first) - tail :])
    middle = ["".join(r[head : len(r) - tail]) for r in rows]
    if len(before) + len(after) < MIN_SAVED or not all(middle):
        return list(names), ""
    return middle, f"{before}…{after}"


def _alike(rows: list[list[str]]) -> int:
    """Words that all rows begin with."""
    low, high = min(rows), max(rows)
    return next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
