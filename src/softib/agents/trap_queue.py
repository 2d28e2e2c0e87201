"""Traps in transit to the subnet manager: each is sent repeatedly until the manager represses it (IBA 13.4.9,
14.2.5.1).

    queue = TrapQueue(plane)
    queue.collect(now_ps)                          # what the devices raised since the last call
    while (made := queue.take(now_ps)): ...        # a MAD to send, and the port that it leaves
    queue.repressed(port, tid, now_ps)             # SubnTrapRepress came back to the port
    queue.next_ps()                                # call again then; None: nothing waits

The rules, with their source:

* A new trap has a new TransactionID, and its repetitions have the same one (o13-5); its M_Key is 0 (o14-1).
* A port sends no trap, new or repeated, earlier than SubnetTimeOut (4.096 µs x 2^n) after the
  previous one (o14-2, PortInfo:SubnetTimeOut). Linux' driver hfi1 follows both rules, and keeps up
  to 100 traps per port and type (RVT_MAX_TRAP_LEN).
* The specification sets no limit to repetitions, and hfi1 has none. OpenSM (``osm_trap_rcv``)
  treats a trap received more than ten times as babbling, ignores it and marks the port unhealthy.
  So softib sends a trap ten times, at intervals that double (1, 2, 4, … at most 32 times
  SubnetTimeOut), and then abandons it. If MasterSMLID changes, the new manager gets it from the
  first copy on.
* A trap of a port without a manager (MasterSMLID or LID 0) waits, and is not repeated.
* Waiting notices of the same event are merged into one trap. After that trap was sent, a new notice
  of the event is a new trap, which follows when the manager has repressed the first.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from softib.iba.smp import PortInfo

if TYPE_CHECKING:
    from softib.agents.plane import AgentPlane, Notice
    from softib.mad.batch import MadBatch

__all__ = ["MOST_PENDING", "MOST_SENDS", "TrapQueue"]

MOST_SENDS = 10
"""Copies of a trap that are sent: OpenSM treats the eleventh as babbling."""
MOST_PENDING = 100
"""Traps kept per port (hfi1: RVT_MAX_TRAP_LEN); beyond this number, the oldest is lost."""
LONGEST_BACKOFF = 5
"""Intervals grow to 2^5 times SubnetTimeOut: ten copies take 159 times SubnetTimeOut, 171 s with
OpenSM's value 18."""
SHORTEST_PS = 100_000_000_000
"""Minimum time between two traps of a port, whatever its SubnetTimeOut (softib's choice: 0.1 s; a
normal manager sets 18, which is 1.07 s)."""
HOMELESS_PS = 250_000_000_000
"""Interval of checks for a port without a manager."""
UNIT_PS = 4_096_000


@dataclass
class PendingTrap:
    """An unrepressed trap. ``repeated``: the event occurred again after the trap was sent."""

    notice: Notice
    tid: int
    due_ps: int
    sends: int = 0
    manager: int = 0
    repeated: bool = False

    def says(self, other: Notice) -> bool:
        """Return whether both traps report the same notice."""
        this = self.notice
        return (this.trap, this.detail, this.data) == (other.trap, other.detail, other.data)


@dataclass
class PortTraps:
    """The traps of one end port, oldest first; the next may be sent at ``free_ps``. ``listed_ps``
    is its entry in the queue of ports (-1: no entry)."""

    pending: deque[PendingTrap] = field(default_factory=deque)
    free_ps: int = 0
    listed_ps: int = -1

    def next(self) -> PendingTrap:
        """Return the trap that is due first; of those due together, the oldest."""
        return min(self.pending, key=lambda p: p.due_ps)


@dataclass
class TrapCounts:
    """Counts over all ports since the start: MADs ``sent``, traps that a manager ``repressed``,
    notices ``merged`` into a waiting trap, traps ``given_up`` after ten copies."""

    sent: int = 0
    repressed: int = 0
    merged: int = 0
    given_up: int = 0
    lost: int = 0


