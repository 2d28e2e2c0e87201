"""Serves programs under ``libsoftib-umad.so``: the daemon's side is what the kernel's user_mad driver is on a host.

Every umad device that a program opens is a connection to a SOCK_SEQPACKET socket in the fabric's directory
(``preload/umad/umad.h``). Registrations, retries, timeouts and RMPP messages are kept here; the MADs themselves go the
way of everybody's, through the switchboard.
"""

from __future__ import annotations

import contextlib
import errno
import heapq
import itertools
import os
import selectors
import shutil
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from softib.live.server import clock_ps
from softib.live.switchboard import BURST, Switchboard
from softib.live.umad_agents import VENDOR2, Agent
from softib.live.umad_file import Cargo, IssmFile, Pending, UmadFile, tid_of
from softib.live.umad_kernels import from_frames, to_frames
from softib.live.umad_wire import HEAD_SIZE, MESSAGE_SIZE, ask_of, constant, told, types
from softib.live.views import Views

__all__ = ["UmadServer"]

ROUNDS = 8
"""Bursts of one file in a row before the others have their turn."""
LEAST_MESSAGE = HEAD_SIZE + 36
MS_PS = 1_000_000_000
RIGHTS = socket.CMSG_SPACE(4 * struct.calcsize("i"))
FIRST_NUMBER, LAST_NUMBER = 0x8000, 0xFFFE
"""Numbers of files; clients of ibsim's protocol begin at 1."""


