"""A server in a thread of the test, stock programs on its nodes, and a raw client that speaks the datagrams."""

from __future__ import annotations

import itertools
import os
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.fabric.model import Fabric
from softib.live.clock import clock_ps
from softib.live.daemon import EventLoop
from softib.live.ibsim.server import IbsimServer
from softib.live.ibsim.sockets import UnixSockets
from softib.live.mad_router import MadRouter

PRELOAD = Path("/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so")
MAGIC = 0xDEADBEEF
(
    ERROR,
    CONNECT,
    DISCONNECT,
    GET_PORT,
    GET_VENDOR,
    GET_GID,
    GET_GUID,
    GET_NODEINFO,
    GET_PORTINFO,
    SET_ISSM,
    GET_PKEYS,
) = range(11)
_count = itertools.count()


def own_name() -> str:
    """A socket name that no other test and no user has."""
    return f"softib-test-{os.getpid()}-{next(_count)}"


class Serving(threading.Thread):
    """Serves ``fabric`` until :meth:`stop`. ``calls`` run in the server's thread."""

    def __init__(self, fabric: Fabric, sockets=None, **options):
        super().__init__(daemon=True)
        self.fabric, self.base = fabric, own_name()
        self.router = MadRouter(AgentPlane(fabric))
        self.server = IbsimServer(self.router, sockets or UnixSockets(self.base), **options)
        self.loop = EventLoop(self.server.selector, self.router, self.server, on_ready=self.router.on_ready)
        self.calls: list = []
        self.running = True
        self.failure: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            while self.running:
                self.loop.step(0.02)
                while self.calls:
                    self.calls.pop(0)()
        except BaseException as failure:
            self.failure = failure
            raise

    def do(self, function, *args) -> None:
        """Call in the server's thread and wait for it."""
        done = threading.Event()
        self.calls.append(lambda: (function(*args), done.set()))
        assert done.wait(300), "kernels may have to be compiled first"

    def set_link(self, port: int, up: bool) -> None:
        self.do(lambda: self.router.set_link(port, up, clock_ps()))

    def stop(self) -> None:
        self.running = False
        self.join(60)
        assert self.failure is None and not self.is_alive(), self.failure
        self.server.close()

    def environment(self, node: str = "", **more: str) -> dict[str, str]:
        """For programs on ``node``."""
        if not PRELOAD.is_file():
            pytest.skip("libumad2sim.so (ibsim-utils) is not installed")
        env = {**os.environ, "LD_PRELOAD": str(PRELOAD), "IBSIM_SOCKNAME": self.base, **more}
        return {**env, "SIM_HOST": node} if node else env


def run(folder: Path, env: dict[str, str], *command: str, seconds: float = 240) -> tuple[int, str]:
    """Exit code and stdout + stderr of a stock program that must end within ``seconds``."""
    env = {**env, "OSM_CACHE_DIR": str(folder), "OSM_TMP_DIR": str(folder)}
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=seconds)
    return done.returncode, done.stdout + done.stderr


def address(name: str) -> bytes:
    return b"\0" + name.encode() + b"\0"


class Raw:
    """A client of the protocol as bytes, without the stock library."""

    ids = itertools.count(os.getpid() * 1000 % 1_000_000_000)

    def __init__(self, base: str, node: str = "", issm: int = 0, connect: bool = True):
        self.pid = next(self.ids)
        self.control, self.data = (self._bound(f"{base}:{kind}{self.pid}") for kind in ("ctl", "in"))
        self.control.connect(address(f"{base}:ctl"))
        self.base, self.number = base, 0
        if connect:
            kind, body = self.ask(CONNECT, struct.pack("=3I32s", self.pid, 0, issm, node.encode()))
            if kind != CONNECT:
                raise ConnectionError(node)
            self.number = struct.unpack_from("=I", body)[0]
            self.node = body[12:44].split(b"\0")[0].decode()
            self.data.connect(address(f"{base}:out{self.number}"))

    @staticmethod
    def _bound(name: str) -> socket.socket:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        s.bind(address(name))
        s.settimeout(60)
        return s

    def ask(self, kind: int, body: bytes = b"", length: int | None = None) -> tuple[int, bytes]:
        """Type and body of the answer; everything else in it must be the question's."""
        length = len(body) if length is None else length
        self.control.send(struct.pack("=4I", MAGIC, self.number, kind, length) + body.ljust(64, b"\0"))
        reply = self.control.recv(4096)
        assert len(reply) == 80
        magic, number, got, told = struct.unpack_from("=4I", reply)
        assert (magic, number, told) == (MAGIC, self.number, length)
        return got, reply[16:]

    def send(self, mad: np.ndarray, dlid: int = 0xFFFF, dqp: int = 0, sqp: int = 0) -> None:
        slid = 0xFFFF if dlid == 0xFFFF else 0
        self.data.send(struct.pack(">HHHHIIIIQ", dlid, 0, slid, 0, dqp, sqp, 0, 0xABCD, 256) + mad.tobytes())

    def receive(self, seconds: float = 60) -> tuple[dict[str, int], np.ndarray]:
        self.data.settimeout(seconds)
        message = self.data.recv(4096)
        assert len(message) == 288
        dlid, a, slid, b, dqp, sqp, status, pad, length = struct.unpack_from(">HHHHIIIIQ", message)
        assert (a, b, pad, length) == (0, 0, 0, 256)
        return {"dlid": dlid, "slid": slid, "dqp": dqp, "sqp": sqp, "status": status}, np.frombuffer(
            message[32:], np.uint8
        )

    def repress(self, head: dict[str, int], trap: np.ndarray) -> None:
        """Answer ``trap`` as a manager does; or it comes again."""
        back = trap.copy()
        back[3] = 7
        self.send(back, head["slid"])

    def trapped(self, count: int = 1) -> None:
        """Wait for ``count`` traps, and answer each."""
        for _ in range(count):
            head, m = self.receive()
            assert m[3] == 5, m[:64]
            self.repress(head, m)

    def silent(self, seconds: float = 0.2) -> bool:
        try:
            self.receive(seconds)
        except TimeoutError:
            return True
        return False

    def close(self, goodbye: bool = True) -> None:
        if goodbye:
            assert self.ask(DISCONNECT)[0] == DISCONNECT
        self.control.close()
        self.data.close()


def mad(
    klass: int = 0x81,
    method: int = 1,
    attr: int = 0x11,
    modifier: int = 0,
    tid: int = 0,
    path=(),
    version: int = 1,
    data: bytes = b"",
) -> np.ndarray:
    """A MAD; ``path`` are the egress portnums of a directed route."""
    m = np.zeros(256, np.uint8)
    m[:4] = 1, klass, version, method
    m[8:16] = list(struct.pack(">Q", tid))
    m[16:18] = attr >> 8, attr & 255
    m[20:24] = list(struct.pack(">I", modifier))
    if klass == 0x81:
        m[7] = len(path)
        m[32:36] = 255
        m[129 : 129 + len(path)] = list(path)
    m[64 : 64 + len(data)] = list(data)
    return m


def tid_of(m: np.ndarray) -> int:
    return int.from_bytes(bytes(m[8:16]), "big")


def wait_for(what, seconds: float = 240.0) -> bool:
    """Poll until ``what()`` is true. The bound is against a hang: how fast something is, no test of the default run asks, and kernels may be
    compiled meanwhile beside other load."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if what():
            return True
        time.sleep(0.02)
    return bool(what())


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])