class TrapQueue:
    """The traps of all devices of ``plane``. The caller passes the time (ps); the queue does
    nothing between calls."""

    def __init__(self, plane: AgentPlane):
        self.plane = plane
        self.counts = TrapCounts()
        self.raised: dict[int, int] = {}
        """Number of notices that devices raised, by trap number."""
        self._ports: dict[int, PortTraps] = {}
        self._order: list[tuple[int, int]] = []
        self._tid = 0

    @property
    def pending(self) -> int:
        """Traps waiting for repression, or for a manager."""
        return sum(len(p.pending) for p in self._ports.values())

    def stats(self) -> dict[str, int]:
        """Return the counts and ``pending``, for JSON."""
        return {"pending": self.pending, **asdict(self.counts)}

    def by_number(self) -> dict[str, int]:
        """Return the number of times each trap was raised, as ``trap_128`` …, for JSON."""
        return {f"trap_{number}": n for number, n in sorted(self.raised.items())}

    def collect(self, now_ps: int) -> None:
        """Take the notices raised since the last call."""
        raised, overflows = self.plane.tables.notice_count.tolist()
        if raised or overflows:
            self.counts.lost += overflows
            for notice in self.plane.take_notices():
                self.raised[notice.trap] = self.raised.get(notice.trap, 0) + 1
                self._add(notice, now_ps)

    def _add(self, notice: Notice, now_ps: int) -> None:
        at = self._ports.setdefault(notice.port, PortTraps())
        same = next((p for p in at.pending if p.says(notice)), None)
        if same is not None:
            same.repeated |= same.sends > 0
            self.counts.merged += 1
            return
        if len(at.pending) >= MOST_PENDING:
            at.pending.popleft()
            self.counts.lost += 1
        self._new(at, notice, now_ps)

    def _new(self, at: PortTraps, notice: Notice, now_ps: int) -> None:
        self._tid += 1  # its upper 16 bits stay 0: no program has that number, and it suffices for 2^48 traps
        at.pending.append(PendingTrap(notice, self._tid, now_ps))
        self._list(notice.port, at)

    def _list(self, port: int, at: PortTraps) -> None:
        """Enter the port's next time into the queue of ports."""
        when = max(at.free_ps, at.next().due_ps)
        if at.listed_ps < 0 or when < at.listed_ps:
            at.listed_ps = when
            heapq.heappush(self._order, (when, port))

    def _first(self) -> tuple[int, int] | None:
        """Return the next (time, port); skip entries that an earlier time replaced."""
        while self._order:
            when, port = self._order[0]
            at = self._ports.get(port)
            if at is not None and at.listed_ps == when:
                return when, port
            heapq.heappop(self._order)
        return None

    def next_ps(self) -> int | None:
        """Return the time at which :meth:`take` has a MAD; None if no trap waits."""
        first = self._first()
        return None if first is None else first[0]

    def take(self, now_ps: int) -> tuple[MadBatch, int] | None:
        """Return the MAD to send now, and its port; it counts as sent. Return None if none is due."""
        while (first := self._first()) is not None and first[0] <= now_ps:
            heapq.heappop(self._order)
            trap = self._send(first[1], now_ps)
            if trap is not None:
                return trap
        return None

    def _send(self, port: int, now_ps: int) -> tuple[MadBatch, int] | None:
        """Return the next trap of ``port``, and set the time of its next copy."""
        at = self._ports[port]
        at.listed_ps = -1
        if self.plane.faults.is_dead(int(self.plane.fabric.port_node[port])):
            self.counts.lost += len(at.pending)
            del self._ports[port]
            return None
        trap = at.next()
        sent = None
        if max(at.free_ps, trap.due_ps) <= now_ps:  # or a due one was repressed meanwhile
            sent = self._made(at, trap)
            if sent is None:
                for p in at.pending:
                    p.due_ps = max(p.due_ps, now_ps + HOMELESS_PS)
            elif not self._leaves(at, trap, int(sent[0].dlid[0]), now_ps):
                sent = None
        if at.pending:
            self._list(port, at)
        return sent

    def _made(self, at: PortTraps, trap: PendingTrap) -> tuple[MadBatch, int] | None:
        """Return the trap's MAD; None if the port has no manager. If this raises an exception, only
        this trap is dropped: the exception would recur at every attempt."""
        try:
            return self.plane.trap(trap.notice, trap.tid)
        except Exception:
            at.pending.remove(trap)
            self.counts.lost += 1
            if at.pending:
                self._list(trap.notice.port, at)
            raise

    def _leaves(self, at: PortTraps, trap: PendingTrap, manager: int, now_ps: int) -> bool:
        """Return whether the trap is sent again. False if ``manager`` (a LID) got it often enough;
        the trap is then abandoned."""
        if manager != trap.manager:
            trap.manager, trap.sends = manager, 0
        if trap.sends >= MOST_SENDS:
            at.pending.remove(trap)
            self.counts.given_up += 1
            return False
        pause_ps = self._pause(trap.notice.port)
        at.free_ps = now_ps + pause_ps
        trap.due_ps = now_ps + (pause_ps << min(trap.sends, LONGEST_BACKOFF))
        trap.sends += 1
        self.counts.sent += 1
        return True

    def _pause(self, port: int) -> int:
        timeout = int(PortInfo.subnet_timeout.get(self.plane.fabric.port_info[port]))
        return max(SHORTEST_PS, UNIT_PS << timeout)

    def repressed(self, port: int, tid: int, now_ps: int) -> bool:
        """End the trap with ``tid`` of end port ``port``, because a TrapRepress for it arrived.
        Return False if there is no such trap."""
        at = self._ports.get(port)
        trap = None if at is None else next((p for p in at.pending if p.tid == tid), None)
        if at is None or trap is None:
            return False
        at.pending.remove(trap)
        self.counts.repressed += 1
        if trap.repeated:
            self._new(at, trap.notice, now_ps)
        if not at.pending:
            at.listed_ps = -1
        return True
