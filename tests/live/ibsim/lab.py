"""What tests of this package share."""

from __future__ import annotations

import subprocess

from softib.fabric.columns import COLUMNS
from softib.fabric.model import Fabric
from softib.iba.smp import PortInfo
from softib.live.instances import Instance
from softib.live.shared_fabric import SharedFabric
from tests.live.lab import Softib

KEY = "0x123456789abcdef0"

COUNTS = {"counters", "detail_counters", "sl_counters"}


class Tools:
    """Stock programs on nodes of the fabric ``one``."""

    def __init__(self, command: Softib, stock, preload: str = ""):
        self.softib, self.stock = command, stock
        self.options = ["--stock-preload"] if preload else []

    def __call__(self, *words: str, node: str = "host-0001") -> tuple[bool, str]:
        """(went well, what it said)."""
        program, *rest = words
        done = subprocess.run(
            self.softib.words("run", "--node", node, *self.options, "--", self.stock(program), *rest),
            env=self.softib.env,
            cwd=self.softib.folder,
            capture_output=True,
            text=True,
            timeout=240,
        )
        return done.returncode == 0, done.stdout + done.stderr

    def fabric(self) -> Fabric:
        folder = self.softib.folder / "run" / "softib" / "one"
        return SharedFabric.snapshot(Instance("one", folder).shared_fabric)


def differs(a: Fabric, b: Fabric) -> set[str]:
    """Columns that changed, but for what every MAD counts and violation counters."""
    found = set()
    at = PortInfo.mkey_violations.byte
    for column in COLUMNS:
        x, y = getattr(a, column.name).copy(), getattr(b, column.name).copy()
        if column.name == "port_info":
            x[:, at : at + 2] = y[:, at : at + 2] = 0
        if column.name not in COUNTS and x.tobytes() != y.tobytes():
            found.add(column.name)
    return found
