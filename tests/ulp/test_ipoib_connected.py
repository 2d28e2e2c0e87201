"""IP over InfiniBand in connected mode (RFC 4755) between nodes, and with one in datagram mode: the system's ip and ping, TCP of
Python's socket; tshark and perfquery say what was on the fabric."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time

import pytest

from softib.preload import build
from tests.ulp.ipoib_nodes import RECEIVE, SEND, A, B, Network, follows_its_pkey, interfaces, skip_without

DATAGRAM = "host-0004"
MTU, GROUP_MTU, PATH_MTU = 65520, 4092, 4096
ENCAPSULATION, IP, ICMP = 4, 20, 8
LRH_TO_ICRC = 8 + 12 + 4
"""Octets of a packet of RC beside its payload, as PortXmitData counts (IBA 16.1.3.5): LRH, BTH, ICRC."""


@pytest.fixture(scope="module")
def nodes(stock):
    skip_without(stock)
    made = Network((A, B, DATAGRAM), connected=(A, B), up=("--pcap", "mads.pcap"))
    yield made
    made.close()


def ping(nodes: Network, node: str, target: str, size: int, count: int = 3, code: int = 0) -> str:
    """Pings that must not be fragmented."""
    words = ("ping", "-M", "do", "-c", str(count), "-i", "0.2", "-W", "5", "-s", str(size), nodes.address[target])
    return nodes.net(node, *words, code=code)


def connect(nodes: Network) -> None:
    """Return when long packets arrive in both directions: a connection of each node is up."""
    until = time.monotonic() + 60
    while " 1 received" not in nodes.net(A, "sh", "-c", f"ping -c 1 -W 1 -s 60000 {nodes.address[B]} || true"):
        assert time.monotonic() < until, "no long packet was answered"


@pytest.mark.stock
def test_the_interface_has_the_mtu_of_linux(nodes):
    assert [interfaces(nodes, node)["ib0"]["mtu"] for node in (A, DATAGRAM)] == [MTU, GROUP_MTU]


@pytest.mark.stock
def test_a_long_packet_is_one_message_in_packets_of_the_path_mtu(nodes):
    """The longest IP packet goes unfragmented. Each message of 65,524 octets is 16 packets on the port, whose octets stock
    perfquery counts exactly; answers of the other node are on its own port."""
    connect(nodes)
    before = nodes.counters(A)
    output = ping(nodes, A, B, MTU - IP - ICMP, count=20)
    octets, packets = (b - a for a, b in zip(before, nodes.counters(A), strict=True))
    assert " 20 received" in output, output
    message = MTU + ENCAPSULATION
    each = -(-message // PATH_MTU)
    assert 20 * each <= packets < 20 * each + 60, packets  # ARP, and MADs of perfquery
    exact = 20 * (message + each * LRH_TO_ICRC)
    assert exact <= octets < exact + 60 * 300, (octets, exact)


@pytest.mark.stock
def test_a_neighbour_in_datagram_mode_is_reached(nodes):
    """Its packets are datagrams. A longer one is answered with the MTU of its group, which the kernel then keeps to."""
    output = nodes.net(A, "sh", "-c", f"ping -M do -c 2 -i 0.2 -s 60000 {nodes.address[DATAGRAM]} || true")
    assert f"mtu = {GROUP_MTU}" in output or f"mtu={GROUP_MTU}" in output, output
    assert " 3 received" in ping(nodes, A, DATAGRAM, GROUP_MTU - IP - ICMP)
    assert " 3 received" in ping(nodes, DATAGRAM, A, GROUP_MTU - IP - ICMP)


@pytest.mark.stock
@pytest.mark.parametrize(("sender", "receiver"), ((A, B), (A, DATAGRAM), (DATAGRAM, A)))
def test_tcp_arrives_whole(nodes, stock, sender, receiver):
    """Eight megabytes, the same at the receiver."""
    stock("python3")
    server = nodes.begin_net(receiver, "python3", "-c", RECEIVE, nodes.address[receiver])
    assert server.stdout.readline().strip() == "ready"
    nodes.net(sender, "python3", "-c", SEND, nodes.address[receiver])
    assert server.communicate(timeout=60)[0].strip().splitlines()[-1] == "8388608 ok"


@pytest.mark.stock
def test_tshark_dissects_the_connection(nodes, stock):
    """ARP whose hardware address has the flag of RC; a short packet in SEND Only, dissected to ICMP; REQ with Linux' service ID
    of the neighbour's UD queue pair, and private data with the sender's and the receive MTU; nothing malformed."""
    tshark, file = stock("tshark"), nodes.folder / "ib0.pcap"
    connect(nodes)
    for node in (B, A):
        nodes.net(node, "ip", "neigh", "flush", "dev", "ib0")
    nodes.net(A, "ping", "-c", "2", "-s", "1000", nodes.address[B], options=("--pcap", str(file)))
    text = dissected(tshark, file)
    assert text.count("Echo (ping) re") >= 4 and "Reliable Connection (RC) - SEND Only" in text, text[-3000:]
    addresses = set(re.findall(r"Sender hardware address: (80[0-9a-f]{38})\n", text))
    requests = dissected(tshark, nodes.folder / "mads.pcap", "infiniband.mad.mgmtclass == 7")
    services = {int(s, 16) for s in re.findall(r"ServiceID: 0x([0-9a-f]{16})", requests)}
    private = {p[:16] for p in re.findall(r"PrivateData: ([0-9a-f]{16})", requests)}
    qpns = {int(a[2:8], 16) for a in addresses}
    assert len(qpns) == 2, text[:3000]
    assert {0x10 << 56 | n for n in qpns} <= services, (services, qpns)
    assert {f"{n:08x}{MTU + ENCAPSULATION:08x}" for n in qpns} <= private, (private, qpns)


@pytest.mark.stock
def test_a_captured_message_is_cut_at_the_path_mtu(nodes, stock):
    """60,032 octets are SEND First, 13 Middle and Last in each direction, with consecutive PSNs as two queue pairs expect."""
    tshark, file = stock("tshark"), nodes.folder / "long.pcap"
    connect(nodes)
    nodes.net(A, "ping", "-c", "1", "-s", "60000", nodes.address[B], options=("--pcap", str(file)))
    fields = [f"-einfiniband.bth.{name}" for name in ("opcode", "psn", "destqp")]
    output = subprocess.run(
        [tshark, "-Tfields", *fields, "-r", file], capture_output=True, text=True, check=True
    ).stdout
    rows = [tuple(int(word, 0) for word in line.split("\t")) for line in output.splitlines()]
    by_qp = {
        qp: [row[:2] for row in rows if row[2] == qp and row[0] < 3] for qp in {row[2] for row in rows if row[0] < 3}
    }
    assert len(by_qp) == 2, rows
    for packets in by_qp.values():
        assert [opcode for opcode, _ in packets] == [0, *[1] * 13, 2]
        assert [psn for _, psn in packets] == [(packets[0][1] + n) & 0xFFFFFF for n in range(15)]


def dissected(tshark: str, file: os.PathLike[str], only: str = "infiniband") -> str:
    """What tshark says of packets that are whole messages, in full and in a line each."""
    full, brief = (
        subprocess.run([tshark, "-Y", only, *options, "-r", file], capture_output=True, text=True).stdout
        for options in (["-V"], [])
    )
    assert "Malformed" not in full and "Expert Info (Error" not in full, full[-3000:]
    return brief + full


@pytest.mark.slow
@pytest.mark.stock
def test_children_follow_the_p_key_table(nodes):
    """With packets that only fit a message of a connection."""
    follows_its_pkey(nodes, A, B, ("-M", "do", "-s", "60000"))


@pytest.mark.slow
@pytest.mark.stock
def test_a_neighbour_that_was_killed_is_reached_again(nodes):
    """Its mover of packets is killed and made again, with other queue pairs: long packets arrive over a new connection."""
    connect(nodes)
    kept = nodes.kept[1]
    kept.terminate()
    kept.wait(30)
    os.kill(mover(nodes, B), signal.SIGKILL)
    nodes.kept[1] = nodes.begin_net(B, "sleep", "infinity")
    nodes.net(B, "ping", "-c", "1", "-W", "5", nodes.address[A])  # which announces its new hardware address
    connect(nodes)


def mover(nodes: Network, node: str) -> int:
    """The process ID of the node's ``softib-ipoib``."""
    for line in subprocess.run(["pgrep", "-fa", str(build.IPOIB)], capture_output=True, text=True).stdout.splitlines():
        pid = line.split()[0]
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = dict(part.split(b"=", 1) for part in file.read().split(b"\0") if b"=" in part)
        view = variables.get(b"SOFTIB_VIEW", b"").decode()
        if view.startswith(str(nodes.folder)) and nodes.address[node] == net_address(variables):
            return int(pid)
    raise AssertionError(f"{node} has no mover of packets")


def net_address(variables: dict[bytes, bytes]) -> str:
    from softib.ulp.ipoib.addresses import net_address as of_port

    return of_port(variables[b"SOFTIB_ADDRESSES"].split()[0].decode())
