"""Traps that devices have raised for the subnet manager. Each is sent repeatedly until the manager represses it
(IBA 13.4.9, 14.2.5.1).

    queue = TrapQueue(plane)
    queue.collect(now_ps)                          # what the devices raised since the last call
    while (made := queue.take(now_ps)): ...        # a MAD to send, and the port that it leaves
    queue.repressed(port, tid, now_ps)             # SubnTrapRepress came back to the port
    queue.next_ps()                                # call again then; None: nothing waits

The rules and their sources:

* A new trap has a new TransactionID, which its repetitions keep (o13-5). Its M_Key is 0 (o14-1).
* A port sends a trap, new or repeated, at the earliest SubnetTimeOut (4.096 µs x 2^n) after the
  previous one (o14-2, PortInfo:SubnetTimeOut). Linux' driver hfi1 follows both rules, and keeps up
  to 100 traps per port and type (RVT_MAX_TRAP_LEN).
* The specification does not limit the number of repetitions, nor does hfi1. OpenSM (``osm_trap_rcv``) treats a trap
  that it received more than ten times as babbling, ignores it, and marks the port unhealthy. So softib sends a trap at
  most ten times, at intervals that double (1, 2, 4, … at most 32 times SubnetTimeOut), and then stops. If MasterSMLID
  changes, the count starts again for the new manager.
* A trap of a port without a manager (MasterSMLID or LID 0) waits, and is not repeated.
* Waiting notices of the same event are merged into one trap. If the event occurs again after the
  trap was sent, it is a new trap, which is sent after the manager has repressed the first one.
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
"""Maximum number of times that a trap is sent, because OpenSM treats the eleventh as babbling."""
MOST_PENDING = 100
"""Maximum number of traps that a port keeps (hfi1: RVT_MAX_TRAP_LEN). Beyond this number, the
oldest is lost."""
LONGEST_BACKOFF = 5
"""Intervals grow up to 2^5 times SubnetTimeOut. Then all ten copies take 159 times SubnetTimeOut,
which is 171 s with OpenSM's value 18."""
SHORTEST_PS = 100_000_000_000
"""Minimum time between two traps of a port, even if its SubnetTimeOut is shorter. softib uses 0.1
s; managers usually set SubnetTimeOut to 18, which is 1.07 s."""
HOMELESS_PS = 250_000_000_000
"""Interval at which softib checks whether a port has a manager again."""
UNIT_PS = 4_096_000


@dataclass
class PendingTrap:
    """A trap that is not repressed yet. ``repeated``: the event occurred again after the trap was
    sent."""

    notice: Notice
    tid: int
    due_ps: int
    sends: int = 0
    manager: int = 0
    repeated: bool = False

    def says(self, other: Notice) -> bool:
        """Return whether ``other`` reports the same event as this trap."""
        this = self.notice
        return (this.trap, this.detail, this.data) == (other.trap, other.detail, other.data)


@dataclass
class PortTraps:
    """The traps of one end port, oldest first. The next one may be sent at ``free_ps``.
    ``listed_ps`` is the port's time in the queue of ports (-1: it is not in the queue)."""

    pending: deque[PendingTrap] = field(default_factory=deque)
    free_ps: int = 0
    listed_ps: int = -1

    def next(self) -> PendingTrap:
        """Return the trap that is due first. If several are due at the same time, return the
        oldest."""
        return min(self.pending, key=lambda p: p.due_ps)


@dataclass
class TrapCounts:
    """Counts for all ports since the start: MADs ``sent``, traps that a manager ``repressed``,
    notices ``merged`` into a waiting trap, and traps ``given_up`` after ten copies."""

    sent: int = 0
    repressed: int = 0
    merged: int = 0
    given_up: int = 0
    lost: int = 0


class TrapQueue:
    """The traps of all devices of ``plane``. The caller passes the time in ps; the queue does
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
        """Number of traps that wait until a manager represses them, or until their port has a
        manager."""
        return sum(len(p.pending) for p in self._ports.values())

    def stats(self) -> dict[str, int]:
        """Return all counts and ``pending`` as JSON values."""
        return {"pending": self.pending, **asdict(self.counts)}

    def by_number(self) -> dict[str, int]:
        """Return how often each trap was raised, with keys ``trap_128`` …, as JSON values."""
        return {f"trap_{number}": n for number, n in sorted(self.raised.items())}

    def collect(self, now_ps: int) -> None:
        """Take over the notices that devices raised since the last call."""
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
        # the upper 16 bits stay 0, which no program's TransactionIDs have; 48 bits are enough for
        # all traps
        self._tid += 1
        at.pending.append(PendingTrap(notice, self._tid, now_ps))
        self._list(notice.port, at)

    def _list(self, port: int, at: PortTraps) -> None:
        """Enter the time of the port's next trap into the queue of ports."""
        when = max(at.free_ps, at.next().due_ps)
        if at.listed_ps < 0 or when < at.listed_ps:
            at.listed_ps = when
            heapq.heappush(self._order, (when, port))

    def _first(self) -> tuple[int, int] | None:
        """Return the next (time, port). Entries that were replaced by an earlier time are
        skipped."""
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
        """Return the MAD that must be sent now, and its port; None if none is due. The MAD counts
        as sent."""
        while (first := self._first()) is not None and first[0] <= now_ps:
            heapq.heappop(self._order)
            trap = self._send(first[1], now_ps)
            if trap is not None:
                return trap
        return None

    def _send(self, port: int, now_ps: int) -> tuple[MadBatch, int] | None:
        """Return the next trap of ``port``, and set the time at which it is sent again."""
        at = self._ports[port]
        at.listed_ps = -1
        if self.plane.faults.is_dead(int(self.plane.fabric.port_node[port])):
            self.counts.lost += len(at.pending)
            del self._ports[port]
            return None
        trap = at.next()
        sent = None
        if max(at.free_ps, trap.due_ps) <= now_ps:  # false if the trap that was due is repressed meanwhile
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
        """Return the trap's MAD; None if the port has no manager. If this fails with an exception,
        only this trap is dropped, because the exception would occur again at every attempt."""
        try:
            return self.plane.trap(trap.notice, trap.tid)
        except Exception:
            at.pending.remove(trap)
            self.counts.lost += 1
            if at.pending:
                self._list(trap.notice.port, at)
            raise

    def _leaves(self, at: PortTraps, trap: PendingTrap, manager: int, now_ps: int) -> bool:
        """Return whether the trap is sent (again). Return False if it was sent to ``manager`` (a
        LID) the maximum number of times; the trap is then dropped."""
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
        """End the trap with TransactionID ``tid`` of end port ``port``, because a TrapRepress for
        it arrived. Return False if there is no such trap."""
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
