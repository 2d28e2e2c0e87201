"""Unix sockets of the daemon: servers, messages with descriptors, and queues for messages that do not fit into a socket
yet.

No client can harm the daemon: no call in this module waits, and an invalid message ends only its own connection.
"""

from __future__ import annotations

import array
import contextlib
import errno
import os
import select
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from softib.errors import NO_DESCRIPTOR, InputError
from softib.live.admission import Admission, peer_of

__all__ = [
    "ANCILLARY_SIZE",
    "SendQueue",
    "SeqpacketServer",
    "UnixServer",
    "ancillary_of",
    "descriptors",
    "peer_pidfd",
    "receive",
    "receive_fds",
]

ACCEPTS = 64
"""Maximum number of connections accepted before the loop serves other sockets."""
BACKLOG = 128
GREETING_S = 10.0
"""Time limit for the first message of a connection."""
MOST_VISITORS = 256
"""Maximum number of connections that have not sent a message; beyond it, the oldest is closed."""
SEND = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
INT = struct.calcsize("i")
ANCILLARY_SIZE = socket.CMSG_SPACE(4 * INT)
"""Room for four descriptors with a message; the kernel closes further ones."""


SO_PEERPIDFD = 77
"""A socket option since Linux 6.5 (asm-generic/socket.h), for which Python has no name yet."""


def peer_pidfd(sock: socket.socket) -> int:
    """Return a pidfd of the process at the other end, in any namespace; the caller closes it. -1 if the system does not
    support this."""
    try:
        return int(sock.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD))
    except OSError:
        return -1


def ancillary_of(fds: Sequence[int]) -> list[tuple[int, int, array.array[int]]]:
    """Return the argument of ``sendmsg`` that passes ``fds`` with a message."""
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]


def descriptors(ancillary: Iterable[tuple[int, int, bytes]]) -> list[int]:
    """Return the descriptors received with a message. The caller closes them."""
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) // INT * INT])
    return fds.tolist()


