"""OpenMPI's launcher on two nodes of a running fabric."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.preload.verbs.applications import A, B

OPTIONS = (
    "--allow-run-as-root",
    "--oversubscribe",
    "--mca",
    "pml",
    "ucx",
    "--mca",
    "btl",
    "^openib",
    "--mca",
    "osc",
    "ucx",
    "-x",
    "UCX_TLS=rc_v,self",
    "-x",
    "UCX_NET_DEVICES=mlx5_0:1",
)


def mpirun(apps, stock, np: int, *arguments: str, limit_s: int = 240, folder: Path | None = None) -> str:
    """``np`` ranks on each of two nodes."""
    stock("mpirun")
    command = [
        "mpirun",
        *OPTIONS,
        "-np",
        str(np),
        *apps.on(A, *arguments),
        ":",
        "-np",
        str(np),
        *apps.on(B, *arguments),
    ]
    done = subprocess.run(
        command, env=apps.env, cwd=folder or apps.folder, capture_output=True, text=True, timeout=limit_s
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
