"""The rdma_cm device, command by command, from programs that run under the library as any program does."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time

import pytest

from softib.fabric.topologies.registry import generate
from tests.live.rdma_cm.lab import ACCEPTS, CLIENT, SERVER, A, B
from tests.live.rdma_cm.serving import CmServing, ended, line
from tests.live.serving import wait_for


@pytest.fixture(scope="module")
def served(cm_library, own_library):
    s = CmServing(generate("fat-tree", radix=4, levels=2), cm_library, own_library)
    yield s
    s.stop()


def pair(served, server: str, client: str, port: int):
    one = served.launch(B, SERVER + server, port=port)
    assert line(one) == "ready"
    two = served.launch(A, CLIENT + client, port=port, ip=served.ip(B), path=served.path(A, B))
    return one, two


def test_a_connection(served):
    one, two = pair(
        served,
        ACCEPTS
        + """
for state, mask in ((1, 0x39), (2, 0x129181), (3, 0x12e01)):
    a = u.attr(e.id, state)
    assert struct.unpack_from("=II", a) == (mask, state), a
    if state == 2:
        assert struct.unpack_from("=I", a, 32)[0] == 0x11, "the other side's QP"
_, portnum, source, target = u.query_addr(e.id)
assert portnum == 1 and source[:2] == b"\\2\\0" and target[4:6] == b"\\x7f\\x40"
u.expect(DISCONNECTED)
u.disconnect(e.id)
assert u.destroy(e.id) == 2 and u.destroy(l) == 1
""",
        """
e = u.expect(CONNECT_RESPONSE)
assert (e.uid, e.qpn, e.private[:3], len(e.private)) == (7, 0x22, b"yes", 196), e
assert struct.unpack_from("=I", u.attr(c, 2), 32)[0] == 0x22
u.ready(c)
u.disconnect(c)
u.expect(DISCONNECTED)
assert u.destroy(c) == 4
""",
        7001,
    )
    ended(two)
    ended(one)


def test_a_refusal(served):
    one, two = pair(
        served,
        'u.reject(e.id, b"go away")',
        """
e = u.expect(REJECTED)
assert (e.status, e.private[:7], len(e.private)) == (28, b"go away", 148), e
""",
        7002,
    )
    ended(two)
    ended(one)


def test_nobody_listens(served):
    out = served.play(
        A, CLIENT + "e = u.expect(REJECTED); print(e.status)", port=7003, ip=served.ip(B), path=served.path(A, B)
    )
    assert out.split() == ["8"]


@pytest.mark.parametrize("dies", ["server", "client"])
def test_sigkill_disconnects_the_other_side_at_once(served, dies):
    one, two = pair(
        served,
        ACCEPTS + "u.expect(DISCONNECTED); print(time.time())",
        """
u.expect(CONNECT_RESPONSE)
u.ready(c)
print("established")
u.expect(DISCONNECTED)
print(time.time())
""",
        7004 if dies == "server" else 7005,
    )
    assert line(one) == line(two) == "established"
    victim, other = (one, two) if dies == "server" else (two, one)
    killed = time.time()
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    assert (
        float(ended(other)) - killed < 60
    )  # milliseconds, where nobody else computes; a CM timeout with its retries takes 68 s
    assert served.cm is not None
    assert wait_for(lambda: not served.cm.ucma.connections.by_peer), "nothing of the dead one is left"
    victim.stdout.close()


def test_a_channel_closed_under_a_waiting_thread(served):
    """A kernel's call holds the file: no error comes when another thread closes it (rping's client relies on it)."""
    out = served.play(
        A,
        """
import threading
errors, waiting = [], []
def wait(u):
    try:
        u.event()
    except OSError as error:
        errors.append(error)
def until_it_waits(thread, seen=0):
    while seen < 3:  # in the kernel, and not for Python's lock: 202 is futex on x86-64, 98 elsewhere
        time.sleep(0.002)
        try:
            call = open(f"/proc/self/task/{thread.native_id}/syscall").read().split()[0]
        except OSError:  # a kernel that does not tell
            return time.sleep(0.1)
        seen = seen + 1 if call not in ("running", "202", "98") else 0
