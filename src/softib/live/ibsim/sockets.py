"""Where the server listens: Linux abstract Unix sockets below a base name, or UDP ports from a base port.

Names and numbers are ibsim's (linux-rdma/ibsim, ibsim/ibsim.c): ``BASE:ctl`` and ``BASE:out<client>``; UDP port P for
control and P + 1 + client for data.
"""

from __future__ import annotations

import errno
import socket
from typing import Any, Protocol

from softib.errors import InputError

__all__ = ["ServerSockets", "UdpSockets", "UnixSockets", "abstract"]

DEFAULT_UDP_PORT = 7070
BUFFER_BYTES = 1 << 20


def abstract(name: str) -> bytes:
    """The abstract address of ``name``. The trailing NUL belongs to it: the client binds and connects with it."""
    return b"\0" + name.encode() + b"\0"


class ServerSockets(Protocol):
    """Opens the sockets of a server."""

    last_client: int

    def control(self) -> socket.socket:
        """The control socket, bound and not blocking."""

    def data(self, client: int, sender: Any, number: int) -> tuple[socket.socket, Any]:
        """The data socket of ``client``, bound and connected to the program that sent CONNECT from ``sender`` with
        ``number``; and that program's address. Raises OSError."""


class UnixSockets:
    """Abstract Unix datagram sockets: they need no file, and vanish with their process."""

    last_client = 0xFFFE

    def __init__(self, base: str):
        self.base = base

    def control(self) -> socket.socket:
        """See :class:`ServerSockets`. Raises :class:`InputError` when the name is taken."""
        return _bound(socket.AF_UNIX, abstract(f"{self.base}:ctl"), f"the socket name {self.base!r}")

    def data(self, client: int, sender: Any, number: int) -> tuple[socket.socket, Any]:
        """See :class:`ServerSockets`."""
        peer = abstract(f"{self.base}:in{number}")
        return _connected(socket.AF_UNIX, abstract(f"{self.base}:out{client}"), peer), peer


class UdpSockets:
    """UDP over IPv4, for clients with ``IBSIM_SERVER_NAME``."""

    last_client = 255

    def __init__(self, host: str = "127.0.0.1", port: int = DEFAULT_UDP_PORT):
        self.host, self.port = host, port

    def control(self) -> socket.socket:
        """See :class:`ServerSockets`. Raises :class:`InputError` when the port is taken."""
        return _bound(socket.AF_INET, (self.host, self.port), f"UDP port {self.port}")

    def data(self, client: int, sender: Any, number: int) -> tuple[socket.socket, Any]:
        """See :class:`ServerSockets`."""
        if not 0 < number < 1 << 16:
            raise OSError(errno.EINVAL, "no UDP port")
        peer = (sender[0], number)
        return _connected(socket.AF_INET, (self.host, self.port + 1 + client), peer), peer


def _bound(family: int, address: Any, what: str) -> socket.socket:
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.setblocking(False)
    try:
        s.bind(address)
    except OSError as error:
        s.close()
        raise InputError(f"{what} cannot be opened: {error.strerror or error}; another server uses it") from None
    return s


def _connected(family: int, address: Any, peer: Any) -> socket.socket:
    s = socket.socket(family, socket.SOCK_DGRAM)
    try:
        s.setblocking(False)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        s.bind(address)
        s.connect(peer)
    except OSError:
        s.close()
        raise
    return s
