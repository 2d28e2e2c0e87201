"""Ranks that record together: who writes the schedule, and what is said. A thread's file by hand; no program runs."""

from __future__ import annotations

import numpy as np
import pytest

from softib.api.running.recording import recording_to
from softib.live.recording import HEADER
from softib.sim.recorded_events import Event

VERSION = HEADER.constant("RECORD_VERSION")


@pytest.fixture
def ranks(tmp_path, monkeypatch):
    """A recording of each rank of a job of ``size``, as a launcher starts them; rank r has made one queue pair."""

    def make(size: int, *numbers: int):
        made = []
        for rank in numbers:
            monkeypatch.setenv("OMPI_COMM_WORLD_RANK", str(rank))
            monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", str(size))
            made.append(recording_to(tmp_path / "app.goal"))
            event = np.zeros(2, HEADER.types()["softib_record_event"])
            event["type"][0], event["qpn"][0] = Event.QP, 5 + rank
            head = np.zeros(1, HEADER.types()["softib_record_head"])
            head["magic"], head["version"], head["pid"], head["rank"] = b"SOFTIBr", VERSION, 1 + rank, rank
            head["ticks"], head["ns"] = [[0, 100]], [[0, 100]]
            (made[-1].folder / f"{rank}-1.events").write_bytes(head.tobytes().ljust(65536, b"\0") + event.tobytes())
        return made

    return make


def test_the_last_of_all_ranks_writes(tmp_path, ranks):
    said: list[str] = []
    first, second = ranks(2, 0, 1)
    first.close(said.append)
    assert not said and not (tmp_path / "app.goal").exists()
    second.close(said.append)
    assert len(said) == 1 and "of 2 ranks" in said[0] and "record to it" not in said[0]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["app.goal"]


def test_ranks_that_record_elsewhere_are_not_waited_for(tmp_path, ranks):
    """Two of three ranks of the job record to this file."""
    said: list[str] = []
    for one in ranks(3, 0, 2):
        one.close(said.append)
    assert len(said) == 1 and said[0].endswith("; 2 of the 3 ranks of this job record to it")
    assert (tmp_path / "app.goal").exists()


def test_one_rank_that_fails_speaks_for_all_that_are_ended_for_it(tmp_path, ranks):
    said: list[str] = []
    first, second, third = ranks(3, 0, 1, 2)
    second.close(said.append, 139)
    assert len(said) == 1 and said[0].endswith("rank 1 of 3 was ended by SIGSEGV: what all ranks had done until then")
    assert (tmp_path / "app.goal").exists()
    for one in (first, third):
        one.close(said.append, 143)
    assert len(said) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["app.goal"]


def test_what_a_dead_launcher_left_goes_and_what_others_write_stays(tmp_path, ranks):
    dead, other = tmp_path / "app.goal.999999999.parts", tmp_path / "other.goal.999999999.parts"
    dead.mkdir()
    other.mkdir()
    (first,) = ranks(2, 0)
    assert not dead.exists() and other.exists() and first.folder.exists()
