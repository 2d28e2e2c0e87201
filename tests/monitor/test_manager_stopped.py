"""A manager that hangs (SIGSTOP of stock OpenSM) beside a network that does not: the two are told apart by MADs alone, and it is well again when it goes on."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

import softib
from softib.monitor.opening import open_source
from softib.monitor.watch import Watch
from tests.live.serving import wait_for
from tests.preload.verbs.applications import FABRIC, Applications, C, stop

pytestmark = [pytest.mark.stock, pytest.mark.slow]


@pytest.fixture
def managed(stock, monkeypatch):
    made = Applications(FABRIC, "--sm", "external")
    monkeypatch.setenv("XDG_RUNTIME_DIR", made.env["XDG_RUNTIME_DIR"])
    log = made.folder / "opensm.log"
    sm = made.begin(
        C,
        stock("opensm"),
        "-f",
        str(log),
        "-e",
        "-d2",
        "-s",
        "2",
        OSM_CACHE_DIR=str(made.folder),
        OSM_TMP_DIR=str(made.folder),
    )
    try:
        assert wait_for(lambda: log.is_file() and "SUBNET UP" in log.read_text(errors="replace"))
        yield made, sm
    finally:
        os.killpg(sm.pid, signal.SIGCONT)
        stop(sm)
        made.close()


def test_a_stopped_manager_is_stalled_and_the_network_is_not(managed):
    _, sm = managed
    assert isinstance(sm, subprocess.Popen)
    watch = Watch(open_source(managed[0].status()["name"]))
    try:
        watch.step()
        (master,) = watch.manager.managers.values()
        assert master.state == "MASTER" and master.answers and not master.stalled
        os.killpg(sm.pid, signal.SIGSTOP)
        for _ in range(4):
            round_ = watch.step()
        assert round_.reading.answered.all() and not len(round_.silent), "the network is well"
        assert not master.answers or master.stalled
        (master,) = watch.manager.managers.values()
        assert master.stalled and not master.answers and watch.manager.sa_answer_s != watch.manager.sa_answer_s
        seen = softib.observe(watch.opened.name, rounds=3, every=0.1)
        assert [r.answered for r in seen.managers] == [False] * 3 and all(
            r.port_answered and r.sa_answered is False for r in seen.managers
        )
        (stall,) = [f for f in softib.diagnose(seen) if f.code.startswith(("sm-", "sa-"))]
        assert stall.code == "sm-stalled" and f"LID {master.lid}" in stall.message
        os.killpg(sm.pid, signal.SIGCONT)
        assert wait_for(lambda: (watch.step(), not next(iter(watch.manager.managers.values())).stalled)[1])
        (master,) = watch.manager.managers.values()
        assert master.answers and master.missed == 0
        seen = softib.observe(watch.opened.name, rounds=3, every=0.1)
        assert not [f for f in softib.diagnose(seen) if f.code.startswith(("sm-", "sa-"))]
    finally:
        watch.opened.close()
