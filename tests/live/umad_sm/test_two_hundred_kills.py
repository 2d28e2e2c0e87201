"""The daemon and the managers of one fabric, killed with SIGKILL at random moments while stock programs send. ``make kills`` runs it whole,
and continues a run that was cut off.

Oracles: /proc (processes, sockets), /dev/shm, the files of the runtime directory, the proof of the tables, and ib_write_bw of perftest,
which sends again after each kill.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from softib.live.instances import KEPT
from tests.live.internal_sm.lab import proves
from tests.live.serving import free_port, wait_for
from tests.live.umad_sm.campaign import CampaignLog
from tests.live.umad_sm.lab import fabric_of, is_up, processes
from tests.preload.verbs.applications import wait_for_listener

KILLS = 100
KILL_S = 240.0
"""A kill with everything that follows it. Each program in it has its own deadline; a longer one waits for what does not come."""
STATUS_S = 20.0
"""``softib status`` of one small fabric: 0.3 s of CPU, and the machine may do other work."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(KILLS * KILL_S)]

MANAGERS = ("host-0001", "host-0006")
SENDERS = ("host-0003", "host-0012")


def ours(folder: Path) -> set[str]:
    """What there is of this fabric beside its kept files: processes, sockets, files, shared memory."""
    found = {f"process {pid}" for pid in processes(folder) - {os.getpid()}}
    found |= {line for line in Path("/proc/net/unix").read_text().splitlines() if str(folder) in line}
    place = folder / "run/softib/net"
    return found | {p.name for p in (place.iterdir() if place.exists() else ()) if p.name not in KEPT}


