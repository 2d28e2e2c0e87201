"""What tests of this package share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from softib.iba.constants import PortState
from softib.live.shared_fabric import SharedFabric
from tests.live.lab import Softib

SM = ("sm", "run")


def own(s: Softib, *words: str, node: str = "", code: int = 0) -> str:
    """Our command line under ``softib run`` on ``node``; what it printed."""
    at = ("--node", node) if node else ()
    done = subprocess.run(s.words("run", *at, "--", sys.executable, "-m", "softib.cli.main", *words), env=s.env, cwd=s.folder,
                          capture_output=True, text=True, timeout=240)  # fmt: skip
    assert done.returncode == code, (words, done.stdout[-500:], done.stderr[-1500:])
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def fabric_of(s: Softib):
    """A copy of the running fabric's arrays."""
    return SharedFabric.snapshot(Path(s.status()[0]["shared_fabric"]))


def is_up(fabric) -> bool:
    return bool((fabric.port_state[fabric.linked] == PortState.ACTIVE).all())


def sets_in(pcap: Path) -> list[int]:
    """Methods of all subnet management MADs in a capture (Wireshark's raw InfiniBand packets): 2 is Set."""
    from softib.iba.pcap import read_packets

    return [m for m in read_packets(pcap)]
