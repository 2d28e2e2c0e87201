"""Folders with a ``simulated.yaml``: a workload whose faults happen in virtual time, and what must then be true of
:meth:`softib.Simulation.to_json`: values between two bounds by their place, counters of ports by name (all others 0)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import softib

HERE = Path(__file__).resolve().parent
STORIES = sorted(p.parent for p in HERE.glob("*/simulated.yaml"))


def at(document: Any, place: str) -> Any:
    for key in place.split("."):
        document = document[int(key)] if isinstance(document, list) else document[key]
    return document


@pytest.mark.parametrize("story", STORIES, ids=lambda p: p.name)
def test_simulated_story(story: Path) -> None:
    told = yaml.safe_load((story / "simulated.yaml").read_text())
    found = softib.simulate(story / "fabric.yaml", story / "workload.yaml", layer="packet")
    run = found._run
    counters = run.outcome.counters
    document = found.to_json() | {"counters": {name: int(counters[name].sum()) for name in counters.dtype.names}}
    assert document["good"] is told["good"] and document["unreachable"] == told["unreachable"]
    for place, bounds in told["between"].items():
        value = at(document, place)
        if isinstance(bounds, list):
            assert bounds[0] <= value <= bounds[1], (place, value)
        else:
            assert len(value) == bounds, (place, value)
    for name, ports in told.get("counters", {}).items():
        seen = {run.fabric.port_name(int(p)): int(counters[name][p]) for p in np.flatnonzero(counters[name])}
        assert seen == ports
    assert (
        found.faults
        and softib.simulate(story / "fabric.yaml", story / "workload.yaml", layer="packet").faults == found.faults
    )


def test_there_are_simulated_stories() -> None:
    assert len(STORIES) >= 4
