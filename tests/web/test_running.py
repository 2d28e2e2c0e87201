"""``softib serve`` of a running fabric, of a umad device and of bad input: by MADs, with jobs and a history, and one line for what is wrong."""

from __future__ import annotations

import importlib.util
import json
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from softib.errors import SoftibError
from tests.live.serving import wait_for
from tests.monitor.exporter.exporting import address_of

pytest.importorskip("uvicorn", reason="uvicorn is not installed (the extra serve)")


class Server:
    """A server as a child; ``get`` asks its REST."""

    def __init__(self, words, env, cwd):
        self.child = subprocess.Popen(
            words, env=env, cwd=cwd, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        line = ""
        while " at http://" not in line:
            line = self.child.stderr.readline()
            assert line, "the server has ended"
        self.url = line.rpartition(" at ")[2].strip()

    def get(self, path: str):
        with urllib.request.urlopen(f"{self.url}api/v1/{path}", timeout=20) as answer:
            return json.load(answer)

    def until(self, path: str, what, seconds: float = 60.0):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.get(path)
            if what(found):
                return found
            time.sleep(0.2)
        raise AssertionError(f"{path}: {found}")

    def stop(self):
        self.child.terminate()
        assert self.child.wait(20) == 0
        self.child.stderr.close()


@pytest.mark.slow
def test_a_running_fabric_is_served_by_mads(softib):
    softib.start("one.yaml", "--name", "one")
    (softib.folder / "jobs.yaml").write_text("train: [host-0001, host-0003]\n")
    server = Server(
        softib.words("serve", "one", "--port", "0", "--every", "0.3", "--jobs", "jobs.yaml"), softib.env, softib.folder
    )
    try:
        told = server.get("fabric")
        assert (told["switches"], told["hosts"], told["cables"], told["running"]) == (6, 8, 16, True)
        assert told["managers"][0]["state"] == "MASTER" and told["jobs"] == 1
        worse = [row["code"] for row in server.get("findings")["rows"] if row["severity"] != "info"]
        assert worse == [], "what softib check says of the same fabric"
        hops = server.get("path?a=host-0001&b=host-0003")["hops"]
        assert hops[0]["node"] == "host-0001" and hops[-1]["to"] == "host-0003"
        # What is planted is not seen; what it does to counters is.
        softib("fault", "ber", "leaf-1[3]", "1e-4")
        found = server.until(
            "findings", lambda f: any(w["node"] == "leaf-1" for one in f["rows"] for w in one["where"])
        )
        assert "1e-4" not in json.dumps(found)
        softib("fault", "link-down", "leaf-2[4]")
        down = server.until("down", lambda d: d["total"] > 0)
        assert "leaf-2[4]" in (down["rows"][0]["a"], down["rows"][0]["b"])
        server.until("times", lambda t: t["total"] > 2)
        softib("down", "one")
        told = server.until("fabric", lambda f: f["stale"] and f["age_s"] > 2)
        assert told["problem"] and told["switches"] == 6
        softib.start("one.yaml", "--name", "one")
        server.until("fabric", lambda f: not f["stale"])
    finally:
        server.stop()


@pytest.mark.slow
def test_a_umad_device_is_served(softib):
    softib.start("one.yaml", "--name", "one")
    server = Server(
        softib.words("run", "--", *softib.words("serve", "umad:", "--port", "0", "--every", "0.3")),
        softib.env,
        softib.folder,
    )
    try:
        told = server.until("fabric", lambda f: f["cables"] == 16)
        assert told["managers"][0]["state"] == "MASTER" and told["manager"] is None
        assert server.get("path?a=host-0001&b=host-0003")["sl_source"].startswith("assumed")
        assert server.until("times", lambda t: t["total"] > 1)["every_s"] == 0.3
    finally:
        server.child.terminate()
        server.child.wait(20)
        server.child.stderr.close()


def rounds(folder: Path) -> int:
    """How many rounds the exporter has kept so far."""
    from softib.monitor.history import History

    try:
        return History(folder).observations().intervals
    except SoftibError:  # none yet
        return 0


@pytest.mark.slow
def test_the_history_of_an_exporter_is_on_the_slider(softib):
    pytest.importorskip("duckdb", reason="duckdb is not installed (the extra monitor)")
    softib.start("one.yaml", "--name", "one")
    exporter = subprocess.Popen(
        softib.words("exporter", "one", "--port", "0", "--every", "0.5", "--history", "past"),
        env=softib.env,
        cwd=softib.folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    softib.started.append(exporter)
    assert address_of(exporter)
    assert wait_for(lambda: rounds(softib.folder / "past") >= 3, 240)
    exporter.terminate()
    exporter.wait(20)
    exporter.stderr.close()
    server = Server(softib.words("serve", "one.yaml", "--port", "0", "--history", "past"), softib.env, softib.folder)
    try:
        times = server.get("times")["time"]
        assert len(times) >= 3
        assert server.get(f"values?at={times[0]}")["time"] == pytest.approx(times[0], abs=0.01)
        told = server.get("history?node=leaf-1&portnum=3")
        assert len(told["time"]) == len(times) and all(v is None or v >= 0 for v in told["load"])
        assert len(server.get("history?node=leaf-1&portnum=3&limit=2")["time"]) == 2
    finally:
        server.stop()


def test_what_cannot_be_served_is_one_line(softib):
    token = softib.folder / "token"
    token.write_text("\n")
    nothing = softib.folder / "empty"
    nothing.mkdir()
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    jobs = softib.folder / "jobs.yaml"
    jobs.write_text("train: 7\n")
    try:
        for words, says in (
            (("--port", str(taken.getsockname()[1])), "choose another --host or --port"),
            (("--token-file", str(token)), "no token in its first line"),
            (("--host", "203.0.113.9"), "cannot serve on 203.0.113.9"),
            (("--history", str(softib.folder / "none")), "not a directory"),
            (
                ("--history", str(nothing)),
                "contains no history" if importlib.util.find_spec("duckdb") else "needs pyarrow and duckdb",
            ),
            (("--jobs", str(jobs)), "job train has no hosts"),
            (("--every", "0"), "--every: 0.0 is out of range; use 0.2 to 3600"),
        ):
            assert says in softib("serve", "one.yaml", *words, code=2), words
        assert "nobody" in softib("serve", "nobody", code=2)
        assert "no Prometheus answers" in softib("diagnose", "http://127.0.0.1:1", code=2)
    finally:
        taken.close()
