"""``softib up`` and its kin as processes: by name, side by side, killed, misused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from softib.live.shared_fabric import SharedFabric
from tests.live.lab import stock_preload
from tests.live.serving import wait_for


def test_up_status_down(softib):
    up = softib.start("one.yaml")
    (one,) = softib.status()
    assert one["name"] == "one" and one["pid"] == up.pid and one["ready"] and one["sm"]["state"] == "MASTER"
    assert one["port_states"] == {"down": 0, "init": 0, "armed": 0, "active": 2 * one["links"]}
    seen = SharedFabric.open(Path(one["shared_fabric"]))
    assert (seen.fabric.lid[seen.fabric.end_ports()] > 0).all() and seen.epoch == one["epoch"]
    softib("down")
    assert up.wait(120) == 0 and softib.status() == []
    assert not Path(one["shared_fabric"]).exists()


def test_ctrl_c_stops_cleanly(softib):
    up = softib.start("one.yaml")
    up.send_signal(signal.SIGINT)
    assert up.wait(120) == 0 and "Traceback" not in up.stderr.read()
    assert softib.status() == []


def test_side_by_side_detached_and_by_name(softib):
    assert "ready in" in softib("up", "one.yaml", "--detach")
    assert "ready in" in softib("up", "two.yaml", "--detach", "--sm", "none")
    assert [x["name"] for x in softib.status()] == ["one", "two"]
    assert softib.status("two")[0]["port_states"]["active"] == 0
    assert "is already running" in softib("up", "one.yaml", code=2)
    assert "is already running" in softib("up", "two.yaml", "--name", "one", "--detach", code=2)
    for words in (("run", "--", "true"), ("down",), ("fault", "link-down", "leaf-1[1]"), ("shell",)):
        said = softib(*words, code=2)
        assert "one, two" in said
    assert "did you mean one" in softib("down", "ane", code=2)
    pid = softib.status("one")[0]["pid"]
    softib("down", "one")
    state = Path(f"/proc/{pid}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z", "down waits for the process"
    softib("down")
    assert "start one with" in softib("down", code=2)
    assert "start one with" in softib("run", "--", "true", code=2)


def test_a_stopped_daemon_is_named_and_delays_no_other(softib):
    """proc(5): state T is stopped by a signal."""
    softib.start("one.yaml", "--sm", "none")
    softib.start("two.yaml", "--sm", "none")
    one = softib.status("one")[0]["pid"]
    os.kill(one, signal.SIGSTOP)
    began = time.monotonic()
    done = subprocess.run(softib.words("status", "--json"), env=softib.env, capture_output=True, text=True, timeout=60)
    assert time.monotonic() - began < 25, "a daemon that computes has 30 s, a stopped one has not"
    assert [f["name"] for f in json.loads(done.stdout)["fabrics"]] == ["two"] and done.returncode
    assert done.stderr == (
        f"softib: the daemon of 'one' (process {one}) is stopped; 'kill -CONT {one}' resumes it, "
        f"'kill -KILL {one}' ends it\n"
    )
    os.kill(one, signal.SIGCONT)
    assert len(softib.status()) == 2


def test_sigkill_leaves_nothing_that_stops_the_next(softib):
    for _ in range(2):
        up = softib.start("one.yaml")
        up.kill()
        up.wait()
        assert softib.status() == []
    softib.start("one.yaml")
    assert softib.status()[0]["ready"]


def test_a_detached_start_that_fails_leaves_no_directory(softib):
    (softib.folder / "wrong.yaml").write_text("topology: {kind: fat-tree, radix: 3}\n")
    softib("up", "wrong.yaml", "--detach", code=2)
    softib("up", "one.yaml", "--detach", "--sm-config", "absent.conf", code=2)
    assert list((softib.folder / "run" / "softib").iterdir()) == []
    softib("up", "one.yaml", "--detach", "--sm", "none")
    assert "is already running" in softib("up", "one.yaml", "--detach", code=2)
    softib("down", "one")
    assert (softib.folder / "run" / "softib" / "one" / "log").exists(), "of a fabric that ran"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("up", "absent.yaml"), "no such file"),
        (("up", "one.yaml", "--name", "a/b"), "cannot be the name"),
        (("up", "one.yaml", "--engine", "magic"), "minhop"),
        (("up", "broken"), ""),
        (("up", "one.yaml", "--sm", "mine"), "internal"),
        (("up", "broken", "--detach"), ""),
        (("status", "one"), "start one with"),
    ],
)
def test_bad_input_is_one_line(words, says, softib):
    (softib.folder / "broken").write_bytes(b"\0\1\2 nothing")
    assert says in softib(*words, code=2)
    assert softib.status() == []


def test_faults_and_bad_places(running_one):
    softib = running_one
    sweeps = lambda: softib.status()[0]["sm"]["sweeps"]
    before = sweeps()
    told = json.loads(softib("fault", "link-down", "leaf-1[3]", "--json"))
    assert told["state"] == "DOWN" and told["ports"][0] == "leaf-1[3]"
    assert wait_for(lambda: sweeps() > before), "trap 128 reached our manager"
    assert softib.status()[0]["port_states"]["down"] == 2
    # It cleared PortStateChange, so the next change raises a trap again.
    assert wait_for(lambda: not softib.status()[0]["sm"]["phase"])
    softib("fault", "link-up", "leaf-1[3]")
    assert wait_for(lambda: softib.status()[0]["port_states"]["active"] == 2 * softib.status()[0]["links"])
    assert "no port 9" in softib("fault", "link-down", "leaf-1[9]", code=2)
    assert "leaf-1" in softib("fault", "link-down", "laef-1[1]", code=2)
    assert "use node[port]" in softib("fault", "link-down", "leaf-1", code=2)


@stock_preload
def test_run_attaches_programs(running_one, stock):
    softib = running_one
    assert "SMINFO_MASTER" in softib("run", "--node", "host-0003", "--", stock("sminfo"))
    assert (
        softib("run", "--node", "host-0003", "--", "sh", "-c", "echo $SOFTIB_PLACE; exit 7", code=7) == "host-0003[1]\n"
    )
    assert "did you mean host-000" in softib("run", "--node", "host-00031", "--", "true", code=2)
    assert "no port 2" in softib("run", "--node", "host-0003", "--port", "2", "--", "true", code=2)
    assert "no such program" in softib("run", "--", "no-such-program", code=2)
    name = softib.status()[0]["name"]
    assert f"use softib run --fabric {name} -- PROGRAM" in softib("run", name, "sminfo", code=2)
    assert softib("run", "--", "sh", "-c", "kill -9 $$", code=137) == ""
    out = softib("run", "--", stock("iblinkinfo"), "-l")
    assert out.count("Active/  LinkUp") == 2 * softib.status()[0]["links"]
    assert not list(softib.folder.glob("sys-*"))


def test_the_control_socket_is_not_upset(running_one):
    import socket

    softib = running_one
    path = str(softib.folder / "run" / "softib" / "one" / "control")
    for line in (
        b"\n",
        b"{}\n",
        b"[]\n",
        b'{"op": "fly"}\n',
        b"\xff\xfe\n",
        b'{"op": []}\n',
        b'{"op": "attach", "port": "x"}\n',
        b'{"op": "attach", "node": 5}\n',
        b'{"op": "fault"}\n',
        b'{"op": "attach", "node": "\\udca7"}\n',
        b'{"op": "fault", "kind": "link-down", "where": "\\udca7[1]"}\n',
        b"[" * 60000 + b"\n",
    ):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.settimeout(60)
            s.connect(path)
            s.sendall(line)
            assert "error" in json.loads(s.makefile().readline()), line
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.connect(path)
        s.settimeout(60)
        with pytest.raises(ConnectionError):
            s.sendall(b"x" * (1 << 20))
            if s.recv(10) == b"":
                raise ConnectionResetError
    assert softib.status()[0]["ready"]
