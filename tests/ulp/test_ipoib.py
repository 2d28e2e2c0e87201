"""IP over InfiniBand between nodes: the system's own ip, ping, iperf3; tshark, saquery and perfquery say what was on the fabric."""

from __future__ import annotations

import ipaddress
import re
import subprocess
import time

import pytest

from softib.preload import build
from tests.ulp.ipoib_nodes import RECEIVE, RULES, SEND, A, B, Network, follows_its_pkey, interfaces, skip_without

LRH_TO_ICRC = 8 + 12 + 8 + 4
"""Octets of a datagram's packet beside its payload, as PortXmitData counts (IBA 16.1.3.5): LRH, BTH, DETH, ICRC."""


@pytest.fixture(scope="module")
def nodes(stock):
    skip_without(stock)
    made = Network()
    yield made
    made.close()


@pytest.mark.stock
def test_interfaces_are_the_ports_partitions(nodes):
    """ib0 with the MTU of its group (partitions.conf: mtu=5 is 4096 octets, less 4; the default 2048), a child for the other
    partition with a group for IP, and one without a carrier, named, for the partition that has none."""
    found = interfaces(nodes, A)
    assert set(found) == {"lo", "ib0", "ib0.8001", "ib0.8002"}
    assert [found[n]["mtu"] for n in ("ib0", "ib0.8001")] == [4092, 2044]
    assert "LOWER_UP" in found["ib0"]["flags"] and "NO-CARRIER" in found["ib0.8002"]["flags"]
    guid = bytes.fromhex(nodes.guid(A).removeprefix("0x"))
    local = ipaddress.ip_address(b"\xfe\x80" + bytes(6) + bytes([guid[0] | 2]) + guid[1:])  # RFC 4391, 8
    assert address6(found["ib0"]) == str(local)


def address6(interface: dict) -> str:
    return next(a["local"] for a in interface["addr_info"] if a["family"] == "inet6")


@pytest.mark.stock
@pytest.mark.parametrize("interface", ("ib0", "ib0.8001"))
def test_ping_over_both_versions_of_ip(nodes, interface):
    address = f"{address6(interfaces(nodes, B)[interface])}%{interface}"
    target = nodes.address[B] if interface == "ib0" else nodes.address[B].replace("10.64.", "10.129.")
    for host in (target, address):
        output = nodes.net(A, "ping", "-c", "3", "-i", "0.1", "-W", "5", host)
        assert " 3 received" in output, output


@pytest.mark.stock
def test_neighbours_do_not_count_against_the_kernels_limit(nodes):
    """Linux counts neighbours of all namespaces against gc_thresh3, 1,024, except those that iproute2 calls extern_learn;
    both ends have one for the other after an answered request. They are probed and fail like others."""
    for target in (nodes.address[B], f"{address6(interfaces(nodes, B)['ib0'])}%ib0"):
        for node in (A, B):
            nodes.net(node, "ip", "neigh", "flush", "dev", "ib0")
        nodes.net(A, "ping", "-c", "1", "-W", "5", target)
        for node, other in ((A, B), (B, A)):
            address = nodes.address[other] if "%" not in target else address6(interfaces(nodes, other)["ib0"])
            assert " extern_learn " in nodes.net(node, "ip", "neigh", "show", address)
    absent = nodes.address[B].rsplit(".", 1)[0] + ".250"
    nodes.net(A, "ping", "-c", "1", "-W", "5", absent, code=1)
    assert "extern_learn" not in nodes.net(A, "ip", "neigh", "show", absent)


@pytest.mark.stock
def test_tshark_dissects_what_is_on_the_fabric(nodes, stock):
    """ARP with hardware type 32 and 20-octet addresses to the broadcast group's MGID; the neighbour's answer; ICMP above the
    encapsulation; a solicitation whose option has length 3; no malformed packet and no wrong checksum."""
    tshark = stock("tshark")
    for target in (nodes.address[B], f"{address6(interfaces(nodes, B)['ib0'])}%ib0"):
        for node in (B, A):  # B first: a neighbour that it still knows it probes, from which A would learn its address
            nodes.net(node, "ip", "neigh", "flush", "dev", "ib0")
        file = nodes.folder / "ib0.pcap"
        nodes.net(A, "ping", "-c", "2", "-i", "0.2", target, options=("--pcap", str(file)))
        text = subprocess.run(
            [tshark, "-o", "ip.check_checksum:TRUE", "-V", "-r", file], capture_output=True, text=True
        ).stdout
        assert "Malformed" not in text and "Expert Info (Error" not in text and "incorrect" not in text.lower(), text[
            -3000:
        ]
        assert text.count("Echo (ping) reply") >= 2 or text.count("Type: Echo (ping) reply (129)") >= 2, text[-2000:]
        if target == nodes.address[B]:
            assert "Hardware type: InfiniBand (32)" in text and "Hardware size: 20" in text
            assert "Destination GID: ff12:401b:ffff::ffff:ffff" in text
            assert (
                len(set(re.findall(r"Sender hardware address: 00[0-9a-f]{6}fe80000000000000[0-9a-f]{16}\n", text))) == 2
            )
        else:
            assert "Destination GID: ff12:601b:ffff" in text and "Length: 3 (24 bytes)" in text


