"""A target with two ports: which path a host uses, and what happens when a cable is pulled or an access state changes. Counters of the
target's ports, read by stock perfquery, say where data went."""

from __future__ import annotations

import subprocess
import time

import pytest

from tests.ulp.nvmeof.nodes import Storage

pytestmark = pytest.mark.slow
FABRIC = "name: paths\ngeneration: NDR\ntopology: {kind: rail-optimized, nodes: 2, rails: 2, radix: 8}\n"
TARGET, HOST = "node-001", "node-002"


@pytest.fixture
def storage():
    made = Storage(FABRIC, node=TARGET)
    yield made
    made.close()


def sent(storage: Storage) -> list[int]:
    """Bytes that left both ports of the target."""
    return [4 * storage.counters(f"{TARGET} mlx5_{i}")["PortXmitData"] for i in range(2)]


def test_the_optimized_path_is_used_until_its_cable_is_pulled(storage):
    storage.export("disk.img", options=("--ana", "1=non-optimized"), node=TARGET)
    paths = storage.json("list", node=HOST)["paths"]
    assert [p["state"] for p in paths] == ["non-optimized", "optimized"]
    words = ("bench", storage.target_address, "--size", "64k", "--seconds", "20", "--mix", "mixed", "--overwrite")
    bench = subprocess.Popen(
        storage.words(HOST, "nvme", *words),
        env=storage.env,
        cwd=storage.folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    before = sent(storage)
    while sent(storage)[1] - before[1] < 32 << 20:
        assert bench.poll() is None, bench.communicate()
        time.sleep(0.2)
    assert sent(storage)[0] - before[0] < 1 << 20
    storage("fault", "link-down", f"{TARGET} mlx5_1[1]")
    out, said = bench.communicate(timeout=120)
    assert bench.returncode == 0, said
    assert "data verified" in out
    assert "1 other path left" in said
    assert sent(storage)[0] - before[0] > 16 << 20


def test_inaccessible_everywhere(storage):
    storage.export("disk.img", options=("--ana", "1=inaccessible", "--ana", "2=inaccessible"), node=TARGET)
    began = time.monotonic()
    done = storage.nvme("read", "--size", "4k", "--to", "x.bin", node=HOST, code=2)
    assert "no path to namespace 1 is accessible" in done.stderr
    assert 29 < time.monotonic() - began < 90
