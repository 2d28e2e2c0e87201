"""softib.cover on a paced running fabric with perftest. Oracles: the planted slow port, and the rates of links and ports, which no counter
exceeds."""

from __future__ import annotations

import time
from contextlib import contextmanager

import pytest

import softib
from tests.scratch import scratch

pytest.importorskip("polars")

ADAPTIVE = "generation: HDR\nsm: {adaptive_routing: free}\ntopology: {kind: fat-tree, radix: 8, levels: 2, hosts: 8}\n"


@contextmanager
def paced_fabric(source):
    """A running fabric whose links carry 2 Gb/s (1x SDR): this machine copies faster, also beside other work."""
    folder = scratch("cover-", memory=True)
    folder.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(folder))
        f = softib.up(source, name="cover-paced", pace=True)
        f.fault("downgrade", "*[*]", width=1, speed="SDR")
        time.sleep(3)
        yield f
        f.down()


@pytest.fixture(scope="module")
def paced():
    with paced_fabric(softib.generate("fat-tree", radix=4, levels=2, hosts=6, generation="SDR")) as f:
        yield f


@pytest.mark.slow
@pytest.mark.stock
def test_counters_prove_each_direction_that_was_planned(paced, stock):
    stock("ib_send_bw")
    run = softib.cover(paced, hosts=["host-0001", "host-0002", "host-0003", "host-0004"], seconds=4)
    assert run.launcher == "local" and not run.failures
    assert run.proven == run.planned >= 8 and not run.findings.of("slow-cable", "slow-host"), run.unproven


@pytest.mark.slow
@pytest.mark.stock
def test_the_slow_port_is_named(paced, stock):
    """All ports drain 0.4 Gb/s, so that programs and not the machine wait; one drains 0.1."""
    stock("ib_send_bw")
    paced.fault("slow-port", "*[*]", gbps=0.4)
    paced.fault("slow-port", "spine-1[1]", gbps=0.1)
    run = softib.cover(paced, seconds=6, size=1 << 18)
    assert run.proven == 0, "no link carries 80 % of 2 Gb/s"
    assert all(d.measured_gbps is not None and d.measured_gbps <= 0.4 * 1.03 for d in run.unproven)
    assert "leaf-1[3]" in {d.place for d in run.slow}, (run.slow, run.rounds)
    assert all(50 < d.loss_percent < 85 for d in run.slow)


@pytest.mark.slow
@pytest.mark.stock
@pytest.mark.parametrize("port", ["spine-1[1]", "leaf-2[4]", "leaf-3[1]"])
def test_a_loss_of_one_percent_is_named(paced, stock, port):
    """0.2 Gb/s a link: the queue of each sender lasts longer than it waits for a processor of a busy machine."""
    stock("ib_send_bw")
    paced.fault("slow-port", "*[*]", gbps=0.2)
    paced.fault("slow-port", port, gbps=0.198)
    run = softib.cover(paced, seconds=10, size=1 << 16)
    assert [d for d in run.slow if port == d.peer or any(x.endswith(f"→ {port}") for x in d.undistinguished)], run.slow
    assert len(run.slow) == 1 and 0.7 < run.slow[0].loss_percent < 1.3


@pytest.mark.slow
@pytest.mark.stock
def test_a_loss_of_one_percent_is_named_under_adaptive_routing(tmp_path, stock):
    """On a busy machine a run may lack two rounds in which all programs sent evenly; it then names nothing."""
    stock("ib_send_bw")
    (tmp_path / "f.yaml").write_text(ADAPTIVE)
    with paced_fabric(tmp_path / "f.yaml") as fabric:
        fabric.fault("slow-port", "*[*]", gbps=0.2)
        fabric.fault("slow-port", "spine-1[2]", gbps=0.198)
        for _ in range(5):
            run = softib.cover(fabric, seconds=10, size=1 << 16)
            assert run.routing == "adaptive" and not {d.peer for d in run.slow} - {"spine-1[2]"}, run.slow
            if run.slow:
                break
        assert 0.7 < run.slow[0].loss_percent < 1.6
