"""Our manager and stock OpenSM as processes on two nodes of one fabric; either is killed with SIGKILL at random moments of its
sweeps. The fabric always converges, one of them is master in the end, and every port keeps its LID.

``SOFTIB_KILLS`` says how many kills (20).
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.live.internal_sm.lab import proves
from tests.live.umad_sm.lab import fabric_of, is_up

KILLS = int(os.environ.get("SOFTIB_KILLS", "20"))
OURS, STOCK, WATCHER = "host-0001", "host-0009", "host-0005"
CONVERGES_S = 60.0


class Managers:
    """Both, by node."""

    def __init__(self, softib, stock):
        self.s, self.stock = softib, stock
        self.running: dict[str, subprocess.Popen] = {}

    def start(self, node: str) -> None:
        ours = [sys.executable, "-m", "softib.cli.main", "sm", "run", "--priority", "3", "--sm-config", "conf", "--sweep", "2",
                "--guid2lid", "ours", "--log-file", "log"]  # fmt: skip
        theirs = [self.stock("opensm"), "-p", "3", "-F", "conf", "-s", "2", "-f", "osm.log"]
        words = self.s.words("run", "--node", node, "--", *(ours if node == OURS else theirs))
        env = {**self.s.env, "OSM_CACHE_DIR": str(self.s.folder), "OSM_TMP_DIR": str(self.s.folder)}
        self.running[node] = subprocess.Popen(words, env=env, cwd=self.s.folder, stdout=subprocess.DEVNULL,
                                              stderr=subprocess.DEVNULL)  # fmt: skip
        self.s.started.append(self.running[node])

    def kill(self, node: str) -> None:
        """The manager itself, not the ``softib run`` around it."""
        for client in self.s.status()[0]["clients"]:
            if client["node"].startswith(node):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(client["pid"], signal.SIGKILL)
        self.running[node].wait(30)

    def masters(self) -> list[str]:
        """Nodes whose manager says that it is master, asked by MAD with stock sminfo."""
        f = fabric_of(self.s)
        found = []
        for node in (OURS, STOCK):
            lid = int(f.lid[f.port(next(n for n in f.cas if f.node_name(int(n)).split()[0] == node), 1)])
            words = self.s.words("run", "--node", WATCHER, "--", self.stock("sminfo"), "-t", "300", str(lid))
            done = subprocess.run(words, env=self.s.env, cwd=self.s.folder, capture_output=True, text=True, timeout=60)
            found += [node] if re.search(r"SMINFO_MASTER", done.stdout) else []
        return found

    def converged(self) -> bool:
        f = fabric_of(self.s)
        return is_up(f) and proves(f) and len(self.masters()) == 1


def wait(until, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if until():
            return True
        time.sleep(0.2)
    return False


@pytest.mark.slow
@pytest.mark.stock
@pytest.mark.timeout(60 + 60 * KILLS)
def test_either_is_killed_and_the_fabric_converges(softib, stock):
    for program in ("opensm", "sminfo"):
        stock(program)
    softib("up", "net.yaml", "--sm", "external", "--detach")
    managers, dice = Managers(softib, stock), random.Random(14)
    managers.start(OURS)
    managers.start(STOCK)
    assert wait(managers.converged, CONVERGES_S)
    lids = fabric_of(softib).lid.copy()
    for kill in range(KILLS):
        victim = dice.choice((OURS, STOCK, *(managers.masters() * 2)))
        softib("fault", "link-down" if kill % 2 == 0 else "link-up", "leaf-3[3]")  # a sweep begins
        time.sleep(dice.random() * 0.5)
        managers.kill(victim)
        assert wait(lambda: not set(managers.masters()) - {OURS, STOCK} and managers.converged(), CONVERGES_S), (
            kill, victim, managers.masters(), is_up(fabric_of(softib)),
        )  # fmt: skip
        managers.start(victim)
        time.sleep(dice.random())
        assert wait(managers.converged, CONVERGES_S), (kill, victim, managers.masters())
        assert np.array_equal(fabric_of(softib).lid, lids), (kill, victim)
