"""``softib accept --launcher ssh`` with Debian's sshd on every node of a running fabric, and unmodified perftest. Oracles: ssh's own words, /proc."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import softib
from tests.live.acceptance.sshd_cluster import SshdCluster, need_sshd
from tests.scratch import scratch

pytestmark = [pytest.mark.slow, pytest.mark.stock]
NODES = [f"host-{i:04}" for i in range(1, 9)]


@pytest.fixture(scope="module")
def fabric(stock) -> Iterator[softib.RunningFabric]:
    need_sshd()
    stock("ib_write_bw")
    patch = pytest.MonkeyPatch()
    folder = scratch("accept-", memory=True)
    patch.setenv("XDG_RUNTIME_DIR", str(folder))
    with softib.up(softib.generate("fat-tree", radix=4, levels=2, generation="SDR"), name="sshd", pace=True) as f:
        yield f
    patch.undo()


@pytest.fixture
def cluster(fabric, request) -> Iterator[SshdCluster]:
    made = SshdCluster("sshd", NODES, request.param)
    try:
        yield made
    finally:
        made.close()


def gone(cluster: SshdCluster, limit_s: float = 10.0) -> list[str]:
    """What still runs on the hosts after ``limit_s``."""
    end = time.monotonic() + limit_s
    while (left := cluster.sessions()) and time.monotonic() < end:
        time.sleep(0.1)
    return left


@pytest.mark.parametrize("cluster", [{}], indirect=True)
def test_hosts_behind_sshd_measure_what_their_links_carry(fabric, cluster, tmp_path):
    """4x SDR carries 8 Gb/s, less headers; a cable that trained at 1x is named. Sessions end with the run."""
    tests = ["bandwidth-both-loaded"]
    fabric.fault("downgrade", "leaf-1[3]", width=1)
    time.sleep(2)
    found = softib.accept(
        fabric,
        launcher="ssh",
        ssh_config=cluster.config,
        tests=tests,
        rounds=None,
        seconds=0.2,
        journal=tmp_path / "j",
        base_port=26000,
    )
    fabric.fault("clear")
    assert not found.failures, (found.failures, cluster.log())
    assert len(found.measurements.pairs(tests[0])) == 28, "all pairs of eight"
    assert max(found.table()["value"]) < 1.02 * 2 * 7.95
    slow = found.findings.of("slow-cable", "slow-host", "slow-switch", "slow-adapter")
    assert [f.code for f in slow] == ["slow-cable"] and "leaf-1[3]" in slow[0].message, found.findings.table()
    assert gone(cluster) == []


SICK = {"host-0003": "no key", "host-0005": "off", "host-0006": "stuck", "host-0007": "bare", "host-0002": "silent"}


@pytest.mark.parametrize("cluster", [SICK], indirect=True)
def test_hosts_that_fail_are_named_and_the_rest_goes_on(fabric, cluster, tmp_path):
    began = time.monotonic()
    found = softib.accept(
        fabric, launcher="ssh", ssh_config=cluster.config, tests=["latency"], rounds=None, seconds=0.1, base_port=27000
    )
    spent = time.monotonic() - began
    reasons = {f.evidence["hosts"][0]: f.evidence["reason"] for f in found.findings.of("host-unmeasured")}
    assert set(reasons) == set(SICK), (reasons, cluster.log())
    assert "Permission denied (publickey)" in reasons["host-0003"]
    assert "Connection refused" in reasons["host-0005"]
    assert reasons["host-0006"] == "did not answer within 20 s"
    assert "ib_write_lat" in reasons["host-0007"] and "not found" in reasons["host-0007"]
    assert "timed out" in reasons["host-0002"].lower()
    pairs = {frozenset(p) for p in found.measurements.pairs("latency")}
    assert pairs == {
        frozenset(p) for p in (("host-0001", "host-0004"), ("host-0001", "host-0008"), ("host-0004", "host-0008"))
    }
    assert not found.findings.of("pair-unmeasured")
    assert spent < 60, "hosts that hang are asked at the same time"
    assert gone(cluster) == []


@pytest.mark.parametrize("cluster", [{}], indirect=True)
def test_a_run_that_is_killed_leaves_nothing_on_the_hosts(fabric, cluster, tmp_path):
    """SIGKILL: nobody tells the hosts, their connections end. ``--resume`` goes on."""
    journal = tmp_path / "journal"
    arguments = [
        sys.executable,
        "-m",
        "softib",
        "accept",
        "sshd",
        "--launcher",
        "ssh",
        "--ssh-config",
        str(cluster.config),
        "--test",
        "bandwidth",
        "--rounds",
        "0",
        "--seconds",
        "2",
        "--journal",
        str(journal),
        "--base-port",
        "29000",
    ]
    run = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    end = time.monotonic() + 90
    while not (any("ib_write_bw" in c for c in cluster.sessions()) and len(journal.read_text().splitlines()) > 2):
        assert time.monotonic() < end and run.poll() is None, cluster.log()
        time.sleep(0.1)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    for left in _ssh_of(cluster):  # ssh's own standard input is a pipe of the dead run
        assert _ended(left, 20), left
    assert gone(cluster, 20) == []
    before = len(journal.read_text().splitlines())
    found = softib.accept(
        fabric,
        launcher="ssh",
        ssh_config=cluster.config,
        tests=["bandwidth"],
        rounds=None,
        seconds=2,
        journal=journal,
        resume=True,
        base_port=29000,
    )
    assert before > 2 and len(found.measurements) == 28 and not found.failures


def _ssh_of(cluster: SshdCluster) -> list[int]:
    out = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            text = line.read_bytes()
            if text.startswith(b"ssh\0") and str(cluster.config).encode() in text:
                out.append(int(line.parent.name))
    return out


def _ended(pid: int, limit_s: float) -> bool:
    end = time.monotonic() + limit_s
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.1)
    return not Path(f"/proc/{pid}").exists()
