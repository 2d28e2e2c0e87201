"""ibsim's protocol: many clients, and those that misbehave; over UDP, too."""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys

from softib.fabric.topologies.registry import generate
from softib.iba.constants import CapMask
from softib.iba.smp import PortInfo
from softib.live.ibsim.client import PAUSE_AT
from softib.live.ibsim.sockets import BUFFER_BYTES, UdpSockets
from softib.live.mad_router import BATCH
from tests.live.ibsim.protocol_lab import host
from tests.live.serving import (
    CONNECT,
    MAGIC,
    Raw,
    Serving,
    mad,
    tid_of,
    wait_for,
)


def test_thirty_two_clients_at_once(up):
    clients = [Raw(up.base, host(up, i % len(up.fabric.cas))[0]) for i in range(32)]
    assert len({c.number for c in clients}) == 32 and all(c.number < 65536 for c in clients)
    for i, c in enumerate(clients):
        for k in range(8):
            c.send(mad(tid=1000 * i + k))
    for i, c in enumerate(clients):
        assert [tid_of(c.receive()[1]) & 0xFFFFFFFF for _ in range(8)] == [1000 * i + k for k in range(8)]
    for c in clients:
        c.close()


def room() -> int:
    """How many datagrams wait on their way to a program that does not read: at least one more than fit into the server's buffer."""
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, two:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        one.setblocking(False)
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                sent += one.send(bytes(288)) // 288
        return sent + 1


def test_a_client_that_does_not_read_disturbs_nobody(served):
    """Its queue fills, and the server keeps the rest: from :data:`PAUSE_AT` answers on it reads no more requests, so the queue of the
    client's own requests fills, too. All of them are answered when it reads. How many fit depends on the machine (its
    ``net.unix.max_dgram_qlen``, or the bytes of a socket's buffer)."""
    slow, other = Raw(served.base), Raw(served.base)
    client = served.server.clients[slow.number]
    most = 2 * room() + PAUSE_AT + BATCH
    reads = lambda: bool(served.server.selector.get_key(client.sock).events & selectors.EVENT_READ)
    takes = lambda: bool(select.select([], [slow.data], [], 0)[1])
    sent = 0
    while sent < most and wait_for(lambda: takes() or not reads()) and takes():
        slow.send(mad(tid=sent))
        sent += 1
    assert PAUSE_AT < sent < most and not reads()
    other.send(mad(tid=1))
    other.receive()
    assert [tid_of(slow.receive()[1]) & 0xFFFF for _ in range(sent)] == list(range(sent))
    slow.send(mad(tid=7))
    assert tid_of(slow.receive()[1]) & 0xFFFF == 7
    slow.close()
    other.close()


KILLED = """
import sys; sys.path[:0] = {path!r}
from tests.live.serving import Raw, mad
import time
c = Raw({base!r}, {node!r}, issm=1)
for i in range(5): c.send(mad())
print(c.number, flush=True)
time.sleep(60)
"""


def test_sigkill_of_clients_disturbs_nobody(served):
    path = [*sys.path[:1], os.getcwd(), *sys.path]
    codes = [KILLED.format(path=path, base=served.base, node=host(served, i)[0]) for i in range(3)]
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for code in codes]
    numbers = [int(p.stdout.readline()) for p in running]
    survivor = Raw(served.base)
    assert int(PortInfo.cap_mask.get(served.fabric.port_info[host(served, 0)[1]])) & CapMask.IS_SM
    for p in running:
        p.send_signal(signal.SIGKILL)
        p.wait()
    for i in range(50):
        survivor.send(mad(tid=i))
        assert tid_of(survivor.receive()[1]) & 0xFF == i
    assert wait_for(lambda: not set(numbers) & set(served.server.clients))
    assert not int(PortInfo.cap_mask.get(served.fabric.port_info[host(served, 0)[1]])) & CapMask.IS_SM
    survivor.close()


def test_udp_mode():
    import socket

    base = next(p for p in range(41000, 60000, 300) if free(p))
    s = Serving(generate("fat-tree", radix=4, levels=2), UdpSockets(port=base))
    ctl, data = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    for one in (ctl, data):
        one.bind(("127.0.0.1", 0))
        one.settimeout(60)
    ctl.connect(("127.0.0.1", base))
    info = struct.pack("=3I32s", data.getsockname()[1], 0, 0, b"")
    ctl.send(struct.pack("=4I", MAGIC, 0, CONNECT, 44) + info.ljust(64, b"\0"))
    reply = ctl.recv(100)
    number = struct.unpack_from("=I", reply, 16)[0]
    data.connect(("127.0.0.1", base + 1 + number))
    data.send(struct.pack(">HHHHIIIIQ", 0xFFFF, 0, 0xFFFF, 0, 0, 0, 0, 0, 256) + mad(tid=6).tobytes())
    assert data.recv(1000)[32 + 15] == 6
    data.close()
    ctl.close()
    s.stop()


def free(port: int) -> bool:
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
