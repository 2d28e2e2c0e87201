"""A running fabric for the programs of others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.preload.programs.trial import Trial
from tests.preload.verbs.applications import Applications


@pytest.fixture(scope="session")
def apps() -> Iterator[Applications]:
    """Hosts of 400 Gb/s: p2pstore refuses slower ones."""
    made = Applications()
    yield made
    made.close()


@pytest.fixture
def trial(apps, tmp_path, record_property) -> Trial:
    return Trial(apps, tmp_path, record_property)
