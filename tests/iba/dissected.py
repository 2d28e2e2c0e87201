"""What tests of this package share."""

from __future__ import annotations

import subprocess


def columns(pcap, *fields: str, only: str = "") -> list[list[str]]:
    words = ["tshark", "-r", str(pcap), "-T", "fields", *(x for f in fields for x in ("-e", f))]
    done = subprocess.run([*words, *(["-Y", only] if only else [])], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]
