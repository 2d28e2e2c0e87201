"""PyTorch trains over the running fabric: four ranks on two nodes, against gloo."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.verbs.applications import A, Applications, B

torch = pytest.importorskip("torch", reason="torch is not installed")

PROGRAM = str(Path(__file__).with_name("ddp_program.py"))
SIZE = 4


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """What each rank wrote, by backend."""
    debian = Path("/usr/lib/python3/dist-packages/pyverbs")
    if not any(debian.glob(f"*{sys.implementation.cache_tag.split('-')[1]}*.so")):
        pytest.skip("python3-pyverbs is not installed for this Python")
    fabric, folder = Applications(), tmp_path_factory.mktemp("trained")
    results = {}
    try:
        for backend in ("softib", "gloo"):
            port, ranks = str(next(fabric.ports)), []
            for rank in range(SIZE):
                words = [sys.executable, PROGRAM, backend, str(rank), str(SIZE), port, str(folder / f"{backend}{rank}")]
                if backend == "softib":
                    words = fabric.words("run", "--node", (A, B)[rank % 2], "--", *words)
                ranks.append(subprocess.Popen(words, env=fabric.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                              text=True))  # fmt: skip
            said = [one.communicate(timeout=240)[0] for one in ranks]
            assert [one.returncode for one in ranks] == [0] * SIZE, said
            results[backend] = [torch.load(folder / f"{backend}{rank}") for rank in range(SIZE)]
        results["counters"] = fabric.counters(A)
    finally:
        fabric.close()
    return results


def test_weights_have_the_same_bits_on_every_rank(trained):
    for rank in range(1, SIZE):
        assert torch.equal(trained["softib"][0]["weights"], trained["softib"][rank]["weights"])


def test_weights_are_those_of_gloo(trained):
    torch.testing.assert_close(trained["softib"][0]["weights"], trained["gloo"][0]["weights"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("what", ["broadcast", "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"])
def test_each_collective_gives_what_gloo_gives(trained, what):
    for rank in range(SIZE):
        assert torch.equal(trained["softib"][rank][what], trained["gloo"][rank][what])


def test_gradients_went_over_the_fabric(trained):
    """Fifty steps of 19,210 floats: more than a megabyte left each node."""
    assert trained["counters"]["PortXmitData"] * 4 > 1_000_000
