"""Runs stock ibsim on a netlist and stock ibnetdiscover on it, each run in a private socket name space."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from softib.fabric.model import Fabric

PRELOAD = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so"


@contextlib.contextmanager
def running(ibsim: str, net: Path, fabric: Fabric, wait_s: float = 120) -> Iterator[dict[str, str]]:
    """ibsim with ``net`` loaded; yields the environment in which stock programs see it."""
    if not os.path.exists(PRELOAD):
        pytest.skip(f"{PRELOAD} is not installed")
    env = {**os.environ, "IBSIM_SOCKNAME": f"softib-formats-{os.getpid()}-{time.monotonic_ns()}"}
    log = net.with_suffix(".log")
    limits = [
        "-N",
        str(fabric.sizes.nodes + 1),
        "-S",
        str(fabric.sizes.switches + 1),
        "-P",
        str(fabric.sizes.ports + 1),
    ]
    with log.open("wb") as out:
        sim = subprocess.Popen(
            [ibsim, "-s", "-n", *limits, str(net)], env=env, stdin=subprocess.PIPE, stdout=out, stderr=out
        )
    try:
        deadline = time.monotonic() + wait_s
        while f"@{env['IBSIM_SOCKNAME']}:ctl" not in Path("/proc/net/unix").read_text():
            assert sim.poll() is None, f"ibsim ended: {log.read_text(errors='replace')[-800:]}"
            assert time.monotonic() < deadline, "ibsim did not start"
            time.sleep(0.02)
        yield {**env, "LD_PRELOAD": PRELOAD}
        assert sim.poll() is None, f"ibsim died: {log.read_text(errors='replace')[-800:]}"
    finally:
        sim.kill()
        sim.wait()


def ibnetdiscover(program: str, env: dict[str, str], node: str, limit_s: float = 300) -> bytes:
    """What ibnetdiscover prints when it starts at ``node``."""
    done = subprocess.run([program], env={**env, "SIM_HOST": node}, capture_output=True, timeout=limit_s, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout


def parts(fabric: Fabric) -> list[int]:
    """One node of each connected part that has a cable."""
    n = fabric.sizes.nodes
    label = np.arange(n)
    up = np.flatnonzero(fabric.linked)
    a, b = fabric.port_node[up], fabric.port_node[fabric.port_peer[up]]
    while True:
        low = label.copy()
        np.minimum.at(low, a, label[b])
        low = low[low]
        if (low == label).all():
            return [int(i) for i in np.unique(label[np.unique(a)])]
        label = low


def node_ids(fabric: Fabric) -> list[tuple[int, int, int]]:
    """(type, NodeGUID, ports), sorted."""
    return sorted(zip(fabric.node_type.tolist(), fabric.node_guid.tolist(), fabric.node_nports.tolist(), strict=True))


def links(fabric: Fabric) -> list[tuple[tuple[int, int], ...]]:
    """Cables with both ends as sorted pairs of (NodeGUID, portnum), sorted."""
    guid, num, node = fabric.node_guid.tolist(), fabric.port_num.tolist(), fabric.port_node.tolist()
    ends = [(a, b) for a, b in fabric.cable_port.tolist() if b >= 0]
    return sorted(tuple(sorted(((guid[node[a]], num[a]), (guid[node[b]], num[b])))) for a, b in ends)
