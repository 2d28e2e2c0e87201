"""The ports of a node, and the IP addresses of their interfaces.

``ib0`` is the interface of the first port, in the partition of the P_Key at index 0. ``ib0.8001`` is a child interface
in another partition of the same port, as in Linux. ``softib-ipoib`` creates both.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path

__all__ = ["NETWORK", "net_address", "ports_of", "row_of"]

NETWORK = ipaddress.ip_network("10.64.0.0/10")
"""Network of the parent interfaces. The address of an interface is its port's rdma_cm address with the first byte 10
instead of 127 (as in tap.c)."""
RDMA_CM = ipaddress.ip_network("127.64.0.0/10")


def row_of(rdma_address: str) -> int:
    """Return the row of the port with this rdma_cm address: the host part of the address."""
    return int(ipaddress.ip_address(rdma_address)) - int(RDMA_CM.network_address)


def net_address(rdma_address: str) -> str:
    """Return the address of the interface on the port with this rdma_cm address (``$SOFTIB_ADDRESS`` outside the
    namespace)."""
    return str(NETWORK.network_address + row_of(rdma_address))


def ports_of(view: Path) -> list[tuple[str, int]]:
    """Return (device, port number) of each port of a node, in the order of the node's addresses. ``view``: the node's
    sysfs tree."""
    ports = (view / "sys/class/infiniband").glob("*/ports/*")
    ordered = sorted(ports, key=lambda p: (len(p.parts[-3]), p.parts[-3], int(p.name)))
    return [(p.parts[-3], int(p.name)) for p in ordered]
