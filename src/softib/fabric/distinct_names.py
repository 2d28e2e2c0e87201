"""Names that tell every node from the others: several nodes may have one NodeDescription, or two
that people take for one."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = ["distinct_names"]

_SEPARATORS = re.compile(r"[\s\-_.:;,/]+")


def distinct_names(f: Fabric) -> list[str]:
    """Name of each node, with the GUID behind it where another node's name is equal or differs only
    in case or separators."""
    names = f.node_names()
    alike = [_SEPARATORS.sub(" ", name.casefold()).strip() for name in names]
    times = Counter(alike)
    guids = f.node_guid.tolist()
    return [n if times[a] == 1 else f"{n} ({g:#018x})" for n, a, g in zip(names, alike, guids, strict=True)]
