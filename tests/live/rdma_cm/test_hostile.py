"""Programs that speak to the daemon's rdma_cm socket themselves, and say anything."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import socket
import stat

import pytest

from softib.fabric.topologies.registry import generate
from softib.live.rdma_cm.wire import constant, layout
from tests.live.rdma_cm.lab import CLIENT, A, B
from tests.live.rdma_cm.serving import CmServing
from tests.live.serving import wait_for


@pytest.fixture(scope="module")
def served(cm_library, own_library):
    s = CmServing(generate("fat-tree", radix=4, levels=2), cm_library, own_library)
    yield s
    s.stop()


class Raw:
    """A connection to the daemon's socket."""

    def __init__(self, served: CmServing):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(60)
        self.sock.connect(str(served.cm.path))

    def greet(self, **words) -> tuple[int, int]:
        """(errno, number)"""
        right = {"magic": constant("MAGIC"), "version": constant("VERSION")}
        self.sock.send(layout("hello").pack(right | words))
        told = layout("reply").unpack(self.sock.recv(4096))
        return told.error, told.number


def process(served: CmServing) -> tuple[Raw, int]:
    raw = Raw(served)
    view = served.view(A)
    error, number = raw.greet(kind=constant("PROCESS"), view=view.name.encode())
    assert not error
    return raw, number


def still_works(served: CmServing) -> None:
    """Nobody listens, says the other host."""
    out = served.play(A, CLIENT + "print(u.expect(REJECTED).status)", port=1, ip=served.ip(B), path=served.path(A, B))
    assert out.split() == ["8"]


def test_only_its_user_may_open_it(served):
    assert stat.S_IMODE(os.stat(served.cm.path).st_mode) == 0o600


@pytest.mark.parametrize(
    "words", [{"magic": 1}, {"version": 99}, {"kind": 77}, {"view": b"nobody", "kind": 1}, {"kind": 2, "process": 4711}]
)
def test_wrong_greetings_are_refused(served, words):
    assert Raw(served).greet(**words)[0] != 0
    still_works(served)


@pytest.mark.parametrize("seed", range(6))
def test_any_questions(served, seed):
    """Right sizes and operations, everything else by chance; ids are used again and again."""
    rng = random.Random(seed)
    raw, number = process(served)
    channel = Raw(served)
    error, mine = channel.greet(kind=constant("CHANNEL"), process=number)
    assert not error
    channel.sock.setblocking(False)
    addresses = [
        b"\2\0\0\7" + socket.inet_aton(ip)
        for ip in (served.ip(A), served.ip(B), "127.0.0.1", "0.0.0.0", "239.1.2.3", "8.8.8.8")
    ]
    path = bytes.fromhex(served.path(A, B))
    for _ in range(3000):
        chance = lambda *known, bits=32: rng.choice([*known, rng.getrandbits(bits)])
        octets = lambda *known: rng.choice([*known, rng.randbytes(48)])
        raw.sock.send(
            layout("ask").pack(
                {
                    "op": rng.randrange(0, 18),
                    "answer": 0,
                    "number": rng.choice([1, 2, 3, 4, 0x80000001, 0x80000002]),
                    "channel": chance(mine),
                    "other": chance(1, 2, mine),
                    "timeout_ms": chance(1, 100),
                    "qpn": chance(5),
                    "psn": chance(1),
                    "ps": chance(0x0106, 0x0111, 2, 0x013F, bits=16),
                    "qp_type": chance(2, 3, 4, 10, bits=8),
                    "flags": rng.randrange(4),
                    "private_length": chance(0, 56, bits=16),
                    "join_state": rng.choice([1, 8, 0, 255]),
                    "source": octets(*addresses),
                    "target": octets(*addresses),
                    "path": rng.choice([path, rng.randbytes(64)]),
                    "private_data": rng.randbytes(256),
                }
            )
        )
        with contextlib.suppress(BlockingIOError):
            channel.sock.recv(4096)
    still_works(served)
    raw.sock.close()
    channel.sock.close()
    still_works(served)
    services = served.cm.ucma.services
    assert wait_for(lambda: not services._bound and not services._masked), "something of a dead program is still bound"


def test_a_program_that_never_reads_its_events(served):
    """They wait in the daemon, and go with the program."""
    raw, number = process(served)
    channel = Raw(served)
    _, mine = channel.greet(kind=constant("CHANNEL"), process=number)
    target = b"\2\0\0\7" + socket.inet_aton("8.8.8.8")
    for i in range(3000):
        ask = {"op": constant("RESOLVE_ADDR"), "number": 1 + i, "channel": mine, "ps": 0x0106, "qp_type": 2}
        raw.sock.send(layout("ask").pack(ask | {"target": target}))
    still_works(served)
    raw.sock.close()
    still_works(served)


def test_unread_events_have_a_bound_and_then_requests_fail(served):
    """A program that asks again and again for one id and reads nothing: ENOMEM, as for a kernel without memory for one more."""
    raw, number = process(served)
    channel = Raw(served)
    _, mine = channel.greet(kind=constant("CHANNEL"), process=number)
    target = b"\2\0\0\7" + socket.inet_aton("8.8.8.8")
    ask = {"number": 1, "channel": mine, "ps": 0x0106, "qp_type": 2, "target": target, "answer": 1}
    errors = []
    for _ in range(5000):
        raw.sock.send(layout("ask").pack(ask | {"op": constant("RESOLVE_ADDR")}))
        errors.append(layout("reply").unpack(raw.sock.recv(4096)).error)
    assert set(errors) == {0, errno.ENOMEM} and errors[:1024] == [0] * 1024 and errors[-1] == errno.ENOMEM
    (seen,) = (p for p in served.cm.processes.values() if p.number == number)
    assert seen.unread <= 1024 + 16 + 1
    for _ in range(3000):  # nor by events that it puts back
        raw.sock.send(layout("ask").pack({"op": constant("POST"), "channel": mine}) + layout("reply").pack({}))
    still_works(served)
    assert seen.unread <= 2 * (1024 + 16) + 1
    raw.sock.send(layout("ask").pack(ask | {"op": constant("DESTROY")}))
    assert layout("reply").unpack(raw.sock.recv(4096)).error == 0
    while seen.unread:  # the daemon counts an event as read a moment after it was: the last one may be here already
        with contextlib.suppress(BlockingIOError):
            channel.sock.recv(4096, socket.MSG_DONTWAIT)
    raw.sock.send(layout("ask").pack(ask | {"op": constant("RESOLVE_ADDR"), "number": 2}))
    assert layout("reply").unpack(raw.sock.recv(4096)).error == 0, "once they are read it goes on"
    raw.sock.close()


@pytest.mark.parametrize("op", ["POST", "DESTROY", "RESOLVE_ADDR"])
def test_replies_that_nobody_reads_are_lost_and_nothing_else(served, op):
    """The server's thread raises what the daemon would log as a bug of its own."""
    raw, _ = process(served)
    raw.sock.settimeout(60)
    for _ in range(
        3000
    ):  # more than the socket holds replies; a server that waited for their reader would take no more
        raw.sock.send(layout("ask").pack({"op": constant(op), "answer": 1, "ps": 0x0106, "qp_type": 2}))
    still_works(served)
    raw.sock.close()


def test_messages_of_other_sizes(served):
    raw, _ = process(served)
    raw.sock.send(b"x")
    assert raw.sock.recv(10) == b"", "closed"
    raw, _ = process(served)
    raw.sock.send(layout("ask").pack({"op": constant("POST")}) + b"y" * 900)
    still_works(served)
