"""Incasts, shuffles and checkpoints of a real MPI program over a paced running fabric: EDR switches with SDR hosts, 3 to 16 senders. Healthy, so
every warning is a false alarm; the planted slow host of the last test is the other side."""

from __future__ import annotations

import pytest

from tests.diags.cable_rules.live_incasts import KINDS, judged, paced_fabric

pytestmark = [pytest.mark.stock, pytest.mark.slow]
RUNS = [(KINDS[i % 3], 3 + i % 14) for i in range(14)]
"""Kind and senders; 14 so that each number of senders is one."""


@pytest.fixture(scope="module")
def paced(stock):
    fabric = paced_fabric(stock("mpicc"))
    yield fabric
    fabric.close()


@pytest.mark.parametrize(("kind", "senders"), RUNS)
def test_healthy_traffic_accuses_nobody(paced, monkeypatch, kind, senders):
    monkeypatch.setenv("XDG_RUNTIME_DIR", paced.env["XDG_RUNTIME_DIR"])
    assert judged(paced, kind, senders + 1, senders)[0] == []


def test_a_slow_receiver_of_an_incast_is_named(paced, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", paced.env["XDG_RUNTIME_DIR"])
    findings, hosts = judged(paced, "incast", 5, 99, fault=("slow-port", "{target}[1]", "0.5"))
    assert any(hosts[0] in message for _, message in findings), findings
