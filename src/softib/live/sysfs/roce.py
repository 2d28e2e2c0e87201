"""RoCE: adapters whose link layer is Ethernet (``network: roce`` in a fabric.yaml), as programs see them.

A port has sixteen GIDs: 0 and 1 are the link-local address made from its MAC, 2 and 3 its IPv4 address
(``::ffff:a.b.c.d``); even entries are RoCE v1, odd ones RoCE v2; the others are empty. This is the table that Linux
builds for an interface with one IPv4 address (``ib_core``'s roce_gid_mgmt.c). ``preload/verbs/fabric/roce.h``
restates it for verbs.
"""

from __future__ import annotations

import struct

from softib.fabric.model import Fabric

__all__ = [
    "GIDS",
    "NETWORK",
    "ROCE_V2_INDEX",
    "ip_of",
    "is_ethernet",
    "mac_of",
    "mac_of_gid",
    "mapped",
    "roce_gid",
    "roce_type",
]

NETWORK = 127 << 24 | 64 << 16
"""127.64.0.0/10: 2^22 addresses, all of the loopback device."""
NETWORK_SIZE = 1 << 22
LINK_LOCAL = b"\xfe\x80" + bytes(6)
GIDS = 16
ROCE_V2_INDEX = 3
"""Index of the GID of RoCE v2 over IPv4, which rdma_cm uses."""
FIRST_OF_IPV4, LAST_OF_IPV4 = 2, 3
MAC_HEAD = 0x02
"""First byte of a MAC address: locally administered. The other five bytes are the port's row."""


def is_ethernet(f: Fabric, port: int) -> bool:
    """Return whether the link layer of port row ``port`` is Ethernet."""
    return bool(f.node_ethernet[f.port_node[port]])


def ip_of(port: int) -> int:
    """Return the IPv4 address of port row ``port``."""
    return NETWORK + 1 + port


def mapped(ip: int) -> bytes:
    """Return the IPv4-mapped IPv6 address."""
    return bytes(10) + b"\xff\xff" + struct.pack("!I", ip)


def mac_of(port: int) -> bytes:
    """Return the MAC of port row ``port``."""
    return bytes([MAC_HEAD]) + port.to_bytes(5, "big")


def mac_of_gid(gid: bytes) -> bytes:
    """Return the MAC of the port that has ``gid``, which is made from a link-local address or an IPv4 address of
    :data:`NETWORK`; zeros for other GIDs."""
    if gid.startswith(LINK_LOCAL):
        return bytes([gid[8] ^ 2]) + gid[9:11] + gid[13:]
    row = int.from_bytes(gid[12:], "big") - NETWORK - 1
    return mac_of(row) if gid.startswith(mapped(0)[:12]) and 0 <= row < NETWORK_SIZE else bytes(6)


def roce_gid(port: int, index: int) -> bytes:
    """Return GID ``index`` of an Ethernet port, 16 bytes; zeros for an empty entry."""
    if FIRST_OF_IPV4 <= index <= LAST_OF_IPV4:
        return mapped(ip_of(port))
    if index > LAST_OF_IPV4:
        return bytes(16)
    mac = mac_of(port)
    eui64 = bytes([mac[0] ^ 2]) + mac[1:3] + b"\xff\xfe" + mac[3:]  # RFC 4291, appendix A
    return LINK_LOCAL + eui64


def roce_type(index: int) -> str:
    """Return the type of GID ``index`` as sysfs names it."""
    return "RoCE v2" if index % 2 else "IB/RoCE v1"
