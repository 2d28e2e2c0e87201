"""Serves programs under ``libsoftib-umad.so``: the daemon does the work that the kernel's user_mad driver does on real
hosts.

Every umad device that a program opens is a connection to a SOCK_SEQPACKET socket in the fabric's
directory (``preload/umad/umad.h``). Files and registrations are kept here;
:mod:`softib.live.umad.requests` handles the messages written to them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from softib.iba.constants import VENDOR2_CLASSES
from softib.iba.smp import TID_AT
from softib.live.admission import peer_of
from softib.live.clock import clock_ps
from softib.live.mad_router import MadRouter
from softib.live.sysfs.node_desc import Descriptions
from softib.live.sysfs.node_profile import NodeProfile
from softib.live.sysfs.views import Views
from softib.live.umad.agents import MANAGERS_AGENTS, Agent
from softib.live.umad.file import IssmFile, RmppPayload, UmadFile
from softib.live.umad.kernels import AGENT_AT
from softib.live.umad.requests import UmadRequests
from softib.live.umad.wire import MESSAGE_SIZE, constant, reply, request_of
from softib.live.unix_server import SeqpacketServer, receive
from softib.plain_values import whole_number

__all__ = ["UmadServer"]

FIRST_NUMBER, LAST_NUMBER = 0x8000, 0xFFFE
"""Range of the numbers of open files. Clients of ibsim's protocol have smaller numbers."""


