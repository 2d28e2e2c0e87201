"""Addresses of rdma_cm: each CA port owns one IPv4 address in 127.64.0.0/10. Any user may bind these addresses without
root privileges.

Socket addresses are bytes: ``struct sockaddr_in``, ``sockaddr_in6`` and librdmacm's ``sockaddr_ib``.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

import numpy as np

from softib.fabric.model import Fabric
from softib.iba.constants import PortState
from softib.iba.smp import PortInfo
from softib.live.sysfs.files import gid_text
from softib.live.sysfs.roce import NETWORK, ip_of
from softib.live.sysfs.views import View

__all__ = ["AF_IB", "Address", "Addresses", "dotted", "group_id", "parse"]

AF_IB = 27
BITS = 22
IPOIB_NETWORK = 10 << 24 | 64 << 16
"""10.64.0.0/10: addresses of the ports inside the network namespaces of nodes."""
LOOPBACK = 127 << 24 | 1
UDP_SIGNATURE = 0x4001
"""Signature in the MGIDs of rdma_cm's IPv4 groups. They are the MGIDs of IPoIB with this value instead of IPoIB's
signature 0x401B (RFC 4391; Linux cma.c)."""
_IB = struct.Struct("=HHI16sQQQ")


@dataclass(frozen=True, slots=True)
class Address:
    """An address of rdma_cm. ``host`` is an IPv4 address, a GID (AF_IB), or None for any. ``sid``, ``mask`` and
    ``pkey`` belong to AF_IB."""

    family: int
    host: int | bytes | None
    port: int = 0
    sid: int = 0
    mask: int = 0
    pkey: int = 0

    @property
    def is_local(self) -> bool:
        """Return whether the address means "this host" (any, or loopback)."""
        return self.host is None or self.host == LOOPBACK

    @property
    def is_multicast(self) -> bool:
        """Return whether it is a multicast address."""
        return self.host[0] == 0xFF if isinstance(self.host, bytes) else self.host is not None and self.host >> 28 == 14

    def octets(self, port: int | None = None) -> bytes:
        """Return the bytes of the socket address, with another port if one is given."""
        port = self.port if port is None else port
        if self.family == AF_IB:
            gid = self.host if isinstance(self.host, bytes) else bytes(16)
            sid = self.sid & ~0xFFFF | port if port else self.sid
            net = struct.pack("!Q", sid), struct.pack("!Q", self.mask or (1 << 64) - 1)
            return _IB.pack(AF_IB, socket.htons(self.pkey), 0, gid, *(int.from_bytes(o, "little") for o in net), 0)
        if self.family == socket.AF_INET6:
            return struct.pack("=HHI16sI", socket.AF_INET6, socket.htons(port), 0, bytes(16), 0)
        assert not isinstance(self.host, bytes)
        return struct.pack("=HHI8x", socket.AF_INET, socket.htons(port), socket.htonl(self.host or 0))


def parse(octets: bytes) -> Address | None:
    """Return the address; None if it cannot be used here (an IPv6 address that is neither "any" nor a mapped IPv4
    address)."""
    octets = octets.ljust(_IB.size, b"\0")
    family, port = struct.unpack_from("=HH", octets)
    port = socket.ntohs(port)
    if family == socket.AF_INET:
        ip = _of_port(int.from_bytes(octets[4:8], "big"))
        return Address(family, ip or None, port)
    if family == socket.AF_INET6:
        host = octets[8:24]
        if not any(host):
            return Address(family, None, port)
        if host == bytes(15) + b"\1":
            return Address(socket.AF_INET, LOOPBACK, port)
        if host[:12] == bytes(10) + b"\xff\xff":
            return Address(socket.AF_INET, int.from_bytes(host[12:], "big"), port)
        return None
    if family == AF_IB:
        gid, sid, mask = octets[8:24], int.from_bytes(octets[24:32], "big"), int.from_bytes(octets[32:40], "big")
        return Address(AF_IB, gid if any(gid) else None, sid & 0xFFFF, sid, mask, port)
    return None


def _of_port(ip: int) -> int:
    """Return ``ip``; for an address of ``ib0`` in the network of a node (``softib run --net``), the
    address of its port."""
    return NETWORK + ip - IPOIB_NETWORK if 0 <= ip - IPOIB_NETWORK < 1 << BITS else ip


def dotted(ip: int) -> str:
    """Return an IPv4 address as text, for example ``127.64.0.1``."""
    return socket.inet_ntoa(struct.pack("!I", ip))


def group_id(address: Address, pkey: int) -> bytes:
    """Return the MGID of a multicast address: link-local scope, in partition ``pkey`` (RFC 4391 with
    rdma_cm's signature)."""
    if isinstance(address.host, bytes):
        return address.host
    assert address.host is not None
    return struct.pack("!HHH6xI", 0xFF12, UDP_SIGNATURE, pkey | 0x8000, address.host & 0x0FFFFFFF)


class Addresses:
    """IP addresses of ports."""

    def __init__(self, fabric: Fabric):
        self.fabric = fabric

    def ip_of(self, port: int) -> int:
        """Return the IPv4 address of port row ``port``."""
        return ip_of(port)

    def port_of(self, ip: int) -> int | None:
        """Return the CA port that owns ``ip``; None if none does."""
        port = ip - NETWORK - 1
        f = self.fabric
        if not 0 <= port < f.sizes.ports or not f.port_num[port] or f.is_switch[f.port_node[port]]:
            return None
        return port

    def of_view(self, view: View) -> list[str]:
        """Return the addresses of the ports that a program sees."""
        return [dotted(ip) for ip in map(self.ip_of, view.umads) if self.port_of(ip) is not None]

    def gid_of(self, port: int) -> bytes:
        """Return GID 0 of a port."""
        return bytes.fromhex(gid_text(self.fabric, port, 0).replace(":", ""))

    def port_of_gid(self, gid: bytes) -> int | None:
        """Return the port with this GID 0."""
        ports = np.flatnonzero(self.fabric.port_guid == np.uint64(int.from_bytes(gid[8:], "big")))
        for port in ports.tolist():
            if self.fabric.port_num[port] and self.gid_of(port) == gid:
                return int(port)
        return None

    def is_active(self, port: int) -> bool:
        """Return whether data can be sent from this port."""
        return int(self.fabric.port_state[port]) == PortState.ACTIVE

    def lid_of(self, port: int) -> int:
        """Return the LID of a port."""
        return int(PortInfo.lid.get(self.fabric.port_info[port]))

    def pkeys_of(self, port: int) -> list[int]:
        """Return the P_Key table of a port."""
        f = self.fabric
        base = int(f.pkey_base[port])
        table: list[int] = f.pkeys[base : base + int(f.pkey_cap[port])].tolist()
        return table

    def first_pkey(self, port: int) -> int:
        """Return the P_Key at index 0."""
        return int(self.fabric.pkeys[self.fabric.pkey_base[port]])

    def pkey_index(self, port: int, pkey: int) -> int | None:
        """Return the index of the partition ``pkey`` (its low 15 bits) in the table, of the entry with full membership
        if there are two. None if the table has no such entry."""
        table = self.pkeys_of(port)
        for wanted in (pkey | 0x8000, pkey & 0x7FFF):
            if wanted & 0x7FFF and wanted in table:
                return table.index(wanted)
        return None

    def named(self, address: Address, ports: tuple[int, ...]) -> tuple[int, ...]:
        """Return those of a host's ``ports`` to which ``address`` refers. "Any" names all ports; the loopback address
        names the first active one."""
        if address.host is None:
            return ports
        if address.host == LOOPBACK:
            return tuple(p for p in ports if self.is_active(p))[:1] or ports[:1]
        port = self.port_of_gid(address.host) if isinstance(address.host, bytes) else self.port_of(address.host)
        return (port,) if port in ports else ()
