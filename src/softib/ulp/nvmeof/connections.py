"""Connections for queues through librdmacm: events, listening, accepting and connecting."""

from __future__ import annotations

import ctypes
import errno
import ipaddress
import os
import select
import socket
import struct
import time
from collections.abc import Callable
from ctypes import POINTER, byref, c_int
from typing import NamedTuple

from softib.errors import InputError, PeerError
from softib.ulp.nvmeof.rdma import READS, RETRIES, RNR_FOREVER, QueuePair
from softib.ulp.nvmeof.rdma_core import CmEventRecord, CmId, ConnParam, created, failed_call, rdmacm, word

__all__ = [
    "CmEvent",
    "ConnectionRequest",
    "Event",
    "EventChannel",
    "Listener",
    "PreparedConnection",
    "Rejected",
    "connect",
]

PS_TCP = 0x0106
RESOLVE_MS = 4000
CONNECT_S = 70.0
"""Time limit for a connection attempt. (The CM reports an unreachable host after a minute.)"""
BACKLOG = 128


class Event:
    """Values of ``rdma_cm_event_type``."""

    ADDR_RESOLVED, ADDR_ERROR, ROUTE_RESOLVED, ROUTE_ERROR, CONNECT_REQUEST = range(5)
    CONNECT_ERROR, UNREACHABLE, REJECTED, ESTABLISHED, DISCONNECTED = range(6, 11)
    DEVICE_REMOVAL = 11


class Rejected(PeerError):
    """Raised if the listener refused the connection; ``private_data`` may contain its reason."""

    def __init__(self, message: str, private_data: bytes):
        super().__init__(message)
        self.private_data = private_data


class CmEvent(NamedTuple):
    """An event of a connection."""

    kind: int
    status: int
    address: int
    """Address of the connection's ``rdma_cm_id``."""
    parameters: ConnParam
    private_data: bytes


class EventChannel:
    """A channel on which connection events arrive."""

    def __init__(self) -> None:
        self.pointer = created(rdmacm().rdma_create_event_channel(), "rdma_create_event_channel")
        self.fd = word(self.pointer, c_int)
        os.set_blocking(self.fd, False)

    def get(self, timeout_s: float | None) -> CmEvent | None:
        """Return the next event; None after ``timeout_s``."""
        event = POINTER(CmEventRecord)()
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while rdmacm().rdma_get_cm_event(self.pointer, byref(event)):
            if ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):
                raise failed_call("rdma_get_cm_event")
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return None
            poll = select.poll()
            poll.register(self.fd, select.POLLIN)
            poll.poll(None if left is None else left * 1000)
        content = event.contents
        conn = ConnParam.from_buffer_copy(content.conn)
        data = ctypes.string_at(conn.private_data, conn.private_data_len) if conn.private_data else b""
        result = CmEvent(content.event, content.status, ctypes.addressof(content.id.contents), conn, data)
        rdmacm().rdma_ack_cm_event(event)
        return result

    def close(self) -> None:
        """Destroy the channel. Its ``rdma_cm_id`` objects must be destroyed first."""
        rdmacm().rdma_destroy_event_channel(self.pointer)


def _sockaddr(address: str, port: int) -> bytes:
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", port, ipaddress.IPv4Address(address).packed)


class Listener:
    """Listens on ``port`` of ``address`` (``0.0.0.0``: all ports of the node)."""

    def __init__(self, channel: EventChannel, address: str, port: int):
        self.id = POINTER(CmId)()
        if rdmacm().rdma_create_id(channel.pointer, byref(self.id), None, PS_TCP):
            raise InputError("no RDMA device is here; start the target with 'softib run -- softib target ...'")
        for call, argument in (("rdma_bind_addr", _sockaddr(address, port)), ("rdma_listen", BACKLOG)):
            if getattr(rdmacm(), call)(self.id, argument):
                number = ctypes.get_errno()
                rdmacm().rdma_destroy_id(self.id)
                if number in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
                    raise InputError(f"{address} port {port} is in use on this node; use another --port")
                raise InputError(f"cannot listen on {address} port {port}: {os.strerror(number)}")

    def close(self) -> None:
        """Stop listening."""
        rdmacm().rdma_destroy_id(self.id)


