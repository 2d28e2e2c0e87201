"""Parts of librdmacm and libibverbs for the queues, through ctypes: connections, memory,
completions.
The structures are those of rdma-core's ``rdma_cma.h`` and ``verbs.h``, whose layout is a stable
ABI. Verbs called through the device's table (posting, polling) become symbols that kernels call.
"""

from __future__ import annotations

import ctypes
import errno
import ipaddress
import mmap
import os
import select
import socket
import struct
import time
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_int, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from softib.errors import InputError, PeerError
from softib.iba.roce_frames import RoceEnds
from softib.live.sysfs.roce import mac_of_gid

__all__ = [
    "CmEvent",
    "ConnectionRequest",
    "Event",
    "EventChannel",
    "Listener",
    "Memory",
    "Path",
    "PreparedConnection",
    "QueuePair",
    "Rejected",
    "connect",
]

OPS_AT = 8
"""Offset in ``struct ibv_context`` of its table of calls."""
CALLS = {"poll_cq": 88, "req_notify_cq": 96, "post_send": 200, "post_recv": 208}
"""Offsets in ``struct ibv_context_ops``."""
SYMBOL = "softib_nvmeof_"
QPN_AT, LKEY_AT, CHANNEL_FD_AT = 52, 36, 8
"""In ``ibv_qp``, ``ibv_mr`` and ``ibv_comp_channel``."""
QP_ATTR_SIZE, PORT_ATTR_SIZE, GID_ENTRY_SIZE = 144, 52, 32
ETHERNET = 2
"""``ibv_port_attr.link_layer``; the types of ``ibv_gid_entry`` are 1 for RoCE v1 and 2 for RoCE v2."""
LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ = 1, 2, 4
PS_TCP, QPT_RC = 0x0106, 2
READS = 16
"""RDMA READs outstanding on a connection: the limit of an HCA."""
RETRIES, RNR_FOREVER = 7, 7
RESOLVE_MS = 4000
CONNECT_S = 70.0
"""Time limit: the CM reports an unreachable host after a minute."""
BACKLOG = 128


class Event:
    """Values of ``rdma_cm_event_type``."""

    ADDR_RESOLVED, ADDR_ERROR, ROUTE_RESOLVED, ROUTE_ERROR, CONNECT_REQUEST = range(5)
    CONNECT_ERROR, UNREACHABLE, REJECTED, ESTABLISHED, DISCONNECTED = range(6, 11)
    DEVICE_REMOVAL = 11


class _Id(ctypes.Structure):
    """The head of ``struct rdma_cm_id``, to the source address of its route."""

    _fields_ = [
        ("verbs", c_void_p),
        ("channel", c_void_p),
        ("context", c_void_p),
        ("qp", c_void_p),
        ("family", c_uint16),
        ("port", c_uint16),
        ("address", c_uint8 * 4),
    ]


class _Parameters(ctypes.Structure):
    """``struct rdma_conn_param``."""

    _fields_ = [
        ("private_data", c_void_p),
        ("private_data_len", c_uint8),
        ("responder_resources", c_uint8),
        ("initiator_depth", c_uint8),
        ("flow_control", c_uint8),
        ("retry_count", c_uint8),
        ("rnr_retry_count", c_uint8),
        ("srq", c_uint8),
        ("qp_num", c_uint32),
    ]


class _Event(ctypes.Structure):
    """``struct rdma_cm_event``."""

    _fields_ = [
        ("id", POINTER(_Id)),
        ("listen_id", POINTER(_Id)),
        ("event", c_int),
        ("status", c_int),
        ("conn", _Parameters),
    ]


class _QpAttributes(ctypes.Structure):
    """``struct ibv_qp_init_attr``."""

    _fields_ = [
        ("qp_context", c_void_p),
        ("send_cq", c_void_p),
        ("recv_cq", c_void_p),
        ("srq", c_void_p),
        ("max_send_wr", c_uint32),
        ("max_recv_wr", c_uint32),
        ("max_send_sge", c_uint32),
        ("max_recv_sge", c_uint32),
        ("max_inline_data", c_uint32),
        ("qp_type", c_int),
        ("sq_sig_all", c_int),
    ]


