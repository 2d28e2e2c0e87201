"""What applications send is seen in every port's counters, and what happens to cables is felt by applications."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest

import softib
from softib.fabric.end_ports import end_ports
from softib.fabric.topologies.registry import generate
from softib.scenario.bring_up import bring_up
from softib.sim.messages import Opcode, Transport, messages
from softib.sim.packet import run as packet_run
from tests.live.serving import wait_for
from tests.preload.verbs.applications import A, Applications, B, ended, stop, wait_for_listener
from tests.preload.verbs.fabric.wire_counts import (
    AETH,
    ATOMIC_ACK,
    ATOMIC_ETH,
    BTH,
    ICRC,
    LRH,
    MTU,
    RETH,
    dwords,
    write,
)

pytestmark = pytest.mark.stock


def read(size: int) -> tuple[int, int, int, int]:
    """RDMA READ: a request; responses whose first and last carry an AETH."""
    n = max(1, -(-size // MTU))
    back = 0
    for i in range(n):
        part = min(MTU, size - i * MTU)
        back += dwords(LRH + BTH + (AETH if i in (0, n - 1) else 0) + part + ICRC)
    return 1, dwords(LRH + BTH + RETH + ICRC), n, back


def atomic(size: int) -> tuple[int, int, int, int]:
    return 1, dwords(LRH + BTH + ATOMIC_ETH + ICRC), 1, dwords(LRH + BTH + AETH + ATOMIC_ACK + ICRC)


def datagram(size: int) -> tuple[int, int, int, int]:
    return 1, dwords(LRH + BTH + 8 + size + ICRC), 0, 0


NAMES = ("PortXmitPkts", "PortXmitData", "PortRcvPkts", "PortRcvData")
CASES = [
    ("ib_write_bw", 65536, write),
    ("ib_write_bw", 10001, write),
    ("ib_read_bw", 9000, read),
    ("ib_atomic_bw", 8, atomic),
    ("ib_send_bw -c UD", 1000, datagram),
]


@pytest.mark.parametrize(("line", "size", "rule"), CASES)
def test_counters_are_the_packets_on_the_wire(apps, stock, line, size, rule):
    """The client's port, by ``perfquery``. What the queries themselves cost is measured without traffic first."""
    port, n = next(apps.ports), 1000
    name, *more = line.split()
    command = (stock(name), *more, "-s", str(size), "-n", str(n), "-F", "-p", str(port))
    zero = apps.counters(B)
    before = apps.counters(B)
    apps.pair(command, (*command, "127.0.0.1"), tcp=port)
    after = apps.counters(B)
    moved = [after[x] - before[x] - (before[x] - zero[x]) for x in NAMES]
    assert moved == [n * part for part in rule(size)]
    assert moved == simulated(line, size, n), "the packet layer counts the same for the same messages"


def simulated(line: str, size: int, n: int) -> list[int]:
    """The same counters of the client's port after ``n`` messages in virtual time."""
    opcode = next(o for o in Opcode if o.name.lower() in line)
    transport = Transport.UD if "UD" in line else Transport.RC
    fabric = generate("fat-tree", radix=4, levels=2, generation="NDR")
    bring_up(fabric)
    out = packet_run(fabric, messages(np.full(n, 7), 0, size, qp=0, opcode=opcode, transport=transport))
    row = out.counters[end_ports(fabric)[7]]
    return [int(row[name]) for name in ("port_xmit_pkts", "port_xmit_data", "port_rcv_pkts", "port_rcv_data")]


def test_a_simulated_run_prints_counters_as_perfquery_does(apps, stock):
    """The same lines in the same order, with the same labels and columns."""
    text = subprocess.run(apps.on(B, "perfquery"), env=apps.env, capture_output=True, text=True, check=True).stdout
    run = softib.simulate(softib.generate("fat-tree", radix=4, levels=2, generation="NDR"), "shift:64KB")
    theirs = [line for line in text.splitlines() if not line.startswith("#")]
    shape = lambda line: re.sub(r"(?<=\.)(0x[0-9a-f]+|\d+)$", "", line)
    assert [shape(line) for line in run.perfquery(f"{B}:1").splitlines()] == [shape(line) for line in theirs]


def test_a_simulation_on_a_running_fabric_writes_nothing_back(apps):
    """It is read as a snapshot: no counter of the fabric moves but by the queries themselves."""
    zero, before = apps.counters(B), apps.counters(B)
    said = apps("simulate", "f", "shift:1MB,k=3", "--layer", "packet", "--counters", f"{B}:1")
    after = apps.counters(B)
    assert re.search(r"PortXmitPkts:\.+2\d\d$", said, re.M), said
    assert [after[x] - before[x] for x in NAMES] == [before[x] - zero[x] for x in NAMES]


