"""The preload library of this checkout, compiled once where its sources are newer."""

from __future__ import annotations

from pathlib import Path

import pytest

from softib.preload import build


@pytest.fixture(scope="session", autouse=True)
def own_library() -> Path | None:
    """``libsoftib-umad.so``; None without a compiler (tests that need it skip)."""
    newest = max(p.stat().st_mtime for p in [*build.SOURCES.iterdir(), Path(build.__file__)])
    if build.LIBRARY.is_file() and build.LIBRARY.stat().st_mtime >= newest:
        return build.LIBRARY
    return build.compile_library() if build.compiler() else None
