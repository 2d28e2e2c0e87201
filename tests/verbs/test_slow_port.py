"""``softib fault slow-port`` under applications: what the port that faces it counts, as ``perfquery`` shows it."""

from __future__ import annotations

import re
import subprocess
import time

import pytest

from softib.iba.rates import SPEED_BY_NAME
from softib.live.pcap_frames import PACKET_SIZE
from tests.verbs.applications import FABRIC, A, Applications, B, wait_for_listener
from tests.verbs.test_verbs_traffic import write

pytestmark = pytest.mark.stock

LANES = 4
NDR = SPEED_BY_NAME["NDR"]
TICK_S = 10e-9 / NDR.lane_gbps
"""PortXmitWait's tick: ten bit times of a lane (PortSamplesControl:Tick)."""
BUFFER = 7 * PACKET_SIZE
"""Octets that a slow port takes before its sender waits: agents.error_kernels.CREDITS."""


@pytest.fixture(scope="module")
def slow():
    """Its manager, on A, asks nothing by itself: every ten seconds the switches' answers would come through A's port."""
    made = Applications(FABRIC, "--sweep", "0")
    yield made
    made.close()


def facing(fabric: Applications, host: str) -> tuple[str, int]:
    """The leaf's port that ``host`` is cabled to."""
    topology = subprocess.run(fabric.on(B, "iblinkinfo", "-l"), env=fabric.env, capture_output=True, text=True).stdout
    place = re.search(rf'" *(leaf-\d+)" +\d+ +(\d+)\[.*"{host}"', topology)
    assert place, topology
    return place[1], int(place[2])


class Port:
    """A switch port as ``perfquery`` on another host reads it."""

    def __init__(self, fabric: Applications, leaf: str, portnum: int):
        self.fabric, self.portnum = fabric, portnum
        told = subprocess.run(fabric.on(B, "ibswitches"), env=fabric.env, capture_output=True, text=True).stdout
        self.lid = re.search(rf'"{leaf}".* lid (\d+)', told)[1]

    def __call__(self, *options: str) -> dict[str, int]:
        words = self.fabric.on(B, "perfquery", *options, self.lid, str(self.portnum))
        told = subprocess.run(words, env=self.fabric.env, capture_output=True, text=True, check=True).stdout
        return {k: int(v) for k, v in re.findall(r"^(\w+):\.*(\d+)$", told, re.M)}

    def rested(self, name: str) -> int:
        """The counter when it has stopped moving."""
        before, end = -1, time.monotonic() + 60
        while time.monotonic() < end:
            now = self()[name]
            if now == before:
                return now
            before = now
            time.sleep(0.5)
        raise AssertionError(f"{name} goes on")


def test_the_sender_waits_as_long_as_the_slow_port_needs(slow, stock):
    """10 MB into a port that drains 1 Gb/s: PortXmitWait is the time beyond what the link would have needed. All of it is posted
    at once (``-t``): how fast the program computes does not matter."""
    gbps, n, size = 1.0, 200, 50_000
    port = Port(slow, *facing(slow, A))
    slow("fault", "slow-port", f"{A}[1]", str(gbps))
    before = port()
    tcp = next(slow.ports)
    command = (stock("ib_write_bw"), "-s", str(size), "-n", str(n), "-t", str(n), "-F", "-p", str(tcp))
    slow.pair(command, (*command, "127.0.0.1"), tcp=tcp)
    waited = (port.rested("PortXmitWait") - before["PortXmitWait"]) * TICK_S
    octets = 4 * n * write(size)[1]
    sends = octets * 8e-9
    law = (sends - BUFFER * 8e-9) / gbps * (1 - gbps / (LANES * NDR.lane_data_gbps))
    assert law == pytest.approx(0.081, abs=0.001) and waited == pytest.approx(law, rel=0.02)
    assert port()["PortXmitDiscards"] == before["PortXmitDiscards"]
    slow("fault", "clear")
    still = port()["PortXmitWait"]
    slow.pair(command, (*command, "127.0.0.1"), tcp=tcp)
    assert port()["PortXmitWait"] == still  # a healthy port makes nobody wait


