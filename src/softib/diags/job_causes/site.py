"""A fabric for the analysis of a failed job: its current and earlier cables, and the ports that belong to the GIDs,
LIDs and names in a log.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from softib.diags.observations import Observations
from softib.fabric.model import Fabric
from softib.fabric.node_finder import device_name
from softib.job_logs.events import End

__all__ = ["Site", "is_ethernet", "site_of"]

LINK_LOCAL = 0xFE80 << 112
LIVE = ("running", "umad")
"""Formats of sources that show the present state of a fabric."""


@dataclass
class Site:
    """``peer`` int64[ports]: the port at the other end of each cable, from the fabric, or from the history if the
    fabric has no cable there now; -1 if there is none. ``lid`` int64[ports]. ``row`` int64[ports]: the row of a port in
    the observations, -1 if it was not observed. ``has_tables``, ``has_pkeys``: whether the fabric's forwarding tables
    and P_Keys were read, not assumed.
    """

    fabric: Fabric
    peer: np.ndarray
    lid: np.ndarray
    row: np.ndarray
    has_tables: bool
    has_pkeys: bool
    observed: Observations | None = None
    not_cabled: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
    """Whether each port's cable is in the history but no longer in the fabric (bool[ports])."""

    @cached_property
    def is_switch(self) -> np.ndarray:
        """Whether each port belongs to a switch (bool[ports])."""
        return np.asarray(self.fabric.is_switch[self.fabric.port_node])

    @cached_property
    def cable(self) -> np.ndarray:
        """Return the smaller row of the two ends of each port's cable (int64[ports]); -1 if it has no cable."""
        rows = np.arange(len(self.peer))
        return np.where(self.peer >= 0, np.minimum(rows, self.peer), -1)

    @property
    def is_live(self) -> bool:
        """Whether the fabric is read live and not from a file, so that the links of its cables are up."""
        return self.fabric.source.format in LIVE

    def join(self, a: int, b: int) -> None:
        """Record that two ports without a link were the ends of one cable."""
        self.peer[a], self.peer[b] = b, a
        self.__dict__.pop("cable", None)

    def name(self, port: int) -> str:
        """Return the name of a port, for example ``leaf-3[40]``."""
        return self.fabric.port_name(port)

    def link(self, port: int) -> str:
        """Return the name of a port's cable, for example ``leaf-3[40] ↔ spine-2[3]``. A host's end comes first."""
        peer = int(self.peer[port])
        if peer < 0:
            return self.name(port)
        first, second = (port, peer) if not self.is_switch[port] or self.is_switch[peer] else (peer, port)
        return f"{self.name(first)} ↔ {self.name(second)}"

    @cached_property
    def _by_guid(self) -> dict[int, int]:
        f = self.fabric
        rows = np.flatnonzero((f.port_num > 0) & ~self.is_switch)
        by_port_guid = {int(g): int(r) for g, r in zip(f.port_guid[rows].tolist(), rows.tolist(), strict=True) if g}
        nodes = {int(g): int(f.node_base[n]) for n, g in enumerate(f.node_guid.tolist()) if f.is_switch[n]}
        return nodes | by_port_guid

    @cached_property
    def _by_host(self) -> dict[str, list[int]]:
        """The cabled ports of each host's adapters, by the host's name in lower case."""
        f = self.fabric
        by_host: dict[str, list[int]] = {}
        for node in np.flatnonzero(f.is_host).tolist():
            ports = [p for p in f.ports_of(node) if self.peer[p] >= 0] or list(f.ports_of(node))[:1]
            for name in {f.node_name(node).lower(), f.node_name(node).split(" ")[0].lower()}:
                by_host.setdefault(name, []).extend(ports)
        return by_host

    def ports_of_host(self, host: str, device: str = "") -> list[int]:
        """Return the ports of a host's adapters. If the host has an adapter ``device`` (``mlx5_0``, ``mlx5_0:1``),
        return only its ports.
        """
        short = host.lower()
        ports = self._by_host.get(short) or self._by_host.get(short.split(".")[0]) or []
        name, _, number = device.partition(":")
        if name:
            named = [p for p in ports if device_name(self.fabric, int(self.fabric.port_node[p])) == name]
            ports = named or ports
        if number.isdecimal() and (exact := [p for p in ports if self.fabric.port_num[p] == int(number)]):
            ports = exact
        return ports

    def ports_of(self, end: End) -> tuple[list[int], str]:
        """Return the ports that an end in a log may mean, and the reason if there are none."""
        if end.gid:
            return self._of_gid(end.gid)
        if end.lid:
            rows = np.flatnonzero(
                (self.lid <= end.lid) & (self.lid + (1 << self.fabric.lmc.astype(np.int64)) > end.lid) & (self.lid > 0)
            )
            ends = [int(r) for r in rows.tolist() if not self.is_switch[r] or self.fabric.port_num[r] == 0]
            return (ends, "") if ends else ([], f"no port of this fabric has LID {end.lid}")
        if end.host:
            ports = self.ports_of_host(end.host, end.device)
            return (ports, "") if ports else ([], f"host {end.host} is not in this fabric")
        return [], ""

    def _of_gid(self, gid: str) -> tuple[list[int], str]:
        if is_ethernet(gid):
            return [], f"GID {gid} belongs to Ethernet (RoCE), not to an InfiniBand subnet"
        row = self._by_guid.get(int(ipaddress.IPv6Address(gid)) & (1 << 64) - 1)
        return ([row], "") if row is not None else ([], f"GID {gid} is not in this fabric")


