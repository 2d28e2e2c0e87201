"""Serves programs under ``libsoftib-umad.so``: the daemon's side is what the kernel's user_mad driver is on a host.

Every umad device that a program opens is a connection to a SOCK_SEQPACKET socket in the fabric's directory
(``preload/umad/umad.h``). Files and registrations are kept here; what is written to them is the business of
:mod:`softib.live.umad.requests`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import shutil
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from softib.iba.constants import VENDOR2_CLASSES
from softib.iba.mad_offsets import TID_AT
from softib.live.clock import clock_ps
from softib.live.mad_router import BATCH, MadRouter
from softib.live.sysfs.node_desc import Descriptions
from softib.live.sysfs.views import Views
from softib.live.umad.agents import Agent
from softib.live.umad.file import IssmFile, RmppPayload, UmadFile
from softib.live.umad.kernels import AGENT_AT
from softib.live.umad.requests import UmadRequests
from softib.live.umad.wire import MESSAGE_SIZE, ask_of, constant, told

__all__ = ["UmadServer"]

FIRST_NUMBER, LAST_NUMBER = 0x8000, 0xFFFE
"""Numbers of files; clients of ibsim's protocol begin at 1."""


class UmadServer:
    """Listens in ``folder`` (``umad``; the views' trees are below ``hosts``). :meth:`tick` must be called when
    :meth:`wait_s` is over."""

    def __init__(
        self, router: MadRouter, folder: Path, selector: selectors.BaseSelector,
        on_change: Callable[[], None] = lambda: None,
    ):  # fmt: skip
        self.router, self.selector, self.on_change = router, selector, on_change
        self.path = folder / "umad"
        self.views = Views(router.fabric, folder / "hosts")
        self.descriptions = Descriptions(router, self.views, selector)
        self.files: dict[int, UmadFile | IssmFile] = {}
        self._visitors: set[socket.socket] = set()
        self._next = FIRST_NUMBER
        self.traffic = UmadRequests(router, self.files)
        router.segments.whole = self.takes_whole
        router.segments.octets = lambda: self.payload.octets if self.payload is not None else 0
        self.path.unlink(missing_ok=True)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.setblocking(False)
        self.listener.bind(str(self.path))
        os.chmod(self.path, 0o600)
        self.listener.listen(128)
        selector.register(self.listener, selectors.EVENT_READ, self._accept)

    @property
    def payload(self) -> RmppPayload | None:
        """The whole of the RMPP message that is being handled."""
        return self.traffic.beside.payload

    def message(self) -> bytes | None:
        """Its octets."""
        payload = self.payload
        return os.pread(payload.fd, payload.octets, 0) if payload is not None else None

    def takes_whole(self, mad: np.ndarray) -> bool:
        """Is this response (uint8[256]) for an agent that gets RMPP messages whole?"""
        file = self.files.get(int(mad[TID_AT]) << 8 | int(mad[TID_AT + 1]))
        return isinstance(file, UmadFile) and bool(file.table.kernel_rmpp[mad[AGENT_AT] & 31])

    def close(self) -> None:
        """Close every file; programs read EIO from then on."""
        for file in list(self.files.values()):
            self.drop(file)
        for sock in list(self._visitors):
            self._leave(sock)
            sock.close()
        self.selector.unregister(self.listener)
        self.listener.close()
        self.path.unlink(missing_ok=True)
        self.descriptions.close()
        shutil.rmtree(self.views.folder, ignore_errors=True)

    # -- questions --

    def _accept(self, events: int) -> None:
        for _ in range(BATCH):
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            sock.setblocking(False)
            self._visitors.add(sock)
            self.selector.register(sock, selectors.EVENT_READ, lambda events, sock=sock: self._hear(sock))
            self._hear(sock)  # the question is mostly there already

    def _hear(self, sock: socket.socket) -> None:
        try:
            message = sock.recv(MESSAGE_SIZE * 4, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        asked = ask_of(message)
        error, value, keep = errno.EPROTO, 0, None
        try:
            if asked is not None:
                error, value, keep = self._answer(asked, sock)
        except OSError as failed:  # the machine's: a full file system, no descriptor left
            error = failed.errno or errno.EIO
        except Exception:
            self.router.report_bug("opening a umad device")
            error = errno.EIO
        self._leave(sock)
        if keep is not None:  # before the answer: what the program looks at next must know of the file
            keep.watched = selectors.EVENT_READ
            self.files[keep.number] = keep
            if isinstance(keep, UmadFile):
                self.traffic.adopt(keep)
            self.selector.register(sock, selectors.EVENT_READ, self._ready(keep))
            self.router.join(keep)
            self.on_change()
        if message:
            with contextlib.suppress(OSError):  # it left; the file's first read tells
                sock.send(told(error, value), socket.MSG_DONTWAIT)
        if keep is None:
            sock.close()

    def _leave(self, sock: socket.socket) -> None:
        self._visitors.discard(sock)
        self.selector.unregister(sock)

    def _answer(self, asked: Any, sock: socket.socket) -> tuple[int, int, UmadFile | IssmFile | None]:
        """(errno, value, what the connection becomes)."""
        op = int(asked["op"])
        if op in (constant("OPEN"), constant("ISSM")):
            return self._open(asked, op == constant("ISSM"), sock)
        if op == constant("REFRESH"):
            view = self.views.known.get(asked["view"].decode("utf-8", "replace"))
            if view is not None:
                self.router.fold(clock_ps())  # counters are read there
                view.refresh(asked["path"].decode("utf-8", "surrogateescape"))
            return 0, 0, None
        file = self.files.get(int(asked["handle"]))
        if not isinstance(file, UmadFile):
            return errno.ENODEV, 0, None
        if op == constant("UNREGISTER"):
            return file.table.remove(int(asked["agent"])), 0, None
        if op != constant("REGISTER"):
            return errno.ENOTTY, 0, None
        low, high = asked["method_mask"].tolist()
        klass, rmpp = int(asked["mgmt_class"]), int(asked["rmpp_version"])
        agent = Agent(
            int(asked["qpn"]), klass, int(asked["mgmt_class_version"]), low | high << 64,
            int(asked["oui"]) if klass in VENDOR2_CLASSES else 0, bool(rmpp) and not asked["user_rmpp"],
        )  # fmt: skip
        here = [f for f in self.files.values() if isinstance(f, UmadFile) and f.port == file.port]
        return *file.table.add(agent, rmpp, (a for f in here for a in f.table.agents.values())), None

    def _open(self, asked: Any, issm: bool, sock: socket.socket) -> tuple[int, int, UmadFile | IssmFile | None]:
        view = self.views.known.get(asked["view"].decode("utf-8", "replace"))
        digits = asked["path"].decode("ascii", "replace")
        port = view.port(int(digits)) if view is not None and digits.isdigit() else None
        if port is None:
            return errno.ENXIO, 0, None
        if issm and any(f.issm and f.port == port for f in self.files.values()):
            return errno.EAGAIN, 0, None
        number = self._number()
        if number is None:
            return errno.EMFILE, 0, None
        pid = struct.unpack("=3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        name = self.router.fabric.node_name(int(self.router.fabric.port_node[port]))
        if issm:
            return 0, number, IssmFile(number, port, sock, name, pid)
        return 0, number, UmadFile(self.router.fabric, number, port, sock, name, pid, lambda: self.traffic.beside)

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
                if events & selectors.EVENT_WRITE:
                    file.flush()
                if events & selectors.EVENT_READ and not file.gone:
                    if isinstance(file, UmadFile):
                        self.traffic.read(file)
                    else:
                        file.gone = not _open_still(file.sock)
            except Exception:
                self.router.report_bug(f"serving pid {file.pid}")
                file.gone = True
            self.settle(file)

        return ready

    def settle(self, file: UmadFile | IssmFile) -> None:
        """Drop it when it is closed, and watch its socket for what it waits for."""
        if file.gone:
            self.drop(file)
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if file.queue else 0)
        if wanted != file.watched:
            self.selector.modify(file.sock, wanted, self.selector.get_key(file.sock).data)
            file.watched = wanted

    def drop(self, file: UmadFile | IssmFile) -> None:
        """Forget it; its port no longer says IsSM if it did so for this file."""
        if self.files.pop(file.number, None) is None:
            return
        self.selector.unregister(file.sock)
        file.close()
        self.router.leave(file)
        self.on_change()

    # -- time --

    def wait_s(self, now_ps: int) -> float:
        """Seconds until a request's time is over (infinite: none waits)."""
        return self.traffic.wait_s(now_ps)

    def tick(self, now_ps: int) -> None:
        """Send again, or give back, whose time is over; drop who is gone."""
        self.traffic.tick(now_ps)
        for file in list(self.files.values()):
            self.settle(file)


def _open_still(sock: socket.socket) -> bool:
    try:
        return bool(sock.recv(MESSAGE_SIZE, socket.MSG_DONTWAIT))
    except BlockingIOError:
        return True
    except OSError:
        return False
