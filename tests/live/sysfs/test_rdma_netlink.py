"""RDMA netlink: iproute2's ``rdma`` beside the sysfs files that infiniband-diags reads, and requests that no program sends."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.preload.verbs.applications import Applications

pytestmark = pytest.mark.stock

NODE = "node-001"
RAILS = 3
FABRIC = f"name: netlink\ngeneration: NDR\ntopology: {{kind: rail-optimized, nodes: 4, rails: {RAILS}, radix: 8, ufm: false}}\n"

REQUESTS = """
import socket, struct
NLDEV, REQUEST, ACK, DUMP = 5 << 10, 1, 4, 0x300
def ask(*parts, bound=True):
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20)
    sock.settimeout(10)
    if bound:
        sock.bind((0, 0))
    sock.sendmsg(parts)
    data = sock.recv(65536)
    length, kind, flags, serial, pid = struct.unpack_from("IHHII", data)
    assert length == len(data) and serial == 7 and pid == sock.getsockname()[0] != 0, data
    return kind, struct.unpack_from("i", data, 16)[0] if kind == 2 else None
def head(command, flags, length=16, client=NLDEV):
    return struct.pack("IHHII", length, client + command, flags, 7, 0)
def number(kind, value):
    return struct.pack("HHI", 8, kind, value)
print(ask(head(1, REQUEST, 24), number(1, 0)), ask(head(1, REQUEST, 24) + number(1, 0), bound=False))
print(ask(head(1, REQUEST, 24), number(1, 99)), ask(head(1, REQUEST)), ask(head(5, REQUEST, 32), number(1, 0), number(3, 9)))
print(ask(head(9, REQUEST | DUMP)), ask(head(2, REQUEST | ACK)), ask(head(1, REQUEST, client=4 << 10)))
print(ask(head(1, REQUEST, 20), struct.pack("HH", 3, 1)), ask(head(1, REQUEST, 20), struct.pack("HH", 0xffff, 1)))
try:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20).send(bytes(5000))
except OSError as error:
    print(error.strerror)
"""


@pytest.fixture(scope="module")
def rails():
    fabric = Applications(FABRIC)
    yield fabric
    fabric.close()


def output(rails, *words: str) -> str:
    return subprocess.run(rails.on(NODE, *words), env=rails.env, capture_output=True, text=True, check=True).stdout


def test_rdma_shows_what_sysfs_has(rails, stock):
    """Names, indexes, GUIDs, firmware, LIDs and states of three adapters."""
    rdma, ibstat = stock("rdma"), stock("ibstat")
    devices = json.loads(output(rails, rdma, "-j", "dev"))
    assert [(d["ifindex"], d["ifname"], d["node_type"]) for d in devices] == [
        (n, f"mlx5_{n}", "ca") for n in range(RAILS)
    ]
    folder = "/sys/class/infiniband"
    for device in devices:
        files = [f"{folder}/{device['ifname']}/{name}" for name in ("fw_ver", "node_guid", "sys_image_guid")]
        assert [device["fw"], device["node_guid"], device["sys_image_guid"]] == output(rails, "cat", *files).split()
    for link in json.loads(output(rails, rdma, "-j", "link")):
        shown = output(rails, ibstat, link["ifname"], str(link["port"]))
        assert f"Base lid: {link['lid']}\n" in shown and f"SM lid: {link['sm_lid']}\n" in shown
        assert f"LMC: {link['lmc']}\n" in shown and f"State: {link['state'].title()}\n" in shown
        assert link["physical_state"] == "LINK_UP" and "Physical state: LinkUp\n" in shown
    assert "netns shared" in output(rails, rdma, "system")


def test_requests_of_no_program_get_the_kernels_errors(rails):
    """A device or port that does not exist, attributes cut off or longer than their message: EINVAL (-22). Commands and
    clients that softib lacks: EOPNOTSUPP (-95). An unbound socket is bound by sending."""
    lines = output(rails, sys.executable, "-c", REQUESTS).splitlines()
    found = (5 << 10) + 1
    assert lines == [
        f"({found}, None) ({found}, None)",
        "(2, -22) (2, -22) (2, -22)",
        "(2, -95) (2, -95) (2, -95)",
        "(2, -22) (2, -22)",
        "Message too long",
    ]