class Rejected(PeerError):
    """The listener refused the connection; ``private_data`` may have its reason."""

    def __init__(self, message: str, private_data: bytes):
        super().__init__(message)
        self.private_data = private_data


def _library(name: str, purpose: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(name, use_errno=True)
    except OSError:
        raise InputError(f"{name} is missing, which {purpose}; on Debian install {name.partition('.')[0]}1") from None


@cache
def _cm() -> ctypes.CDLL:
    lib = _library("librdmacm.so.1", "connects storage over RDMA")
    lib.rdma_create_event_channel.restype = c_void_p
    lib.rdma_destroy_event_channel.argtypes = [c_void_p]
    lib.rdma_create_id.argtypes = [c_void_p, POINTER(POINTER(_Id)), c_void_p, c_int]
    lib.rdma_get_cm_event.argtypes = [c_void_p, POINTER(POINTER(_Event))]
    lib.rdma_create_qp.argtypes = [POINTER(_Id), c_void_p, POINTER(_QpAttributes)]
    lib.rdma_connect.argtypes = lib.rdma_accept.argtypes = [POINTER(_Id), POINTER(_Parameters)]
    lib.rdma_reject.argtypes = [POINTER(_Id), c_char_p, c_uint8]
    lib.rdma_resolve_addr.argtypes = [POINTER(_Id), c_void_p, c_char_p, c_int]
    return lib


@cache
def _verbs() -> ctypes.CDLL:
    lib = _library("libibverbs.so.1", "has the verbs")
    for name, arguments in (
        ("ibv_alloc_pd", [c_void_p]),
        ("ibv_reg_mr", [c_void_p, c_void_p, ctypes.c_size_t, c_int]),
        ("ibv_create_comp_channel", [c_void_p]),
        ("ibv_create_cq", [c_void_p, c_int, c_void_p, c_void_p, c_int]),
    ):
        function = getattr(lib, name)
        function.argtypes, function.restype = arguments, c_void_p
    for name in ("ibv_dealloc_pd", "ibv_dereg_mr", "ibv_destroy_comp_channel", "ibv_destroy_cq"):
        getattr(lib, name).argtypes = [c_void_p]
    lib.ibv_query_qp.argtypes = [c_void_p, c_void_p, c_int, c_void_p]
    lib.ibv_query_port.argtypes = [c_void_p, c_uint8, c_void_p]
    lib.ibv_query_pkey.argtypes = [c_void_p, c_uint8, c_int, c_void_p]
    lib._ibv_query_gid_ex.argtypes = [c_void_p, c_uint32, c_uint32, c_void_p, c_uint32, ctypes.c_size_t]
    lib.ibv_get_cq_event.argtypes = [c_void_p, POINTER(c_void_p), POINTER(c_void_p)]
    lib.ibv_ack_cq_events.argtypes = [c_void_p, c_uint32]
    return lib


def _failed(call: str) -> PeerError:
    number = ctypes.get_errno() or errno.EIO
    return PeerError(f"{call}: {os.strerror(number)}")


def _made(pointer: int | None, call: str) -> int:
    if not pointer:
        raise _failed(call)
    return pointer


def _word(address: int, kind: Any = c_uint64) -> int:
    return int(kind.from_address(address).value)


_symbols: dict[str, int] = {}


def _bind_calls(context: int) -> None:
    """Bind the calls of the device to the symbols that kernels call. Raises
    :class:`InputError` for a device of another provider than the first."""
    from llvmlite import binding

    for name, at in CALLS.items():
        address = _word(context + OPS_AT + at)
        if _symbols.setdefault(name, address) != address:
            raise InputError("RDMA devices of two providers in one process; use the devices of one")
        binding.add_symbol(SYMBOL + name, address)


def bind_first_device() -> None:
    """Bind the calls of the first device, before the first connection. Raises :class:`InputError`
    without a device."""
    lib, count = _cm(), c_int()
    lib.rdma_get_devices.restype = c_void_p
    devices = lib.rdma_get_devices(byref(count))
    if not devices or not count.value:
        raise InputError("no RDMA device is here; start the program with 'softib run -- ...'")
    _bind_calls(_word(devices))
    lib.rdma_free_devices.argtypes = [c_void_p]
    lib.rdma_free_devices(devices)


class Memory:
    """Registered memory: ``data`` (uint8), page-aligned. Without ``pd`` it is not registered."""

    def __init__(self, pd: int, size: int, remote: bool = False):
        self._map = mmap.mmap(-1, max(size, 1))
        self.data = np.frombuffer(self._map, np.uint8)
        self.address = self.data.ctypes.data
        self.lkey = self.rkey = self._region = 0
        if not pd:
            return
        access = LOCAL_WRITE | (REMOTE_WRITE | REMOTE_READ if remote else 0)
        self._region = _verbs().ibv_reg_mr(pd, self.address, size, access)
        if not self._region:
            raise PeerError(
                f"cannot register {size:,} bytes of memory: {os.strerror(ctypes.get_errno() or errno.ENOMEM)}; free "
                "memory, or use fewer queues or a smaller queue depth"
            )
        self.lkey, self.rkey = _word(self._region + LKEY_AT, c_uint32), _word(self._region + LKEY_AT + 4, c_uint32)

    def close(self) -> None:
        """Deregister it."""
        if self._region:
            _verbs().ibv_dereg_mr(self._region)
            self._region = 0


class CmEvent(NamedTuple):
    """An event of a connection."""

    kind: int
    status: int
    address: int
    """Of its id."""
    parameters: _Parameters
    private_data: bytes


class EventChannel:
    """The channel on which events of connections arrive."""

    def __init__(self) -> None:
        self.pointer = _made(_cm().rdma_create_event_channel(), "rdma_create_event_channel")
        self.fd = _word(self.pointer, c_int)
        os.set_blocking(self.fd, False)

    def get(self, timeout_s: float | None) -> CmEvent | None:
        """Return the next event; None after ``timeout_s``."""
        event = POINTER(_Event)()
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while _cm().rdma_get_cm_event(self.pointer, byref(event)):
            if ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):
                raise _failed("rdma_get_cm_event")
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return None
            poll = select.poll()
            poll.register(self.fd, select.POLLIN)
            poll.poll(None if left is None else left * 1000)
        content = event.contents
        conn = _Parameters.from_buffer_copy(content.conn)
        data = ctypes.string_at(conn.private_data, conn.private_data_len) if conn.private_data else b""
        result = CmEvent(content.event, content.status, ctypes.addressof(content.id.contents), conn, data)
        _cm().rdma_ack_cm_event(event)
        return result

    def close(self) -> None:
        """Destroy the channel. Its ids must be destroyed before."""
        _cm().rdma_destroy_event_channel(self.pointer)


