"""Stock OpenSM and infiniband-diags meet faults of a running fabric."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from softib.fabric.faults.targets import port_at
from softib.iba.constants import PortState
from softib.iba.rates import LANES_BY_BIT
from softib.iba.smp import PortInfo
from softib.live.shared_fabric import SharedFabric
from tests.live.serving import wait_for

pytestmark = [pytest.mark.stock, pytest.mark.slow]


def test_opensm_sweeps_around_a_dead_switch_and_takes_it_back(stock, softib):
    """No route over the dead spine is left, and every leaf reaches every host over the other; then it comes back with
    power-up values and is programmed anew."""
    opensm = stock("opensm")
    softib("up", "one.yaml", "--sm", "external", "--detach")
    f = SharedFabric.open(Path(softib.status()[0]["shared_fabric"])).fabric
    log = softib.folder / "opensm.log"
    env = {**softib.env, "OSM_CACHE_DIR": str(softib.folder), "OSM_TMP_DIR": str(softib.folder)}
    sm = subprocess.Popen(
        softib.words("run", "--", opensm, "-f", str(log)),
        env=env,
        cwd=softib.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    softib.started.append(sm)
    linked = f.port_peer >= 0

    def active() -> int:
        return int((f.port_state[linked] == PortState.ACTIVE).sum())

    assert wait_for(lambda: active() == linked.sum()), log.read_text()[-2000:]
    spine = f.node_names().index("spine-1")
    row = int(f.switch_of_node[spine])
    hosts = [int(f.lid[p]) for n in f.cas for p in f.ports_of(int(n), port0=False) if f.port_peer[p] >= 0]
    leaves = [int(f.switch_of_node[f.node_names().index(f"leaf-{i}")]) for i in range(1, 5)]
    dead_way = [int(f.port_num[f.port_peer[p]]) for p in f.ports_of(spine, port0=False)]

    def over_it() -> int:
        return sum(int((f.lft[s, hosts] == way).sum()) for s, way in zip(leaves, dead_way, strict=True))

    assert wait_for(lambda: over_it() > 0)
    softib("fault", "switch-down", "spine-1")
    assert wait_for(lambda: over_it() == 0), log.read_text()[-2000:]
    assert all((f.lft[s, hosts] != 255).all() for s in leaves)
    assert (f.lft[row] == 255).all() and active() == linked.sum() - 8
    softib("fault", "switch-up", "spine-1")
    assert wait_for(lambda: active() == linked.sum()), log.read_text()[-2000:]
    assert wait_for(lambda: (np.asarray(f.lft[row, hosts]) != 255).all() and over_it() > 0)
    assert softib.status()[0]["bugs"] == 0


def test_diags_see_a_downgraded_and_a_bad_link(stock, softib):
    stock("iblinkinfo")
    stock("ibqueryerrors")
    (softib.folder / "one.yaml").write_text(
        "name: one\ngeneration: QDR\ntopology: {kind: fat-tree, radix: 4, levels: 2}\n"
    )
    softib("up", "one.yaml", "--detach")
    f = SharedFabric.open(Path(softib.status()[0]["shared_fabric"])).fabric
    port = port_at(f, "leaf-1[3]")

    def active_lanes() -> int:
        return LANES_BY_BIT[int(PortInfo.link_width_active.get(f.port_info[port]))]

    softib("fault", "downgrade", "leaf-1[3]", "--width", "1", "--speed", "SDR")
    assert wait_for(lambda: int(f.port_state[port]) == PortState.ACTIVE and active_lanes() == 1)
    shown = softib("run", "--", "iblinkinfo")
    slow = [line for line in shown.splitlines() if "1X           2.5 Gbps Active" in line]
    assert len(slow) == 2 and all("Could be 4X" in line for line in slow), shown
    softib("fault", "ber", "leaf-1[3]", "1e-5")
    assert wait_for(lambda: int(f.counters["symbol_error_counter"][port]) > 70000)
    told = softib("run", "--", "ibqueryerrors", "--details", code=1)  # it found some
    assert told.count("[SymbolErrorCounter == 65535]") >= 2, told
