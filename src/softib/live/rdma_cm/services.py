"""The bindings of ids to services and ports, on all hosts of the fabric."""

from __future__ import annotations

import errno
import socket
from typing import Any

from softib.cm.endpoint import PS, Endpoint, State
from softib.live.rdma_cm.address import AF_IB, Address, parse
from softib.live.rdma_cm.wire import constant

__all__ = ["Services", "service_of"]

EPHEMERAL = range(32768, 61000)
"""Port numbers for programs that do not request one (Linux ip_local_port_range)."""
ALL = (1 << 64) - 1
REUSE, AF_ONLY, AF_GIVEN = (constant(name) for name in ("REUSE", "AF_ONLY", "AF_GIVEN"))


def service_of(ps: int, address: Address) -> tuple[int, int]:
    """Return the service ID and its mask: from port space and port (IBA annex A11), or from an AF_IB address."""
    if address.family == AF_IB:
        return address.sid, address.mask or ALL
    return ps << 16 | address.port, ALL


class Services:
    """The bindings of ids, by port row and service ID."""

    def __init__(self) -> None:
        self._bound: dict[tuple[int, int], list[Endpoint]] = {}
        self._masked: dict[int, list[Endpoint]] = {}
        self._next = 0

    def bind(self, e: Endpoint) -> int:
        """Bind ``e`` to its service and source address; a service without a port number gets a free one.
        Returns an errno, 0 = done."""
        named = e.service_id & 0xFFFF
        if e.service_mask != ALL:
            for port in e.ports:
                self._masked.setdefault(port, []).append(e)
            return 0
        if not named and not (e.ps == PS.IB and e.service_id):
            free_port = self._free(e)
            if free_port is None:
                return errno.EADDRNOTAVAIL
            e.service_id |= free_port
        if error := self._conflict(e, bool(e.flags & REUSE)):
            return error
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

    def _conflict(self, e: Endpoint, reuse: bool) -> int:
        """Return whether an id that is bound to the same service excludes ``e``, by the rules of ``cma_check_port``
        (Linux cma.c)."""
        for port in e.ports:
            for other in self._bound.get((port, e.service_id), ()):
                shared = reuse and other.flags & REUSE and other.state is not State.LISTEN
                if other is e or shared or (error := _exclude(e, other)) == 0:
                    continue
                return error
        return 0

    def check_listen(self, e: Endpoint) -> int:
        """Return an errno: 0 if ``e`` may receive requests for its service."""
        return self._conflict(e, reuse=False) if e.flags & REUSE else 0

    def listener(self, port: int, service_id: int) -> Endpoint | None:
        """Return the id that receives requests for ``service_id`` at ``port`` from IPv4 or AF_IB addresses."""
        for e in self._bound.get((port, service_id), ()):
            address = parse(e.source)
            if e.state is State.LISTEN and address and not (address.family == socket.AF_INET6 and _af_only(e, address)):
                return e
        for e in self._masked.get(port, ()):
            if e.state is State.LISTEN and not (e.service_id ^ service_id) & e.service_mask:
                return e
        return None

    def release(self, e: Endpoint) -> None:
        """Release every service and address to which ``e`` is bound."""
        for port in e.ports:
            _remove(self._bound, (port, e.service_id), e)
            _remove(self._masked, port, e)
        e.ports = ()


def _af_only(e: Endpoint, address: Address) -> bool:
    """Return whether ``e`` is bound only to addresses of its own family. This is always true for an IPv6 address, and
    for an IPv4 address if the program requests it."""
    return bool(e.flags & AF_ONLY) if e.flags & AF_GIVEN else address.family == socket.AF_INET


def _exclude(e: Endpoint, other: Endpoint) -> int:
    a, b = parse(e.source), parse(other.source)
    if a is None or b is None or (a.family != b.family and _af_only(e, a) and _af_only(other, b)):
        return 0
    if a.host is None or b.host is None:
        return errno.EADDRNOTAVAIL
    return errno.EADDRINUSE if (a.family, a.host) == (b.family, b.host) else 0


def _remove(table: dict[Any, list[Endpoint]], key: object, e: Endpoint) -> None:
    here = table.get(key, [])
    if e in here:
        here.remove(e)
        if not here:
            del table[key]
