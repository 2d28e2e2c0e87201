"""The sockets of the server: Linux abstract Unix sockets below a base name, or UDP ports from a base
port.

Names and numbers are ibsim's (linux-rdma/ibsim, ibsim/ibsim.c): ``BASE:ctl`` and
``BASE:out<client>``; UDP port P for control and P + 1 + client for data.

Every user of the machine can read an abstract name in /proc/net/unix and send to it. So the server reads the sender of
each control datagram from the kernel. The server connects a data socket to one program, and the kernel then refuses
datagrams of others.
"""

from __future__ import annotations

import errno
import secrets
import socket
from collections.abc import Mapping
from typing import Any, Protocol

from softib.errors import InputError, os_reason
from softib.live.admission import CREDENTIALS_SIZE, Admission, Credentials, sender_of, user_name
from softib.live.proc import command_name, udp_holder

__all__ = ["ServerSockets", "UdpSockets", "UnixSockets", "abstract", "check_reachable", "drawn_name"]

DEFAULT_UDP_PORT = 7070
BUFFER_BYTES = 1 << 20


def abstract(name: str) -> bytes:
    """Return the abstract address of ``name``. The trailing NUL is part of it: the client binds and
    connects with it."""
    return b"\0" + name.encode() + b"\0"


def drawn_name(name: str) -> str:
    """Return a random base name for the fabric ``name``, so that no other program can have bound it before."""
    return f"softib-{name}-{secrets.token_hex(8)}"


class ServerSockets(Protocol):
    """Opens the sockets of a server."""

    last_client: int
    environment: dict[str, str]
    """The environment with which the stock library finds this server."""

    def control(self) -> socket.socket:
        """Return the control socket, bound and not blocking."""

    def receive(self, control: socket.socket, size: int) -> tuple[bytes, Any, Credentials | None]:
        """Return a datagram from the control socket: its bytes, its address, and the sender's credentials if the kernel
        reports them. Raises OSError."""

    def admits(self, sender: Credentials | None) -> bool:
        """Return whether the server accepts messages from this sender."""

    def data(self, client: int, sender: Any, number: int) -> tuple[socket.socket, Any]:
        """Return the data socket of ``client``, bound and connected to the program that sent
        CONNECT from ``sender`` with ``number``; and that program's address. Raises OSError."""

    def is_held(self, peer: Any) -> bool:
        """Return whether a program still has the address ``peer``: a killed program sends no
        DISCONNECT."""


class UnixSockets:
    """Abstract Unix datagram sockets: they need no file, and disappear with their process."""

    last_client = 0xFFFE

    def __init__(self, base: str):
        self.base, self.admission = base, Admission(f"the socket @{base}:ctl")
        self.environment = {"IBSIM_SOCKNAME": base}

    def control(self) -> socket.socket:
        """See :class:`ServerSockets`. Raises :class:`InputError` if the name is taken."""
        control = _bound(socket.AF_UNIX, abstract(f"{self.base}:ctl"), f"the socket name {self.base!r}")
        control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        return control

    def receive(self, control: socket.socket, size: int) -> tuple[bytes, Any, Credentials | None]:
        """See :class:`ServerSockets`."""
        message, ancillary, _, source = control.recvmsg(size, CREDENTIALS_SIZE, socket.MSG_DONTWAIT)
        return message, source, sender_of(ancillary)

    def admits(self, sender: Credentials | None) -> bool:
        """See :class:`ServerSockets`: only this user and root are accepted."""
        return self.admission.admits(sender)

    def data(self, client: int, sender: Any, number: int) -> tuple[socket.socket, Any]:
        """See :class:`ServerSockets`."""
        peer = abstract(f"{self.base}:in{number}")
        return _connected(socket.AF_UNIX, abstract(f"{self.base}:out{client}"), peer), peer

    def is_held(self, peer: Any) -> bool:
        """See :class:`ServerSockets`. The kernel refuses a connection to a name that no socket has.
        A separate socket checks this, because the data socket, if connected again, would serve any
        program that took the name of a dead one."""
        return _is_bound(peer)


def _is_bound(address: bytes) -> bool:
    """Return whether a program of this network namespace has bound the abstract ``address``."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as probe:
            probe.connect(address)
    except OSError as error:  # EPERM: bound, and connected to another socket
        return error.errno != errno.ECONNREFUSED
    return True


def check_reachable(environment: Mapping[str, str]) -> None:
    """Raise :class:`InputError` if the stock library would wait without end for the server of ``environment``."""
    base = environment.get("IBSIM_SOCKNAME")
    if base is not None and not _is_bound(abstract(f"{base}:ctl")):
        raise InputError(
            f"@{base}:ctl does not exist in this network namespace, and the stock library can reach the fabric only "
            f"through it; leave out --stock-preload, or run the program in the network namespace of 'softib up'"
        )


class UdpSockets:
    """UDP over IPv4, for clients that set ``IBSIM_SERVER_NAME``."""

    last_client = 255

    def __init__(self, host: str = "127.0.0.1", port: int = DEFAULT_UDP_PORT):
        self.host, self.port = host, port
        self.environment = {"IBSIM_SERVER_NAME": host, "IBSIM_SERVER_PORT": str(port)}

    def control(self) -> socket.socket:
        """See :class:`ServerSockets`. Raises :class:`InputError` if the port is taken."""
        try:
            return _bound(socket.AF_INET, (self.host, self.port), f"UDP port {self.port}")
        except InputError as error:
            raise InputError(f"{error}{_holder(self.port)}; use another --udp PORT") from None

    def receive(self, control: socket.socket, size: int) -> tuple[bytes, Any, Credentials | None]:
        """See :class:`ServerSockets`. UDP does not report the sender's credentials."""
        return *control.recvfrom(size), None

    def admits(self, sender: Credentials | None) -> bool:
        """See :class:`ServerSockets`: every program that can reach the port is accepted."""
        return True

    def data(self, client: int, sender: Any, number: int) -> tuple[socket.socket, Any]:
        """See :class:`ServerSockets`."""
        if not 0 < number < 1 << 16:
            raise OSError(errno.EINVAL, "no UDP port")
        peer = (sender[0], number)
        return _connected(socket.AF_INET, (self.host, self.port + 1 + client), peer), peer

    def is_held(self, peer: Any) -> bool:
        """See :class:`ServerSockets`. With UDP this is unknown until a send is refused."""
        return True


def _holder(port: int) -> str:
    """Return text for the end of an error line that names the user and process bound to UDP ``port``; empty if /proc
    does not show them."""
    holder = udp_holder(port)
    if holder is None:
        return ""
    uid, pid = holder
    process = f", pid {pid} {command_name(pid).decode(errors='replace')}" if pid else ""
    return f" ({user_name(uid)}{process} uses it)"


def _bound(family: int, address: Any, name: str) -> socket.socket:
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.setblocking(False)
    try:
        s.bind(address)
    except OSError as error:
        s.close()
        raise InputError(f"{name} cannot be opened: {os_reason(error)}") from None
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
