"""Played in a program of its own under the preload library: scenes that use the kernel's umad ABI by its numbers alone.

The layouts are those of the kernel's include/uapi/rdma/ib_user_mad.h, written here a second time on purpose.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import select
import struct
import sys
import threading
import time
from pathlib import Path

REGISTER, UNREGISTER, ENABLE_PKEY, REGISTER2 = 0xC01C1B01, 0x40041B02, 0x1B03, 0xC0281B04
HEAD = struct.Struct("=5I4s4s2s6B16s4sH6x")
REQUEST, REQUEST2 = struct.Struct("=I16sBBB3sB1x"), struct.Struct("=IIBBHI16sIB3x")
assert (HEAD.size, REQUEST.size, REQUEST2.size) == (64, 28, 40)
PING = 0x32  # a vendor class with OUI, for which RMPP exists
OUI = b"\x00\x14\x05"
MS = 0.001


def sees(what: int, call, *args) -> None:
    """The call fails with this errno."""
    try:
        got = call(*args)
    except OSError as error:
        assert error.errno == what, (errno.errorcode[error.errno], errno.errorcode[what])
    else:
        raise AssertionError(f"no {errno.errorcode[what]}: {got!r}")


def mask(*methods: int) -> bytes:
    return sum(1 << m for m in methods).to_bytes(16, sys.byteorder)


class Port:
    """An open umad device."""

    def __init__(self, number: int, flags: int = 0, pkey: bool = True):
        self.fd = os.open(f"/dev/infiniband/umad{number}", os.O_RDWR | flags)
        self.head = 64 if pkey else 56
        if pkey:
            fcntl.ioctl(self.fd, ENABLE_PKEY, 0)

    def register(
        self,
        klass: int,
        qpn: int = 1,
        version: int = 1,
        methods: bytes = bytes(16),
        rmpp: int = 0,
        oui: bytes = bytes(3),
    ) -> int:
        asked = bytearray(REQUEST.pack(0, methods, qpn, klass, version, oui, rmpp))
        fcntl.ioctl(self.fd, REGISTER, asked)
        return REQUEST.unpack(asked)[0]

    def register2(
        self,
        klass: int,
        qpn: int = 1,
        version: int = 1,
        flags: int = 0,
        methods: bytes = bytes(16),
        oui: int = 0,
        rmpp: int = 0,
    ) -> int:
        asked = bytearray(REQUEST2.pack(0, qpn, klass, version, 0, flags, methods, oui, rmpp))
        try:
            fcntl.ioctl(self.fd, REGISTER2, asked)
        finally:
            self.flags = REQUEST2.unpack(asked)[5]
        return REQUEST2.unpack(asked)[0]

    def unregister(self, agent: int) -> None:
        fcntl.ioctl(self.fd, UNREGISTER, struct.pack("=I", agent))

    def write(
        self, agent: int, mad: bytes, lid: int = 0xFFFF, qpn: int = 0, timeout_ms: int = 1000, retries: int = 0
    ) -> int:
        head = HEAD.pack(
            agent,
            0,
            timeout_ms,
            retries,
            0,
            struct.pack(">I", qpn),
            b"\x80\x01\0\0" if qpn else bytes(4),
            struct.pack(">H", lid),
            0,
            0,
            0,
            0,
            0,
            0,
            bytes(16),
            bytes(4),
            0,
        )
        return os.write(self.fd, head[: self.head] + mad)

    def read(self, room: int = 256) -> tuple[dict, bytes]:
        got = os.read(self.fd, self.head + room)
        fields = HEAD.unpack(got[: self.head].ljust(64, b"\0"))
        names = ("agent", "status", "timeout_ms", "retries", "length", "qpn", "qkey", "lid")
        head = dict(zip(names, fields, strict=False))
        head["lid"] = int.from_bytes(head["lid"], "big")
        assert head["length"] == len(got), (head, len(got))
        return head, got[self.head :]


def smp(attr: int, tid: int, path: tuple[int, ...] = (), modifier: int = 0) -> bytes:
    m = bytearray(256)
    m[:4] = 1, 0x81, 1, 1
    m[7] = len(path)
    m[8:16] = tid.to_bytes(8, "big")
    m[16:18] = attr.to_bytes(2, "big")
    m[20:24] = modifier.to_bytes(4, "big")
    m[32:36] = b"\xff" * 4
    m[129 : 129 + len(path)] = bytes(path)
    return bytes(m)


def vendor(method: int, tid: int, data: bytes, flags: int = 0) -> bytes:
    """A MAD of the vendor class: 24 octets common, 12 RMPP, 1 reserved, 3 OUI, data."""
    rmpp = bytes((1, 1, flags, 0)) + bytes(8) if flags else bytes(12)
    return bytes((1, PING, 1, method)) + bytes(4) + tid.to_bytes(8, "big") + bytes(8) + rmpp + b"\0" + OUI + data


# -- scenes --


def registration() -> None:
    """Numbers, refusals and the end of agents."""
    p = Port(0)
    assert [p.register(0x81, 0), p.register(0x04), p.register2(0x03, version=2, rmpp=1)] == [0, 1, 2]
    sees(errno.EINVAL, fcntl.ioctl, p.fd, ENABLE_PKEY, 0)  # not after something was done
    sees(errno.EINVAL, p.register, 0x81, 1)  # SMPs belong to QP 0
    sees(errno.EINVAL, p.register, 0x04, 0)
    sees(errno.EINVAL, p.register, 0x04, 2)
    sees(errno.EINVAL, p.register, 0x04, 1, 9)  # there are 8 class versions
    sees(errno.EINVAL, p.register, 0x60)
    sees(errno.EINVAL, p.register, PING)  # without OUI
    sees(errno.EINVAL, p.register, 0x04, 1, 1, bytes(16), 1)  # no RMPP in this class
    sees(errno.EINVAL, p.register2, 0x04, 1, 1, 0x10)
    assert p.flags == 1  # what flags there are
    assert p.register(0x04, methods=mask(1, 2)) == 3
    other = Port(0)
    sees(errno.EINVAL, other.register, 0x04, 1, 1, mask(2, 3))  # one taker of a method on a port
    assert other.register(0x04, methods=mask(3)) == 0
    p.unregister(3)
    sees(errno.EINVAL, p.unregister, 3)
    assert other.register(0x04, methods=mask(2)) == 1 and p.register(0x04) == 3  # numbers are used again
    for _ in range(28):
        p.register(0x04)
    sees(errno.ENOMEM, p.register, 0x04)
    os.close(p.fd)
    sees(errno.EBADF, os.read, p.fd, 320)
    sees(errno.ENXIO, os.open, "/dev/infiniband/umad99", os.O_RDWR)


def rules() -> None:
    """What a write or read that is wrong gets, and that it spoils nothing."""
    p = Port(0, os.O_NONBLOCK)
    sees(errno.EINVAL, p.write, 0, smp(0x11, 1))  # nobody registered
    agent = p.register(0x81, 0)
    sees(errno.EINVAL, p.write, agent, smp(0x11, 1)[:35])
    sees(errno.EINVAL, p.write, agent, smp(0x11, 1) + b"\0")
    sees(errno.EAGAIN, p.read)
    assert p.write(agent, smp(0x11, 0x1122334455667788)) == 320
    assert select.select([p.fd], [], [], 60)[0]
    sees(errno.EINVAL, p.read, 255)
    sees(errno.EINVAL, os.read, p.fd, 63)
    head, mad = p.read()
    assert (head["agent"], head["status"], mad[3]) == (agent, 0, 0x81)
    assert mad[12:16] == bytes.fromhex("55667788")  # the program's half of the TID
    sees(errno.EAGAIN, p.read)
    old = Port(0, pkey=False)
    agent = old.register(0x81, 0)
    assert old.write(agent, smp(0x10, 9)) == 312
    head, mad = old.read()
    assert head["length"] == 312 and mad[15] == 9


def waiting() -> None:
    """poll, select and epoll see the descriptor as any other; fork and dup share it."""
    p = Port(0)
    agent = p.register(0x81, 0)
    loop, poll = select.epoll(), select.poll()
    loop.register(p.fd, select.EPOLLIN)
    poll.register(p.fd, select.POLLIN)
    assert loop.poll(0.05) == [] and poll.poll(50) == []
    p.write(agent, smp(0x11, 1))
    assert loop.poll(60) == [(p.fd, select.EPOLLIN)] and poll.poll(60_000) == [(p.fd, select.POLLIN)]
    p.read()
    twin = os.dup(p.fd)
    os.close(p.fd)
    p.fd = twin
    p.write(agent, smp(0x11, 2))
    assert p.read()[1][15] == 2
    if not (child := os.fork()):
        p.write(agent, smp(0x11, 3))
        good = p.read()[1][15] == 3
        os.close(p.fd)
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    p.write(agent, smp(0x11, 4))  # the child's close was the child's
    assert p.read()[1][15] == 4
    # A thread that waits in read() is no obstacle for one that writes.
    got: list = []
    reader = threading.Thread(target=lambda: got.append(p.read()))
    reader.start()
    time.sleep(0.1)
    p.write(agent, smp(0x11, 5))
    reader.join(60)
    assert got and got[0][1][15] == 5


def timeouts() -> None:
    """A request that nobody answers comes back after timeout * (retries + 1), as its header alone."""
    p = Port(0)
    agent = p.register(0x04)
    mad = bytes((1, 4, 1, 1)) + bytes(4) + (77).to_bytes(8, "big") + b"\0\x01" + bytes(238)
    for timeout_ms, retries in ((200, 0), (100, 2)):
        began = time.monotonic()
        p.write(agent, mad, lid=4000, qpn=1, timeout_ms=timeout_ms, retries=retries)
        head, got = p.read()
        took = time.monotonic() - began
        wanted = timeout_ms * (retries + 1) * MS
        assert wanted <= took < wanted + 20, (took, wanted)
        assert head["status"] == errno.ETIMEDOUT and len(got) == 24 and got[12:16] == mad[12:16], (head, got)
    # Nobody waits for an answer: none comes.
    p.write(agent, mad, lid=4000, qpn=1, timeout_ms=0)
    assert not select.select([p.fd], [], [], 0.3)[0]


def both_ends(lid: str) -> None:
    """A request from one port to a program on another, and its answer: whole MADs, then RMPP messages of many sizes."""
    rng = random.Random(1)
    server, client = Port(1), Port(0)
    served = server.register(PING, methods=mask(1), rmpp=1, oui=OUI)
    asking = client.register(PING, rmpp=1, oui=OUI)
    data = rng.randbytes(216)
    client.write(asking, vendor(1, 5, data), lid=int(lid), qpn=1)
    head, mad = server.read()
    assert head["agent"] == served and len(mad) == 256 and mad[40:] == data
    for tid, octets in enumerate((0, 1, 215, 216, 217, 432, 433, 10_000, 3_000_000), 100):
        data = rng.randbytes(octets)
        client.write(asking, vendor(1, tid, bytes(216)), lid=int(lid), qpn=1, timeout_ms=60_000)
        head, mad = server.read()
        back = mad[:3] + bytes((0x81,)) + mad[4:24] + bytes((1, 1, 1, 0)) + bytes(8) + mad[36:40] + data
        server.write(served, back, lid=head["lid"], qpn=1, timeout_ms=0)
        if octets > 216:
            try:
                client.read()
                raise AssertionError("no ENOSPC")
            except OSError as error:
                assert error.errno == errno.ENOSPC
        head, got = client.read(len(back))
        assert head["status"] == 0 and got[15] == tid and got[40:] == data, (octets, head, len(got))
        segments = max(1, -(-octets // 216))
        flags, segment, payload = got[26] & 7, got[28:32], int.from_bytes(got[32:36], "big")
        assert flags == (7 if segments == 1 else 3) and segment == b"\0\0\0\1"
        assert payload == 220 * segments - (216 * segments - octets), (octets, payload)
    server.unregister(served)
    client.write(asking, vendor(1, 6, bytes(216)), lid=int(lid), qpn=1, timeout_ms=150)
    assert client.read()[0]["status"] == errno.ETIMEDOUT  # nobody there takes it any more


def issm() -> None:
    """One manager a port; the second comes when the first has gone."""
    first = os.open("/dev/infiniband/issm0", os.O_RDONLY)
    cap = lambda: int(Path("/sys/class/infiniband/mlx5_0/ports/1/cap_mask").read_text(), 16)
    assert cap() & 2
    sees(errno.EAGAIN, os.open, "/dev/infiniband/issm0", os.O_RDONLY | os.O_NONBLOCK)
    os.close(first)
    deadline = time.monotonic() + 60
    while cap() & 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not cap() & 2
    os.close(os.open("/dev/infiniband/issm0", os.O_RDONLY | os.O_NONBLOCK))


def many(count: str) -> None:
    """More requests at once than sockets hold, written before anything is read."""
    p = Port(0)
    agent = p.register(0x81, 0)
    for tid in range(int(count)):
        p.write(agent, smp(0x11, tid))
    seen = sorted(int.from_bytes(p.read()[1][12:16], "big") for _ in range(int(count)))
    assert seen == list(range(int(count)))


def orphaned() -> None:
    """The daemon dies: what waits for an answer comes back once as timed out, and then the device is gone."""
    p = Port(0)
    smps, agent = p.register(0x81, 0), p.register(0x04)
    p.write(smps, smp(0x11, 7), timeout_ms=60_000)
    assert p.read()[0]["status"] == 0  # answered: it does not come back
    mad = lambda tid: bytes((1, 4, 1, 1)) + bytes(4) + tid.to_bytes(8, "big") + b"\0\x01" + bytes(238)
    p.write(agent, mad(99), lid=4000, qpn=1, timeout_ms=0)  # nobody waits for this one
    for tid in (1, 2, 3):
        p.write(agent, mad(tid), lid=4000, qpn=1, timeout_ms=60_000)
    p.write(agent, mad(50), lid=4000, qpn=1, timeout_ms=100)
    assert p.read()[0]["status"] == errno.ETIMEDOUT  # its time was over
    print("asked", flush=True)
    back = [p.read() for _ in range(3)]
    assert all(head["status"] == errno.ETIMEDOUT and head["agent"] == agent and len(got) == 24 for head, got in back), (
        back
    )
    assert sorted(got[15] for _, got in back) == [1, 2, 3]
    sees(errno.EIO, p.read)
    sees(errno.EIO, p.write, agent, mad(4), 4000, 1)
    sees(errno.EIO, p.read)


def hold() -> None:
    """Register, say so, and wait to be killed."""
    p = Port(0)
    p.register(0x04, methods=mask(1))
    os.open("/dev/infiniband/issm0", os.O_RDONLY)
    print("holding", flush=True)
    p.read()


def sa(method: int, attr: int, tid: int, mask: int, record: bytes) -> bytes:
    """A request to the subnet administrator: 24 octets common, 12 RMPP, 8 key, 2 offset, 2, 8 component mask, record."""
    head = bytes((1, 3, 2, method)) + bytes(4) + tid.to_bytes(8, "big") + attr.to_bytes(2, "big") + bytes(6)
    return (head + bytes(24) + mask.to_bytes(8, "big") + record).ljust(256, b"\0")


def subscriber() -> None:
    """Join the IPv4 broadcast group, subscribe to all traps, offer a service, say so, and wait to be killed."""
    place = Path("/sys/class/infiniband/mlx5_0/ports/1")
    words = (place / "gids/0").read_text().strip().replace(":", "")
    gid, sm = bytes.fromhex(words), int((place / "sm_lid").read_text(), 16)
    mgid = bytes.fromhex("ff12401bffff000000000000ffffffff")
    # MCMemberRecord: MGID, PortGID, …, scope and JoinState at 48; InformInfo; ServiceRecord with a name at 48.
    member = mgid + gid + bytes(16) + bytes((0x21,)) + bytes(7)
    inform = bytes(16) + b"\xff\xff" + bytes(4) + b"\1\1" + b"\xff\xff" * 2 + bytes(3) + b"\x13" + b"\0\xff\xff\xff"
    service = (
        (0x1000BEEF).to_bytes(8, "big")
        + gid
        + b"\xff\xff"
        + bytes(2)
        + b"\xff" * 4
        + bytes(16)
        + b"softib".ljust(64, b"\0")
        + bytes(64)
    )
    p = Port(0)
    agent = p.register(0x03, version=2, rmpp=1)
    for tid, (attr, mask, record) in enumerate(((0x38, 0x10003, member), (3, 0, inform), (0x31, 0x77, service)), 1):
        p.write(agent, sa(2, attr, tid, mask, record), lid=sm, qpn=1)
        head, answer = p.read()
        assert head["status"] == 0 and answer[3] == 0x81 and answer[4:6] == b"\0\0", (attr, head, answer[:64].hex())
    print("holding", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