for n in range(50):
    u = Ucm()
    c = u.create(uid=n + 1)
    thread = threading.Thread(target=wait, args=(u,), daemon=True)
    thread.start()
    until_it_waits(thread)
    u.resolve_addr(c, ip, 7007)
    os.close(u.fd)
    waiting.append(thread)
time.sleep(0.3)
print(len(errors), sum(t.is_alive() for t in waiting) > 0, flush=True)
os._exit(0)
""",
        ip=served.ip(B),
    )
    assert out.split() == ["0", "True"]


def test_killed_before_it_answered(served):
    one, two = pair(served, "print('asked'); time.sleep(60)", "e = u.expect(REJECTED); print(e.status)", 7006)
    assert line(one) == "asked"
    os.kill(one.pid, signal.SIGKILL)
    one.wait()
    assert ended(two).split() == ["28"]


def test_what_no_device_does(served):
    """Garbage, addresses that are nowhere, ids that are not there: an errno each, as the kernel's."""
    served.play(
        A,
        """
import errno, random
u = Ucm()
def fails(error, f, *a):
    try:
        f(*a)
    except OSError as e:
        assert e.errno == error, (errno.errorcode[e.errno], errno.errorcode[error])
    else:
        raise AssertionError("it worked")
write = lambda octets: os.write(u.fd, octets)
fails(errno.EINVAL, write, b"")
fails(errno.EINVAL, write, b"short")
fails(errno.EINVAL, write, struct.pack("=IHH", 99, 0, 0))
fails(errno.ENOSYS, write, struct.pack("=IHH", GET_OPTION, 0, 0))
fails(errno.EINVAL, write, struct.pack("=IHH", CREATE_ID, 24, 4))
fails(errno.EINVAL, write, struct.pack("=IHH", CREATE_ID, 8, 4) + bytes(8))
fails(errno.EFAULT, write, struct.pack("=IHH", CREATE_ID, 24, 4) + struct.pack("=QQHB5x", 1, 8, TCP, 2))
fails(errno.ENOSPC, write, struct.pack("=IHH", CREATE_ID, 24, 0) + struct.pack("=QQHB5x", 1, 8, TCP, 2))
fails(errno.EINVAL, u.create, 1, 0x1234)
fails(errno.ENOENT, u.destroy, 12345)
c = u.create()
fails(errno.EINVAL, u.resolve_route, c)
fails(errno.EINVAL, u.connect, c)
fails(errno.EINVAL, u.accept, c)
fails(errno.EINVAL, u.ready, c)
fails(errno.EINVAL, u.reject, c)
fails(errno.EINVAL, u.disconnect, c)
fails(errno.EINVAL, u.attr, c, 1)
fails(errno.ENODEV, u.bind, c, "8.8.8.8")
other = Ucm()
fails(errno.ENOENT, other.destroy, c)
u.resolve_addr(c, "8.8.8.8", 1)
e = u.expect(ADDR_ERROR)
assert e.status == -errno.EHOSTUNREACH, e
fails(errno.EINVAL, u.bind, c)
u.destroy(c)
c = u.create()
u.bind(c, port=7100)
d = u.create()
fails(errno.EADDRNOTAVAIL, u.bind, d, "0.0.0.0", 7100)
u.destroy(c)
u.bind(d, port=7100)
random.seed(1)
for i in range(20000):
    n = random.randrange(0, 400)
    octets = struct.pack("=IHH", random.randrange(24), random.randrange(n + 1), random.choice((0, 4, 144, 336, 65535)))
    if octets[0] == GET_EVENT:
        continue
    try:
        os.write(u.fd, octets + random.randbytes(n))
    except OSError:
        pass
""",
    )
    assert served.is_alive()