def _sockaddr(address: str, port: int) -> bytes:
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", port, ipaddress.IPv4Address(address).packed)


class Listener:
    """Listens on ``port`` of ``address`` (``0.0.0.0``: all ports of the node)."""

    def __init__(self, channel: EventChannel, address: str, port: int):
        self.id = POINTER(_Id)()
        if _cm().rdma_create_id(channel.pointer, byref(self.id), None, PS_TCP):
            raise InputError("no RDMA device is here; start the target with 'softib run -- softib target ...'")
        for call, argument in (("rdma_bind_addr", _sockaddr(address, port)), ("rdma_listen", BACKLOG)):
            if getattr(_cm(), call)(self.id, argument):
                number = ctypes.get_errno()
                _cm().rdma_destroy_id(self.id)
                if number in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
                    raise InputError(f"{address} port {port} is in use on this node; use another --port")
                raise InputError(f"cannot listen on {address} port {port}: {os.strerror(number)}")

    def close(self) -> None:
        """Stop listening."""
        _cm().rdma_destroy_id(self.id)


class Path(NamedTuple):
    """Addresses of a connection's packets. ``sends_from``, ``receives_from``: PSNs; ``roce``: of RoCE, else
    None."""

    lid: int
    peer_lid: int
    qpn: int
    peer_qpn: int
    sends_from: int
    receives_from: int
    mtu: int
    sl: int
    pkey: int
    roce: RoceEnds | None


