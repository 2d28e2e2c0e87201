"""PyTorch trains over the running fabric: four ranks on two nodes, against gloo."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.preload.verbs.applications import A, Applications, B, stop

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
                    words = fabric.arguments("run", "--node", (A, B)[rank % 2], "--", *words)
                ranks.append(
                    subprocess.Popen(words, env=fabric.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                )
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


# -- torchrun --

FSDP = str(Path(__file__).with_name("fsdp_program.py"))


def torchrun(fabric: Applications, ranks: int, *words: str) -> list[subprocess.Popen]:
    """One launcher on each of two nodes, with ``ranks`` each."""
    port = str(next(fabric.ports))
    return [
        subprocess.Popen(
            fabric.arguments(
                "run",
                "--node",
                node,
                "--",
                sys.executable,
                "-m",
                "torch.distributed.run",
                "--nnodes",
                "2",
                "--nproc-per-node",
                str(ranks),
                "--node-rank",
                str(i),
                "--master-addr",
                "127.0.0.1",
                "--master-port",
                port,
                FSDP,
                *words,
            ),
            env=fabric.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        for i, node in enumerate((A, B))
    ]


@pytest.fixture(scope="module")
def running():
    if not list(
        Path("/usr/lib/python3/dist-packages/pyverbs").glob(f"*{sys.implementation.cache_tag.split('-')[1]}*.so")
    ):
        pytest.skip("python3-pyverbs is not installed for this Python")
    made = Applications()
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_torchrun_shards_a_model_over_two_nodes(running, tmp_path):
    """FSDP: the weights have the same bits on every rank, and are gloo's within rounding."""
    for backend in ("softib", "gloo"):
        launchers = torchrun(running, 2, backend, str(tmp_path))
        said = [one.communicate(timeout=400)[0] for one in launchers]
        assert [one.returncode for one in launchers] == [0, 0], said
    ours = [torch.load(tmp_path / f"softib{rank}") for rank in range(SIZE)]
    assert all(torch.equal(ours[0], weights) for weights in ours)
    torch.testing.assert_close(ours[0], torch.load(tmp_path / "gloo0"), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_killed_rank_is_told_to_the_other_node(running, tmp_path):
    """The survivor only waits for messages; it hears by its own question, long before the group's timeout (half an hour)."""
    launchers = torchrun(running, 1, "softib", str(tmp_path), "1")
    try:
        for one in launchers:
            one.communicate(timeout=400)
        assert "rank 1 is lost: IBV_WC_RETRY_EXC_ERR" in (tmp_path / "told0").read_text()
    finally:
        for one in launchers:
            stop(one)


# -- recording --


@pytest.mark.slow
def test_messages_of_a_recorded_program_stand_in_their_collectives(tmp_path):
    """Two ranks under one recording: each collective of torch that DDP and the program call is begun and ended on each rank, with sends between."""
    fabric = Applications()
    try:
        ranks = []
        port = str(next(fabric.ports))
        for rank in range(2):
            words = [sys.executable, PROGRAM, "softib", str(rank), "2", port, str(tmp_path / f"out{rank}")]
            ranks.append(" ".join(f"'{w}'" for w in fabric.arguments("run", "--node", (A, B)[rank], "--", *words)))
        done = subprocess.run(
            fabric.arguments("run", "--record", "t.goal", "--", "sh", "-c", f"{ranks[0]} & {ranks[1]} && wait"),
            env=fabric.env,
            cwd=fabric.folder,
            capture_output=True,
            text=True,
            timeout=280,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        text = (fabric.folder / "t.goal").read_text()
    finally:
        fabric.close()
    for name in ("broadcast", "all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
        begun = text.count(f"// begin torch {name} ")
        assert begun >= 2 and begun % 2 == 0 and text.count(f"// end torch {name}\n") == begun, name
    parts = text.split("// begin torch all_reduce ")[1:]
    assert all(": send " in part.split("// end torch all_reduce")[0] for part in parts)
