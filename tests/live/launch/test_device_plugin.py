"""What Kubernetes' RDMA device plugin reads is there under ``softib run --ns``, and the page lists all of it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.umad.lab import needs_namespace
from tests.preload.verbs.applications import A, Applications

pytestmark = [pytest.mark.slow, pytest.mark.stock, needs_namespace]

PAGE = Path(__file__).resolve().parents[3] / "docs" / "recipes" / "kubernetes.md"
HELD = re.compile(r"/(?:sys/(?:bus/pci/devices|class/infiniband|class/net)|dev/infiniband)")


def test_it_finds_the_adapter_by_the_files_of_the_table(stock, tmp_path):
    """Without softib's library, as a program in Go."""
    fabric = Applications()
    try:
        words = [
            "env",
            "-u",
            "LD_PRELOAD",
            stock("strace"),
            "-f",
            "-e",
            "trace=openat,readlink,stat,newfstatat",
            "-o",
            str(tmp_path / "trace"),
            sys.executable,
            "-I",
            str(Path(__file__).with_name("discovery.py")),
        ]
        done = subprocess.run(
            fabric.arguments("run", "--node", A, "--ns", "--", *words),
            env=fabric.env,
            capture_output=True,
            text=True,
            timeout=240,
        )
    finally:
        fabric.close()
    assert done.returncode == 0, done.stderr
    (device,) = json.loads(done.stdout)
    # ConnectX-7 by the PCI ID list, and the three kinds that the plugin requires.
    assert (device["vendor"], device["device"], device["driver"], device["numa"]) == ("15b3", "1021", "mlx5_core", "-1")
    assert [re.sub(r".*/|\d+$", "", name) for name in device["files"]] == ["issm", "umad", "uverbs", "rdma_cm"]
    opened = {path for path in re.findall(r'"(/[^"]+)"', (tmp_path / "trace").read_text()) if HELD.match(path)}
    patterns = {
        path: path.replace("ADDR", r"[0-9a-f:.]+").replace("N/", r"\d+/")
        for path in re.findall(r"`(/(?:sys|dev)/\S+)`", PAGE.read_text())
    }
    assert [path for path in opened if not any(re.fullmatch(p, path) for p in patterns.values())] == []
    assert [path for path, p in patterns.items() if not any(re.fullmatch(p, o) for o in opened)] == []
