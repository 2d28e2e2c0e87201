"""A daemon killed with SIGKILL at any moment: the next ``softib up`` of the name works, and nobody hangs on the dead one."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from softib.live.instances import KEPT
from tests.live.lab import Softib, until_ready
from tests.live.serving import PRELOAD, wait_for

NODES = "name: one\ngeneration: HDR\ntopology: {kind: fat-tree, radix: 8, levels: 2}\n"


def folder(command: Softib) -> Path:
    return command.folder / "run" / "softib" / "one"


def readable(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def children(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(stat.parent.name))
        except (OSError, IndexError):
            continue
    return found


def kills(command: Softib, seed: int, times: int, osm: tuple[str, ...], stays: str) -> None:
    """Kill it ``times`` times: while it comes up, while OpenSM works on it, while it goes down.

    Programs that ``stays`` leaves behind on the dead daemon, under the stock library where it is installed, are still there when the
    next one of the name comes up; all of them end.
    """
    left_over: list[subprocess.Popen] = []
    rng = np.random.default_rng(seed)
    (command.folder / "one.yaml").write_text(NODES)
    command.env["OSM_CACHE_DIR"] = command.env["OSM_TMP_DIR"] = str(command.folder)
    for i in range(times):
        moment = ("up", "serving", "down")[i % 3]
        up = subprocess.Popen(
            command.words("up", "one.yaml", *(("--sm", "none") if moment == "serving" else ())),
            env=command.env,
            cwd=command.folder,
            stderr=subprocess.PIPE,
            text=True,
        )
        command.started.append(up)
        other = None
        if moment == "up":
            time.sleep(float(rng.uniform(0, 1.2)))
        else:
            until_ready(up)
            if moment == "serving":
                options = ["--stock-preload"] if PRELOAD.is_file() and i % 2 else []
                words = command.words("run", "--node", "host-0003", *options, "--", stays, "-S")
                left_over.append(
                    subprocess.Popen(
                        words, env=command.env, cwd=command.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                    )
                )
            what = ("run", "--", *osm) if moment == "serving" else ("down",)
            other = subprocess.Popen(
                command.words(*what),
                env=command.env,
                cwd=command.folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            time.sleep(float(rng.uniform(0, 1.0 if moment == "serving" else 0.3)))
        born = children(up.pid)
        up.kill()
        up.wait()
        up.stderr.close()
        if other is not None:
            said = ended(other, command.folder / "osm.log")
            assert "Traceback" not in said, said
        assert not [pid for pid in born if Path(f"/proc/{pid}").exists()], "it leaves no process"
        assert command.status() == []
        command("status", code=0)
        there = {p.name for p in folder(command).iterdir()} if folder(command).exists() else set()
        begun = "lock" in there and there - {"lock", "log", "guid2lid", "guid2mkey", "neighbors"}
        assert ("was killed" if begun else "start one with") in command("down", "one", code=2)
    for program in left_over:
        program.wait(60)
    left = {p.name for p in folder(command).iterdir()}
    assert left <= {
        "control",
        "shared_fabric",
        "umad",
        "hosts",
        "verbs.sock",
        "rdma_cm",
        "traffic",
        "verbs",
        "port_locks",
        *KEPT,
        *(f"{name}.new" for name in KEPT),  # a kill between the write of a whole new file and its rename
    }, left
    command("up", "one.yaml", "--detach")
    assert command.status()[0]["ready"]
    command("down")
    assert {p.name for p in folder(command).iterdir()} <= set(KEPT), "and takes what the dead ones left along"


def ended(program: subprocess.Popen[str], log: Path) -> str:
    """What a program says whose requests fail from now on. It ends by itself, but for one: an OpenSM whose first request
    of all fails takes its port for one that is down, and waits for it, as on a host whose cable is not plugged in."""
    try:
        return program.communicate(timeout=60)[0]
    except subprocess.TimeoutExpired:
        assert "SM port is down" in log.read_text(errors="replace")
    program.terminate()
    return program.communicate(timeout=240)[0]


def test_killed_at_random_moments(softib, stock):
    kills(softib, 1, 3, (stock("iblinkinfo"),), stock("ibping"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_a_hundred_times(softib, stock):
    kills(softib, 2, 100, (stock("opensm"), "-o", "-f", "osm.log"), stock("ibping"))


@pytest.mark.parametrize("preload", ["own", pytest.param("stock", marks=pytest.mark.slow)])
def test_programs_of_a_dead_daemon_get_an_error(softib, stock, preload):
    """A tool that is waiting, one that asks again and again, and one that starts afterwards: all end soon."""
    if preload == "stock" and not PRELOAD.is_file():
        pytest.skip("libumad2sim.so (ibsim-utils) is absent")
    up = softib.start("one.yaml")
    options = ["--stock-preload"] if preload == "stock" else []
    script = f"while {stock('smpquery')} -t 200 -D nodeinfo 0; do :; done; echo over"
    busy = subprocess.Popen(
        softib.words("run", *options, "--", "sh", "-c", script),
        env=softib.env,
        cwd=softib.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    waiting = subprocess.Popen(
        softib.words("run", "--node", "host-0002", *options, "--", stock("ibping"), "-S"),
        env=softib.env,
        cwd=softib.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    many = 2 if preload == "stock" else 1  # under our library smpquery comes and goes between two looks
    assert wait_for(lambda: len(softib.status()[0]["clients"]) >= many) and busy.poll() is None
    up.send_signal(signal.SIGKILL)
    up.wait()
    for program in (busy, waiting):
        said = program.communicate(timeout=240)[0]
        assert (
            ("over" in said or "the fabric has stopped" in said) if program is busy or preload == "stock" else True
        ), said

    def left() -> list[Path]:
        return [p for p in Path("/proc").glob("[0-9]*/environ") if str(softib.folder).encode() in readable(p)]

    assert wait_for(lambda: not left()), "nothing of them is left"
    assert "start one with" in softib("run", "--", "true", code=2)


def test_up_twice_down_of_nothing_and_a_stranger_in_the_slot(softib):
    softib.start("one.yaml")
    assert "is already running" in softib("up", "one.yaml", code=2)
    softib("down", "one")
    assert "start one with" in softib("down", "one", code=2) and "start one with" in softib("down", code=2)
    place = folder(softib)
    (place / "control").mkdir()
    (place / "control" / "file").write_text("x")
    (place / "shared_fabric").symlink_to("/etc/passwd")
    (place / "umad").write_text("no socket")
    assert "ready in" in softib("up", "one.yaml", "--detach")
    assert os.path.isfile("/etc/passwd") and os.path.getsize("/etc/passwd") > 0
    softib("down")


FULL = """
set -e
mount -t tmpfs -o size={size} tmpfs {place}
mkdir -m 700 {place}/run
XDG_RUNTIME_DIR={place}/run exec "$@"
"""


@pytest.fixture
def small(softib):
    """``small(size, *words)`` runs words where the runtime directory is a tmpfs of that size of its own."""
    place = softib.folder / "small"
    place.mkdir()
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("no private mount namespace here (unshare)")

    def run(size: str, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [*unshare, "sh", "-c", FULL.format(size=size, place=place), "sh", *words],
            env=softib.env,
            cwd=softib.folder,
            capture_output=True,
            text=True,
            timeout=240,
        )

    return run


@pytest.mark.parametrize("size", ["64k", "200k"])
def test_a_full_file_system_is_one_line(softib, small, size):
    done = small(size, *softib.words("up", "one.yaml"))
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done
    assert "no room for the shared fabric" in done.stderr and "No space left" in done.stderr


def test_a_file_system_that_fills_up_later_hurts_no_running_fabric(softib, small):
    """The shared fabric has its blocks, and what grows is elsewhere: MADs that write lazy columns are answered. A program that
    needs new files is refused in one line."""
    python = " ".join(softib.words())
    script = f"""
        {python} up one.yaml --detach
        {python} run -- true
        head -c 8m /dev/zero > $XDG_RUNTIME_DIR/fill 2>/dev/null || true
        {python} run -- perfquery -x --vlxmitwait --reset_only 1 1 > /dev/null 2>&1 || true
        {python} run -- ibccconfig -c 0 CongestionKeyInfo 1 1 0 0 0 > /dev/null && echo written
        {python} run --node host-0007 -- true || echo "exit $?"
        rm $XDG_RUNTIME_DIR/fill
        {python} run --node host-0007 -- true && echo fits
        {python} status --json | grep '"bugs": 0'
        {python} down
    """
    done = small("4m", "sh", "-c", script)
    assert "written" in done.stdout, done
    assert "exit 2" in done.stdout and "No space left" in done.stderr and "fits" in done.stdout, done
    assert '"bugs": 0' in done.stdout and "Traceback" not in done.stderr and "one is down" in done.stderr, done


def test_the_memory_of_a_killed_daemon_is_told_and_freed(softib):
    """Without ``up`` of the same name; one that runs, and one that was stopped, are left alone."""
    softib("up", "one.yaml", "--detach", "--sm", "none")
    softib("up", "two.yaml", "--detach", "--sm", "none")
    pid = softib.status("one")[0]["pid"]
    os.kill(pid, signal.SIGKILL)
    assert wait_for(lambda: not Path(f"/proc/{pid}").exists() or "one" not in softib("status"))
    held = sum(path.lstat().st_blocks * 512 for path in folder(softib).rglob("*"))
    said = softib("status")
    assert "one: its daemon was killed; 0." in said and "--prune" in said and "two: " in said
    for words in (("status", "one"), ("down", "one"), ("run", "--fabric", "one", "--", "true")):
        said = softib(*words, code=2)
        assert "'one' was killed" in said and "softib status --prune" in said, words
    assert held > 400_000 and "one: its daemon was killed; freed" in softib("status", "--prune")
    assert {path.name for path in folder(softib).iterdir()} <= set(KEPT)
    assert "killed" not in softib("status") and len(softib.status("two")) == 1
    softib("down", "two")
    assert "killed" not in softib("status")
