"""A trial of a foreign program: one process on each of two nodes, data compared, and the counters of a port moved."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.preload.foreign_wheels import environment
from tests.preload.verbs.applications import A, Applications, B, ended, stop

NODES = Path(__file__).with_name("nodes")
SCRIPTS = (
    ("ibverbs", "ibverbs_rc.py"),
    ("mooncake-transfer-engine-non-cuda", "mooncake_engine.py"),
    ("nixl-cu12", "nixl_agents.py"),
    ("dlslime", "dlslime_endpoints.py"),
)
"""Wheels, and the script of ``nodes`` that uses each."""
CHECKED = re.compile(r"^checked (\d+) bytes: same$", re.M)


class Trial:
    """``moved`` bytes left a port of one of the two nodes, and ``checked`` bytes were compared."""

    def __init__(
        self, apps: Applications, folder: Path, record: Callable[[str, object], None], nodes: tuple[str, str] = (A, B)
    ):
        self.apps, self.folder, self.record, self.nodes = apps, folder, record, nodes

    def scripts(self, wheel: str, script: str, **env: str) -> None:
        """Run the same Python script on both nodes, in the environment that holds ``wheel``."""
        python = str(environment(wheel) / "bin" / "python")
        words = [[python, str(NODES / script), role, str(self.folder)] for role in ("server", "client")]
        self.compare(*words, **env)

    def compare(self, server: list[str], client: list[str], **env: str) -> str:
        """Run the two commands to their ends. Each says how many bytes it compared, and at least one did."""
        before = self.sent()
        one = self.apps.begin(self.nodes[0], *server, **env)
        try:
            output = "\n".join(ended(one, self.apps.begin(self.nodes[1], *client, **env), 150))
        finally:
            stop(one)
        checked = sum(map(int, CHECKED.findall(output)))
        assert checked, output
        self.count(checked, before)
        return output

    def count(self, checked: int, before: int, wire: float = 0.5) -> None:
        """Record what was compared. The ports must have sent ``wire`` of it, since a process may compare what it sent itself."""
        moved = self.sent() - before
        self.record("checked", checked)
        self.record("moved", moved)
        assert moved >= wire * checked, f"{checked} bytes compared, and {moved} sent"

    def sent(self) -> int:
        """Bytes that both nodes have sent."""
        file = "/sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data"
        return 4 * sum(int(self.apps("run", "--node", node, "--", "cat", file)) for node in self.nodes)

    def compiled(self, source: str, *libraries: str) -> str:
        """Compile a program of ``nodes``; skips where a header or a library is absent."""
        path = self.folder / Path(source).stem
        language = ["g++", "-std=c++17"] if source.endswith(".cc") else ["gcc"]
        done = subprocess.run(
            [*language, "-O2", "-o", path, NODES / source, *libraries], capture_output=True, text=True, timeout=240
        )
        if done.returncode:
            pytest.skip(done.stderr.strip().splitlines()[0])
        return str(path)