def shared_memory(folder: Path) -> set[str]:
    """Files of /dev/shm that programs of this fabric have mapped or open. (Others may write there, too.)"""
    found = set()
    for pid in processes(folder) - {os.getpid()}:
        with contextlib.suppress(OSError):
            maps = [line.split(maxsplit=5)[-1] for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
            opened = [os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()]
            found |= {name for name in maps + opened if name.startswith("/dev/shm/")}
    return found


class Traffic:
    """ib_write_bw between two hosts, for as long as the fabric is there."""

    def __init__(self, s, program: str):
        self.s, self.program, self.running = s, program, []

    def words(self, node: str, port: int, *more: str) -> list[str]:
        return self.s.words("run", "--node", node, "--", self.program, "-F", "-s", "4096", "-p", str(port), *more)

    def start(self, seconds: int) -> None:
        port = free_port()
        for node, server in ((SENDERS[0], ()), (SENDERS[1], ("127.0.0.1",))):
            words = self.words(node, port, "-D", str(seconds), *server)
            self.running.append(
                subprocess.Popen(
                    words,
                    env=self.s.env,
                    cwd=self.s.folder,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
            if not server:
                wait_for_listener(port, self.running[0])

    def ended(self) -> list[int]:
        """Exit codes, all of them; none hangs. (A server whose client never got a fabric waits for it at its TCP socket.)"""
        codes = []
        for program in reversed(self.running):
            if any(codes):
                program.terminate()
            said = program.communicate(timeout=120)[0]
            assert "Traceback" not in said, said
            codes.append(program.returncode)
        self.running.clear()
        return codes


def manager(s, node: str) -> subprocess.Popen:
    words = s.words(
        "run",
        "--node",
        node,
        "--",
        sys.executable,
        "-m",
        "softib.cli.main",
        "sm",
        "run",
        "--sweep",
        "1",
        "--priority",
        "3",
        "--sm-config",
        "conf",
        "--log-file",
        f"log-{node}",
    )
    with (s.folder / "stderr").open("a") as err:
        return subprocess.Popen(words, env=s.env, cwd=s.folder, stdout=subprocess.DEVNULL, stderr=err)


def below(pid: int) -> list[int]:
    """The processes that descend from ``pid``."""
    with contextlib.suppress(OSError):
        children = [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return [one for child in children for one in (child, *below(child))]
    return []


def killed(run: subprocess.Popen) -> bool:
    """Kill the manager that ``run`` started, and what it forked; False while ``softib run`` has not started it yet. (Those that
    have its arguments are looked for below ``run`` alone: the process that waits for it has them, too.)"""
    victims = []
    for pid in below(run.pid):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"--sweep" in words and b"--node" not in words:
                victims.append(pid)
    for pid in victims:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return bool(victims)


def converges(s) -> bool:
    fabric = fabric_of(s)
    return is_up(fabric) and proves(fabric)


def seconds_of(step) -> float:
    began = time.monotonic()
    step()
    return time.monotonic() - began


def prompt_status(s) -> list[dict]:
    """The answer of ``softib status``, which never waits for a daemon that was killed."""
    began = time.monotonic()
    fabrics = s.status()
    assert time.monotonic() - began < STATUS_S, "softib status waited"
    return fabrics


def test_managers_under_traffic(softib, stock):
    """Two managers; one is killed, and comes back: the fabric's tables are whole all the time, and the traffic never ends badly."""
    log = CampaignLog("managers")
    s, shared = softib, set()
    s("up", "net.yaml", "--sm", "external", "--detach")
    running = {node: manager(s, node) for node in MANAGERS}
    assert wait_for(lambda: converges(s))
    traffic = Traffic(s, stock("ib_write_bw"))
    for i in range(len(log.kills), KILLS):
        rng, began = np.random.default_rng((100, i)), time.monotonic()
        if not traffic.running or any(p.poll() is not None for p in traffic.running):
            assert traffic.ended() in ([], [0, 0]), i
            traffic.start(20)
        node = MANAGERS[int(rng.integers(2))]
        time.sleep(float(rng.uniform(0, 3)))
        shared |= shared_memory(s.folder)
        assert wait_for(functools.partial(killed, running[node])), i
        running[node].wait(60)
        assert proves(fabric_of(s)), (i, "what stands routes on without a manager")
        running[node] = manager(s, node)
        if i % 10 == 9:
            assert wait_for(lambda: converges(s)), i
        log.note(victim=node, kill_s=time.monotonic() - began, status_s=seconds_of(lambda: prompt_status(s)))
        assert log.kills[-1]["kill_s"] < KILL_S, log.kills[-1]
    print(log.summary(), flush=True)
    assert wait_for(lambda: converges(s))
    assert traffic.ended() in ([], [0, 0])
    assert s.status()[0]["bugs"] == 0
    for one in running.values():
        one.terminate()
    for one in running.values():
        one.wait(60)
    s("down")
    assert wait_for(lambda: not ours(s.folder)), ours(s.folder)
    assert not [name for name in shared if Path(name).exists()]


def test_daemons_under_traffic(softib, stock):
    """The daemon is killed while two hosts send, when it is ready, and while it comes up: programs end, ``up`` of the name works, and
    nothing stays."""
    log = CampaignLog("daemons")
    s, shared = softib, set()
    traffic = Traffic(s, stock("ib_write_bw"))
    for i in range(len(log.kills), KILLS):
        rng, began = np.random.default_rng((101, i)), time.monotonic()
        moment = ("starting", "ready", "sending", "sending")[i % 4]
        if moment == "starting":
            kill_while_it_starts(s, float(rng.uniform(0, 3)))
        else:
            s("up", "net.yaml", "--detach")
            assert converges(s), i
            if moment == "sending":
                traffic.start(5)
                time.sleep(float(rng.uniform(0, 3)))
            shared |= shared_memory(s.folder)
            os.kill(prompt_status(s)[0]["pid"], signal.SIGKILL)
        ended_s = seconds_of(traffic.ended)
        assert wait_for(lambda: not processes(s.folder) - {os.getpid()}), (i, processes(s.folder))
        status_s = seconds_of(lambda: prompt_status(s))
        assert prompt_status(s) == []
        log.note(
            victim=f"daemon, {moment}", kill_s=time.monotonic() - began, programs_ended_s=ended_s, status_s=status_s
        )
        assert log.kills[-1]["kill_s"] < KILL_S, log.kills[-1]
    print(log.summary(), flush=True)
    s("up", "net.yaml", "--detach")
    traffic.start(1)
    assert traffic.ended() == [0, 0] and converges(s) and s.status()[0]["bugs"] == 0
    s("down")
    assert wait_for(lambda: not ours(s.folder)), ours(s.folder)
    assert not [name for name in shared if Path(name).exists()]


def kill_while_it_starts(s, after_s: float) -> None:
    """``softib up --detach`` ends with one line, whether its daemon was ready or not."""
    words = s.words("up", "net.yaml", "--detach")
    up = subprocess.Popen(words, env=s.env, cwd=s.folder, stderr=subprocess.PIPE, text=True)
    assert wait_for(lambda: below(up.pid) or up.poll() is not None)
    (daemon,) = below(up.pid)
    time.sleep(after_s)
    os.kill(daemon, signal.SIGKILL)
    line = up.communicate(timeout=60)[1]
    assert line.count("\n") == 1 and (up.returncode == 0 or "was killed while it started" in line), line
