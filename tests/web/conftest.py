"""Running fabrics for the tests of this package."""

from tests.live.lab import softib  # noqa: F401