def receive(sock: socket.socket, size: int) -> bytes | None:
    """Return the next message; ``b""``: the connection is closed, None: none has arrived."""
    try:
        return sock.recv(size, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def receive_fds(sock: socket.socket, size: int) -> tuple[bytes | None, list[int]]:
    """Receive a message with its descriptors, which the caller closes."""
    flags = socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT
    try:
        message, ancillary, _, _ = sock.recvmsg(size, ANCILLARY_SIZE, flags)
    except BlockingIOError:
        return None, []
    except OSError:
        return b"", []
    return message, descriptors(ancillary)


class SendQueue:
    """Messages to one program, in their order. Messages that do not fit into its socket, which is
    registered in ``selector``, wait until the selector reports room (:meth:`flush`). At most ``limit`` messages wait.
    If there are more, the newest is dropped (with ``keep_newest``, the oldest), and ``lost`` is incremented. While
    ``pause_at`` or more messages wait, the socket is not read, so the program's queue fills and its writes block.
    ``broken``: the program no longer exists."""

    def __init__(
        self,
        sock: socket.socket,
        selector: selectors.BaseSelector,
        limit: int | None = None,
        keep_newest: bool = False,
        pause_at: int | None = None,
    ):
        self.sock, self.selector, self.limit, self.keep_newest = sock, selector, limit, keep_newest
        self.pause_at = pause_at
        self.lost, self.broken = 0, False
        self._waiting: deque[tuple[bytes, int | None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def send(self, message: Any, fd: int | None = None) -> None:
        """Send ``message``, with a copy of ``fd``, after those already waiting. Never
        blocks."""
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
        """Send one message. Return False if the socket has no room now."""
        try:
            if fd is None:
                self.sock.send(message, SEND)
            else:  # not socket.send_fds, which ignores the flags in Python 3.11 and would wait
                self.sock.sendmsg([message], ancillary_of([fd]), SEND)
        except BlockingIOError:
            return False
        except OSError:
            self.broken = True
        return True

    def flush(self) -> None:
        """Send waiting messages as long as the socket has room."""
        while self._waiting and not self.broken and self._transmit(*self._waiting[0]):
            self._drop_first()
        if self.broken:
            self.clear()
        self._watch()

    def clear(self) -> None:
        """Drop all waiting messages."""
        while self._waiting:
            self._drop_first()

    def _drop_first(self) -> None:
        _, fd = self._waiting.popleft()
        if fd is not None:
            os.close(fd)

    def _watch(self) -> None:
        """Register the socket in the selector: for writing while messages wait, and for reading unless it is paused."""
        paused = self.pause_at is not None and len(self._waiting) >= self.pause_at
        wanted = (0 if paused else selectors.EVENT_READ) | (selectors.EVENT_WRITE if self._waiting else 0)
        key = self.selector.get_key(self.sock)
        if key.events != wanted:
            self.selector.modify(self.sock, wanted, key.data)


class UnixServer:
    """Listens at ``path`` (mode 0600) in the daemon's selector. Only the daemon's user and root are admitted.
    Subclasses handle a new connection in :meth:`accepted`.

    A connection that has not sent a message (one of the ``visitors``) is closed after :data:`GREETING_S`, or earlier if
    it is the oldest of more than :data:`MOST_VISITORS`. One descriptor is kept in reserve: when the process has no
    other descriptor, this one is used to accept a connection, which :meth:`accepted_last` answers. Otherwise the
    listener would stay ready forever.
    """

    kind = socket.SOCK_STREAM

    def __init__(self, path: Path, selector: selectors.BaseSelector):
        self.path, self.selector = path, selector
        self.visitors: dict[socket.socket, float] = {}
        self._paused = False
        self._admission = Admission(f"the socket {path}")
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, self.kind)
        self._listener.setblocking(False)
        try:
            self._listener.bind(str(path))
        except OSError as error:
            self._listener.close()
            if error.errno is None:  # Python has rejected the length of the address
                raise InputError(
                    f"{path}: too long for a socket path (at most 107 bytes); set XDG_RUNTIME_DIR to a shorter "
                    f"directory"
                ) from None
            raise
        os.chmod(path, 0o600)
        self._listener.listen(BACKLOG)
        self._reserve: int | None = os.dup(self._listener.fileno())
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    # -- connections --

    def _accept(self, events: int) -> None:
        for _ in range(ACCEPTS):
            try:
                sock, _ = self._listener.accept()
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR or not self._is_waited_for():
                    return
                if not self._accept_last():
                    self._pause()
                    return
                continue
            if self._admits(sock):
                self.accepted(sock)
            if len(self.visitors) > MOST_VISITORS:
                self._drop_oldest()

    def _is_waited_for(self) -> bool:
        """Return whether a connection waits to be accepted. accept(2) cannot answer this, since it needs a free
        descriptor first."""
        waiting = select.poll()
        waiting.register(self._listener, select.POLLIN)
        return bool(waiting.poll(0))

    def _pause(self) -> None:
        """Stop accepting until :meth:`expire`: a listener that cannot accept would stay ready forever."""
        self.selector.unregister(self._listener)
        self._paused = True

    def _admits(self, sock: socket.socket) -> bool:
        """Return whether the connection is admitted; otherwise close it."""
        if not self._admission.admits(peer_of(sock)):
            sock.close()
            return False
        sock.setblocking(False)
        return True

    def _accept_last(self) -> bool:
        """Accept a connection with the descriptor in reserve. Return False if that connection also had to be closed."""
        if self._reserve is None:
            return self._drop_oldest()
        os.close(self._reserve)
        self._reserve = None
        try:
            sock, _ = self._listener.accept()
            if self._admits(sock):
                self.accepted_last(sock)
        except OSError:  # another process has taken the freed descriptor
            return False
        finally:
            self.restore_reserve()
        return True

    def restore_reserve(self) -> None:
        """Open the descriptor in reserve if it was used. A subclass that keeps the last connection open
        calls this method when it closes that connection."""
        if self._reserve is None:
            with contextlib.suppress(OSError):
                self._reserve = os.dup(self._listener.fileno())

    def accepted(self, sock: socket.socket) -> None:
        """Called when a program has connected."""
        raise NotImplementedError

    def accepted_last(self, sock: socket.socket) -> None:
        """Called when a program has connected and no descriptor is left. This method closes the connection; a subclass
        may send an answer first."""
        sock.close()

    # -- silent connections --

    def expect(self, sock: socket.socket) -> None:
        """Begin the time limit: ``sock`` must send a message within :data:`GREETING_S`."""
        self.visitors.pop(sock, None)
        self.visitors[sock] = time.monotonic() + GREETING_S

    def _drop_oldest(self) -> bool:
        """Close the oldest visitor. Return False if there are none."""
        oldest = next(iter(self.visitors), None)
        if oldest is None:
            return False
        self.listen_to(oldest)
        if oldest in self.visitors:
            self.dismiss(oldest)
        return True

    def expire(self) -> None:
        """Close the connections that have not sent a greeting in time. The daemon calls it a few times a
        second."""
        self.restore_reserve()
        if self._paused:
            self._paused = False
            self.selector.register(self._listener, selectors.EVENT_READ, self._accept)
        now = time.monotonic()
        for sock, until in list(self.visitors.items()):
            if until > now:
                return
            self.listen_to(sock)  # the greeting may have arrived while the daemon was busy
            if self.visitors.get(sock) == until:
                self.dismiss(sock)

    def listen_to(self, sock: socket.socket) -> None:
        """Handle the message of a visitor, if it has sent one."""
        raise NotImplementedError

    def dismiss(self, sock: socket.socket) -> None:
        """Close the connection of a visitor."""
        self.visitors.pop(sock, None)
        self.selector.unregister(sock)
        sock.close()

    def close(self) -> None:
        """Close connections that have not sent anything yet, stop listening and remove the socket."""
        for sock in list(self.visitors):
            self.dismiss(sock)
        if not self._paused:
            self.selector.unregister(self._listener)
        self._listener.close()
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None
        self.path.unlink(missing_ok=True)


class SeqpacketServer(UnixServer):
    """A server of whole messages. The first message of a connection is its greeting, which :meth:`greeted` answers; no
    state is stored for a connection before that. ``longest``: maximum length of a message."""

    kind = socket.SOCK_SEQPACKET
    longest = 4096

    def __init__(self, path: Path, selector: selectors.BaseSelector):
        super().__init__(path, selector)
        self.refusal(0)  # reads the header that declares the messages now, because later no descriptor may be left

    def accepted(self, sock: socket.socket) -> None:
        """Wait for the greeting; it has usually arrived already."""
        self.selector.register(sock, selectors.EVENT_READ, lambda events: self.listen_to(sock))
        self.expect(sock)
        self.listen_to(sock)

    def accepted_last(self, sock: socket.socket) -> None:
        """Answer the greeting with EMFILE, if it has arrived."""
        if receive(sock, self.longest):
            with contextlib.suppress(OSError):
                sock.send(self.refusal(errno.EMFILE), SEND)
        sock.close()

    def listen_to(self, sock: socket.socket) -> None:
        """See :class:`UnixServer`."""
        message = receive(sock, self.longest)
        if message is not None and self.visitors.pop(sock, None) is not None:
            self.selector.unregister(sock)
            self.greeted(sock, message)

    def greeted(self, sock: socket.socket, message: bytes) -> None:
        """Handle the first message (empty: the program has closed the connection). The subclass now owns ``sock``, and
        must keep or close it."""
        raise NotImplementedError

    def refusal(self, error: int) -> bytes:
        """Return the answer to a greeting that fails with ``error``."""
        raise NotImplementedError
