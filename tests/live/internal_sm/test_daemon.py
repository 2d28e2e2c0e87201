"""OpenSM as a daemon, under both preload libraries: cables that fail and return, and managers that are killed."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.iba.constants import PortState
from tests.live.internal_sm.lab import CONFIG, proves, says
from tests.live.serving import PRELOAD, Serving, run, wait_for
from tests.live.umad.serving import UmadServing

pytestmark = pytest.mark.stock
LINK_LOST = "trap 128, as hardware raises it"


@pytest.fixture(params=["stock", "own"])
def serve(request, own_library):
    """``serve(fabric)``: a server for programs under the stock library, or under ours."""
    if request.param == "stock" and not PRELOAD.is_file():
        pytest.skip("libumad2sim.so (ibsim-utils) is absent")
    served: list[Serving] = []

    def start(fabric) -> Serving:
        served.append(Serving(fabric) if request.param == "stock" else UmadServing(fabric, own_library))
        return served[-1]

    yield start
    for s in served:
        s.stop()


@pytest.fixture
def managers(stock, tmp_path):
    """``managers(server, node, priority, …)`` starts one OpenSM on ``node``; all are killed at the end."""
    running: list[subprocess.Popen] = []

    def start(s: Serving, node: str, *options: str) -> tuple[subprocess.Popen, Path]:
        folder = tmp_path / f"sm-{len(running)}"
        folder.mkdir()
        (folder / "conf").write_text(CONFIG)
        env = {**s.environment(node), "OSM_CACHE_DIR": str(folder), "OSM_TMP_DIR": str(folder)}
        words = [stock("opensm"), "-F", str(folder / "conf"), "-f", str(folder / "log"), "-d2", *options]
        running.append(
            subprocess.Popen(
                words, env=env, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        )
        return running[-1], folder / "log"

    yield start
    for one in running:
        one.kill()
        one.wait()


def master(s: Serving, stock, folder: Path, node: str) -> tuple[int, int, int]:
    """(LID, GUID, priority) of the master, as ``sminfo`` on ``node`` sees it; zeros where it sees none."""
    code, said = run(folder, s.environment(node), stock("sminfo"), seconds=240)
    hit = re.search(r"sm lid (\d+) sm guid 0x(\w+), activity count \d+ priority (\d+) state 3 SMINFO_MASTER", said)
    return (int(hit[1]), int(hit[2], 16), int(hit[3])) if code == 0 and hit else (0, 0, 0)


def test_a_cable_fails_and_returns(serve, managers, stock, tmp_path):
    """Between two switches: the routes leave the cable, and come back; every table is proven each time."""
    f = generate("fat-tree", radix=4, levels=3)
    s = serve(f)
    _, log = managers(s, f.node_name(int(f.cas[0])), "-R", "updn")
    assert wait_for(lambda: says(log, "SUBNET UP")) and proves(f)
    before = f.lft.copy()
    between = f.linked & f.is_switch[f.port_node] & f.is_switch[f.port_node[np.maximum(f.port_peer, 0)]]
    victim = int(np.flatnonzero(between)[-1])
    peer = int(f.port_peer[victim])
    s.set_link(victim, False)
    assert wait_for(lambda: says(log, "SUBNET UP", 2)), LINK_LOST
    assert wait_for(lambda: proves(f))
    assert f.port_state[victim] == f.port_state[peer] == PortState.DOWN
    for end in (victim, peer):
        row = int(f.switch_of_node[f.port_node[end]])
        used = f.lft[row][f.lid[f.end_ports()]]
        assert (used != f.port_num[end]).all(), "nothing is sent into the dead cable"
    assert (f.lft != before).any()
    s.set_link(victim, True)
    assert wait_for(lambda: f.port_state[victim] == f.port_state[peer] == PortState.ACTIVE)
    assert wait_for(lambda: says(log, "SUBNET UP", 3)) and wait_for(lambda: proves(f))
    # A host's cable: its LID is unreachable meanwhile, and the same again afterwards.
    host = int(f.node_base[f.cas[-1]]) + 1
    lid = int(f.lid[host])
    s.set_link(host, False)
    assert wait_for(lambda: says(log, "SUBNET UP", 4))
    s.set_link(host, True)
    assert wait_for(lambda: f.port_state[host] == PortState.ACTIVE and f.lid[host] == lid)
    assert wait_for(lambda: proves(f))
    assert not re.findall(r"ERR (?!3113|5411|3120)\w+.*", log.read_text(errors="replace"))


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_standby_takes_over(how, serve, managers, stock, tmp_path):
    f = generate("fat-tree", radix=4, levels=2)
    s = serve(f)
    nodes = [f.node_name(int(f.cas[i])) for i in range(4)]
    guid = [int(f.port_guid[f.node_base[f.cas[i]] + 1]) for i in range(4)]
    low, low_log = managers(s, nodes[2], "-p", "1")
    assert wait_for(lambda: says(low_log, "SUBNET UP"))
    assert master(s, stock, tmp_path, nodes[3])[1:] == (guid[2], 1)
    # A higher priority comes: the master hands over (IBA 14.4.1).
    high, _ = managers(s, nodes[1], "-p", "9")
    assert wait_for(lambda: master(s, stock, tmp_path, nodes[3])[1:] == (guid[1], 9))
    assert wait_for(lambda: says(low_log, "Entering STANDBY"))
    lids = f.lid[f.end_ports()].copy()
    high.send_signal(how)
    high.wait(120)
    assert wait_for(lambda: master(s, stock, tmp_path, nodes[3])[1:] == (guid[2], 1))
    assert wait_for(lambda: says(low_log, "Entering MASTER", 2))
    assert (f.lid[f.end_ports()] == lids).all() and proves(f)
    # And gives way again.
    _, again = managers(s, nodes[0], "-p", "9")
    assert wait_for(lambda: master(s, stock, tmp_path, nodes[3])[1:] == (guid[0], 9))
    assert wait_for(lambda: says(again, "SUBNET UP")) and low.poll() is None
