"""How long ``softib down`` waits. Oracle: a lock that this test holds in the daemon's place, and its socket."""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Iterator

import pytest

from softib.errors import PeerError
from softib.live import control as client
from softib.live.instances import Instance


@pytest.fixture
def held(tmp_path, monkeypatch) -> Iterator[Instance]:
    monkeypatch.setattr(client, "ask", lambda *_: {})
    monkeypatch.setattr(client, "STOP_S", 0.2)
    monkeypatch.setattr(client, "REMOVE_S", 0.4)
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Instance("lab", tmp_path)
        fcntl.flock(lock, fcntl.LOCK_UN)


def test_a_daemon_that_still_serves_is_an_error(held):
    held.control.touch()
    with pytest.raises(PeerError, match="did not stop in time"):
        client.stop(held)


def test_one_that_removes_its_files_is_waited_for(held, monkeypatch):
    """Its socket is gone: thousands of files of its nodes on a busy disk took more than the 15 s that a daemon may serve on."""
    monkeypatch.setattr(client, "REMOVE_S", 60)
    released = threading.Timer(
        0.4, lambda: (held.folder / "lock").rename(held.folder / "old")
    )  # nobody holds what is not there
    released.start()
    began = time.monotonic()
    client.stop(held)
    assert time.monotonic() - began > 0.3


def test_not_for_ever(held):
    with pytest.raises(PeerError, match="removes its files in"):
        client.stop(held)
