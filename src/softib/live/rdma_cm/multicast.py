"""Multicast groups that programs join through rdma_cm: a port joins only once, even if several programs join on it (IBA
15.2.5.17)."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

from softib.cm.endpoint import Endpoint, Event, Path, qkey_of
from softib.iba.mad_codec import codec
from softib.iba.sa import MCMemberRecord
from softib.live.rdma_cm.address import Address, Addresses, group_id
from softib.live.rdma_cm.sa_client import SaClient

__all__ = ["MULTICAST_QPN", "Groups"]

MULTICAST_QPN = 0xFFFFFF
TIMEOUT_MS = 3000
"""Time limit for the SA's answer, as in Linux (cma.c: CMA_IBOE…)."""
FULL = 1


class Groups:
    """Memberships by their ids. ``report`` is called with MULTICAST_JOIN and
    MULTICAST_ERROR."""

    def __init__(
        self, addresses: Addresses, sa: SaClient, report: Callable[[Endpoint, Event, int, dict[str, Any]], None]
    ):
        self.addresses, self.sa, self.report = addresses, sa, report
        self._members: dict[Endpoint, tuple[int, bytes, int]] = {}
        self._count: dict[tuple[int, bytes, int], int] = {}
        self._parents: dict[Endpoint, Endpoint] = {}

    def join(self, e: Endpoint, parent: Endpoint, address: Address | None, state: int) -> None:
        """Make ``e`` the membership of ``parent`` in the group at ``address``; state 1 is full, 8 is send-only."""
        e.listener = None
        e.port, e.sgid = parent.port, parent.sgid
        self._parents[e] = parent
        pkey = parent.wanted_pkey or self.addresses.first_pkey(e.port)
        qkey = qkey_of(parent.ps)
        if address is None or (address.host is not None and not address.is_multicast):
            self._failed(e, -errno.EINVAL)
            return
        e.target = address.octets()
        mgid = group_id(address, pkey) if address.host is not None else bytes(16)

        def done(record: bytes | None, failure: int) -> None:
            if record is not None:
                self._joined(e, codec(MCMemberRecord).unpack(record), state)
            else:
                self._failed(e, failure)

        self.sa.join(e.port, e.sgid, mgid, qkey, pkey | 0x8000, state, TIMEOUT_MS, done)

    def holds(self, e: Endpoint) -> bool:
        """Return whether ``e`` is a membership."""
        return e in self._parents

    def _joined(self, e: Endpoint, member: dict[str, Any], state: int) -> None:
        key = (e.port, member["mgid"], state)
        parent = self._parents.get(e)
        if parent is None:  # the id was destroyed meanwhile
            if key not in self._count:
                self.sa.leave(e.port, e.sgid, member["mgid"], state, TIMEOUT_MS)
            return
        self._members[e] = key
        self._count[key] = self._count.get(key, 0) + 1
        e.dgid = member["mgid"]
        e.path = Path.of_group(member, self.addresses.lid_of(e.port))
        fields = {"qpn": MULTICAST_QPN, "qkey": member["qkey"], "listener": parent.number}
        self.report(e, Event.MULTICAST_JOIN, 0, fields)

    def _failed(self, e: Endpoint, failure: int) -> None:
        parent = self._parents.get(e)
        if parent is not None:
            self.report(e, Event.MULTICAST_ERROR, failure, {"listener": parent.number})

    def forget(self, e: Endpoint) -> None:
        """Remove ``e``, a membership or an id with memberships, when it is destroyed."""
        for member in [m for m, parent in self._parents.items() if parent is e] if e.is_ud else ():
            member.owner.endpoints.pop(member.number, None)
            self.forget(member)
        self._parents.pop(e, None)
        key = self._members.pop(e, None)
        if key is None:
            return
        self._count[key] -= 1
        if not self._count[key]:
            del self._count[key]
            self.sa.leave(key[0], e.sgid, key[1], key[2], TIMEOUT_MS)
