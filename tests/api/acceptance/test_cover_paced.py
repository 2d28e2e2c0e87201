"""softib.cover on a paced running fabric with perftest. Oracles: the planted slow port, and the links' rates, which no counter exceeds."""

from __future__ import annotations

import time

import pytest

import softib
from tests.scratch import scratch

pytest.importorskip("polars")


@pytest.fixture(scope="module")
def paced():
    """Four hosts whose links carry 2 Gb/s (1x SDR): this machine copies faster, also beside other work."""
    patch = pytest.MonkeyPatch()
    folder = scratch("cover-", memory=True)
    folder.chmod(0o700)
    patch.setenv("XDG_RUNTIME_DIR", str(folder))
    f = softib.up(
        softib.generate("fat-tree", radix=4, levels=2, hosts=4, generation="SDR"), name="cover-paced", pace=True
    )
    f.fault("downgrade", "*[*]", width=1)
    time.sleep(3)
    yield f
    f.down()
    patch.undo()


@pytest.mark.slow
@pytest.mark.stock
def test_counters_prove_each_direction_and_show_the_slow_one(paced, stock):
    stock("ib_send_bw")
    healthy = softib.cover(paced, seconds=4)
    assert healthy.proven == healthy.directions == 16 and not healthy.failures, healthy.unproven
    assert not healthy.findings.of("slow-cable", "slow-host")
    paced.fault("slow-port", "spine-1[1]", gbps=0.8)
    found = softib.cover(paced, seconds=4)
    paced.fault("clear")
    # The route of one flow of four carries 0.8 of 2 Gb/s, on each of its directions; a second round with other partners names the port.
    assert {d.place for d in found.unproven} >= {"leaf-1[3]"}
    assert all(d.measured_gbps <= 0.8 * 1.03 for d in found.unproven if d.place == "leaf-1[3]")
    assert [f.where[0].node for f in found.findings.of("slow-cable")] == ["leaf-1"]
