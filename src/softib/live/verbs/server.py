"""Where programs under ``libsoftib-verbs.so`` join the fabric: they get a number, and are known dead when they hang up.

Messages: ``preload/verbs/fabric/server.h``. The data path does not come by here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import socket
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from softib.live.c_header import CHeader
from softib.live.mad_router import MadRouter
from softib.live.proc import process_start
from softib.live.verbs.async_events import PortEvents
from softib.live.verbs.shared_heap import SharedHeap
from softib.live.verbs.traffic import Traffic

__all__ = ["HEADER", "Process", "VerbsServer"]

HEADER = CHeader("verbs/fabric/server.h")
types, constant = HEADER.types, HEADER.constant
LAST_NUMBER = 0xFFFF
ROUND = 256
"""Numbers go round in so many, or in twice as many as there are programs: whoever waits looks at all in use."""
LONGEST = 4096
BURST = 64
SUBSCRIPTIONS = 256
"""Descriptors that one process may leave here."""
UNSENT = 1024
"""Events that wait for a descriptor whose socket is full; beyond, the oldest is lost."""
SEND = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
RIGHTS = socket.CMSG_SPACE(4 * struct.calcsize("i"))


def told(error: int = 0, number: int = 0) -> bytes:
    """An answer."""
    answer = np.zeros(1, types()["softib_server_reply"])
    answer["magic"], answer["version"] = constant("SERVER_MAGIC"), constant("SERVER_VERSION")
    answer["error"], answer["number"] = error, number
    return answer.tobytes()


def event(kind: int, portnum: int) -> bytes:
    """An event as programs read it."""
    made = np.zeros(1, types()["softib_event"])
    made["type"], made["portnum"] = kind, portnum
    return made.tobytes()


@dataclass(eq=False)
class Process:
    """A program that has joined. ``events`` are the sockets that it left for events, by node."""

    number: int
    pid: int
    started: int
    view: str
    sock: socket.socket
    events: list[tuple[int, socket.socket]] = field(default_factory=list)


Hook = Callable[[Process], None]


class VerbsServer:
    """Listens at ``folder/verbs.sock`` (mode 0600). ``on_join`` and ``on_leave`` are called with each :class:`Process`:
    before it is told its number, and when its traffic has been added up. Nothing that a client sends hurts the daemon: what is
    not understood ends the connection or is refused."""

    def __init__(self, router: MadRouter, traffic: Traffic, folder: Path, selector: selectors.BaseSelector,
                 clock: Callable[[], int]):  # fmt: skip
        self.router, self.traffic, self.selector, self.clock = router, traffic, selector, clock
        self.path = folder / "verbs.sock"
        self.processes: dict[int, Process] = {}
        self.on_join: list[Hook] = []
        self.on_leave: list[Hook] = []
        self.changes = PortEvents(router.plane)
        self.memory = SharedHeap(folder / "verbs")
        self.unsent: dict[socket.socket, deque[bytes]] = {}
        self._visitors: set[socket.socket] = set()
        self._next = 1
        self.path.unlink(missing_ok=True)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.setblocking(False)
        self.listener.bind(str(self.path))
        os.chmod(self.path, 0o600)
        self.listener.listen(128)
        selector.register(self.listener, selectors.EVENT_READ, self._accept)

    def close(self) -> None:
        """Hang up on everybody; programs are told that their devices are gone."""
        for process in list(self.processes.values()):
            for node, _ in list(process.events):
                self.tell(node, constant("EVENT_DEVICE_FATAL"), 0, only=process)
            self._leave(process)
        for sock in list(self._visitors):
            self._dismiss(sock)
            sock.close()
        self.selector.unregister(self.listener)
        self.listener.close()
        self.path.unlink(missing_ok=True)
        self.memory.close()

    # -- joining --

    def _accept(self, events: int) -> None:
        for _ in range(BURST):
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            sock.setblocking(False)
            self._visitors.add(sock)
            self.selector.register(sock, selectors.EVENT_READ, lambda events, sock=sock: self._greet(sock))
            self._greet(sock)  # mostly it has spoken already

    def _dismiss(self, sock: socket.socket) -> None:
        self._visitors.discard(sock)
        self.selector.unregister(sock)

    def _greet(self, sock: socket.socket) -> None:
        try:
            message = sock.recv(LONGEST)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        self._dismiss(sock)
        error, process = self._welcome(message, sock)
        with contextlib.suppress(OSError):
            if message:
                sock.send(told(error, process.number if process else 0))
        if process is None:
            sock.close()
            return
        self.selector.register(sock, selectors.EVENT_READ, lambda events: self._read(process))

    def _welcome(self, message: bytes, sock: socket.socket) -> tuple[int, Process | None]:
        kind = types()["softib_server_hello"]
        if len(message) < 8 or int.from_bytes(message[:4], "little") != constant("SERVER_MAGIC"):
            return errno.EPROTO, None
        if int.from_bytes(message[4:8], "little") != constant("SERVER_VERSION") or len(message) != kind.itemsize:
            return errno.EPROTO, None  # the answer names our version
        hello = np.frombuffer(message, kind)[0]
        pid = struct.unpack("=3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        number = self._number()
        if number is None:
            return errno.EMFILE, None
        started = process_start(pid) or int(hello["started"])
        process = Process(number, pid, started, hello["view"].decode("utf-8", "replace"), sock)
        self.processes[number] = process
        for hook in self.on_join:
            hook(process)
        return 0, process

    def _number(self) -> int | None:
        """The next that nobody has, and nobody's memory still bears; one that was just given up comes last."""
        taken = self.processes.keys() | self.memory.pending.keys()
        last = min(LAST_NUMBER, max(ROUND, 2 * len(taken)))
        for _ in range(last):
            number, self._next = self._next, self._next % last + 1
            if number not in taken and number <= last:
                return number
        return None

    # -- questions --

    def _read(self, process: Process) -> None:
        for _ in range(BURST):
            fds: list[int] = []
            try:
                message, beside, _, _ = process.sock.recvmsg(LONGEST, RIGHTS, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return
            except OSError:
                message, beside = b"", []
            for level, kind, data in beside:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    fds += struct.unpack(f"{len(data) // 4}i", data[: len(data) // 4 * 4])
            if not message:
                for fd in fds:
                    os.close(fd)
                self._leave(process)
                return
            error = self._answer(process, message, fds)
            for fd in fds:
                os.close(fd)
            with contextlib.suppress(OSError):  # who does not read the answers loses them
                process.sock.send(told(error))

    def _answer(self, process: Process, message: bytes, fds: list[int]) -> int:
        kind = types()["softib_server_ask"]
        if len(message) != kind.itemsize:
            return errno.EPROTO
        asked = np.frombuffer(message, kind)[0]
        if asked["op"] == constant("SERVER_FOLD"):
            self.traffic.fold(self.clock())
            return 0
        if asked["op"] == constant("SERVER_SUBSCRIBE"):
            return self._subscribe(process, int(asked["node"]), fds)
        return errno.ENOTTY

    # -- events --

    def _subscribe(self, process: Process, node: int, fds: list[int]) -> int:
        if node >= self.router.fabric.sizes.nodes or len(fds) != 1:
            return errno.EINVAL
        if len(process.events) >= SUBSCRIPTIONS:
            return errno.EMFILE
        fd = os.dup(fds[0])
        try:
            sock = socket.socket(fileno=fd)
        except OSError as error:
            os.close(fd)
            return error.errno or errno.EBADF
        if sock.family != socket.AF_UNIX or sock.type not in (socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
            sock.close()
            return errno.EPROTOTYPE
        sock.setblocking(False)
        process.events.append((node, sock))
        self.changes.watch(node)
        self.selector.register(sock, selectors.EVENT_READ, lambda events: self._look(process, node, sock, events))
        return 0

    def _look(self, process: Process, node: int, sock: socket.socket, events: int) -> None:
        """An event socket has room again, or its reading end is closed (or writes to us, which is none of its business)."""
        if events & selectors.EVENT_WRITE:
            self._send_unsent(sock)
        if not events & selectors.EVENT_READ:
            return
        with contextlib.suppress(BlockingIOError, ConnectionError):
            if sock.recv(LONGEST):
                return
        self._unsubscribe(process, node, sock)

    def _unsubscribe(self, process: Process, node: int, sock: socket.socket) -> None:
        process.events.remove((node, sock))
        self.changes.unwatch(node)
        self.unsent.pop(sock, None)
        self.selector.unregister(sock)
        sock.close()

    def tell(self, node: int, kind: int, portnum: int, only: Process | None = None) -> None:
        """Write an event of ``node`` to everybody who wants it (or to one process). It waits while there is no room."""
        message = event(kind, portnum)
        for process in [only] if only else list(self.processes.values()):
            for wanted, sock in process.events:
                if wanted == node:
                    self._send(sock, message)

    def _send(self, sock: socket.socket, message: bytes) -> None:
        waiting = self.unsent.get(sock)
        if waiting is not None:
            waiting.append(message)
            return
        try:
            sock.send(message, SEND)
        except BlockingIOError:
            self.unsent[sock] = deque([message], UNSENT)
            self._watch_for_room(sock, True)
        except OSError:
            pass  # nobody reads any more

    def _send_unsent(self, sock: socket.socket) -> None:
        waiting = self.unsent.get(sock, deque())
        try:
            while waiting:
                sock.send(waiting[0], SEND)
                waiting.popleft()
        except BlockingIOError:
            return
        except OSError:
            pass
        self.unsent.pop(sock, None)
        self._watch_for_room(sock, False)

    def _watch_for_room(self, sock: socket.socket, wanted: bool) -> None:
        key = self.selector.get_key(sock)
        self.selector.modify(sock, selectors.EVENT_READ | (selectors.EVENT_WRITE if wanted else 0), key.data)

    def tick(self) -> None:
        """Tell what happened to the ports of programs since the last call."""
        self.memory.tick()
        for node, portnum, kind in self.changes.take(self.router.epoch):
            self.tell(node, constant(f"EVENT_{kind}"), portnum)

    # -- leaving --

    def _leave(self, process: Process) -> None:
        """It has hung up or died; what it sent is added up, its memory is reaped by ``on_leave``."""
        if self.processes.pop(process.number, None) is None:
            return
        for node, sock in list(process.events):
            self._unsubscribe(process, node, sock)
        self.selector.unregister(process.sock)
        process.sock.close()
        self.traffic.release(process.number, self.clock())
        self.memory.leave(process.number, process.pid, process.started)
        for hook in self.on_leave:
            hook(process)

    def status(self) -> list[dict[str, Any]]:
        """Who is here, for ``softib status``."""
        return [{"number": p.number, "pid": p.pid, "view": p.view} for p in self.processes.values()]
