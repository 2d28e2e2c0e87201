"""Where an adapter sits on the bus: who follows sysfs as a kernel shows it comes to a PCI function."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.live.umad.lab import needs_namespace
from tests.preload.verbs.applications import Applications
from tests.preload.verbs.c_programs import program

pytestmark = pytest.mark.stock

NODE = "node-001"
RAILS = 3
FABRIC = f"name: rails\ngeneration: NDR\ntopology: {{kind: rail-optimized, nodes: 4, rails: {RAILS}, radix: 8, ufm: false}}\n"


@pytest.fixture(scope="module")
def rails():
    fabric = Applications(FABRIC)
    yield fabric
    fabric.close()


def said(rails, *words: str, how: tuple[str, ...] = (), **env: str) -> str:
    done = subprocess.run(rails.arguments("run", "--node", NODE, *how, "--", "env", "-u", "PYTHONPATH", *words),
                          env={**rails.env, **env}, capture_output=True, text=True, timeout=120)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("how", [(), pytest.param(("--ns",), marks=needs_namespace)], ids=["library", "namespace"])
def test_every_way_of_libibverbs_leads_to_one_pci_function(rails, how):
    """``ibdev_path`` and ``dev_path`` of libibverbs' device, ``device`` below each, realpath(3), as UCX 1.13's uct_ib_device_init and
    rdma-core's own drivers go: a function with the adapter's own vendor and device, each of its own behind its own root port."""
    rows = [line.split() for line in said(rails, program("pci"), how=how).splitlines()]
    assert [row[0] for row in rows] == [f"mlx5_{i}" for i in range(RAILS)]
    for _, by_device, by_uverbs, by_umad, vendor, device, kind, part in rows:
        assert by_device == by_uverbs == by_umad
        assert re.fullmatch(
            r"/sys/devices/pci[0-9a-f]{4}:[0-9a-f]{2}(/[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])+", by_device
        )
        assert (vendor, kind) == ("0x15b3", "0x020700") and int(device, 16) == int(part), "ConnectX by the PCI ID list"
    functions = [row[1].rsplit("/", 1) for row in rows]
    assert len({path for path, _ in functions}) == len({name for _, name in functions}) == RAILS
    assert functions == sorted(functions), "numbered as a kernel finds them"


def test_ucx_names_its_devices_by_it(rails, stock):
    """What ``ib/test_md.sys_device`` of UCX's own gtest asks; where the path leads to no function it says ``<unknown>``."""
    found = re.findall(
        r"Device: (mlx5_\d):1\n.*?System device: (\S+)",
        said(rails, stock("ucx_info"), "-d", UCX_NET_DEVICES="all"),
        re.S,
    )
    assert {name for name, _ in found} == {f"mlx5_{i}" for i in range(RAILS)}
    assert all(name == system for name, system in found), found


def test_hwloc_shows_every_adapter(rails, stock):
    said_all = said(rails, stock("lstopo-no-graphics"), "--of", "console", "--whole-io", "-v")
    found = re.findall(r'OpenFabrics L#\d+ \(NodeGUID=(\S+) .*Port1State=4 .*\) "(mlx5_\d)"', said_all)
    assert [name for _, name in sorted(found, key=lambda row: row[1])] == [f"mlx5_{i}" for i in range(RAILS)]
    assert len({guid for guid, _ in found}) == RAILS