class QueuePair:
    """An RC queue pair with its completion queue, channel and protection domain, on a connection's
    id."""

    def __init__(self, identifier: Any, sends: int, receives: int):
        self.id, self._pd, self._channel, self._cq, self._qp = identifier, 0, 0, 0, False
        self.armed = False
        self._memories: list[Memory] = []
        lib, context = _verbs(), identifier.contents.verbs
        if not context:
            raise PeerError("the connection has no RDMA device")
        _bind_calls(context)
        try:
            self._pd = _made(lib.ibv_alloc_pd(context), "ibv_alloc_pd")
            self._channel = _made(lib.ibv_create_comp_channel(context), "ibv_create_comp_channel")
            self.channel_fd = _word(self._channel + CHANNEL_FD_AT, c_int)
            os.set_blocking(self.channel_fd, False)
            self._cq = _made(lib.ibv_create_cq(context, sends + receives, None, self._channel, 0), "ibv_create_cq")
            attributes = _QpAttributes(
                qp_context=None,
                send_cq=self._cq,
                recv_cq=self._cq,
                srq=None,
                max_send_wr=sends,
                max_recv_wr=receives,
                max_send_sge=2,
                max_recv_sge=1,
                max_inline_data=64,
                qp_type=QPT_RC,
                sq_sig_all=0,
            )
            if _cm().rdma_create_qp(identifier, self._pd, byref(attributes)):
                raise _failed("rdma_create_qp")
            self._qp = True
        except PeerError:
            self.close()
            raise
        self._notify = ctypes.CFUNCTYPE(c_int, c_void_p, c_int)(_word(context + OPS_AT + CALLS["req_notify_cq"]))

    @property
    def pointers(self) -> tuple[int, int]:
        """Addresses of the completion queue and of the queue pair, for kernels."""
        return self._cq, int(self.id.contents.qp)

    @property
    def local_address(self) -> str:
        """The IPv4 address of this end."""
        return str(ipaddress.IPv4Address(bytes(self.id.contents.address)))

    def path(self) -> Path:
        """Return the addresses of the connection's packets (``ibv_query_qp``, ``ibv_query_port``)."""
        lib, qp = _verbs(), int(self.id.contents.qp)
        state, attributes = np.zeros(QP_ATTR_SIZE, np.uint8), np.zeros(64, np.uint8)
        port, pkey, everything = np.zeros(PORT_ATTR_SIZE, np.uint8), c_uint16(), (1 << 21) - 1
        if lib.ibv_query_qp(qp, state.ctypes.data, everything, attributes.ctypes.data):
            raise _failed("ibv_query_qp")
        number = int(state[86])
        if lib.ibv_query_port(self.id.contents.verbs, number, port.ctypes.data):
            raise _failed("ibv_query_port")
        lib.ibv_query_pkey(self.id.contents.verbs, number, int(state[120:122].view("<u2")[0]), byref(pkey))
        mtu, rq_psn, sq_psn, peer = (int(state[at : at + 4].view("<u4")[0]) for at in (8, 20, 24, 28))
        lids = int(port[34:36].view("<u2")[0]), int(state[80:82].view("<u2")[0])
        qpn = _word(qp + QPN_AT, c_uint32)
        roce = self._roce(number, int(state[76]), state[56:72].tobytes()) if port[46] == ETHERNET else None
        return Path(*lids, qpn, peer, sq_psn, rq_psn, 128 << mtu, int(state[82]), socket.ntohs(pkey.value), roce)

    def _roce(self, port: int, index: int, peer: bytes) -> RoceEnds:
        """Return the addresses of frames between GID ``index`` of ``port`` and GID ``peer``."""
        lib, entry = _verbs(), np.zeros(GID_ENTRY_SIZE, np.uint8)
        if lib._ibv_query_gid_ex(self.id.contents.verbs, port, index, entry.ctypes.data, 0, GID_ENTRY_SIZE):
            raise _failed("ibv_query_gid_ex")
        gid, version = entry[:16].tobytes(), int(entry[24:28].view("<u4")[0])
        return RoceEnds(mac_of_gid(gid), gid, mac_of_gid(peer), peer, version)

    def memory(self, size: int, remote: bool = False) -> Memory:
        """Return ``size`` bytes of registered memory with the lifetime of this object."""
        memory = Memory(self._pd, size, remote)
        self._memories.append(memory)
        return memory

    def another_domain(self) -> int:
        """Return a second protection domain of the device, for :class:`Memory`; it lives as long as
        the process."""
        return _made(_verbs().ibv_alloc_pd(self.id.contents.verbs), "ibv_alloc_pd")

    def arm(self) -> None:
        """Request an event with the next completion; the caller must poll again before it waits."""
        self._notify(self._cq, 0)
        self.armed = True

    def take_events(self) -> None:
        """Take the events of the completion channel."""
        cq, context, count = c_void_p(), c_void_p(), 0
        while not _verbs().ibv_get_cq_event(self._channel, byref(cq), byref(context)):
            count += 1
        if count:
            _verbs().ibv_ack_cq_events(self._cq, count)
            self.armed = False

    def accept(self, private_data: bytes, request: ConnectionRequest) -> None:
        """Accept the connection. Raises :class:`PeerError`."""
        buffer = ctypes.create_string_buffer(private_data, len(private_data))
        serves, reads = min(READS, request.responder_resources), min(READS, request.initiator_depth)
        size = len(private_data)
        parameters = _Parameters(
            private_data=ctypes.addressof(buffer),
            private_data_len=size,
            responder_resources=serves,
            initiator_depth=reads,
            flow_control=1,
            retry_count=RETRIES,
            rnr_retry_count=RNR_FOREVER,
            srq=0,
            qp_num=0,
        )
        if _cm().rdma_accept(self.id, byref(parameters)):
            raise _failed("rdma_accept")

    def disconnect(self) -> None:
        """Release the connection; posted requests complete as flushed."""
        if self._qp:
            _cm().rdma_disconnect(self.id)

    def close(self) -> None:
        """Destroy the queue pair, the id and their resources."""
        lib, cm = _verbs(), _cm()
        if self._qp:
            cm.rdma_destroy_qp(self.id)
            self._qp = False
        if self._cq:
            self.take_events()
            lib.ibv_destroy_cq(self._cq)
        if self._channel:
            lib.ibv_destroy_comp_channel(self._channel)
        for memory in self._memories:
            memory.close()
        if self._pd:
            lib.ibv_dealloc_pd(self._pd)
        self._cq = self._channel = self._pd = 0
        self._memories = []
        if self.id is not None:
            cm.rdma_destroy_id(self.id)
            self.id = None