def test_every_port_on_the_path_counts(apps, stock):
    """What leaves the client arrives at the server, through each port between."""
    route = subprocess.run(
        apps.on(B, "ibtracert", lid(apps, B), lid(apps, A)), env=apps.env, capture_output=True, text=True, check=True
    ).stdout
    hops = re.findall(r"^\[(\d+)\] -> switch port \{0x\w+\}\[(\d+)\] lid (\d+)-", route, re.M)
    outs = [out for out, _, _ in hops[1:]] + re.findall(r"^\[(\d+)\] -> ca port", route, re.M)
    assert len(hops) == 3, "leaf, spine, leaf"

    def seen() -> list[int]:
        counts = []
        for (_, inside, switch), outside in zip(hops, outs, strict=True):
            for portnum, which in ((inside, "PortRcvPkts"), (outside, "PortXmitPkts")):
                output = subprocess.run(
                    apps.on(B, "perfquery", "-x", switch, portnum),
                    env=apps.env,
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
                counts.append(int(re.search(rf"^{which}:\.*(\d+)", output, re.M)[1]))
        return counts

    port = next(apps.ports)
    command = (stock("ib_write_bw"), "-s", "65536", "-n", "5000", "-F", "-p", str(port))
    before = seen()
    apps.pair(command, (*command, "127.0.0.1"), tcp=port)
    moved = [b - a for a, b in zip(before, seen(), strict=True)]
    assert all(0 <= count - 5000 * 16 < 200 for count in moved), moved  # the queries count, too


def lid(apps, node: str) -> str:
    output = subprocess.run(
        apps.on(node, "smpquery", "-D", "portinfo", "0", "1"), env=apps.env, capture_output=True, text=True, check=True
    ).stdout
    return re.search(r"^Lid:\.*(\d+)", output, re.M)[1]


@pytest.fixture(scope="module")
def cut():
    """A fabric of its own: cables are pulled."""
    made = Applications()
    yield made
    made.close()


def running(fabric, stock, seconds: int):
    """Both ends of a ``ib_write_bw`` that has begun; ``seconds`` is how long it goes on if nothing happens."""
    port = next(fabric.ports)
    command = (stock("ib_write_bw"), "-s", "4096", "-D", str(seconds), "-F", "-p", str(port))
    one = fabric.begin(A, *command)
    wait_for_listener(port, one)
    two = fabric.begin(B, *command, "127.0.0.1")
    fabric.until_busy(B)
    return one, two


@pytest.mark.slow
def test_traffic_goes_on_when_the_manager_finds_another_path(cut, stock):
    route = subprocess.run(
        cut.on(B, "ibtracert", lid(cut, B), lid(cut, A)), env=cut.env, capture_output=True, text=True, check=True
    ).stdout
    spine = re.search(r'^\[(\d+)\] -> switch port \{0x\w+\}\[\d+\] lid [\d-]+ "(spine-\d+)"', route, re.M)
    leaf = re.findall(r'"(leaf-\d+)"', route)[0]
    one, two = running(cut, stock, 5)
    cut("fault", "link-down", f"{leaf}[{spine[1]}]")
    _, client = ended(one, two, 240)
    assert re.search(r"^ *4096 +\d+", client, re.M), client
    cut("fault", "link-up", f"{leaf}[{spine[1]}]")


def test_a_pulled_cable_ends_the_connection_and_raises_events(cut, stock):
    """RETRY_EXC (12) after perftest's own timeout and retries; PORT_ERR and PORT_ACTIVE at the port."""
    log = cut.folder / "asyncwatch"
    watch = cut.begin(B, "sh", "-c", f'exec stdbuf -oL "$@" > {log}', "sh", stock("ibv_asyncwatch"))
    events = lambda: re.findall(r"IBV_EVENT_(PORT_\w+) \(\d+\), port 1", log.read_text() if log.is_file() else "")
    topology = subprocess.run(cut.on(B, "iblinkinfo", "-l"), env=cut.env, capture_output=True, text=True).stdout
    place = re.search(rf'" *(leaf-\d+)" +\d+ +(\d+)\[.*"{B}"', topology)
    assert place, topology
    cable = f"{place[1]}[{place[2]}]"
    one, two = running(cut, stock, 200)
    cut("fault", "link-down", cable)
    output = two.communicate(timeout=240)[0]
    assert two.returncode != 0 and "status 12" in output, output
    one.kill()
    one.wait()
    cut("fault", "link-up", cable)
    try:
        assert wait_for(lambda: events()[:2] == ["PORT_ERR", "PORT_ACTIVE"]), log.read_text()
    finally:
        stop(watch)


@pytest.mark.slow
def test_bit_errors_cost_retransmissions(cut, stock):
    """A cable beyond what RS-FEC corrects: everything arrives, but more packets leave than the data needs, and later."""
    topology = subprocess.run(cut.on(B, "iblinkinfo", "-l"), env=cut.env, capture_output=True, text=True).stdout
    place = re.search(rf'" *(leaf-\d+)" +\d+ +(\d+)\[.*"{B}"', topology)
    cut("fault", "ber", f"{place[1]}[{place[2]}]", "1.2e-3")
    port = next(cut.ports)
    command = (stock("ib_write_bw"), "-s", "65536", "-n", "1000", "-F", "-u", "10", "-p", str(port))
    before = cut.counters(B)
    _, client = cut.pair(command, (*command, "127.0.0.1"), tcp=port)
    after = cut.counters(B)
    assert re.search(r"^ *65536 +1000", client, re.M), client
    sent = after["PortXmitPkts"] - before["PortXmitPkts"]
    second = sent - 1000 * 16
    # About 2.1e-3 of 16,000 packets are lost, each with eight others behind it on average.
    assert 50 < second < 2000, sent
    cut("fault", "clear")