class ConnectionRequest:
    """A connection request from a host. To accept it, call :meth:`queue_pair` and then the queue pair's ``accept``; to
    refuse it, call :meth:`reject`."""

    def __init__(self, address: int, parameters: ConnParam, private_data: bytes):
        self.id = ctypes.cast(address, POINTER(CmId))
        self.address, self.private_data = address, private_data
        self.initiator_depth, self.responder_resources = parameters.initiator_depth, parameters.responder_resources

    @property
    def local_address(self) -> str:
        """Return the address to which the request was sent."""
        return str(ipaddress.IPv4Address(bytes(self.id.contents.address)))

    def reject(self, private_data: bytes) -> None:
        """Refuse the request."""
        rdmacm().rdma_reject(self.id, private_data, len(private_data))
        rdmacm().rdma_destroy_id(self.id)


class PreparedConnection(NamedTuple):
    """A queue pair that is not connected yet; the route to its peer is resolved."""

    pair: QueuePair
    finish: Callable[[], bytes]
    """Connects the queue pair and returns the peer's private data. Post receives before calling it."""


def connect(
    channel: EventChannel, address: str, port: int, sends: int, receives: int, private_data: bytes
) -> PreparedConnection:
    """Return a queue pair for a connection to ``address``. Raises :class:`InputError`
    for an invalid address, :class:`PeerError` if the peer cannot be reached."""
    try:
        destination = _sockaddr(address, port)
    except ValueError:
        raise InputError(f"address {address!r} is not an IPv4 address; use the target's $SOFTIB_ADDRESS") from None
    identifier, cm = POINTER(CmId)(), rdmacm()
    if cm.rdma_create_id(channel.pointer, byref(identifier), None, PS_TCP):
        raise InputError("no RDMA device is here; start the program with 'softib run -- softib nvme ...'")
    where = f"{address} port {port}"
    try:
        if cm.rdma_resolve_addr(identifier, None, destination, RESOLVE_MS):
            raise PeerError(f"{where}: {os.strerror(ctypes.get_errno())}")
        _expect(channel, Event.ADDR_RESOLVED, where, "no port of the fabric has this address")
        if cm.rdma_resolve_route(identifier, RESOLVE_MS):
            raise PeerError(f"{where}: {os.strerror(ctypes.get_errno())}")
        _expect(channel, Event.ROUTE_RESOLVED, where, "the subnet administrator has no path there: another partition?")
    except PeerError:
        cm.rdma_destroy_id(identifier)
        raise
    pair = QueuePair(identifier, sends, receives)

    def finish() -> bytes:
        buffer = ctypes.create_string_buffer(private_data, len(private_data))
        parameters = ConnParam(
            private_data=ctypes.addressof(buffer),
            private_data_len=len(private_data),
            responder_resources=READS,
            initiator_depth=READS,
            flow_control=1,
            retry_count=RETRIES,
            rnr_retry_count=RNR_FOREVER,
            srq=0,
            qp_num=0,
        )
        if cm.rdma_connect(identifier, byref(parameters)):
            raise failed_call("rdma_connect")
        return _expect(channel, Event.ESTABLISHED, where, "not reachable")

    return PreparedConnection(pair, finish)


def _expect(channel: EventChannel, wanted: int, where: str, otherwise: str) -> bytes:
    """Wait for the next event, which must be ``wanted``; return its private data. Raises :class:`Rejected` and
    :class:`PeerError`."""
    event = channel.get(CONNECT_S)
    if event is None:
        raise PeerError(f"{where}: no answer within {CONNECT_S:g} s")
    if event.kind == Event.REJECTED:
        raise Rejected(
            f"{where} refused the connection" + (": no target listens there" if event.status == 8 else ""),
            event.private_data,
        )
    if event.kind != wanted:
        reason = f" ({os.strerror(-event.status)})" if -4096 < event.status < 0 else ""
        raise PeerError(f"{where}: {otherwise}{reason}")
    return event.private_data
