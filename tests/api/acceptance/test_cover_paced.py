"""softib.cover on a paced running fabric with perftest. Oracles: the planted slow port, and the rates of links and ports, which no counter
exceeds."""

from __future__ import annotations

import time

import pytest

import softib
from tests.scratch import scratch

pytest.importorskip("polars")


@pytest.fixture(scope="module")
def paced():
    """Six hosts whose links carry 2 Gb/s (1x SDR): this machine copies faster, also beside other work."""
    patch = pytest.MonkeyPatch()
    folder = scratch("cover-", memory=True)
    folder.chmod(0o700)
    patch.setenv("XDG_RUNTIME_DIR", str(folder))
    f = softib.up(
        softib.generate("fat-tree", radix=4, levels=2, hosts=6, generation="SDR"), name="cover-paced", pace=True
    )
    f.fault("downgrade", "*[*]", width=1)
    time.sleep(3)
    yield f
    f.down()
    patch.undo()


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
    paced.fault("clear")
    assert run.proven == 0, "no link carries 80 % of 2 Gb/s"
    assert all(d.measured_gbps is not None and d.measured_gbps <= 0.4 * 1.03 for d in run.unproven)
    assert "leaf-1[3]" in {d.place for d in run.slow}, (run.slow, run.rounds)
    assert all(50 < d.loss_percent < 85 for d in run.slow)
