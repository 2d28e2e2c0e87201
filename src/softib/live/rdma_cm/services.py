"""Who is bound to which service of which port, on all hosts of the fabric."""

from __future__ import annotations

import errno
from typing import Any

from softib.cm.endpoint import Endpoint, State
from softib.cm.port_space import PS
from softib.live.rdma_cm.address import AF_IB, Address

__all__ = ["Services", "service_of"]

EPHEMERAL = range(32768, 61000)
"""Ports for programs that name none (Linux ip_local_port_range)."""
ALL = (1 << 64) - 1
REUSE = 1
"""``SOFTIB_CM_REUSE``."""


def service_of(ps: int, address: Address) -> tuple[int, int]:
    """Service ID and its mask: port space and port (IBA annex A11), or what an AF_IB address says."""
    if address.family == AF_IB:
        return address.sid, address.mask or ALL
    return ps << 16 | address.port, ALL


class Services:
    """Bindings by port row and service ID."""

    def __init__(self) -> None:
        self._bound: dict[tuple[int, int], list[Endpoint]] = {}
        self._masked: dict[int, list[Endpoint]] = {}
        self._next = 0

    def bind(self, e: Endpoint, any_port: bool) -> int:
        """Bind ``e`` to its service on its ports; a service without a port gets one. Returns an errno, 0 = done."""
        named = e.service_id & 0xFFFF
        if e.service_mask != ALL:
            for port in e.ports:
                self._masked.setdefault(port, []).append(e)
            return 0
        if not named and not (e.ps == PS.IB and e.service_id):
            found = self._free(e)
            if found is None:
                return errno.EADDRNOTAVAIL
            e.service_id |= found
        for port in e.ports:
            for other in self._bound.get((port, e.service_id), ()):
                if not (e.flags & other.flags & REUSE):
                    return errno.EADDRNOTAVAIL if any_port or len(other.ports) > 1 else errno.EADDRINUSE
        for port in e.ports:
            self._bound.setdefault((port, e.service_id), []).append(e)
        return 0

    def _free(self, e: Endpoint) -> int | None:
        for _ in EPHEMERAL:
            port = EPHEMERAL[self._next % len(EPHEMERAL)]
            self._next += 1
            if not any((row, e.service_id | port) in self._bound for row in e.ports):
                return port
        return None

    def check_listen(self, e: Endpoint) -> int:
        """May ``e`` take requests for its service? Returns an errno, 0 = it may."""
        for port in e.ports:
            if any(o.state is State.LISTEN for o in self._bound.get((port, e.service_id), ()) if o is not e):
                return errno.EADDRINUSE
        return 0

    def listener(self, port: int, service_id: int) -> Endpoint | None:
        """Who takes requests for ``service_id`` at ``port``."""
        for e in self._bound.get((port, service_id), ()):
            if e.state is State.LISTEN:
                return e
        for e in self._masked.get(port, ()):
            if e.state is State.LISTEN and not (e.service_id ^ service_id) & e.service_mask:
                return e
        return None

    def release(self, e: Endpoint) -> None:
        """Whatever ``e`` was bound to is free."""
        for port in e.ports:
            _remove(self._bound, (port, e.service_id), e)
            _remove(self._masked, port, e)
        e.ports = ()


def _remove(table: dict[Any, list[Endpoint]], key: object, e: Endpoint) -> None:
    here = table.get(key, [])
    if e in here:
        here.remove(e)
        if not here:
            del table[key]
