"""The umad devices behave as the kernel's driver documents them, asked by programs that know only its ABI."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from softib.fabric.topologies.registry import generate
from softib.iba.constants import CapMask
from softib.iba.smp import PortInfo
from softib.scenario.bring_up import bring_up
from tests.live.serving import wait_for
from tests.live.umad.serving import PROGRAM, UmadServing


@pytest.fixture
def served(own_library):
    s = UmadServing(generate("rail-optimized", nodes=2, rails=2, radix=8), own_library)
    s.do(lambda: bring_up(s.fabric, plane=s.router.plane))
    caps = PortInfo.cap_mask.get(s.fabric.port_info)
    PortInfo.cap_mask.set(s.fabric.port_info, caps & ~caps.dtype.type(CapMask.IS_SM))
    yield s
    s.stop()


@pytest.mark.parametrize("scene", ["registration", "rules", "waiting", "timeouts", "issm"])
def test_as_the_kernels_driver(served, scene):
    served.program(scene, "node-001")


def test_messages_between_programs_arrive_whole_whatever_their_size(served):
    rows = served.view("node-001").umads
    served.program("both_ends", "node-001", str(served.fabric.lid[rows[1]]))


def test_more_requests_than_sockets_hold(served):
    served.program("many", "node-001", "5000")


def test_a_killed_program_leaves_nothing(served):
    port = served.view("node-001").umads[0]
    issm = lambda: bool(int(PortInfo.cap_mask.get(served.fabric.port_info[port])) & CapMask.IS_SM)
    for _ in range(3):
        one = subprocess.Popen(
            [sys.executable, "-I", str(PROGRAM), "hold"],
            env=served.environment("node-001"),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert one.stdout.readline() == "holding\n" and issm()
        assert len(served.umads.files) == 2
        os.kill(one.pid, signal.SIGKILL)
        one.wait()
        assert wait_for(lambda: not served.umads.files) and not issm()
    served.program("rules", "node-001")


def test_views_are_hosts_adapters_and_ports(served):
    f = served.fabric
    names = lambda view: [(d.name, f.node_name(d.node), d.portnums) for d in view.devices]
    host = [("mlx5_0", "node-001 mlx5_0", (1,)), ("mlx5_1", "node-001 mlx5_1", (1,))]
    assert names(served.view("node-001")) == host and names(served.view("")) == host
    assert names(served.view("node-002 mlx5_1")) == [("mlx5_1", "node-002 mlx5_1", (1,))]
    assert names(served.view("node-001 mlx5_1:1")) == host[1:]
    (switch,) = served.view(f.node_name(int(f.switch_node[0]))).devices
    assert switch.portnums == (0,)


def test_requests_of_a_dead_daemon_come_back(own_library):
    s = UmadServing(generate("fat-tree", radix=4, levels=2), own_library)
    one = subprocess.Popen(
        [sys.executable, "-I", str(PROGRAM), "orphaned"],
        env=s.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert one.stdout.readline() == "asked\n", one.stderr.read()
        s.stop()
        assert one.communicate(timeout=240) == ("", "") and one.returncode == 0
    finally:
        one.kill()
        one.wait()
