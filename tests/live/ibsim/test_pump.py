"""What is answered in one call that receives, answers and sends is what Python between these three steps answers."""

from __future__ import annotations

import selectors
import socket

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.fabric.topologies.registry import generate
from softib.iba.constants import Method, MgmtClass, SmpAttr
from softib.live.ibsim.client import Client
from softib.live.ibsim.server import IbsimServer
from softib.live.ibsim.sockets import UnixSockets
from softib.live.ibsim.wire import FRAME_SIZE
from softib.live.mad_router import MadRouter
from softib.live.umad.agents import Agent
from softib.live.umad.file import UmadFile
from softib.live.umad.requests import UmadRequests
from tests.live.serving import own_name

MESSAGE_SIZE = 320
CLASSES = [int(c) for c in (MgmtClass.SUBN_DR, MgmtClass.SUBN_LID, MgmtClass.PERF, MgmtClass.SUBN_ADM)]
ATTRIBUTES = [int(a) for a in SmpAttr] + [0x12, 0x1D, 0x7777]
METHODS = [int(Method.GET), int(Method.SET), int(Method.GET), 0x81, 5]


def mads(n: int) -> np.ndarray:
    """uint8[n, 256]: mostly right requests along routes of up to three hops, some wrong in one thing or another."""
    rng = np.random.default_rng(11)
    m = np.zeros((n, 256), np.uint8)
    m[:, 0] = np.where(rng.random(n) < 0.95, 1, 2)
    m[:, 1], m[:, 3] = rng.choice(CLASSES, n, p=[0.7, 0.1, 0.15, 0.05]), rng.choice(METHODS, n)
    m[:, 2] = np.where(m[:, 1] == CLASSES[3], 2, 1)
    directed = m[:, 1] == CLASSES[0]
    m[:, 7] = np.where(directed, rng.integers(0, 4, n), 0)
    m[:, 8:16] = rng.integers(0, 256, (n, 8))
    m[:, 17], m[:, 23] = rng.choice(ATTRIBUTES, n) & 255, rng.integers(0, 6, n)
    m[directed, 32:36] = 255
    m[:, 64:128] = rng.integers(0, 256, (n, 64)) * (rng.random((n, 1)) < 0.3)
    m[:, 129:132] = rng.integers(0, 10, (n, 3))
    return m


class One:
    """A fabric of its own and a program's socket on its first host."""

    def __init__(self, kind: int):
        self.fabric = generate("fat-tree", radix=4, levels=2)
        self.port = int(np.flatnonzero(self.fabric.linked & ~self.fabric.is_switch[self.fabric.port_node])[0])
        self.router = MadRouter(AgentPlane(self.fabric))
        self.ours, self.program = socket.socketpair(socket.AF_UNIX, kind)
        self.ours.setblocking(False)
        self.program.setblocking(False)

    def replies(self) -> list[bytes]:
        """All that came back."""
        found = []
        while True:
            try:
                found.append(self.program.recv(1024))
            except BlockingIOError:
                return found

    def state(self) -> list:
        """What the MADs left behind in the fabric, and what the router counted."""
        router = self.router
        return [
            self.fabric.port_info.tobytes(),
            self.fabric.lft.tobytes(),
            self.router.plane.tables.counters.tobytes(),
            router.answered,
            router.bounced,
            router.forwarded,
            router.epoch > 0,
        ]

    def close(self) -> None:
        self.ours.close()
        self.program.close()


@pytest.mark.parametrize("at_once", [1, 5])
def test_ibsim_clients(at_once: int) -> None:
    both = [One(socket.SOCK_DGRAM), One(socket.SOCK_DGRAM)]
    ready = selectors.DefaultSelector()
    for one in both:
        ready.register(one.ours, selectors.EVENT_READ)
    clients = [Client(1, one.port, one.ours, None, None, "test", 0, ready) for one in both]
    for one, client in zip(both, clients, strict=True):
        one.router.join(client)
        one.server = IbsimServer(one.router, UnixSockets(own_name()))
    both[1].router.pumps = False
    frames = np.zeros((200, FRAME_SIZE), np.uint8)
    frames[:, 32:] = mads(len(frames))
    frames[:, :2], frames[:, 30] = 255, 1
    frames[frames[:, 33] != CLASSES[0], :2] = 0, 3
    for i in range(0, len(frames), at_once):
        for one in both:
            for frame in frames[i : i + at_once]:
                one.program.send(frame)
        pumped, python = both
        pumped.server.serve(clients[0])
        python.server.serve(clients[1])
        assert pumped.replies() == python.replies(), i
    assert both[0].state() == both[1].state() and both[0].router.answered > 50
    for one in both:
        one.server.close()
        one.close()


def test_umad_programs() -> None:
    both = [One(socket.SOCK_SEQPACKET), One(socket.SOCK_SEQPACKET)]
    readers = []
    for one in both:
        requests: list[UmadRequests] = []
        file = UmadFile(
            one.fabric,
            1,
            one.port,
            one.ours,
            "test",
            0,
            selectors.DefaultSelector(),
            lambda requests=requests: requests[0].ancillary,
        )
        requests.append(UmadRequests(one.router, {1: file}))
        assert file.table.add(Agent(0, 0, 0, 0, 0, False), 0, ()) == (0, 0)
        one.router.join(file)
        readers.append((requests[0], file))
    both[1].router.pumps = False
    messages = np.zeros((200, MESSAGE_SIZE), np.uint8)
    messages[:, 64:] = mads(len(messages))
    messages[:, 28:30], messages[:, 8:10] = 255, 10
    messages[messages[:, 65] != CLASSES[0], 28:30] = 0, 3
    for i, message in enumerate(messages):
        for one, (reader, file) in zip(both, readers, strict=True):
            one.program.send(message)
            reader.read(file)
        assert both[0].replies() == both[1].replies(), i
    assert both[0].state() == both[1].state() and both[0].router.answered > 50
    for one in both:
        one.close()