def test_a_descriptor_like_any_other(served):
    served.play(
        A,
        """
import fcntl, select, stat
u = Ucm(os.O_NONBLOCK)
assert stat.S_ISCHR(os.fstat(u.fd).st_mode)
try:
    u.event()
except BlockingIOError:
    pass
else:
    raise AssertionError("an event?")
p = select.epoll()
p.register(u.fd, select.EPOLLIN)
assert p.poll(0) == []
c = u.create(uid=3)
u.resolve_addr(c, ip, 1)
assert p.poll(60) == [(u.fd, select.EPOLLIN)]
twin = os.dup(u.fd)
os.close(u.fd)
u.fd = twin
assert u.expect(ADDR_RESOLVED).uid == 3
assert u.destroy(c) == 1
assert select.select([twin], [], [], 0) == ([], [], [])
""",
        ip=served.ip(B),
    )


def test_events_of_a_destroyed_id_are_never_seen(served):
    """uid is a pointer in the program: after DESTROY_ID it may be free memory."""
    served.play(
        A,
        """
import select
u = Ucm(os.O_NONBLOCK)
ids = [u.create(uid=i + 1) for i in range(20)]
for i in ids:
    u.resolve_addr(i, ip, 1)
for i in ids[::2]:
    assert u.destroy(i) == 0
seen, end = [], time.time() + 60
while len(seen) < 10 and time.time() < end:
    try:
        seen.append(u.event().uid)
    except BlockingIOError:
        select.select([u.fd], [], [], 1)
try:
    select.select([u.fd], [], [], 0.2)
    seen.append(u.event().uid)
except BlockingIOError:
    pass
assert seen == [i + 1 for i in ids[1::2]], seen
""",
        ip=served.ip(B),
    )


def test_a_program_writes_events(served):
    """Linux' ucma_write_cm_event: of two kinds, on an id of its channel; the status and the argument come back."""
    served.play(
        A,
        """
u, v = Ucm(), Ucm()
i = u.create(uid=5)
u.write_event(i, USER, status=3, argument=0x1122334455667788)
u.write_event(i, INTERNAL, argument=17)
e = u.expect(USER)
assert (e.uid, e.id, e.status) == (5, i, 3), e
assert struct.pack("=II", *e.conn[:2]) == struct.pack("=Q", 0x1122334455667788), e
assert u.expect(INTERNAL).qpn == 17
for device, event, error in ((u, ESTABLISHED, OSError), (v, USER, FileNotFoundError)):
    try:
        device.write_event(i, event)
    except error:
        continue
    raise AssertionError((event, error))
assert u.destroy(i) == 2
""",
    )


def test_an_id_moves_with_its_events(served):
    served.play(
        A,
        """
import select
u, v = Ucm(os.O_NONBLOCK), Ucm(os.O_NONBLOCK)
a, b = u.create(uid=1), u.create(uid=2)
for i in (a, b):
    u.resolve_addr(i, ip, 1)
assert select.select([u.fd], [], [], 60)[0]
v.write(MIGRATE_ID, struct.pack("=II", a, u.fd), 4)
assert select.select([v.fd], [], [], 60)[0]
assert v.expect(ADDR_RESOLVED).uid == 1
assert select.select([u.fd], [], [], 60)[0]
assert u.expect(ADDR_RESOLVED).uid == 2
for empty in (u, v):
    try:
        empty.event()
    except BlockingIOError:
        continue
    raise AssertionError("one more")
v.destroy(a)
try:
    u.destroy(a)
except FileNotFoundError:
    pass
""",
        ip=served.ip(B),
    )


def test_without_a_fabric_there_is_no_device(cm_library):
    env = {k: v for k, v in os.environ.items() if not k.startswith("SOFTIB")} | {"LD_PRELOAD": str(cm_library)}
    done = subprocess.run(
        ["python3", "-c", "import os; os.open('/dev/infiniband/rdma_cm', os.O_RDWR)"],
        env=env,
        capture_output=True,
        text=True,
    )
    assert errno.ENOENT and ("No such file" in done.stderr or os.path.exists("/dev/infiniband/rdma_cm"))
