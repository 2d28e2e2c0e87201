"""Recording's C under sanitizers: threads and a forked child write at once, and every event is in their files, in its order."""

from __future__ import annotations

import numpy as np
import pytest

from softib.live.recording import threads_in
from softib.sim.recorded_events import Event
from tests.preload.verbs.engine.engine_programs import SANITIZERS, run

EVENTS = 60_000
"""Of a thread: more than a chunk of a file (1 MiB, 32 octets each) holds."""


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_every_event_of_every_thread(tmp_path, monkeypatch, sanitizer):
    monkeypatch.setenv("SOFTIB_RECORD", str(tmp_path))
    monkeypatch.setenv("SOFTIB_RECORD_RANK_FROM", "NO_RANK,A_RANK")
    monkeypatch.setenv("A_RANK", "3")
    assert run("recording", sanitizer, EVENTS) == "ok\n"
    found = threads_in(tmp_path)
    assert sorted(int(t.qpn[0]) for t in found) == [1, 2, 3, 4, 5, 6]
    assert len({t.pid for t in found}) == 2 and len({t.tid for t in found}) == 6
    for t in found:
        assert t.rank == 3 and (t.type == Event.POST).all()
        assert np.array_equal(t.peer, np.arange(EVENTS))
        assert (np.diff(t.ns) >= 0).all() and (np.diff(t.compute) >= 0).all()
        assert t.compute[-1] <= t.ns[-1] - t.ns[0] + 1_000_000, "no more is computed than time passes"