class UmadServer(SeqpacketServer):
    """Server on the socket ``umad`` in ``folder``; the views' trees are below ``hosts``. :meth:`tick` must be called
    after the time that :meth:`wait_s` returns."""

    def __init__(
        self,
        router: MadRouter,
        folder: Path,
        selector: selectors.BaseSelector,
        on_change: Callable[[], None] = lambda: None,
        profile: NodeProfile | None = None,
    ):
        super().__init__(folder / "umad", selector)
        self.router, self.on_change = router, on_change
        self.views = Views(router.fabric, folder / "hosts", profile)
        self.descriptions = Descriptions(router, self.views, selector)
        self.files: dict[int, UmadFile | IssmFile] = {}
        self._next = FIRST_NUMBER
        self.requests = UmadRequests(router, self.files)
        router.segments.whole = self.takes_whole
        router.segments.octets = lambda: self.payload.octets if self.payload is not None else 0

    @property
    def payload(self) -> RmppPayload | None:
        """Return the whole RMPP message that is being handled."""
        return self.requests.ancillary.payload

    def message(self) -> bytes | None:
        """Return the bytes of the RMPP message that is being handled."""
        payload = self.payload
        return os.pread(payload.fd, payload.octets, 0) if payload is not None else None

    def takes_whole(self, mad: np.ndarray) -> bool:
        """Return whether this response (uint8[256]) is for an agent that receives whole RMPP
        messages."""
        file = self.files.get(int(mad[TID_AT]) << 8 | int(mad[TID_AT + 1]))
        return isinstance(file, UmadFile) and bool(file.table.kernel_rmpp[mad[AGENT_AT] & 31])

    def close(self) -> None:
        """Close every file; programs read EIO from then on."""
        for file in list(self.files.values()):
            self.drop(file)
        super().close()
        self.descriptions.close()
        shutil.rmtree(self.views.folder, ignore_errors=True)

    # -- requests about files --

    def greeted(self, sock: socket.socket, message: bytes) -> None:
        """Handle a request; the connection becomes the file that it opens, or is closed."""
        request = request_of(message)
        error, value, file = errno.EPROTO, 0, None
        try:
            if request is not None:
                error, value, file = self._answer(request, sock)
        except OSError as failed:  # a failure of the machine: a full file system, no descriptor left
            error = failed.errno or errno.EIO
        except Exception:
            self.router.report_bug("opening a umad device")
            error = errno.EIO
        if file is not None:  # before the reply, so that the program's next request finds the file
            self.files[file.number] = file
            if isinstance(file, UmadFile):
                self.requests.adopt(file)
            self.selector.register(sock, selectors.EVENT_READ, self._ready(file))
            self.router.join(file)
            self.on_change()
        if message:
            with contextlib.suppress(OSError):  # the program has closed it; the file's first read will notice
                sock.send(reply(error, value), socket.MSG_DONTWAIT)
        if file is None:
            sock.close()

    def refusal(self, error: int) -> bytes:
        """See :class:`SeqpacketServer`."""
        return reply(error, 0)

    def _answer(self, request: Any, sock: socket.socket) -> tuple[int, int, UmadFile | IssmFile | None]:
        """Return (errno, value, the handler to which the connection then belongs)."""
        op = int(request["op"])
        if op in (constant("OPEN"), constant("ISSM")):
            return self._open(request, op == constant("ISSM"), sock)
        if op == constant("REFRESH"):
            view = self.views.known.get(request["view"].decode("utf-8", "replace"))
            if view is not None:
                path = request["path"].decode("utf-8", "surrogateescape")
                if "counters" in path:
                    self.router.fold(clock_ps())
                view.refresh(path)
            return 0, 0, None
        file = self.files.get(int(request["handle"]))
        if not isinstance(file, UmadFile):
            return errno.ENODEV, 0, None
        if op == constant("UNREGISTER"):
            return file.table.remove(int(request["agent"])), 0, None
        if op != constant("REGISTER"):
            return errno.ENOTTY, 0, None
        low, high = request["method_mask"].tolist()
        klass, rmpp = int(request["mgmt_class"]), int(request["rmpp_version"])
        agent = Agent(
            int(request["qpn"]),
            klass,
            int(request["mgmt_class_version"]),
            low | high << 64,
            int(request["oui"]) if klass in VENDOR2_CLASSES else 0,
            bool(rmpp) and not request["user_rmpp"],
        )
        return *file.table.add(agent, rmpp, self._agents_at(file.port)), None

    def _agents_at(self, port: int) -> Iterator[Agent]:
        """Yield the agents on ``port``: those of open files, and those of a manager without one (in this process,
        or of ibsim's protocol)."""
        for station in self.router.stations.at(port):
            if isinstance(station, UmadFile):
                yield from station.table.agents.values()
            elif station.issm and not isinstance(station, IssmFile):
                yield from MANAGERS_AGENTS

    def _open(self, request: Any, issm: bool, sock: socket.socket) -> tuple[int, int, UmadFile | IssmFile | None]:
        view = self.views.known.get(request["view"].decode("utf-8", "replace"))
        number = whole_number(request["path"].decode("ascii", "replace"))
        port = view.port(number) if view is not None and number is not None else None
        if port is None:
            return errno.ENXIO, 0, None
        if issm and self.router.stations.has_manager(port):
            return errno.EAGAIN, 0, None
        number = self._number()
        if number is None:
            return errno.EMFILE, 0, None
        pid = peer_of(sock).pid
        name = self.router.fabric.node_name(int(self.router.fabric.port_node[port]))
        if issm:
            return 0, number, IssmFile(number, port, sock, name, pid)
        file = UmadFile(
            self.router.fabric, number, port, sock, name, pid, self.selector, lambda: self.requests.ancillary
        )
        return 0, number, file

    def _number(self) -> int | None:
        for _ in range(FIRST_NUMBER, LAST_NUMBER + 1):
            number, self._next = self._next, self._next + 1 if self._next < LAST_NUMBER else FIRST_NUMBER
            if number not in self.router.stations:
                return number
        return None

    # -- files --

    def _ready(self, file: UmadFile | IssmFile) -> Callable[[int], None]:
        def ready(events: int) -> None:
            try:
                if events & selectors.EVENT_WRITE and isinstance(file, UmadFile):
                    file.queue.flush()
                if events & selectors.EVENT_READ and not file.closed:
                    if isinstance(file, UmadFile):
                        self.requests.read(file)
                    else:
                        file.closed = receive(file.sock, MESSAGE_SIZE) == b""
            except Exception:
                self.router.report_bug(f"serving pid {file.pid}")
                self.drop(file)
            self._drop_closed(file)

        return ready

    def _drop_closed(self, file: UmadFile | IssmFile) -> None:
        if file.closed:
            self.drop(file)

    def drop(self, file: UmadFile | IssmFile) -> None:
        """Forget the file; if it was an issm device, its port no longer has IsSM set."""
        if self.files.pop(file.number, None) is None:
            return
        self.selector.unregister(file.sock)
        file.close()
        self.router.leave(file)
        self.on_change()

    # -- time --

    def wait_s(self, now_ps: int) -> float:
        """Return the seconds until the next request times out; infinity if none is pending."""
        return self.requests.wait_s(now_ps)

    def tick(self, now_ps: int) -> None:
        """Send requests again, or return those that have timed out; drop files that their programs have closed."""
        self.requests.tick(now_ps)
        for file in list(self.files.values()):
            self._drop_closed(file)
