"""Two managers as processes on two nodes of a running fabric, and somebody who looks on while they are killed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.live.internal_sm.lab import proves
from tests.live.umad_sm.lab import fabric_of, is_up

FIRST, SECOND, WATCHER = "host-0001", "host-0009", "host-0005"
MASTER = 3
WATCH = str(Path(__file__).with_name("watch.py"))


class Managers:
    """``programs``: by node, "softib" or "opensm"; ``priorities``: by node, -1 for a command line without one."""

    def __init__(self, softib, stock, programs: dict[str, str], priorities: dict[str, int] | None = None):
        self.s, self.stock, self.programs = softib, stock, programs
        self.priorities = priorities or dict.fromkeys(programs, 3)
        self.running: dict[str, subprocess.Popen] = {}
        self.lids: dict[str, int] = {}

    def start(self, node: str) -> None:
        s = self.s
        command = self.words(node)
        env = {**s.env, "OSM_CACHE_DIR": str(s.folder), "OSM_TMP_DIR": str(s.folder), "PYTHONFAULTHANDLER": "1"}
        with (s.folder / f"stderr-{node}").open("a") as err:
            self.running[node] = subprocess.Popen(
                s.words("run", "--node", node, "--", *command),
                env=env,
                cwd=s.folder,
                stdout=subprocess.DEVNULL,
                stderr=err,
            )
        s.started.append(self.running[node])

    def words(self, node: str) -> list[str]:
        """The command line of the manager on ``node``."""
        priority = self.priorities[node]
        if self.programs[node] == "softib":
            command = [sys.executable, "-m", "softib.cli.main", "sm", "run", "--sm-config", "conf", "--sweep", "2"]
            command += ["--guid2lid", f"lids-{node}", "--log-file", f"log-{node}"]
            return [*command, "--priority", str(priority)] if priority >= 0 else command
        command = [self.stock("opensm"), "-F", "conf", "-s", "2", "-f", f"osm-{node}.log"]
        return [*command, "-p", str(priority)] if priority >= 0 else command

    def kill(self, node: str) -> float:
        """The manager itself, not the ``softib run`` around it; when, on the monotonic clock."""
        for client in self.s.status()[0]["clients"]:
            if client["node"].startswith(node):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(client["pid"], signal.SIGKILL)
        at = time.monotonic()
        self.running[node].wait(30)
        return at

    def why(self) -> str:
        """What our managers do, and what they said: for a test that fails (they end with it)."""
        for client in self.s.status()[0]["clients"]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(client["pid"], signal.SIGABRT)
        time.sleep(1)
        f = fabric_of(self.s)
        said = [f"up: {is_up(f)}, proves: {proves(f)}"]
        return "\n".join(said + [path.read_text()[-3000:] for path in sorted(self.s.folder.glob("stderr-*"))])

    def lid(self, node: str) -> int:
        f = fabric_of(self.s)
        return int(f.lid[f.port(next(n for n in f.cas if f.node_name(int(n)).split()[0] == node), 1)])

    def states(self) -> dict[str, str]:
        """SMState of the manager on each node, asked by MAD with stock sminfo; "" if none answers."""
        found = {}
        for node in self.programs:
            words = self.s.words("run", "--node", WATCHER, "--", self.stock("sminfo"), "-t", "300", str(self.lid(node)))
            done = subprocess.run(words, env=self.s.env, cwd=self.s.folder, capture_output=True, text=True, timeout=60)
            said = re.search(r"SMINFO_(\w+)", done.stdout)
            found[node] = said[1] if said else ""
        return found

    def masters(self) -> list[str]:
        """Nodes whose manager says that it is master."""
        return [node for node, state in self.states().items() if state == "MASTER"]

    def said(self, node: str, what: str) -> bool:
        """Does the log of our manager on ``node`` say this?"""
        log = self.s.folder / f"log-{node}"
        return log.is_file() and what in log.read_text()

    def converged(self) -> bool:
        f = fabric_of(self.s)
        return is_up(f) and proves(f) and len(self.masters()) == 1

    # -- looking on --

    def watch(self) -> None:
        """From now on paths and masters are looked at all the time."""
        mapping, s = self.s.status()[0]["shared_fabric"], self.s
        lids = ",".join(str(self.lid(node)) for node in self.programs)
        paths = [sys.executable, WATCH, "paths", mapping, "paths.log"]
        masters = s.words("run", "--node", WATCHER, "--", sys.executable, WATCH, "masters", lids, "masters.log")
        for words in (paths, masters):
            s.started.append(subprocess.Popen(words, env=s.env, cwd=s.folder))
        assert wait(lambda: (s.folder / "masters.log").is_file() and (s.folder / "paths.log").is_file(), 60)

    def losses(self) -> list[float]:
        """Seconds for which each pair of hosts that lost its path was without."""
        return [
            float(line.split()[3])
            for line in (self.s.folder / "paths.log").read_text().splitlines()
            if line.count(" ") == 3
        ]

    def both_masters(self) -> list[float]:
        """Seconds of each time in which both said that they are master."""
        found, since, looks = [], None, (self.s.folder / "masters.log").read_text().splitlines()
        for line in looks:
            at, *states = line.split()
            if len(states) == 2 and all(int(x) == MASTER for x in states):
                since = since or float(at)
            elif since is not None:
                found.append(float(at) - since)
                since = None
        return found


def wait(until, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if until():
            return True
        time.sleep(0.2)
    return False
