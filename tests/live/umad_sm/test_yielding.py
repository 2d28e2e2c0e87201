"""A master without options yields to a manager of higher rank, stands by, and takes the subnet back when that one is killed: with another
of ours and with stock OpenSM, which yields and takes over in the other direction. Every port keeps its LID."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.live.umad_sm.lab import fabric_of, own
from tests.live.umad_sm.managers import FIRST, SECOND, Managers, wait

CONVERGES_S = 60.0


def events(s, node: str) -> list[str]:
    """States that our manager on ``node`` logged."""
    lines = [json.loads(line) for line in (s.folder / f"log-{node}").read_text().splitlines()]
    return [line["now"] for line in lines if line["event"] == "state"]


@pytest.mark.stock
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("yields", "wins"),
    [("softib", "softib"), ("softib", "opensm"), pytest.param("opensm", "softib", marks=pytest.mark.slow)],
)
def test_a_master_that_yields_stands_by_and_takes_over(softib, stock, yields, wins):
    for program in ("opensm", "sminfo"):
        stock(program)
    softib("up", "net.yaml", "--sm", "external", "--detach")
    managers = Managers(softib, stock, {FIRST: yields, SECOND: wins}, {FIRST: -1, SECOND: 9})
    reaches = lambda *states: wait(lambda: list(managers.states().values()) == list(states), CONVERGES_S)
    managers.start(FIRST)
    assert wait(managers.converged, CONVERGES_S), managers.why()
    lids = fabric_of(softib).lid.copy()
    managers.start(SECOND)
    assert reaches("STANDBY", "MASTER"), (managers.states(), managers.why())
    assert wait(managers.converged, CONVERGES_S), managers.why()
    assert managers.running[FIRST].poll() is None
    managers.kill(SECOND)
    assert reaches("MASTER", ""), (managers.states(), managers.why())
    assert wait(managers.converged, CONVERGES_S), managers.why()
    assert np.array_equal(fabric_of(softib).lid, lids)
    if yields == "softib":
        assert events(softib, FIRST) == ["MASTER", "STANDBY", "DISCOVERING", "MASTER"]
        # A manager that finds a live master before it was one itself leaves the subnet alone.
        assert "has a master" in own(softib, "sm", "run", node=SECOND, code=2)