@pytest.mark.stock
def test_datagrams_and_octets_are_on_the_ports_counters(nodes):
    """A datagram of the kernel is one packet on the port: 1000 pings with 1000 octets each, counted by stock perfquery. Each has
    4 octets of encapsulation, IP's 20, ICMP's 8, and LRH to ICRC around them."""
    nodes.net(A, "ping", "-c", "1", nodes.address[B])
    before = nodes.counters(A)
    output = nodes.net(A, "ping", "-c", "1000", "-i", "0.001", "-q", "-s", "1000", nodes.address[B])
    sent = int(re.search(r"(\d+) packets transmitted", output)[1])
    octets, packets = (b - a for a, b in zip(before, nodes.counters(A), strict=True))
    each = 4 + 20 + 8 + 1000 + LRH_TO_ICRC
    assert sent == 1000 and sent <= packets < sent + 60, (sent, packets)  # ARP, and MADs of perfquery and pings' daemon
    assert sent * each <= octets < sent * each + 60 * 300, (octets, sent * each)


@pytest.mark.stock
def test_segments_are_whole_and_counted(nodes, stock):
    """A megabyte by TCP: the data arrives as it was, and leaves as datagrams no longer than the MTU: N packets on the port."""
    stock("python3")
    server = nodes.begin_net(B, "python3", "-c", RECEIVE, nodes.address[B])
    assert server.stdout.readline().strip() == "ready"
    before = nodes.counters(A)
    nodes.net(A, "python3", "-c", SEND, nodes.address[B])
    assert server.communicate(timeout=60)[0].strip().splitlines()[-1] == "8388608 ok"
    octets, packets = (b - a for a, b in zip(before, nodes.counters(A), strict=True))
    most = 4092 - 20 - 32  # IP's header, TCP's with timestamps
    assert packets >= 8388608 // most and octets >= 8388608, (octets, packets)
    assert packets < 1.5 * 8388608 / most + 500, "segments are shorter than the MTU allows"


@pytest.mark.slow
@pytest.mark.stock
def test_members_of_a_multicast_group_receive(nodes, stock):
    """The kernel's membership becomes one at the subnet administrator (saquery lists it), and ends with the program."""
    saquery = stock("saquery")
    groups = lambda: subprocess.run(nodes.on(A, saquery, "-g"), env=nodes.env, capture_output=True, text=True).stdout
    member = nodes.begin_net(B, "python3", "-c", MEMBER, nodes.address[B])
    until = time.monotonic() + 20
    while "ff12:401b:ffff::f01:203" not in groups():
        assert time.monotonic() < until, groups()
    for _ in range(5):
        nodes.net(
            A,
            "python3",
            "-c",
            "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'hello', ('239.1.2.3', 7777))",
        )
        if member.poll() is not None:
            break
    assert member.communicate(timeout=30)[0].strip().splitlines()[-1].startswith("hello"), "nothing came"
    until = time.monotonic() + 20
    while "::f01:203" in groups():
        assert time.monotonic() < until, "the group is left"


MEMBER = """
import socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("", 7777)); s.settimeout(20)
s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("239.1.2.3") + socket.inet_aton(sys.argv[1]))
print(s.recv(100).decode(), flush=True)
"""


@pytest.mark.slow
@pytest.mark.stock
def test_interfaces_follow_the_p_key_table(nodes):
    follows_its_pkey(nodes, A, B)


