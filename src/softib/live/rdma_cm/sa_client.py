"""Client of the subnet administrator for paths and multicast groups. It stands in for the hosts' kernels, and sends
MADs from the hosts' ports.

The answer may come from the daemon's subnet manager or from a stock one on some port; this client
cannot tell the difference.
"""

from __future__ import annotations

import errno
import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from softib.iba.constants import MAD_SIZE, MgmtClass
from softib.iba.mad_codec import Head, codec
from softib.iba.sa import SA_DATA, MCMemberRecord, PathRecord, SaHeader, SaMethod, mask_of
from softib.iba.structure import Structure

__all__ = ["SaClient"]

TRIES = 4
MS_PS = 1_000_000_000
CLASS_VERSION = 2
"""ClassVersion of subnet administration (IBA 15.2.1.1)."""

Done = Callable[[bytes | None, int], None]
"""Called with the record's bytes, or None and a negative errno."""


@dataclass(slots=True)
class Query:
    """A query. ``mad`` is sent again every ``wait_ps``, as long as ``tries`` is not 0."""

    port: int
    mad: bytes
    done: Done
    wait_ps: int
    tries: int = TRIES


class SaClient:
    """Sans I/O: ``send(port, mad)`` sends a MAD to the SA that ``port`` has recorded (False: the port has recorded no
    SA). Answers are passed to :meth:`answer`. ``number(port)`` returns the upper 16 bits for a TID of that port."""

    def __init__(self, send: Callable[[int, bytes], bool], number: Callable[[int], int]):
        self._send, self._number = send, number
        self.waiting: dict[int, Query] = {}
        self._timers: list[tuple[int, int]] = []
        self._serial = 0
        self.now_ps = 0

    def path(self, port: int, sgid: bytes, dgid: bytes, pkey: int, timeout_ms: int, done: Done) -> None:
        """Query a reversible path from ``sgid`` (of ``port``) to ``dgid`` in partition ``pkey``; 0: in any partition
        that contains both ports."""
        fields = {"sgid": sgid, "dgid": dgid, "reversible": 1, "numb_path": 1} | ({"pkey": pkey} if pkey else {})
        self._query(port, SaMethod.GET, PathRecord, fields, timeout_ms, done)

    def join(
        self, port: int, gid: bytes, mgid: bytes, qkey: int, pkey: int, state: int, timeout_ms: int, done: Done
    ) -> None:
        """Make ``gid`` of ``port`` a member of ``mgid``. The record has the fields that are required to create a group
        (IBA 15.2.5.17), so the group is created if it does not exist."""
        fields = {
            "mgid": mgid,
            "port_gid": gid,
            "qkey": qkey,
            "tclass": 0,
            "pkey": pkey,
            "sl": 0,
            "flow_label": 0,
            "join_state": state,
        }
        self._query(port, SaMethod.SET, MCMemberRecord, fields, timeout_ms, done)

    def leave(self, port: int, gid: bytes, mgid: bytes, state: int, timeout_ms: int) -> None:
        """Leave a multicast group."""
        fields = {"mgid": mgid, "port_gid": gid, "join_state": state}
        self._query(port, SaMethod.DELETE, MCMemberRecord, fields, timeout_ms, lambda record, error: None)

    def _query(
        self, port: int, method: int, record: type[Structure], fields: dict[str, Any], timeout_ms: int, done: Done
    ) -> None:
        self._serial = (self._serial + 1) & 0xFFFFFFFF
        tid = self._number(port) << 48 | self._serial
        head = codec(SaHeader).pack(
            base_version=1,
            mgmt_class=MgmtClass.SUBN_ADM,
            class_version=CLASS_VERSION,
            method=method,
            tid=tid,
            attr_id=record.attr,
            comp_mask=mask_of(record, *fields),
        )
        mad = (head + codec(record).pack(**fields)).ljust(MAD_SIZE, b"\0")
        query = Query(port, mad, done, max(timeout_ms, TRIES) * MS_PS // TRIES)
        self.waiting[tid] = query
        self._send_query(tid, query)

    def _send_query(self, tid: int, query: Query) -> None:
        query.tries -= 1
        heapq.heappush(self._timers, (self.now_ps + query.wait_ps, tid))
        if not self._send(query.port, query.mad):
            self.waiting.pop(tid, None)
            query.done(None, -errno.ENETUNREACH)

    def answer(self, mad: bytes) -> None:
        """Handle a response of this class."""
        head = Head(mad)
        query = self.waiting.pop(head.tid, None)
        if query is None:
            return
        if head.status:
            query.done(None, -errno.EINVAL)  # as the kernel's ib_sa reports it, whatever the SA's reason
        else:
            query.done(mad[SA_DATA:], 0)

    def deadline_ps(self) -> int | None:
        """Return the time at which :meth:`tick` has work."""
        while self._timers and self._timers[0][1] not in self.waiting:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def tick(self, now_ps: int) -> None:
        """Repeat unanswered queries, or abandon them."""
        self.now_ps = now_ps
        while (due := self.deadline_ps()) is not None and due <= now_ps:
            tid = heapq.heappop(self._timers)[1]
            query = self.waiting[tid]
            if query.tries:
                self._send_query(tid, query)
            else:
                del self.waiting[tid]
                query.done(None, -errno.ETIMEDOUT)
