"""What the fabric does to connections: partitions, cables, and the subnet manager's life."""

from __future__ import annotations

import errno
import os
import signal
import subprocess

import pytest

from softib.iba.smp import PortInfo
from softib.live.clock import clock_ps
from tests.live.rdma_cm.lab import ACCEPTS, CLIENT, SERVER, A, B, opensm
from tests.live.rdma_cm.serving import CmServing, ended, line
from tests.live.serving import wait_for


def set_pkeys(s: CmServing, node: str, *pkeys: int) -> None:
    f, port = s.fabric, s.port(node)
    base = int(f.pkey_base[port])
    f.pkeys[base : base + int(f.pkey_cap[port])] = [*pkeys, *[0] * (int(f.pkey_cap[port]) - len(pkeys))]


def test_nobody_connects_into_another_partition(served):
    """The request's P_Key is not in the other port's table: dropped there, counted, and the sender hears nothing."""
    set_pkeys(served, A, 0x7FFF, 0x8001)
    set_pkeys(served, B, 0x7FFF, 0x8002)
    info = served.fabric.port_info[served.port(B)]
    before = int(PortInfo.pkey_violations.get(info))
    one = served.launch(B, SERVER, port=7)
    assert line(one) == "ready"
    out = served.play(
        A, CLIENT + "print(*u.expect(UNREACHABLE)[2:4])", port=7, ip=served.ip(B), path=served.path(A, B, 0x8001)
    )
    assert out.split() == ["7", str(-errno.ETIMEDOUT)]
    assert int(PortInfo.pkey_violations.get(info)) > before
    assert one.poll() is None, "the listener heard something"
    one.kill()
    ended(one, -signal.SIGKILL)


@pytest.mark.parametrize(("mine", "theirs"), [(0x8001, 0x8001), (0x0001, 0x8001), (0x8001, 0x0001)])
def test_members_of_one_partition_connect(served, mine, theirs):
    """A limited member talks to full ones (IBA 10.9.3); the QP gets the partition's index, wherever it stands."""
    set_pkeys(served, A, 0x7FFF, mine)
    set_pkeys(served, B, 0x7FFF, 0x8004, theirs)
    one = served.launch(
        B, SERVER + ACCEPTS + "print(struct.unpack_from('=H', u.attr(e.id, 1), 40 + 64 + 20)[0])", port=8
    )
    assert line(one) == "ready"
    two = served.launch(
        A,
        CLIENT
        + """
u.expect(CONNECT_RESPONSE)
assert struct.unpack_from("=H", u.attr(c, 1), 40 + 64 + 20)[0] == 1
u.ready(c)
sys.stdin.readline()
""",
        port=8,
        ip=served.ip(B),
        path=served.path(A, B, 0x8001),
    )
    assert ended(one).split() == ["established", "2"]
    ended(two)


def test_two_limited_members_do_not(served):
    for node in (A, B):
        set_pkeys(served, node, 0x7FFF, 0x0001)
    out = served.play(
        A, CLIENT + "print(u.expect(UNREACHABLE).status)", port=9, ip=served.ip(B), path=served.path(A, B, 0x8001)
    )
    assert out.split() == [str(-errno.ETIMEDOUT)]


def test_a_path_in_a_partition_that_the_port_is_not_in(served):
    out = served.play(
        A,
        """
u = Ucm()
c = u.create()
try:
    u.route_by(c, ip, 1, path)
except AssertionError as e:
    print("ROUTE_ERROR" if "event=3" in str(e) else e)
""",
        ip=served.ip(B),
        path=served.path(A, B, 0x8077),
    )
    assert out.split() == ["ROUTE_ERROR"]


