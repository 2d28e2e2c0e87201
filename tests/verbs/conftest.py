"""Fixtures of the tests of verbs."""

from tests.live.conftest import own_library

__all__ = ["own_library"]