class ConnectionRequest:
    """A request that waits for :meth:`queue_pair` and its ``accept``, or for :meth:`reject`."""

    def __init__(self, address: int, parameters: _Parameters, private_data: bytes):
        self.id = ctypes.cast(address, POINTER(_Id))
        self.address, self.private_data = address, private_data
        self.initiator_depth, self.responder_resources = parameters.initiator_depth, parameters.responder_resources

    @property
    def local_address(self) -> str:
        """Return the address to which it was sent."""
        return str(ipaddress.IPv4Address(bytes(self.id.contents.address)))

    def reject(self, private_data: bytes) -> None:
        """Refuse it."""
        _cm().rdma_reject(self.id, private_data, len(private_data))
        _cm().rdma_destroy_id(self.id)


class PreparedConnection(NamedTuple):
    """A queue pair with a route to its peer."""

    pair: QueuePair
    finish: Callable[[], bytes]
    """Connects it after its receives are posted, and returns the peer's private data."""


def connect(
    channel: EventChannel, address: str, port: int, sends: int, receives: int, private_data: bytes
) -> PreparedConnection:
    """Return a queue pair for a connection to ``address``. Raises :class:`InputError`
    for an invalid address, :class:`PeerError` if it cannot be reached."""
    try:
        destination = _sockaddr(address, port)
    except ValueError:
        raise InputError(f"address {address!r} is not an IPv4 address; use the target's $SOFTIB_ADDRESS") from None
    identifier, cm = POINTER(_Id)(), _cm()
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
        parameters = _Parameters(
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
            raise _failed("rdma_connect")
        return _expect(channel, Event.ESTABLISHED, where, "not reachable")

    return PreparedConnection(pair, finish)


def _expect(channel: EventChannel, wanted: int, where: str, otherwise: str) -> bytes:
    """Return the private data of the expected next event. Raises :class:`Rejected` and
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
