"""What tests of this package share."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections import Counter
from pathlib import Path

from softib.iba.constants import PhysState, PortState
from softib.iba.smp import PortInfo
from softib.live.shared_fabric import SharedFabric
from tests.iba.dissected import columns
from tests.live.lab import Softib


def own(s: Softib, *words: str, node: str = "", code: int | None = 0) -> str:
    """Our command line under ``softib run`` on ``node``; what it printed. ``code`` None: it may fail."""
    at = ("--node", node) if node else ()
    done = subprocess.run(
        s.words("run", *at, "--", sys.executable, "-m", "softib.cli.main", *words),
        env=s.env,
        cwd=s.folder,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert code in (None, done.returncode), (words, done.stdout[-500:], done.stderr[-1500:])
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def fabric_of(s: Softib):
    """A copy of the running fabric's arrays."""
    return SharedFabric.snapshot(Path(s.status()[0]["shared_fabric"]))


def is_up(fabric) -> bool:
    """Is every link that has a signal ACTIVE?"""
    trained = fabric.linked & (PortInfo.port_phys_state.get(fabric.port_info) == PhysState.LINK_UP)
    return bool((fabric.port_state[trained] == PortState.ACTIVE).all())


def management_methods(pcap: Path) -> Counter[int]:
    """How many MADs of subnet management a capture of the fabric's side holds, by method (1 Get, 2 Set), as tshark reads them."""
    rows = columns(pcap, "infiniband.mad.mgmtclass", "infiniband.mad.method")
    return Counter(int(method, 0) for klass, method in rows if klass and int(klass, 0) in (0x01, 0x81))


def processes(folder: Path) -> set[int]:
    """All whose environment names ``folder``."""
    found = set()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if str(folder).encode() in environ.read_bytes():
                found.add(int(environ.parent.name))
    return found