def is_ethernet(gid: str) -> bool:
    """Return whether the GID is one of an Ethernet adapter: an IPv4 address (``::ffff:10.0.0.1``), or a link-local
    address derived from a MAC address (``ff:fe`` in the middle of the EUI-64).
    """
    address = ipaddress.IPv6Address(gid)
    if address.ipv4_mapped is not None:
        return True
    value = int(address)
    return value >> 64 == LINK_LOCAL >> 64 and (value >> 24) & 0xFFFF == 0xFFFE and bool((value >> 57) & 1)


def site_of(fabric: Fabric, observed: Observations | None, has_tables: bool, has_pkeys: bool = False) -> Site:
    """Return ``fabric`` combined with the history of its ports."""
    peer, lid = fabric.port_peer.astype(np.int64), fabric.lid.astype(np.int64)
    row = np.full(fabric.sizes.ports, -1, np.int64)
    lost = np.zeros(fabric.sizes.ports, bool)
    if observed is not None and len(observed.ports):
        ports = observed.ports
        order = np.argsort(fabric.node_guid, kind="stable")
        at = np.searchsorted(fabric.node_guid[order], ports.node_guid)
        node = order[np.minimum(at, len(order) - 1)]
        num = np.asarray(ports.portnum, np.int64)
        in_fabric = (fabric.node_guid[node] == ports.node_guid) & (num >= 0) & (num <= fabric.node_nports[node])
        row_of_port = np.full(len(ports), -1, np.int64)
        row_of_port[in_fabric] = fabric.node_base[node[in_fabric]] + num[in_fabric]
        row[row_of_port[in_fabric]] = np.flatnonzero(in_fabric)
        lid[row_of_port[in_fabric]] = np.where(
            lid[row_of_port[in_fabric]] > 0, lid[row_of_port[in_fabric]], ports.lid[in_fabric]
        )
        other = np.asarray(ports.peer, np.int64)
        both = np.flatnonzero(in_fabric & (other >= 0) & (row_of_port >= 0) & (row_of_port[np.maximum(other, 0)] >= 0))
        a, b = row_of_port[both], row_of_port[other[both]]
        free = (peer[a] < 0) & (peer[b] < 0)
        peer[a[free]] = b[free]
        lost[a[free]] = True
    return Site(fabric, peer, lid, row, has_tables, has_pkeys, observed, lost)
