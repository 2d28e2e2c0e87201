"""Unix sockets of the daemon: listening, whole messages with descriptors, and messages that wait for room.

Nothing that a client sends may hurt the daemon: no call here waits, and what is not understood ends one connection.
"""

from __future__ import annotations

import array
import os
import selectors
import socket
import struct
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from softib.errors import InputError

__all__ = [
    "ANCILLARY_SIZE",
    "SendQueue",
    "SeqpacketServer",
    "UnixServer",
    "ancillary_of",
    "descriptors",
    "peer_pid",
    "peer_pidfd",
    "receive",
    "receive_fds",
]

ACCEPTS = 64
"""Connections that are taken in a row before others have the loop."""
BACKLOG = 128
SEND = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
INT = struct.calcsize("i")
ANCILLARY_SIZE = socket.CMSG_SPACE(4 * INT)
"""Room for four descriptors beside a message; the kernel closes those beyond."""


SO_PEERPIDFD = 77
"""Linux 6.5 (asm-generic/socket.h); newer than Python's names."""


def peer_pid(sock: socket.socket) -> int:
    """The process at the other end (unix(7), SO_PEERCRED), as this PID namespace numbers it; 0: it is in none that is seen
    from here."""
    return int(struct.unpack("=3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])


def peer_pidfd(sock: socket.socket) -> int:
    """A pidfd of the process at the other end, whatever namespace it is in; the caller closes it. -1: the system has none."""
    try:
        return int(sock.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD))
    except OSError:
        return -1


def ancillary_of(fds: Sequence[int]) -> list[tuple[int, int, array.array[int]]]:
    """What ``sendmsg`` takes to pass ``fds`` on beside a message."""
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]


def descriptors(ancillary: Iterable[tuple[int, int, bytes]]) -> list[int]:
    """The descriptors that came beside a message. The caller closes them."""
    found = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) // INT * INT])
    return found.tolist()


def receive(sock: socket.socket, size: int) -> bytes | None:
    """The next message; ``b""``: the connection is closed, None: nothing is there now."""
    try:
        return sock.recv(size, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def receive_fds(sock: socket.socket, size: int) -> tuple[bytes | None, list[int]]:
    """As :func:`receive`, and the descriptors beside the message, which the caller closes."""
    flags = socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT
    try:
        message, ancillary, _, _ = sock.recvmsg(size, ANCILLARY_SIZE, flags)
    except BlockingIOError:
        return None, []
    except OSError:
        return b"", []
    return message, descriptors(ancillary)


class SendQueue:
    """Messages to one program, in their order. What its socket, which is registered in ``selector``, does not take now
    waits until the selector reports room (:meth:`flush`). ``limit`` messages wait at most: beyond them the newest is
    lost, or with ``keep_newest`` the oldest; ``lost`` counts them. ``broken``: nobody reads any more."""

    def __init__(
        self, sock: socket.socket, selector: selectors.BaseSelector, limit: int | None = None, keep_newest: bool = False
    ):
        self.sock, self.selector, self.limit, self.keep_newest = sock, selector, limit, keep_newest
        self.lost, self.broken = 0, False
        self._waiting: deque[tuple[bytes, int | None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def send(self, message: Any, fd: int | None = None) -> None:
        """Send ``message``, with a copy of ``fd`` beside it, behind what waits already. Never blocks."""
        if not self._waiting and self._transmit(message, fd):
            return
        if self.limit is not None and len(self._waiting) >= self.limit:
            self.lost += 1
            if not self.keep_newest:
                return
            self._drop_first()
        self._waiting.append((bytes(message), None if fd is None else os.dup(fd)))
        self._watch()

    def _transmit(self, message: Any, fd: int | None) -> bool:
        """False: there is no room now."""
        try:
            if fd is None:
                self.sock.send(message, SEND)
            else:  # socket.send_fds of Python 3.11 leaves the flags out, and would wait
                self.sock.sendmsg([message], ancillary_of([fd]), SEND)
        except BlockingIOError:
            return False
        except OSError:
            self.broken = True
        return True

    def flush(self) -> None:
        """Send what waits, as far as there is room."""
        while self._waiting and not self.broken:
            if not self._transmit(*self._waiting[0]):
                return
            self._drop_first()
        self.clear()
        self._watch()

    def clear(self) -> None:
        """Drop what waits."""
        while self._waiting:
            self._drop_first()

    def _drop_first(self) -> None:
        _, fd = self._waiting.popleft()
        if fd is not None:
            os.close(fd)

    def _watch(self) -> None:
        """The selector watches for room as long as something waits."""
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._waiting else 0)
        key = self.selector.get_key(self.sock)
        if key.events != wanted:
            self.selector.modify(self.sock, wanted, key.data)


class UnixServer:
    """Listens at ``path`` (mode 0600) in the daemon's selector. Subclasses say in :meth:`accepted` what becomes of a
    connection."""

    kind = socket.SOCK_STREAM

    def __init__(self, path: Path, selector: selectors.BaseSelector):
        self.path, self.selector = path, selector
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, self.kind)
        self._listener.setblocking(False)
        try:
            self._listener.bind(str(path))
        except OSError as error:
            self._listener.close()
            if error.errno is None:  # Python's own check of the address's length
                raise InputError(
                    f"{path}: longer than a socket's path may be (107 bytes); set XDG_RUNTIME_DIR to a shorter directory"
                ) from None
            raise
        os.chmod(path, 0o600)
        self._listener.listen(BACKLOG)
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def _accept(self, events: int) -> None:
        for _ in range(ACCEPTS):
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setblocking(False)
            self.accepted(sock)

    def accepted(self, sock: socket.socket) -> None:
        """A program has connected."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop listening and remove the socket."""
        self.selector.unregister(self._listener)
        self._listener.close()
        self.path.unlink(missing_ok=True)


class SeqpacketServer(UnixServer):
    """A server of whole messages. A program's first one is its greeting, which :meth:`greeted` answers; ``longest`` is how
    long a message may be. Until then nothing is kept of it."""

    kind = socket.SOCK_SEQPACKET
    longest = 4096

    def __init__(self, path: Path, selector: selectors.BaseSelector):
        self._visitors: set[socket.socket] = set()
        super().__init__(path, selector)

    def accepted(self, sock: socket.socket) -> None:
        """Wait for the greeting; it is mostly there already."""
        self._visitors.add(sock)
        self.selector.register(sock, selectors.EVENT_READ, lambda events: self._greet(sock))
        self._greet(sock)

    def _greet(self, sock: socket.socket) -> None:
        message = receive(sock, self.longest)
        if message is not None:
            self._visitors.discard(sock)
            self.selector.unregister(sock)
            self.greeted(sock, message)

    def greeted(self, sock: socket.socket, message: bytes) -> None:
        """The first message (empty: the program has hung up). ``sock`` is the subclass's from here on, to keep or to
        close."""
        raise NotImplementedError

    def close(self) -> None:
        """Hang up on those that have not greeted yet, stop listening and remove the socket."""
        for sock in list(self._visitors):
            self._visitors.discard(sock)
            self.selector.unregister(sock)
            sock.close()
        super().close()
