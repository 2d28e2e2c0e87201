"""Bugs of our own, planted: one line to people, the traceback in a file, every request answered or bounced, no fabric lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from softib.fabric.topologies.registry import generate
from softib.iba.smp import SwitchInfo
from softib.live import mad_router
from softib.live.crash_log import MOST_TRACEBACKS, CrashLog
from softib.live.ibsim import server as ibsim_server
from softib.live.umad import requests
from softib.preload.build import LIBRARY
from tests.live.lab import Softib, until_ready
from tests.live.serving import Raw, Serving, mad, wait_for
from tests.live.umad.serving import UmadServing

TIMED_OUT = 110
PLANTED = """
import sys
import softib.cli.main as main
{plant}
main.main(sys.argv[1:])
"""


class Planted:
    """Fails like a bug as long as ``on``, else does what ``right`` does."""

    def __init__(self, right):
        self.right, self.on = right, True

    def __call__(self, *args, **kw):
        if self.on:
            raise IndexError("planted\nbug")
        return self.right(*args, **kw)


def test_requests_that_meet_a_bug_come_back(tmp_path, monkeypatch, capfd):
    """In Python's path and in the pump; the client is served on when the bug is over."""
    s = Serving(generate("fat-tree", radix=4, levels=2))
    s.router.report_bug = log = CrashLog(tmp_path / "log")
    c = Raw(s.base)
    for module, name in ((mad_router, "answer"), (ibsim_server, "pump")):
        bug = Planted(getattr(module, name))
        monkeypatch.setattr(module, name, bug)
        monkeypatch.setattr(s.router, "pumps", name == "pump")
        if name == "pump":  # it fails before it received: the frame waits in the socket and is met again and again
            c.send(mad(tid=3))
            assert wait_for(lambda: log.count > 3)
            bug.on = False
            assert c.receive()[0]["status"] == 0
            continue
        for k in range(3):
            c.send(mad(tid=k))
            assert c.receive()[0]["status"] == TIMED_OUT
        bug.on = False
        c.send(mad(tid=9))
        assert c.receive()[0]["status"] == 0 and c.silent(0.1)
    text = (tmp_path / "log").read_text()
    assert text.count("Traceback") == min(log.count, MOST_TRACEBACKS) and "planted" in text
    shown = capfd.readouterr().err
    assert (
        "Traceback" not in shown
        and "this is a bug in softib: IndexError while answering requests: planted bug" in shown
    )
    c.close()
    s.stop()


def test_a_trap_that_cannot_be_sent_costs_no_answer(tmp_path, monkeypatch):
    s = Serving(generate("fat-tree", radix=4, levels=2))
    s.router.report_bug = log = CrashLog(tmp_path / "log")
    monkeypatch.setattr(s.router.plane, "trap", Planted(None))
    c = Raw(s.base)
    SwitchInfo.port_state_change.set(s.fabric.switch_info, 0)
    s.set_link(int(s.fabric.port_peer[s.fabric.node_base[s.fabric.cas[3]] + 1]), False)
    assert log.count == 1 and "sending a trap" in log.last
    c.send(mad())
    assert c.receive()[0]["status"] == 0
    c.close()
    s.stop()


@pytest.mark.parametrize("pumps", [True, False])
def test_a_umad_program_is_told(pumps, tmp_path, monkeypatch, stock):
    """Its request meets a bug at every try: a timeout, or an error of its device, is what it sees, not a hang."""
    smpquery = stock("smpquery")
    s = UmadServing(generate("fat-tree", radix=4, levels=2), LIBRARY if LIBRARY.is_file() else None)
    s.router.report_bug = log = CrashLog(tmp_path / "log")
    monkeypatch.setattr(s.router, "pumps", pumps)
    monkeypatch.setattr(mad_router, "answer", Planted(None))
    monkeypatch.setattr(requests, "umad_pump", Planted(None))
    ask = lambda timeout_ms: subprocess.run(
        [smpquery, "-t", timeout_ms, "-D", "nodeinfo", "0"],
        env=s.environment(),
        capture_output=True,
        text=True,
        timeout=240,
    )
    done = ask("100")
    assert done.returncode and log.count >= 1, done
    assert pumps or "_do_madrpc failed" in done.stderr, (
        done
    )  # libibmad's last word, whichever of the two waits was over first
    monkeypatch.undo()
    done = ask("60000")
    assert done.returncode == 0 and "Guid" in done.stdout
    s.stop()


