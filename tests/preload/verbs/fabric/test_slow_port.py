"""``softib fault slow-port`` and ``ber`` under applications: what ports count of it, as ``perfquery`` shows it."""

from __future__ import annotations

import re
import subprocess
import time

import pytest

from softib.iba.mad_packets import PACKET_SIZE
from softib.iba.rates import SPEED_BY_NAME
from tests.preload.verbs.applications import FABRIC, A, Applications, B, wait_for_listener
from tests.preload.verbs.fabric.wire_counts import write

pytestmark = pytest.mark.stock

LANES = 4
NDR = SPEED_BY_NAME["NDR"]
TICK_S = 10e-9 / NDR.lane_gbps
"""PortXmitWait's tick: ten bit times of a lane (PortSamplesControl:Tick)."""
BUFFER = 7 * PACKET_SIZE
"""Octets that a slow port takes before its sender waits: agents.error_kernels.CREDITS."""


LOST_AT_1_2E_3 = 7.85e-3
"""Packets of 4 KiB (4,138 octets) that a raw bit error ratio of 1.2e-3 spoils: a codeword of RS(544, 514) fails with 1.06e-3, and
such a packet lies in 1 + 8 x 4138 / 5140 of them, a little less."""


class Watched(Applications):
    def host(self, node: str, *options: str) -> dict[str, int]:
        """Counters of its own port: over no cable."""
        arguments = self.on(node, "perfquery", *options)
        text = subprocess.run(arguments, env=self.env, capture_output=True, text=True, check=True).stdout
        return {k: int(v) for k, v in re.findall(r"^(\w+):\.*(\d+)$", text, re.M)}


@pytest.fixture(scope="module")
def slow():
    """Its manager, on A, asks nothing by itself: every ten seconds the switches' answers would come through A's port."""
    made = Watched(FABRIC, "--sweep", "0")
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
        text = subprocess.run(fabric.on(B, "ibswitches"), env=fabric.env, capture_output=True, text=True).stdout
        self.lid = re.search(rf'"{leaf}".* lid (\d+)', text)[1]

    def __call__(self, *options: str) -> dict[str, int]:
        arguments = self.fabric.on(B, "perfquery", *options, self.lid, str(self.portnum))
        text = subprocess.run(arguments, env=self.fabric.env, capture_output=True, text=True, check=True).stdout
        return {k: int(v) for k, v in re.findall(r"^(\w+):\.*(\d+)$", text, re.M)}

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


def retry_exceeded(slow, program, *arguments):
    """The program from B to A ends as behind a pulled cable: RETRY_EXC, 12."""
    tcp = next(slow.ports)
    command = (program, *arguments, "-F", "-u", "12", "-p", str(tcp))
    one = slow.begin(A, *command)
    try:
        wait_for_listener(tcp, one)
        two = slow.begin(B, *command, "127.0.0.1")
        output = two.communicate(timeout=240)[0]
    finally:
        one.kill()
        one.wait()
    assert two.returncode != 0 and "status 12" in output, output


def test_packets_for_a_blocked_port_die_at_the_head_of_the_queue(slow, stock):
    """The switch discards each after HOQLife; the connection ends as behind a pulled cable (RETRY_EXC, 12)."""
    port = Port(slow, *facing(slow, A))
    slow("fault", "slow-port", f"{A}[1]", "0")
    before, sent = port(), slow.counters(B)["PortXmitPkts"]
    retry_exceeded(slow, stock("ib_write_bw"), "-s", "4096", "-n", "100")
    after = port()
    lost = after["PortXmitDiscards"] - before["PortXmitDiscards"]
    left = slow.counters(B)["PortXmitPkts"] - sent
    assert 0 < lost <= left < lost + 60  # what else left are the questions of perfquery
    assert after["PortXmitWait"] > before["PortXmitWait"]
    assert after["PortXmitPkts"] <= before["PortXmitPkts"]
    slow("fault", "clear")


@pytest.mark.slow
def test_packets_for_a_buffer_that_overruns_are_lost_in_it(slow, stock):
    """Who grants credits that it does not have (``--overrun``) lets everything come, and loses it: the switch sends and waits for
    nothing, the host counts (IBA 16.1.3.5, 16.1.4), each OverrunErrors update periods in a row once more (14.2.5.6)."""
    port = Port(slow, *facing(slow, A))
    local = lambda *more: slow.host(A, *more)
    slow("fault", "slow-port", f"{A}[1]", "0", "--overrun")
    before, mine = port(), local()
    retry_exceeded(slow, stock("ib_write_bw"), "-s", "8000000", "-n", "5")
    after, has = port(), local()
    lost = local("-E")["PortBufferOverrunErrors"]
    assert lost > 0 and has["PortRcvErrors"] - mine["PortRcvErrors"] == lost
    assert after["PortXmitPkts"] - before["PortXmitPkts"] >= lost, "they were sent"
    assert after["PortXmitWait"] == before["PortXmitWait"] and after["PortXmitDiscards"] == before["PortXmitDiscards"]
    assert 0 < has["ExcessiveBufferOverrunErrors"] <= lost // 8, (
        "one message lasts longer than eight update periods of 6.2 us"
    )
    slow("fault", "clear")


@pytest.mark.slow
def test_packets_that_bit_errors_corrupt_are_counted_where_they_arrive(slow, stock):
    """PortRcvErrors and PortLocalPhysicalErrors of the two ends of the bad cable (IBA 16.1.3.5, 16.1.4.1), as many as the column
    ``port_loss`` makes expect, and nowhere else; what LocalPhyErrors of them in a row are, is not reached at this rate."""
    leaf, portnum = facing(slow, B)
    port, names = Port(slow, leaf, portnum), ("PortRcvErrors", "PortLocalPhysicalErrors")
    local = lambda: slow.host(B)
    slow("fault", "clear")
    before, mine, healthy = {**port(), **port("-E")}, {**local(), **slow.host(B, "-E")}, slow.host(A)["PortRcvErrors"]
    slow("fault", "ber", f"{B}[1]", "1.2e-3")
    tcp = next(slow.ports)
    command = (stock("ib_write_bw"), "-s", "65536", "-n", "4000", "-F", "-u", "10", "-p", str(tcp))
    slow.pair(command, (*command, "127.0.0.1"), tcp=tcp)
    slow("fault", "ber", f"{B}[1]", "0")
    after, has = {**port(), **port("-E")}, {**local(), **slow.host(B, "-E")}
    there, back = ([now[n] - then[n] for n in names] for now, then in ((after, before), (has, mine)))
    assert there[0] == there[1] and back[0] == back[1], (there, back)
    packets = after["PortRcvPkts"] - before["PortRcvPkts"]
    expected = packets * LOST_AT_1_2E_3
    assert abs(there[0] - expected) < 6 * expected**0.5 + 2, (there, expected, packets)
    assert back[0] <= 60 and after["LocalLinkIntegrityErrors"] == before["LocalLinkIntegrityErrors"]
    assert slow.host(A)["PortRcvErrors"] == healthy


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
    output = two.communicate(timeout=240)[0]
    one.kill()
    one.wait()
    assert "status 12" in output, output

    def counter(name: str) -> int:
        path = f"/sys/class/infiniband/mlx5_0/ports/1/counters/{name}"
        return int(subprocess.run(slow.on(A, "cat", path), env=slow.env, capture_output=True, text=True).stdout)

    first = counter("port_xmit_wait")
    time.sleep(0.3)
    assert counter("port_xmit_wait") > first > 0 or first == 0xFFFFFFFF
    assert counter("port_xmit_discards") == 0
    slow("fault", "clear")
