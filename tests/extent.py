"""How much a test tries: a part in the default run, everything in ``make test-all`` (``SOFTIB_TESTS=all``)."""

from __future__ import annotations

import os

__all__ = ["examples", "extent"]

ALL = os.environ.get("SOFTIB_TESTS") == "all"


def extent(part: int, everything: int) -> int:
    """``everything`` in the whole run, ``part`` in the default one."""
    return everything if ALL else part


def examples(n: int) -> int:
    """Examples for hypothesis: a third by default. The default ones are the same every time (profile ``same``)."""
    return extent(max(10, n // 3), n)