def planted(softib: Softib, plant: str, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", PLANTED.format(plant=plant), *words],
        env=softib.env,
        cwd=softib.folder,
        capture_output=True,
        text=True,
        timeout=240,
    )


@pytest.mark.parametrize(
    "error",
    ["ZeroDivisionError('x')", "softib.errors.SoftibBug('a broken\\ninvariant')", "KeyError(3)", "RecursionError()"],
)
def test_a_bug_of_the_command_line_is_one_line_and_exit_70(softib, error):
    plant = f"import softib.errors, softib.live.instances as s\ndef bug(*a): raise {error}\ns.running = bug"
    softib.env["TMPDIR"] = str(softib.folder)
    done = planted(softib, plant, "status")
    assert done.returncode == 70 and done.stdout == "" and len(done.stderr.splitlines()) == 1, done
    assert done.stderr.startswith("softib: this is a bug in softib: ") and "please report" in done.stderr
    (file,) = softib.folder.glob("softib-bug-*.txt")
    assert str(file) in done.stderr and "Traceback" in file.read_text()


def test_a_bug_in_the_daemon_is_told_and_survived(softib):
    """Operations of the control socket and the manager fail; the fabric serves on, status says so."""
    plant = """
import softib.live.operations as o, softib.live.internal_sm.manager as m
def bug(self, asked): raise RuntimeError("planted")
o.Operations.attach = bug
def fault(self, asked):
    m.InternalManager.run = lambda *a: 1 / 0
    return right_fault(self, asked)
right_fault = o.Operations._fault
o.Operations._fault = fault
"""
    up = subprocess.Popen(
        [sys.executable, "-c", PLANTED.format(plant=plant), "up", "one.yaml"],
        env=softib.env,
        cwd=softib.folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    softib.started.append(up)
    until_ready(up)
    done = subprocess.run(
        softib.words("run", "--", "true"), env=softib.env, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 70 and len(done.stderr.splitlines()) == 1 and "please report" in done.stderr, done
    log = Path(softib.status()[0]["log"])
    assert str(log) in done.stderr and "RuntimeError: planted" in log.read_text()
    softib("fault", "link-down", "leaf-1[3]")
    assert wait_for(lambda: softib.status()[0]["sm"]["state"] == "FAILED")
    assert wait_for(lambda: softib.status()[0]["bugs"] >= 2)
    assert softib.status()[0]["bugs"] == 2 and "met 2 bugs" in softib("status")
    softib("down")
    assert up.wait(120) == 0
    told = up.stderr.read()
    assert "Traceback" not in told and told.count("this is a bug in softib") == 2


def test_a_manager_that_fails_before_the_subnet_is_up_is_one_line(softib):
    plant = "import softib.live.internal_sm.manager as m\nm.InternalManager.run = lambda *a: 1 / 0"
    softib.env["TMPDIR"] = str(softib.folder)
    done = planted(softib, plant, "up", "one.yaml")
    assert done.returncode == 70 and "ZeroDivisionError" in done.stderr and "Traceback" not in done.stderr
    assert softib.status() == [] and not os.path.exists(softib.folder / "run" / "softib" / "one" / "shared_fabric")


def test_a_crash_without_a_log_is_reported_still(tmp_path, capfd):
    log = CrashLog(tmp_path / "absent" / "log")
    try:
        json.loads("{")
    except ValueError:
        log("parsing")
    assert "cannot be written" in capfd.readouterr().err
