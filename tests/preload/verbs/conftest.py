"""Running fabrics for the tests of verbs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest

from tests.live.conftest import own_library
from tests.preload.verbs.applications import Applications
from tests.preload.verbs.engine import engine_programs
from tests.preload.verbs.fabric_up import FabricUp
from tests.preload.verbs.foreign.trial import Trial
from tests.scratch import scratch

__all__ = ["own_library", "up"]


@pytest.fixture(scope="session", autouse=True)
def objects(tmp_path_factory, worker_id) -> None:
    """One folder of object files for all workers: it lies beside their own temporary folders, and goes with them."""
    base = tmp_path_factory.getbasetemp()
    engine_programs.objects = (base if worker_id == "master" else base.parent) / "objects"
    engine_programs.objects.mkdir(exist_ok=True)


@pytest.fixture(scope="session")
def apps() -> Iterator[Applications]:
    """A running fabric for unmodified programs."""
    made = Applications()
    yield made
    made.close()


@pytest.fixture
def trial(apps, tmp_path, record_property) -> Trial:
    """Programs of others on that fabric."""
    return Trial(apps, tmp_path, record_property)


@pytest.fixture
def up() -> Iterator[Callable[..., FabricUp]]:
    """``up(fabric)`` runs it until the test is over."""
    made: list[FabricUp] = []

    def start(fabric, **settings) -> FabricUp:
        made.append(FabricUp(fabric, **settings))
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.fixture
def folder():
    made = str(scratch("sve-", memory=True))
    yield made
    shutil.rmtree(made)
