"""Questions of the hosts' kernels to the subnet administrator, by MAD from their own ports: paths and multicast groups.

Nobody here knows who answers: the daemon's own subnet manager, or a stock one on some port.
"""

from __future__ import annotations

import errno
import heapq
import struct
from collections.abc import Callable
from dataclasses import dataclass

from softib.iba.constants import MAD_SIZE, Method, MgmtClass
from softib.live.cm_mads import Head, codec, head_of
from softib.live.cm_path import MCMemberRecord, PathRecord

__all__ = ["SaClient"]

CLASS_VERSION = 2
PATH_RECORD, MEMBER_RECORD = 0x35, 0x38
DELETE, DELETE_RESP = 0x15, 0x95
DATA_AT = 56
TRIES = 4
MS_PS = 1_000_000_000
_SA = struct.Struct(">12x8xHHQ")

DGID, SGID, REVERSIBLE, NUMB_PATH, PKEY = (1 << b for b in (2, 3, 11, 12, 13))
"""ComponentMask of PathRecord (IBA 15.2.5.16)."""
M_MGID, M_PORT_GID, M_QKEY, M_TCLASS, M_PKEY, M_SL, M_FLOW, M_JOIN = (1 << b for b in (0, 1, 2, 6, 7, 12, 13, 16))
"""ComponentMask of MCMemberRecord (IBA 15.2.5.17): what a join that may create the group must name."""

Done = Callable[[bytes | None, int], None]
"""Called with the record's octets, or None and a negative errno."""


@dataclass(slots=True)
class Question:
    """``mad`` goes out again every ``wait_ps`` while ``tries`` are left."""

    port: int
    mad: bytes
    done: Done
    wait_ps: int
    tries: int = TRIES


class SaClient:
    """Sans I/O: ``send(port, mad)`` carries a MAD to the SA that ``port`` knows (False: it knows none); answers come by
    :meth:`answer`. ``number(port)`` gives the upper 16 bits of a TID of that port."""

    def __init__(self, send: Callable[[int, bytes], bool], number: Callable[[int], int]):
        self._send, self._number = send, number
        self.waiting: dict[int, Question] = {}
        self._timers: list[tuple[int, int]] = []
        self._serial = 0
        self.now_ps = 0

    def path(self, port: int, sgid: bytes, dgid: bytes, pkey: int, timeout_ms: int, done: Done) -> None:
        """A reversible path from ``sgid`` (of ``port``) to ``dgid``; ``pkey`` 0: in any partition that both share."""
        mask = DGID | SGID | REVERSIBLE | NUMB_PATH | (PKEY if pkey else 0)
        record = codec(PathRecord).pack(sgid=sgid, dgid=dgid, reversible=1, numb_path=1, pkey=pkey)
        self._ask(port, Method.GET, PATH_RECORD, mask, record, timeout_ms, done)

    def join(
        self, port: int, gid: bytes, mgid: bytes, qkey: int, pkey: int, state: int, timeout_ms: int, done: Done
    ) -> None:
        """``gid`` of ``port`` becomes a member of ``mgid``, which is created where it does not exist yet."""
        mask = M_MGID | M_PORT_GID | M_QKEY | M_TCLASS | M_PKEY | M_SL | M_FLOW | M_JOIN
        record = codec(MCMemberRecord).pack(mgid=mgid, port_gid=gid, qkey=qkey, pkey=pkey, join_state=state)
        self._ask(port, Method.SET, MEMBER_RECORD, mask, record, timeout_ms, done)

    def leave(self, port: int, gid: bytes, mgid: bytes, state: int, timeout_ms: int) -> None:
        """No longer a member."""
        mask = M_MGID | M_PORT_GID | M_JOIN
        record = codec(MCMemberRecord).pack(mgid=mgid, port_gid=gid, join_state=state)
        self._ask(port, DELETE, MEMBER_RECORD, mask, record, timeout_ms, lambda record, error: None)

    def _ask(
        self, port: int, method: int, attr: int, mask: int, record: bytes, timeout_ms: int, done: Done
    ) -> None:
        self._serial = (self._serial + 1) & 0xFFFFFFFF
        tid = self._number(port) << 48 | self._serial
        head = head_of(MgmtClass.SUBN_ADM, CLASS_VERSION, method, tid, attr)
        mad = (head + _SA.pack(0, 0, mask) + record).ljust(MAD_SIZE, b"\0")
        question = Question(port, mad, done, max(timeout_ms, TRIES) * MS_PS // TRIES)
        self.waiting[tid] = question
        self._again(tid, question)

    def _again(self, tid: int, question: Question) -> None:
        question.tries -= 1
        heapq.heappush(self._timers, (self.now_ps + question.wait_ps, tid))
        if not self._send(question.port, question.mad):
            self.waiting.pop(tid, None)
            question.done(None, -errno.ENETUNREACH)

    def answer(self, mad: bytes) -> None:
        """A response of this class."""
        head = Head(mad)
        question = self.waiting.pop(head.tid, None)
        if question is None:
            return
        if head.status:
            question.done(None, -errno.EINVAL)  # as the kernel's ib_sa says it, whatever the SA's reason
        else:
            question.done(mad[DATA_AT:], 0)

    def deadline_ps(self) -> int | None:
        """When :meth:`tick` has something to do."""
        while self._timers and self._timers[0][1] not in self.waiting:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def tick(self, now_ps: int) -> None:
        """Ask again, or give up."""
        self.now_ps = now_ps
        while (due := self.deadline_ps()) is not None and due <= now_ps:
            tid = heapq.heappop(self._timers)[1]
            question = self.waiting[tid]
            if question.tries:
                self._again(tid, question)
            else:
                del self.waiting[tid]
                question.done(None, -errno.ETIMEDOUT)
