"""A reader who follows a run rarely goes back up to a higher layer (docs/count_climbs.py). Oracle: the profiler of Python, and the import contract's layers."""

from __future__ import annotations

import pytest

from tests.docs.scripts import script

counter = script("count_climbs")


@pytest.mark.parametrize("name", counter.WALKS)
def test_a_walk_climbs_seldom(name):
    walk = counter.WALKS[name]
    modules = counter.entered(walk)
    assert len(modules) > 30 and {module.split(".")[0] for module in modules} >= walk.packages - {"source", "routing"}
    assert len(counter.climbs(modules)) <= walk.limit, counter.climbs(modules)


def test_a_climb_is_a_step_to_a_higher_layer():
    modules = ["api.a", "analysis.b", "sim.c", "sim.d", "workloads.e", "scenario.f", "sim.g", "api.h"]
    assert counter.climbs(modules) == ["workloads.e", "api.h"]
