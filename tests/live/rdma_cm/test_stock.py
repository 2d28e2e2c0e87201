"""Stock librdmacm and the programs of rdmacm-utils, over a device without a data path: who finds, asks and tells whom."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from softib.fabric.topologies.registry import generate
from softib.preload import build
from tests.live.rdma_cm.lab import A, B, opensm
from tests.live.rdma_cm.serving import CmServing, ended
from tests.live.serving import wait_for

pytestmark = pytest.mark.stock


@pytest.fixture(scope="module")
def served(cm_library, own_library, stock, tmp_path_factory):
    """Two hosts that use rdma_cm, and OpenSM on a third."""
    folder = tmp_path_factory.mktemp("stand-in")
    made = folder / "libstandin.so"
    source = Path(__file__).with_name("stand_in_verbs.c")
    done = subprocess.run(
        [build.compiler() or "cc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", str(made), str(source)],
        capture_output=True,
        text=True,
    )
    if "infiniband/verbs.h" in done.stderr:
        pytest.skip("libibverbs-dev is not installed")
    assert done.returncode == 0, done.stderr
    s = CmServing(generate("fat-tree", radix=4, levels=2), cm_library, own_library)
    s.before += f" {made}"
    sm = opensm(s, stock, folder, "host-0003")
    yield s
    sm.terminate()
    sm.wait()
    s.stop()


def begin(served, node: str, *words: str) -> subprocess.Popen:
    return subprocess.Popen(
        words, env=served.environment(node), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def listening(served, service_id: int) -> bool:
    port = served.port(B)
    return wait_for(lambda: served.cm.ucma.services.listener(port, service_id) is not None)


def pair(served, stock, program: str, ps: int, *more: str, port: int = 7471, ip: str = "") -> tuple[str, str]:
    server = begin(served, B, stock(program), *more)
    assert listening(served, ps << 16 | port)
    client = begin(served, A, stock(program), "-s", ip or served.ip(B), *more)
    return ended(client), ended(server)


@pytest.mark.parametrize("more", [(), ("-m",), ("-c", "50")], ids=["one", "migrating", "fifty"])
def test_ucmatose(served, stock, more):
    client, server = pair(served, stock, "ucmatose", 0x0106, "-C", "0", *more)
    assert "return status 0" in client and "return status 0" in server
    lid = served.cm.addresses.lid_of
    there, back = lid(served.port(B)), lid(served.port(A))
    assert re.search(rf"qp 100 state 2 mask 0x129181 peer 100 dlid {there} mtu \d rd 1\n", client), client
    assert re.search(rf"qp 100 state 2 mask 0x129181 peer 100 dlid {back} mtu \d rd 1\n", server), server
    assert re.search(r"qp 100 state 3 mask 0x12e01 timeout \d+ retry 5 rnr 7\n", client), client
    assert re.search(r"qp 100 state 6 mask 0x1\n", client), "disconnected: to ERR"


def test_ucmatose_by_gid(served, stock):
    """AF_IB: addresses are GIDs, and the request carries no IP addresses."""
    gid = ":".join(re.findall("....", served.cm.addresses.gid_of(served.port(B)).hex()))
    words = ("-C", "0", "-f", "gid", "-P", "ib")
    server = begin(served, B, stock("ucmatose"), "-b", gid, *words)
    assert listening(served, 0x013F << 16 | 7471)
    client = begin(served, A, stock("ucmatose"), "-s", gid, *words)
    assert "return status 0" in ended(client) and "return status 0" in ended(server)


def test_udaddy(served, stock):
    client, server = pair(served, stock, "udaddy", 0x0111, "-C", "0", port=7174)
    assert "return status 0" in client and "return status 0" in server
    assert "qkey 0x1234567" in client
    assert f"ah dlid {served.cm.addresses.lid_of(served.port(B)):#x} global 0" in client


@pytest.mark.parametrize("more", [(), ("-o",)], ids=["member", "sender only"])
def test_mckey(served, stock, more):
    out = ended(begin(served, A, stock("mckey"), "-m", "239.1.2.3", "-b", served.ip(A), "-C", "0", *more))
    assert "joined dgid: ff12:4001:ffff::f01:203 mlid 0xc0" in out and "return status 0" in out
    assert ("attach 0xc0" in out) == (not more)


def test_an_address_of_nobody(served, stock):
    out = ended(begin(served, A, stock("ucmatose"), "-s", "127.64.99.99", "-C", "0"), code=256 - 113)
    assert "RDMA_CM_EVENT_ADDR_ERROR, error: -113" in out


def test_nobody_listens(served, stock):
    out = ended(begin(served, A, stock("ucmatose"), "-s", served.ip(B), "-p", "9", "-C", "0"), code=8)
    assert "RDMA_CM_EVENT_REJECTED, error: 8" in out
