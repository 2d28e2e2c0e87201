"""The commands of /dev/infiniband/rdma_cm as octets (linux/rdma_user_cm.h, ABI 4), for programs under our library.

Run as a program it is told in words on stdin what to do; tests start it with the library loaded.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections import namedtuple

(
    CREATE_ID, DESTROY_ID, BIND_IP, RESOLVE_IP, RESOLVE_ROUTE, QUERY_ROUTE, CONNECT, LISTEN, ACCEPT, REJECT, DISCONNECT,
    INIT_QP_ATTR, GET_EVENT, GET_OPTION, SET_OPTION, NOTIFY, JOIN_IP_MCAST, LEAVE_MCAST, MIGRATE_ID, QUERY, BIND,
    RESOLVE_ADDR, JOIN_MCAST, RESOLVE_IB_SERVICE, WRITE_CM_EVENT,
) = range(25)  # fmt: skip # a packed list of short values
(
    ADDR_RESOLVED,
    ADDR_ERROR,
    ROUTE_RESOLVED,
    ROUTE_ERROR,
    CONNECT_REQUEST,
    CONNECT_RESPONSE,
    CONNECT_ERROR,
    UNREACHABLE,
    REJECTED,
    ESTABLISHED,
    DISCONNECTED,
    DEVICE_REMOVAL,
    MULTICAST_JOIN,
    MULTICAST_ERROR,
    ADDR_CHANGE,
    TIMEWAIT_EXIT,
) = range(16)
USER, INTERNAL = 18, 19
TCP, UDP = 0x0106, 0x0111
REUSEADDR, AFONLY = 1, 2
DEVICE = "/dev/infiniband/rdma_cm"
Seen = namedtuple("Seen", "uid id event status qpn private conn")


def sockaddr(ip: str, port: int) -> bytes:
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(ip) + bytes(8)


def sockaddr6(port: int) -> bytes:
    """``::``"""
    return struct.pack("=H", socket.AF_INET6) + struct.pack("!H", port) + bytes(24)


def param(qpn=0, private=b"", valid=1, responder=1, depth=1) -> bytes:
    return struct.pack("=II256s8B", qpn, 0, private, len(private), 0, responder, depth, 0, 7, 7, valid)


class Ucm:
    """An open device."""

    def __init__(self, flags=0):
        self.fd = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC | flags)

    def write(self, command: int, body: bytes, out: int = 0) -> bytes:
        """``body`` with the address of ``out`` octets of room put before it, where the command has an answer."""
        room = ctypes.create_string_buffer(max(out, 1))
        if out:
            body = body[:0] + struct.pack("=Q", ctypes.addressof(room)) + body
        message = struct.pack("=IHH", command, len(body), out) + body
        assert os.write(self.fd, message) == len(message)
        return room.raw[:out]

    def create(self, uid=1, ps=TCP, qp_type=2) -> int:
        room = ctypes.create_string_buffer(4)
        body = struct.pack("=QQHB5x", uid, ctypes.addressof(room), ps, qp_type)
        os.write(self.fd, struct.pack("=IHH", CREATE_ID, len(body), 4) + body)
        return struct.unpack("=I", room.raw)[0]

    def destroy(self, id_: int) -> int:
        return struct.unpack("=I", self.write(DESTROY_ID, struct.pack("=II", id_, 0), 4))[0]

    def bind(self, id_: int, ip="0.0.0.0", port=0) -> None:
        address = sockaddr6(port) if ip == "::" else sockaddr(ip, port)
        self.write(BIND, struct.pack("=IHH128s", id_, len(address), 0, address))

    def set_option(self, id_: int, name: int, value: int) -> None:
        """Of RDMA_OPTION_ID."""
        room = ctypes.create_string_buffer(struct.pack("=i", value), 4)
        self.write(SET_OPTION, struct.pack("=QIIII", ctypes.addressof(room), id_, 0, name, 4))

    def listen(self, id_: int, backlog=0) -> None:
        self.write(LISTEN, struct.pack("=II", id_, backlog))

    def resolve_addr(self, id_: int, ip: str, port: int, timeout_ms=2000) -> None:
        self.write(RESOLVE_ADDR, struct.pack("=IIHHI128s128s", id_, timeout_ms, 0, 16, 0, b"", sockaddr(ip, port)))

    def resolve_route(self, id_: int, timeout_ms=2000) -> None:
        self.write(RESOLVE_ROUTE, struct.pack("=II", id_, timeout_ms))

    def connect(self, id_: int, **words) -> None:
        self.write(CONNECT, param(**words) + struct.pack("=IIII", id_, 0, 0, 0))

    def accept(self, id_: int, uid=0, **words) -> None:
        self.write(ACCEPT, struct.pack("=Q", uid) + param(**words) + struct.pack("=IIII", id_, 0, 0, 0))

    def ready(self, id_: int) -> None:
        self.accept(id_, valid=0)

    def reject(self, id_: int, private=b"") -> None:
        self.write(REJECT, struct.pack("=IBB2x256s", id_, len(private), 0, private))

    def disconnect(self, id_: int) -> None:
        self.write(DISCONNECT, struct.pack("=I", id_))

    def event(self) -> Seen:
        raw = self.write(GET_EVENT, b"", 336)
        uid, id_, event, status = struct.unpack_from("=QIIi", raw)
        conn = struct.unpack_from("=II256s8B", raw, 20)
        return Seen(uid, id_, event, status, conn[0], conn[2][: conn[3]], conn)

    def expect(self, *events: int) -> Seen:
        seen = self.event()
        assert seen.event in events, seen
        return seen

    def write_event(self, id_: int, event: int, status=0, argument=0) -> None:
        self.write(WRITE_CM_EVENT, struct.pack("=IIIIQ296x", id_, 0, event, status, argument))

    def query_addr(self, id_: int):
        """(node GUID, portnum, source, target)"""
        raw = self.write(QUERY, struct.pack("=II", id_, 0), 8 + 8 + 256 + 8)
        guid, portnum = struct.unpack_from(">QB", raw)
        return guid, portnum, raw[16 : 16 + 16], raw[144 : 144 + 16]

    def attr(self, id_: int, state: int) -> bytes:
        return self.write(INIT_QP_ATTR, struct.pack("=II", id_, state), 144)

    def route(self, id_: int, ip: str, port: int) -> None:
        self.resolve_addr(id_, ip, port)
        self.expect(ADDR_RESOLVED)
        self.resolve_route(id_)
        self.expect(ROUTE_RESOLVED)

    def route_by(self, id_: int, ip: str, port: int, path: str) -> None:
        """Resolve with a path that is known already (RDMA_OPTION_IB_PATH)."""
        self.resolve_addr(id_, ip, port)
        self.expect(ADDR_RESOLVED)
        record = struct.pack("=II", 1 | 2 | 8 | 32, 0) + bytes.fromhex(path)
        room = ctypes.create_string_buffer(record, len(record))
        self.write(SET_OPTION, struct.pack("=QIIII", ctypes.addressof(room), id_, 1, 1, len(record)))
        self.expect(ROUTE_RESOLVED)
