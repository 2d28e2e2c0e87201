"""A netlist of very many small switches: reading takes time in proportion to them."""

from __future__ import annotations

import resource
import subprocess
import sys

SWITCHES, SECONDS = 10_000, 20
"""Ten times what it takes, and more; in CPU seconds."""


def test_many_small_switches_without_links(tmp_path):
    netlist = tmp_path / "many.net"
    netlist.write_text("".join(f'Switch 4 "S{i}"\n\n' for i in range(SWITCHES)))
    done = subprocess.run(
        [sys.executable, "-m", "softib", "convert", str(netlist), str(tmp_path / "again.net")],
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS)),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"{SWITCHES:,} switches, 0 channel adapters, 0 cables" in done.stdout + done.stderr
    assert (tmp_path / "again.net").read_text().count("\nSwitch") >= SWITCHES - 1
