"""A fabric that runs, from Python: programs, faults, counters. Oracles: stock ibstat and perfquery."""

from __future__ import annotations

import subprocess

import pytest

import softib
from tests.scratch import scratch

pytest.importorskip("polars")


@pytest.fixture(scope="module")
def fabric():
    patch = pytest.MonkeyPatch()
    folder = scratch("sa-")
    folder.chmod(0o700)
    patch.setenv("XDG_RUNTIME_DIR", str(folder))
    with softib.up(softib.generate("fat-tree", radix=4, levels=2), name="api") as f:
        yield f
    assert not list(folder.rglob("control")), "down leaves no socket"
    patch.undo()


def test_it_is_up(fabric):
    now = fabric.snapshot()
    assert now.format == "running"
    assert now.ports.filter(state="ACTIVE").height == 2 * 16 + 6, "and port 0 of switches"
    assert fabric.status()["sm"]["state"] == "MASTER"
    assert softib.verify(now).good


@pytest.mark.stock
def test_programs_see_their_host(fabric, stock):
    assert fabric.run("host-0003", [stock("ibstat"), "-l"]).stdout.strip() == "mlx5_0"


@pytest.mark.stock
def test_counters_are_what_perfquery_prints(fabric, stock):
    lid = fabric.snapshot().ports.filter(node="leaf-1", port=0)["lid"][0]
    printed = fabric.run("host-0001", [stock("perfquery"), "-x", str(lid), "3"]).stdout
    sent = int(next(line for line in printed.splitlines() if line.startswith("PortXmitPkts:")).split(".")[-1])
    after = fabric.counters().filter(node="leaf-1", port=3)["port_xmit_pkts"][0]
    assert sent <= after <= sent + 50 and sent > 0  # the manager goes on sweeping


def test_a_fault_is_planted_and_cleared(fabric):
    with fabric_without(fabric, "leaf-1[3]"):
        assert fabric.snapshot().cables == 15
        assert softib.diff(softib.generate("fat-tree", radix=4, levels=2), fabric.snapshot()).of_kind("cable-removed")
    assert fabric.snapshot().cables == 16


class fabric_without:
    def __init__(self, fabric: softib.RunningFabric, port: str):
        self.fabric, self.port = fabric, port

    def __enter__(self) -> None:
        self.fabric.fault("link-down", self.port)

    def __exit__(self, *_: object) -> None:
        self.fabric.fault("link-up", self.port)


def test_wrong_names_are_one_line(fabric):
    with pytest.raises(softib.InputError, match="host-0001"):
        fabric.run("host-001", ["true"])
    with pytest.raises(softib.InputError):
        fabric.run("host-0001", ["no-such-program"])
    with pytest.raises(softib.InputError, match="give a list"):
        fabric.run("host-0001", "ibstat -l")
    with pytest.raises(softib.SoftibError):
        fabric.fault("link-down", "leaf-9[1]")
    with pytest.raises(softib.InputError, match="runs already"):
        softib.up(softib.generate("fat-tree", radix=4, levels=2), name="api")
    with pytest.raises(subprocess.CalledProcessError):
        fabric.run("host-0001", ["false"])
