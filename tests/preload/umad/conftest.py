"""The preload library of this checkout, as every test under ``tests/live`` has it."""

from __future__ import annotations

from tests.live.conftest import own_library

__all__ = ["own_library"]