@pytest.mark.stock
def test_interfaces_follow_the_mtu_and_sl_of_their_group(nodes, stock):
    """The file gives a partition another MTU and SL: saquery shows its group with them, the interface gets the MTU without losing its carrier, and
    a ping of that length goes over it."""
    stock("saquery")
    mtu = lambda node: interfaces(nodes, node)["ib0.8001"]["mtu"]
    target = nodes.address[B].replace("10.64.", "10.129.")
    assert " 0 received, +1 errors" in nodes.net(A, "ping", "-c", "1", "-M", "do", "-s", "3000", target, code=1)
    for rules, expected in (
        (RULES.replace("Storage=0x0001, ipoib", "Storage=0x0001, ipoib, mtu=5, sl=1"), 4092),
        (RULES, 2044),
    ):
        nodes.reload(rules)
        end = time.monotonic() + 60
        while {mtu(A), mtu(B)} != {expected}:
            assert time.monotonic() < end, interfaces(nodes, A)
        assert "LOWER_UP" in interfaces(nodes, A)["ib0.8001"]["flags"]
        groups = subprocess.run(
            nodes.on(A, "saquery", "-g"), env=nodes.env, capture_output=True, text=True, check=True
        ).stdout
        group = groups.partition("ff12:401b:8001::ffff:ffff")[2].partition("MGID")[0]
        assert re.search(r"Mtu\.+(0x\w+)", group)[1] == {4092: "0x85", 2044: "0x84"}[expected]
        assert re.search(r"SL\.+(0x\w+)", group)[1] == {4092: "0x1", 2044: "0x0"}[expected]
        size = str(expected - 28)  # the headers of IP and ICMP
        assert " 3 received" in nodes.net(A, "ping", "-c", "3", "-i", "0.1", "-W", "5", "-M", "do", "-s", size, target)


@pytest.mark.slow
@pytest.mark.stock
def test_a_pulled_link_costs_the_time_of_re_routing(nodes):
    """A cable between leaf and spine on the way; the manager routes around it, and the ping goes on without a new ARP."""
    ping = nodes.begin_net(A, "ping", "-c", "200", "-i", "0.02", "-q", nodes.address[B])
    time.sleep(1)
    nodes("fault", "link-down", "leaf-1[3]")
    try:
        output = ping.communicate(timeout=60)[0]
    finally:
        nodes("fault", "clear")
    received = int(re.search(r"(\d+) received", output)[1])
    assert received >= 120, output  # 1.6 s at most were lost, on a busy machine


@pytest.mark.slow
def test_nothing_is_left_when_the_last_program_has_ended(nodes):
    """No process and no membership of a third node, whose network was up for one command."""
    nodes.net("host-0004", "true")
    until = time.monotonic() + 20
    while True:
        table = subprocess.run(["pgrep", "-fa", str(build.IPOIB)], capture_output=True, text=True).stdout
        left = [line for line in table.splitlines() if _runtime_of(line.split()[0]) == str(nodes.folder)]
        if len(left) == 2:  # those of A and B
            return
        assert time.monotonic() < until, left
        time.sleep(0.2)


def _runtime_of(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = dict(part.split(b"=", 1) for part in file.read().split(b"\0") if b"=" in part)
    except OSError:
        return ""
    return variables.get(b"SOFTIB_UMAD", b"").decode().split("/softib/")[0]


@pytest.mark.parametrize(
    ("arguments", "line"),
    (
        (("--net", "--stock-preload", "--", "true"), "--net needs softib's library; leave out --stock-preload"),
        (("--pcap", "x.pcap", "--", "true"), "--pcap captures the network of a node; add --net"),
        (("--connected", "--", "true"), "--connected applies only to a node's IPoIB network; add --net"),
        (
            ("--net", "--connected", "--node", A, "--", "true"),
            "the network of this node already runs in datagram mode; end its programs, or leave out --connected",
        ),
        (
            ("--net", "--pcap", "/no/such/folder/x.pcap", "--", "true"),
            "/no/such/folder/x.pcap: there is no folder /no/such/folder",
        ),
        (
            ("--net", "--node", "leaf-1", "--", "true"),
            "leaf-1[0]: --net needs queue pairs, which a switch does not have; use a host",
        ),
        (("--net", "--node", "host-0099", "--", "true"), "no node named 'host-0099'"),
    ),
)
def test_bad_input_is_one_line(nodes, arguments, line):
    done = subprocess.run(
        nodes.arguments("run", *arguments), env=nodes.env, cwd=nodes.folder, capture_output=True, text=True
    )
    assert done.returncode == 2 and line in done.stderr and "Traceback" not in done.stderr, done


@pytest.mark.parametrize(
    "device, line",
    (
        ((), "or give the container /dev/net/tun"),
        (
            ("--dir", "/dev/net", "--bind", __file__, "/dev/net/tun"),
            "is not a TUN/TAP device; remove it, then make it with 'mknod",
        ),
    ),
    ids=("none", "a regular file"),
)
def test_a_container_without_tun_says_what_to_give_it(nodes, stock, device, line):
    """The fabric is there, ``/dev/net/tun`` is not."""
    words = (stock("bwrap"), "--dev-bind", "/", "/", "--dev", "/dev", "--bind", "/dev/shm", "/dev/shm", *device, "--")
    done = subprocess.run(
        [*words, *nodes.arguments("run", "--net", "--node", "host-0003", "--", "true")],
        env=nodes.env,
        cwd=nodes.folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and line in done.stderr, done
    assert done.stderr.count("\n") == 1, done
