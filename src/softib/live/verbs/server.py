"""The server with which programs under ``libsoftib-verbs.so`` join the fabric. Each program gets a number, and counts
as ended when it closes its connection.

Messages: ``preload/verbs/fabric/server.h``. The data path does not pass through this module.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from softib.live.admission import peer_of
from softib.live.c_header import CHeader
from softib.live.mad_router import MadRouter
from softib.live.proc import command_name, process_start
from softib.live.shared_fabric import SharedFabric, asks_for_files
from softib.live.unix_server import (
    SendQueue,
    SeqpacketServer,
    ancillary_of,
    peer_pidfd,
    receive,
    receive_fds,
)
from softib.live.verbs.async_events import PortEvents
from softib.live.verbs.shared_heap import SharedHeap
from softib.live.verbs.traffic import Traffic

__all__ = ["HEADER", "Process", "VerbsServer"]

HEADER = CHeader("verbs/fabric/server.h")
types, constant = HEADER.types, HEADER.constant
MOVER_OF_IP = b"softib-ipoib"
LAST_NUMBER = 0xFFFF
ROUND = 256
"""Process numbers are assigned cyclically from 1 to this number, or to twice the number of programs if that is larger.
The number is not larger, because a waiting process checks all numbers in use."""
ROUNDS = 64
"""Number of requests of one program that are handled before the loop serves others."""
SUBSCRIPTIONS = 256
"""Maximum number of event sockets that one process may pass to the daemon."""
UNSENT = 1024
"""Maximum number of events that wait for room in one socket; if there are more, the oldest is lost."""


def reply(error: int = 0, number: int = 0) -> bytes:
    """Return the reply to a greeting or a request."""
    row = np.zeros(1, types()["softib_server_reply"])
    row["magic"], row["version"] = constant("SERVER_MAGIC"), constant("SERVER_VERSION")
    row["error"], row["number"] = error, number
    return row.tobytes()


def event(kind: int, portnum: int) -> bytes:
    """Return the bytes of an event as programs read them."""
    row = np.zeros(1, types()["softib_event"])
    row["type"], row["portnum"] = kind, portnum
    return row.tobytes()


@dataclass(eq=False)
class Process:
    """A program that has joined. ``events``: by node, the queues to the sockets that the program has passed for
    events."""

    number: int
    pid: int
    started: int
    view: str
    sock: socket.socket
    events: list[tuple[int, SendQueue]] = field(default_factory=list)


Hook = Callable[[Process], None]


class VerbsServer(SeqpacketServer):
    """Listens at ``folder/verbs.sock``. ``on_join`` and ``on_leave`` are called with each
    :class:`Process`: before it gets its number, and after its traffic has been added to the counters. An invalid
    message ends the connection or is refused."""

    def __init__(
        self,
        router: MadRouter,
        traffic: Traffic,
        fabric: SharedFabric,
        folder: Path,
        selector: selectors.BaseSelector,
        clock: Callable[[], int],
    ):
        super().__init__(folder / "verbs.sock", selector)
        self.fabric = fabric
        self.router, self.traffic, self.clock = router, traffic, clock
        self.processes: dict[int, Process] = {}
        self.on_join: list[Hook] = []
        self.on_leave: list[Hook] = []
        self.changes = PortEvents(router.plane)
        self.memory = SharedHeap(folder / "verbs")
        self._next = 1

    def close(self) -> None:
        """Close all connections; each context of a program gets IBV_EVENT_DEVICE_FATAL."""
        for process in list(self.processes.values()):
            for node, _ in list(process.events):
                self.notify(node, constant("EVENT_DEVICE_FATAL"), 0, only=process)
            self._leave(process)
        super().close()
        self.memory.close()

    # -- joining --

    def greeted(self, sock: socket.socket, message: bytes) -> None:
        """Let a program join."""
        error, process = self._welcome(message, sock)
        files = [] if error else [*self.fabric.files, self.memory.fd, self.traffic.fd]
        with contextlib.suppress(OSError):
            if message:
                sock.sendmsg([reply(error, process.number if process else 0)], ancillary_of(files) if files else [])
        if process is None:
            sock.close()
            return
        self.selector.register(sock, selectors.EVENT_READ, lambda events: self._read(process))

    def refusal(self, error: int) -> bytes:
        """See :class:`SeqpacketServer`."""
        return reply(error)

    def _welcome(self, message: bytes, sock: socket.socket) -> tuple[int, Process | None]:
        kind = types()["softib_server_hello"]
        if len(message) < 8 or int.from_bytes(message[:4], "little") != constant("SERVER_MAGIC"):
            return errno.EPROTO, None
        if message == asks_for_files():
            return 0, None
        if int.from_bytes(message[4:8], "little") != constant("SERVER_VERSION") or len(message) != kind.itemsize:
            return errno.EPROTO, None  # the answer contains the daemon's version
        hello = np.frombuffer(message, kind)[0]
        pid = peer_of(sock).pid
        number = self._number()
        if number is None:
            return errno.EMFILE, None
        try:
            self.memory.reserve_row(number)
        except OSError:
            return errno.ENOMEM, None
        process = Process(number, pid, process_start(pid), hello["view"].decode("utf-8", "replace"), sock)
        self.traffic.cells.is_ip[number] = command_name(pid) == MOVER_OF_IP
        self.processes[number] = process
        for hook in self.on_join:
            hook(process)
        return 0, process

    def _number(self) -> int | None:
        """Return the next number that neither a program nor the memory of a dead one uses; a number
        just released comes last."""
        taken = self.processes.keys() | self.memory.pending.keys()
        last = min(LAST_NUMBER, max(ROUND, 2 * len(taken)))
        for _ in range(last):
            number, self._next = self._next, self._next % last + 1
            if number not in taken and number <= last:
                return number
        return None

    # -- requests --

    def _read(self, process: Process) -> None:
        for _ in range(ROUNDS):
            message, fds = receive_fds(process.sock, self.longest)
            if message is None:
                return
            try:
                if not message:
                    self._leave(process)
                    return
                error = self._answer(process, message, fds)
            finally:
                for fd in fds:
                    os.close(fd)
            with contextlib.suppress(OSError):  # a program that does not read its replies loses them
                process.sock.send(reply(error))

    def _answer(self, process: Process, message: bytes, fds: list[int]) -> int:
        kind = types()["softib_server_ask"]
        if len(message) != kind.itemsize:
            return errno.EPROTO
        request = np.frombuffer(message, kind)[0]
        if request["op"] == constant("SERVER_FOLD"):
            self.traffic.fold(self.clock())
            return 0
        if request["op"] == constant("SERVER_SUBSCRIBE"):
            return self._subscribe(process, int(request["node"]), fds)
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
        queue = SendQueue(sock, self.selector, UNSENT, keep_newest=True)
        process.events.append((node, queue))
        self.changes.watch(node)
        self.selector.register(sock, selectors.EVENT_READ, lambda events: self._ready(process, node, queue, events))
        return 0

    def _ready(self, process: Process, node: int, queue: SendQueue, events: int) -> None:
        """Handle an event socket that has room again, or whose other end is closed. Data from the other end is
        ignored."""
        if events & selectors.EVENT_WRITE:
            queue.flush()
        if events & selectors.EVENT_READ and receive(queue.sock, self.longest) == b"":
            self._unsubscribe(process, node, queue)

    def _unsubscribe(self, process: Process, node: int, queue: SendQueue) -> None:
        process.events.remove((node, queue))
        self.changes.unwatch(node)
        queue.clear()
        self.selector.unregister(queue.sock)
        queue.sock.close()

    def notify(self, node: int, kind: int, portnum: int, only: Process | None = None) -> None:
        """Write an event of ``node`` to every process that has subscribed to it (with ``only``, to one process). If a
        socket is full, the event waits."""
        message = event(kind, portnum)
        for process in [only] if only else list(self.processes.values()):
            for wanted, queue in process.events:
                if wanted == node:
                    queue.send(message)

    def tick(self) -> None:
        """Report events of the ports of programs since the last call."""
        self.memory.tick()
        for node, portnum, kind in self.changes.take(self.router.epoch):
            self.notify(node, constant(f"EVENT_{kind}"), portnum)

    # -- leaving --

    def _leave(self, process: Process) -> None:
        """Remove a program that has closed its connection or died. Its traffic is added to the counters; ``on_leave``
        frees its memory."""
        if self.processes.pop(process.number, None) is None:
            return
        for node, queue in list(process.events):
            self._unsubscribe(process, node, queue)
        self.selector.unregister(process.sock)
        pidfd = peer_pidfd(process.sock)
        process.sock.close()
        self.traffic.release(process.number, self.clock())
        self.memory.leave(process.number, process.pid, process.started, pidfd)
        for hook in self.on_leave:
            hook(process)

    def status(self) -> list[dict[str, Any]]:
        """Return the programs, for ``softib status``."""
        return [{"number": p.number, "pid": p.pid, "view": p.view} for p in self.processes.values()]
