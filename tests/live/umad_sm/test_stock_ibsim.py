"""Our manager as a client of stock ibsim, under its own preload library; stock tools judge what it programmed."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from softib.fabric.topologies.registry import generate
from tests.live.serving import PRELOAD
from tests.scenario.ibsim import Ibsim

pytestmark = [
    pytest.mark.stock,
    pytest.mark.skipif(not PRELOAD.is_file(), reason="libumad2sim.so (ibsim-utils) is absent"),
]


@pytest.fixture
def ibsim(stock, tmp_path):
    fabric = generate("fat-tree", radix=4, levels=2)
    one = Ibsim(stock("ibsim"), fabric, tmp_path)
    yield one, fabric
    one.stop()


def run(ibsim: Ibsim, node: str, *words: str, code: int = 0) -> str:
    done = subprocess.run(
        words, env=ibsim.environment(node), cwd=ibsim.folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == code, (words, done.stdout[-500:], done.stderr[-500:])
    return done.stdout


def test_a_subnet_of_stock_ibsim_is_brought_up_and_read(ibsim, stock):
    sim, fabric = ibsim
    first, last = (f"H-{int(fabric.node_guid[n]):016x}" for n in (fabric.cas[0], fabric.cas[-1]))
    ours = (sys.executable, "-m", "softib.cli.main")
    dry = json.loads(run(sim, first, *ours, "sm", "run", "--dry-run", "--json"))
    assert {c["attribute"] for c in dry["changes"]} >= {"LFT", "PortInfo", "SwitchInfo"}
    assert "Active" not in run(sim, first, stock("iblinkinfo")), "nothing was set"
    said = json.loads(run(sim, first, *ours, "sm", "run", "--once", "--json"))
    assert said["state"] == "MASTER" and said["problems"] == [] and said["retries"] == 0
    assert said["switches"] == fabric.sizes.switches and said["cas"] == len(fabric.cas)
    lid = {
        node: int(re.search(r"Lid:\.+(\d+)", run(sim, node, stock("smpquery"), "portinfo", "-D", "0"))[1])
        for node in (first, last)
    }
    states = run(sim, first, stock("iblinkinfo"))
    assert "Initialize" not in states and "Active" in states
    trace = run(sim, first, stock("ibtracert"), str(lid[first]), str(lid[last]))  # follows the tables in the switches
    assert f"lid {lid[last]}-{lid[last]}" in trace and trace.rstrip().splitlines()[-1].startswith("To ca")
    checked = run(sim, first, *ours, "route", "umad:", "--json")
    assert json.loads(checked)["deadlock_free"] is True
