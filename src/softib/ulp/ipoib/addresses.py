"""The interfaces of a node and their addresses, from the node's sysfs.

``ib0`` belongs to the first port, in the partition of the P_Key at index 0; ``ib0.8001`` is a child
interface in another partition of the same port, as with Linux. The IPv4 address of a parent is that
of rdma_cm with 10 instead of 127; a child's is 10.<128 + low seven bits of the P_Key>.<row>.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["NETWORK", "Interface", "interfaces_of", "net_address"]

NETWORK = ipaddress.ip_network("10.64.0.0/10")
RDMA_CM = ipaddress.ip_network("127.64.0.0/10")
CHILD_ROWS = 0xFFFE
"""Number of ports whose child interfaces get an IPv4 address: the size of a /16."""
MEMBER = 0x7FFF
FULL = 0x8000
UNIVERSAL = 0x02


@dataclass(frozen=True)
class Interface:
    """``device``, ``portnum`` and ``pkey_index`` are for its queue pair; ``guid`` is the port's."""

    name: str
    device: str
    portnum: int
    pkey_index: int
    pkey: int
    guid: bytes
    ip4: ipaddress.IPv4Interface | None

    @property
    def mac(self) -> bytes:
        """Return the TAP's MAC address: locally administered, with the low five bytes of the port's
        GUID."""
        return bytes([UNIVERSAL]) + self.guid[3:]

    @property
    def ip6(self) -> ipaddress.IPv6Address:
        """Return the link-local address, from the port's GUID (RFC 4391, 8)."""
        return ipaddress.IPv6Address(b"\xfe\x80" + bytes(6) + bytes([self.guid[0] | UNIVERSAL]) + self.guid[1:])


def net_address(rdma_address: str) -> str:
    """Return the address of ``ib0`` that corresponds to the rdma_cm address (``$SOFTIB_ADDRESS``
    outside the namespace)."""
    row = int(ipaddress.ip_address(rdma_address)) - int(RDMA_CM.network_address)
    return str(NETWORK.network_address + row)


def interfaces_of(view: Path, addresses: Sequence[str]) -> list[Interface]:
    """Return the interfaces of the node with the sysfs tree ``view``, parents in the order of
    ``addresses`` (of rdma_cm), each followed by its children. A port with an empty P_Key table has
    none."""
    out: list[Interface] = []
    for number, (port, address) in enumerate(zip(_ports(view), addresses, strict=False)):
        guid = bytes.fromhex((port / "gids" / "0").read_text().strip().replace(":", ""))[8:]
        row = int(ipaddress.ip_address(address)) - int(RDMA_CM.network_address)
        for index, pkey in _pkeys(port):
            name, ip4 = f"ib{number}.{pkey | FULL:04x}", _child_address(pkey, row)
            if index == 0:
                name, ip4 = f"ib{number}", ipaddress.IPv4Interface(f"{net_address(address)}/{NETWORK.prefixlen}")
            out.append(Interface(name, port.parts[-3], int(port.name), index, pkey, guid, ip4))
    return out


def _ports(view: Path) -> list[Path]:
    ports = (view / "sys/class/infiniband").glob("*/ports/*")
    return sorted(ports, key=lambda p: (len(p.parts[-3]), p.parts[-3], int(p.name)))


def _pkeys(port: Path) -> Iterator[tuple[int, int]]:
    """Return index and value of each partition, with full membership if the table has both."""
    entries = sorted((int(p.name), int(p.read_text(), 16)) for p in (port / "pkeys").iterdir())
    seen = set()
    for index, pkey in entries:
        twin = any(other == pkey | FULL for _, other in entries)
        if pkey & MEMBER and not (twin and not pkey & FULL and index) and pkey & MEMBER not in seen:
            seen.add(pkey & MEMBER)
            yield index, pkey


def _child_address(pkey: int, row: int) -> ipaddress.IPv4Interface | None:
    if row > CHILD_ROWS:
        return None
    return ipaddress.IPv4Interface(f"10.{128 + (pkey & 0x7F)}.{row >> 8}.{row & 0xFF}/16")
