"""The preload library of this checkout, compiled where it is not of its sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from softib.preload import build
from tests.live.ibsim.protocol_lab import served, up
from tests.live.lab import running_one, softib

__all__ = ["running_one", "served", "softib", "up"]


@pytest.fixture(scope="session", autouse=True)
def own_library() -> Path | None:
    """``libsoftib-umad.so``; None without a compiler (tests that need it skip)."""
    return build.compile_library() if build.compiler() else None