def test_packets_for_a_blocked_port_die_at_the_head_of_the_queue(slow, stock):
    """The switch discards each after HOQLife; the connection ends as behind a pulled cable (RETRY_EXC, 12)."""
    port = Port(slow, *facing(slow, A))
    slow("fault", "slow-port", f"{A}[1]", "0")
    before, sent = port(), slow.counters(B)["PortXmitPkts"]
    tcp = next(slow.ports)
    command = (stock("ib_write_bw"), "-s", "4096", "-n", "100", "-F", "-u", "12", "-p", str(tcp))
    one = slow.begin(A, *command)
    wait_for_listener(tcp, one)
    two = slow.begin(B, *command, "127.0.0.1")
    said = two.communicate(timeout=240)[0]
    one.kill()
    one.wait()
    assert two.returncode != 0 and "status 12" in said, said
    after = port()
    lost = after["PortXmitDiscards"] - before["PortXmitDiscards"]
    left = slow.counters(B)["PortXmitPkts"] - sent
    assert 0 < lost <= left < lost + 60  # what else left are the questions of perfquery
    assert after["PortXmitWait"] > before["PortXmitWait"]
    assert after["PortXmitPkts"] <= before["PortXmitPkts"]
    slow("fault", "clear")


def test_packets_for_a_buffer_that_overruns_are_lost_in_it(slow, stock):
    """Who grants credits that it does not have (``--overrun``) lets everything come, and loses it: the switch sends and waits for
    nothing, the host counts (IBA 16.1.3.5, 16.1.4), each OverrunErrors update periods in a row once more (14.2.5.6)."""
    port = Port(slow, *facing(slow, A))
    own = lambda *more: {
        k: int(v) for k, v in re.findall(r"^(\w+):\.*(\d+)$", subprocess.run(
            slow.on(A, "perfquery", *more), env=slow.env, capture_output=True, text=True, check=True).stdout, re.M)
    }  # fmt: skip
    slow("fault", "slow-port", f"{A}[1]", "0", "--overrun")
    before, mine = port(), own()
    tcp = next(slow.ports)
    command = (stock("ib_write_bw"), "-s", "1000000", "-n", "100", "-F", "-u", "12", "-p", str(tcp))
    one = slow.begin(A, *command)
    wait_for_listener(tcp, one)
    two = slow.begin(B, *command, "127.0.0.1")
    said = two.communicate(timeout=240)[0]
    one.kill()
    one.wait()
    assert two.returncode != 0 and "status 12" in said, said
    after, has = port(), own()
    lost = own("-E")["PortBufferOverrunErrors"]
    assert lost > 0 and has["PortRcvErrors"] - mine["PortRcvErrors"] == lost
    assert after["PortXmitPkts"] - before["PortXmitPkts"] >= lost, "they were sent"
    assert after["PortXmitWait"] == before["PortXmitWait"] and after["PortXmitDiscards"] == before["PortXmitDiscards"]
    assert 0 < has["ExcessiveBufferOverrunErrors"] <= lost // 8
    slow("fault", "clear")


@pytest.mark.slow
def test_a_host_that_faces_a_blocked_port_waits_for_ever(slow, stock):
    """An HCA has no HOQLife: nothing is discarded, PortXmitWait grows with time."""
    leaf, portnum = facing(slow, A)
    slow("fault", "slow-port", f"{leaf}[{portnum}]", "0")
    tcp = next(slow.ports)
    command = (stock("ib_write_bw"), "-s", "4096", "-n", "100", "-F", "-u", "12", "-p", str(tcp))
    one = slow.begin(B, *command)
    wait_for_listener(tcp, one)
    two = slow.begin(A, *command, "127.0.0.1")
    said = two.communicate(timeout=240)[0]
    one.kill()
    one.wait()
    assert "status 12" in said, said

    def counter(name: str) -> int:
        path = f"/sys/class/infiniband/mlx5_0/ports/1/counters/{name}"
        return int(subprocess.run(slow.on(A, "cat", path), env=slow.env, capture_output=True, text=True).stdout)

    first = counter("port_xmit_wait")
    time.sleep(0.3)
    assert counter("port_xmit_wait") > first > 0 or first == 0xFFFFFFFF
    assert counter("port_xmit_discards") == 0
    slow("fault", "clear")
