"""``softib sm run`` killed with SIGKILL at any moment: what it leaves is counted, and the next one finds a subnet that it can manage.

Oracles: /proc (processes, descriptors, sockets), the files of the runtime directory, and the tables' proof.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.live.internal_sm.lab import proves
from tests.live.serving import wait_for
from tests.live.umad_sm.lab import fabric_of, is_up, own, processes

NODES = ("host-0001", "host-0006", "host-0011")
STATE = ("run/softib/net/guid2lid", "run/softib/net/guid2mkey", "run/softib/net/neighbors")


def left(s, daemon: dict) -> dict[str, object]:
    """What there is of the fabric and its programs on this machine."""
    names = (str(s.folder), daemon["sockname"])
    sockets = [
        line.split()[-1]
        for line in Path("/proc/net/unix").read_text().splitlines()
        if any(name in line for name in names)
    ]
    files = (str(p.relative_to(s.folder)) for p in (s.folder / "run").rglob("*"))
    return {
        "processes": processes(s.folder) - {os.getpid()},
        "descriptors": len(os.listdir(f"/proc/{daemon['pid']}/fd")),
        "sockets": sorted(sockets),
        "files": sorted(name for name in files if "/sys/" not in name and name not in STATE),
    }


def kill(s, node: str, moment: float, *options: str) -> bool:
    """Start a manager on ``node`` and kill it after ``moment`` s; whether it still ran."""
    command = [sys.executable, "-m", "softib.cli.main", "sm", "run", "--sweep", "1", "--log-file", "log", *options]
    with (s.folder / "stderr").open("a") as err:
        one = subprocess.Popen(
            s.words("run", "--node", node, "--", *command),
            env=s.env,
            cwd=s.folder,
            stdout=subprocess.DEVNULL,
            stderr=err,
        )
    before = processes(s.folder) - {one.pid}
    time.sleep(moment)
    ran = one.poll() is None
    children = [
        pid
        for pid in processes(s.folder) - before - {one.pid}
        if b"sm\0run" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    for pid in children or [one.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    one.wait(30)
    return ran


@pytest.mark.parametrize("kills", [1, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(2400)])])
def test_managers_that_are_killed(softib, kills):
    rng = np.random.default_rng(kills)
    softib("up", "net.yaml", "--sm", "external", "--detach")
    daemon = softib.status()[0]
    for node in NODES:  # what a node's first program makes stays until `softib down`
        softib("run", "--node", node, "--", "true")
    before = left(softib, daemon)
    for i in range(kills):
        ran = kill(softib, NODES[i % 3], float(rng.uniform(0.2, 4)), *(("--take-over",) if i % 4 == 3 else ()))
        assert ran, (softib.folder / "stderr").read_text()[-2000:]
        assert wait_for(lambda: left(softib, daemon) == before), (i, left(softib, daemon), before)
        for name in STATE:
            path = softib.folder / name
            assert not path.exists() or path.read_bytes()[-1:] in (b"", b"\n"), f"{name} is whole"
    own(softib, "sm", "run", "--once", "--take-over")
    fabric = fabric_of(softib)
    assert is_up(fabric) and proves(fabric)
    assert wait_for(lambda: not softib.status()[0]["clients"])
    assert softib.status()[0]["bugs"] == 0
    softib("down")
    assert wait_for(lambda: not processes(softib.folder) - {os.getpid()})
