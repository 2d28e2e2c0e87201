"""Memory of a running fabric of 11,664 hosts and 1,620 switches: the daemon's own, and the shared fabric's, octets a port row.

python bench/live_memory.py
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FABRIC = "name: big\ngeneration: HDR\ntopology: {kind: fat-tree, radix: 36, levels: 3}\n"
PORT_ROWS = 11_664 + 1_620 * 37


def main() -> None:
    """Start it, look, stop it."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        (Path(folder) / "big.yaml").write_text(FABRIC)
        env = {**os.environ, "XDG_RUNTIME_DIR": folder}
        softib = lambda *words: (
            subprocess.run(
                [sys.executable, "-m", "softib.cli.main", *words],
                env=env,
                cwd=folder,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        softib("up", "big.yaml", "--detach")
        try:
            (one,) = json.loads(softib("status", "--json"))["fabrics"]
            status = Path(f"/proc/{one['pid']}/status").read_text()
            kib = {key: int(value) for key, value in re.findall(r"^(\w+):\s+(\d+) kB", status, re.MULTILINE)}
            shared = Path(one["shared_fabric"]).stat().st_blocks * 512
            lazy = sum(
                os.stat(f).st_blocks * 512
                for f in Path(f"/proc/{one['pid']}/fd").iterdir()
                if "softib-lazy" in os.readlink(f)
            )
        finally:
            softib("down")
    print(
        f"ready in {one['ready_s']:.1f} s; daemon's own memory {kib['RssAnon'] / 1024:.0f} MiB, peak of all {kib['VmHWM'] / 1024:.0f} MiB"
    )
    print(
        f"shared fabric {shared / 2**20:.0f} MiB ({shared / PORT_ROWS:.0f} octets a port row), lazy columns {lazy / 2**20:.1f} MiB"
    )


if __name__ == "__main__":
    main()