def test_a_pulled_cable(served):
    """Whoever connects over it is unreachable; an idle connection hears nothing, and ends by its own release's retries."""
    one = served.launch(B, SERVER + ACCEPTS + "time.sleep(60)", port=10)
    assert line(one) == "ready"
    two = served.launch(
        A,
        CLIENT
        + """
u.expect(CONNECT_RESPONSE)
u.ready(c)
print("connected")
sys.stdin.readline()
d = u.create(uid=8)
u.route_by(d, ip, port, path)
u.connect(d)
assert u.expect(UNREACHABLE).uid == 8
u.disconnect(c)
e = u.expect(DISCONNECTED)
print(e.uid, e.status)
""",
        port=10,
        ip=served.ip(B),
        path=served.path(A, B),
    )
    assert line(two) == "connected" and line(one) == "established"
    served.do(lambda: served.router.set_link(served.port(B), False, clock_ps()))
    two.stdin.write("now\n")
    two.stdin.flush()
    assert ended(two).split() == ["7", str(-errno.ETIMEDOUT)]
    one.kill()
    ended(one, -signal.SIGKILL)


@pytest.mark.stock
def test_the_subnet_manager_is_killed(served, stock, tmp_path):
    """Paths come from OpenSM while it lives; afterwards there are none, and what is connected stays so."""
    sm = opensm(served, stock, tmp_path, "host-0003")
    one = served.launch(B, SERVER + ACCEPTS + "print(u.expect(DISCONNECTED).uid); u.disconnect(e.id)", port=11)
    assert line(one) == "ready"
    two = served.launch(
        A,
        """
u = Ucm()
c = u.create(uid=7)
u.route(c, ip, port)
u.connect(c, private=b"hi")
u.expect(CONNECT_RESPONSE)
u.ready(c)
print("connected")
sys.stdin.readline()
d = u.create(uid=8)
u.resolve_addr(d, ip, port)
u.expect(ADDR_RESOLVED)
began = time.time()
u.resolve_route(d, 400)
e = u.expect(ROUTE_ERROR)
print(e.uid, e.status, 0.3 < time.time() - began)
u.disconnect(c)
print(u.expect(DISCONNECTED).status)
""",
        port=11,
        ip=served.ip(B),
    )
    assert line(two) == "connected"
    os.kill(sm.pid, signal.SIGKILL)
    sm.wait()
    assert wait_for(lambda: not served.umads.files)
    two.stdin.write("now\n")
    two.stdin.flush()
    assert ended(two).split() == ["8", str(-errno.ETIMEDOUT), "True", "0"]
    assert ended(one).split() == ["established", "200"]


@pytest.mark.stock
def test_multicast_groups_by_opensm(served, stock, tmp_path):
    """Two programs of one port join a group: the port is a member until the last of them has gone."""
    sm = opensm(served, stock, tmp_path, "host-0003")
    script = """
u = Ucm()
c = u.create(uid=7, ps=UDP)
u.resolve_addr(c, "239.1.2.3", 0)
u.expect(ADDR_RESOLVED)
room = ctypes.create_string_buffer(4)
body = struct.pack("=QQIHH128s", ctypes.addressof(room), 55, c, 16, 0, sockaddr("239.1.2.3", 0))
os.write(u.fd, struct.pack("=IHH", JOIN_MCAST, len(body), 4) + body)
e = u.expect(MULTICAST_JOIN)
assert e.uid == 55 and e.qpn == 0xFFFFFF, e
print("joined")
sys.stdin.readline()
"""
    one, two = (served.launch(A, script) for _ in range(2))
    assert line(one) == line(two) == "joined"
    env = served.environment("host-0004")
    groups = lambda: subprocess.run([stock("saquery"), "-g"], env=env, capture_output=True, text=True).stdout
    assert "ff12:4001:ffff::f01:203" in groups()
    one.communicate("leave\n")
    assert "ff12:4001:ffff::f01:203" in groups()
    os.kill(two.pid, signal.SIGKILL)
    two.communicate()
    assert wait_for(lambda: "ff12:4001:ffff::f01:203" not in groups())
    sm.terminate()
    sm.wait()