class UmadServer:
    """Listens in ``folder`` (``umad``; the views' trees are below ``hosts``). :meth:`tick` must be called when
    :meth:`wait_s` is over."""

    def __init__(
        self, board: Switchboard, folder: Path, selector: selectors.BaseSelector,
        on_change: Callable[[], None] = lambda: None,
    ):  # fmt: skip
        self.board, self.selector, self.on_change = board, selector, on_change
        self.path = folder / "umad"
        self.views = Views(board.fabric, folder / "hosts")
        self.files: dict[int, UmadFile | IssmFile] = {}
        self._visitors: set[socket.socket] = set()
        self._timers: list[tuple[int, int, int, int]] = []
        self._order = itertools.count()
        self._next = FIRST_NUMBER
        self._cargo: Cargo | None = None
        self._in = np.zeros((BURST, MESSAGE_SIZE), np.uint8)
        self._in_words = self._in.view(np.uint32)
        self._rows = [row.data for row in self._in]
        self._sizes, self._awaits = np.zeros(BURST, np.int64), np.zeros(BURST, np.uint8)
        self._warm()
        self.path.unlink(missing_ok=True)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.setblocking(False)
        self.listener.bind(str(self.path))
        os.chmod(self.path, 0o600)
        self.listener.listen(128)
        selector.register(self.listener, selectors.EVENT_READ, self._accept)

    def _warm(self) -> None:
        """Compile now, not while the first program waits."""
        qps = np.zeros(32, np.uint8)
        columns = self.board.frames, self.board.sls, self.board.pkey_indices, self._awaits
        to_frames(self._in, self._in_words, self._sizes, 0, qps, *columns)
        from_frames(self.board.frames, 0, qps, self._in, self._in_words)

    @property
    def cargo(self) -> Cargo | None:
        """The whole of the RMPP message that is being handled."""
        return self._cargo

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
        shutil.rmtree(self.views.folder, ignore_errors=True)

    # -- questions --

    def _accept(self, events: int) -> None:
        for _ in range(BURST):
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
            message = sock.recv(MESSAGE_SIZE * 4)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        asked = ask_of(message)
        error, value, keep = (errno.EPROTO, 0, None) if asked is None else self._answer(asked, sock)
        self._leave(sock)
        if keep is not None:  # before the answer: what the program looks at next must know of the file
            keep.watched = selectors.EVENT_READ
            self.files[keep.number] = keep
            self.selector.register(sock, selectors.EVENT_READ, self._ready(keep))
            self.board.join(keep)
            self.on_change()
        if message:
            with contextlib.suppress(OSError):  # it left; the file's first read tells
                sock.send(told(error, value))
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
            int(asked["oui"]) if klass in VENDOR2 else 0, bool(rmpp) and not asked["user_rmpp"],
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
        name = self.board.fabric.node_name(int(self.board.fabric.port_node[port]))
        if issm:
            return 0, number, IssmFile(number, port, sock, name, pid)
        return 0, number, UmadFile(number, port, sock, name, pid, lambda: self._cargo)

    def _number(self) -> int | None:
        for _ in range(FIRST_NUMBER, LAST_NUMBER + 1):
            number, self._next = self._next, self._next + 1 if self._next < LAST_NUMBER else FIRST_NUMBER
            if number not in self.board.stations:
                return number
        return None

    # -- files --

    def _ready(self, file: UmadFile | IssmFile) -> Callable[[int], None]:
        def ready(events: int) -> None:
            if events & selectors.EVENT_WRITE:
                file.flush()
            if events & selectors.EVENT_READ and not file.gone:
                if isinstance(file, UmadFile):
                    self._read(file)
                else:
                    file.gone = not _open_still(file.sock)
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
        self.board.leave(file)
        self.on_change()

    def _read(self, file: UmadFile) -> None:
        for _ in range(ROUNDS):
            n = 0
            while n < BURST:
                size, cargo = self._receive(file, n)
                if size < 0:
                    break
                if cargo is None:
                    self._sizes[n] = size
                    n += size >= LEAST_MESSAGE
                    continue
                self._handle(file, n)
                self._in[0] = self._in[n]
                self._sizes[0], n = size, 0
                self._handle(file, 1, cargo)
                cargo.drop()
            self._handle(file, n)
            if n < BURST or file.gone:
                return

    def _receive(self, file: UmadFile, row: int) -> tuple[int, Cargo | None]:
        """Octets of the next message, now in ``row``; -1 when there is none. The caller drops the cargo."""
        try:
            size, beside, _, _ = file.sock.recvmsg_into([self._rows[row]], RIGHTS, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return -1, None
        except OSError:
            size, beside = 0, []
        if not size:
            file.gone = True
            return -1, None
        fds = [fd for _, kind, data in beside if kind == socket.SCM_RIGHTS
               for fd in struct.unpack(f"{len(data) // 4}i", data[: len(data) // 4 * 4])]  # fmt: skip
        octets = int(self._in_words[row, 4]) - HEAD_SIZE
        wanted = 1 if size == MESSAGE_SIZE and 256 < octets <= constant("LONGEST") else 0
        for fd in fds[wanted:]:
            os.close(fd)
        return size, Cargo(fds[0], octets) if fds[:wanted] else None

    def _handle(self, file: UmadFile, n: int, cargo: Cargo | None = None) -> None:
        """The first ``n`` messages in ``_in`` go out into the fabric; requests that got no answer at once are kept."""
        if not n:
            return
        board = self.board
        columns = board.frames, board.sls, board.pkey_indices, self._awaits
        to_frames(self._in, self._in_words, self._sizes, n, file.table.qp, *columns)
        requests = self.board.frames[:n].copy() if self._awaits[:n].any() else None
        file.answered, self._cargo = [], cargo
        now_ps = clock_ps()
        try:
            self.board.handle(file, n, now_ps)
        finally:
            answered, file.answered, self._cargo = file.answered, None, None
            board.sls[:n] = board.pkey_indices[:n] = 0
        if requests is None or len(answered) == n:
            return
        left = set(answered)
        for row in np.flatnonzero(self._awaits[:n]).tolist():
            tid = tid_of(requests[row, 32:]) & ~(0xFFFF << 48) | file.number << 48
            if tid not in left:
                self._keep(file, tid, self._in[row, : int(self._sizes[row])].tobytes(), cargo, now_ps)

    # -- time --

    def _keep(self, file: UmadFile, tid: int, message: bytes, cargo: Cargo | None, now_ps: int) -> None:
        """This request waits for its answer."""
        old = file.pending.pop(tid, None)
        if old is not None and old.cargo is not None:
            old.cargo.drop()
        head = np.frombuffer(message, types()["softib_umad_head"], 1)[0]
        timeout_ps = int(head["timeout_ms"]) * MS_PS
        waits = Pending(message, cargo.keep() if cargo else None, timeout_ps, int(head["retries"]), now_ps + timeout_ps)
        file.pending[tid] = waits
        heapq.heappush(self._timers, (waits.deadline_ps, next(self._order), file.number, tid))

    def wait_s(self, now_ps: int) -> float:
        """Seconds until a request's time is over (infinite: none waits)."""
        return max(0.0, (self._timers[0][0] - now_ps) / 1e12) if self._timers else float("inf")

    def tick(self, now_ps: int) -> None:
        """Send again, or give back, whose time is over."""
        while self._timers and self._timers[0][0] <= now_ps:
            deadline_ps, _, number, tid = heapq.heappop(self._timers)
            file = self.files.get(number)
            waits = file.pending.get(tid) if isinstance(file, UmadFile) else None
            if waits is None or waits.deadline_ps != deadline_ps or not isinstance(file, UmadFile):
                continue  # answered meanwhile
            del file.pending[tid]
            if waits.tries:
                self._again(file, tid, waits, now_ps)
            else:
                file.time_out(tid, waits)
            if waits.cargo is not None:
                waits.cargo.drop()
        for file in list(self.files.values()):
            self.settle(file)

    def _again(self, file: UmadFile, tid: int, waits: Pending, now_ps: int) -> None:
        self._in[0, : len(waits.message)] = np.frombuffer(waits.message, np.uint8)
        self._sizes[0] = len(waits.message)
        self._handle(file, 1, waits.cargo)
        again = file.pending.get(tid)
        if again is not None:
            again.tries = waits.tries - 1


def _open_still(sock: socket.socket) -> bool:
    try:
        return bool(sock.recv(MESSAGE_SIZE))
    except BlockingIOError:
        return True
    except OSError:
        return False
