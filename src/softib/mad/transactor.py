"""Sends requests and matches responses, with a window, timeouts, retries and TransactionIDs. It has
no I/O and no clock.

    t = Transactor(window=4)
    t.submit(requests, tags)
    while t.busy:
        outbox, deadline_ps = t.step(now_ps, inbox)     # send the outbox, wait for MADs or the deadline
        for done in t.completed():                      # responses (or the request itself, status TIMEOUT)
            ...

Defaults are OpenSM's: 4 SMPs on the wire, 200 ms, 3 retries (``max_wire_smps``,
``transaction_timeout``, ``transaction_retries``). A MAD that is not answered within a tenth of its
timeout is no longer counted in the window, and repetitions use at most a quarter of the window. So
a device that does not answer delays only its own requests.

TransactionIDs are consecutive and below 2^32: umad and similar interfaces put the number of an
agent into the upper half, so responses are matched by the lower half. A response that matches no
outstanding request (a late second answer, or a forged one) is counted in ``strays`` and dropped.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from softib.mad.batch import MadBatch, SendStatus
from softib.mad.outstanding import ON_WIRE, OVERDUE, RETRY, Outstanding

__all__ = ["NEVER_PS", "Completed", "Transactor"]

NEVER_PS = 1 << 62
"""Deadline if there is nothing to wait for."""
PS_PER_MS = 1_000_000_000
TIMEOUT_PS = 200 * PS_PER_MS
RETRIES = 3
WINDOW = 4
GRACE_PART = 10
RETRY_PART = 4


@dataclass
class Completed:
    """Finished requests. ``tags`` int64[n] are those that were submitted, ``attr`` int64[n] the
    attributes. ``batch`` holds the responses; those in ``refused`` (bool[n]) have a bad status. If
    its ``status`` is TIMEOUT, it holds the requests themselves."""

    tags: np.ndarray
    attr: np.ndarray
    batch: MadBatch
    refused: np.ndarray

    @property
    def timed_out(self) -> bool:
        """Return whether these requests were not answered. (Answered and unanswered requests are
        never in one group.)"""
        return len(self.batch) > 0 and int(self.batch.status[0]) == SendStatus.TIMEOUT


class Transactor:
    """Sends requests with a window, repeats them after a timeout, and matches responses by
    TransactionID."""

    def __init__(self, window: int = WINDOW, timeout_ps: int = TIMEOUT_PS, retries: int = RETRIES, first_tid: int = 1):
        if window < 1 or timeout_ps < 1 or retries < 0:
            raise ValueError("window and timeout_ps must be at least 1, retries at least 0")
        self.window, self.timeout_ps, self.retries = window, timeout_ps, retries
        self.grace_ps = max(1, timeout_ps // GRACE_PART)
        self.sent = self.retried = self.timeouts = self.strays = 0
        self._table = Outstanding(first_tid)
        self._waiting: deque[tuple[int, MadBatch]] = deque()  # (TID of the first, batch) of requests not sent yet
        self._retry: deque[np.ndarray] = deque()
        self._in_grace: deque[tuple[int, np.ndarray | range]] = deque()  # (time, TIDs) of requests that were sent
        self._in_timeout: deque[tuple[int, np.ndarray | range]] = deque()
        self._on_wire = 0
        self._retries_on_wire = 0
        self._retry_window = max(1, window // RETRY_PART)
        self._backlog = 0
        self._completed: list[Completed] = []
        # empty batch, kept for callers that read eight arrays in each step of a loop
        self._nothing = MadBatch.zeros(0)

    @property
    def busy(self) -> bool:
        """Return whether any request is neither answered nor abandoned."""
        return self._table.live > 0

    @property
    def outstanding(self) -> int:
        """Return the number of requests that are neither answered nor abandoned."""
        return self._table.live

    @property
    def only_overdue(self) -> bool:
        """Return whether all outstanding requests were sent longer ago than the grace period, in
        which answers usually arrive."""
        return self.busy and not self._on_wire and not self._waiting and not self._retry

    def resize(self, window: int) -> None:
        """Set the size of the window, for a caller that has measured the speed of its wire."""
        self.window, self._retry_window = max(1, window), max(1, window // RETRY_PART)

    @property
    def room(self) -> int:
        """Return the number of further requests that can be sent at once. (Repetitions are limited
        separately.)"""
        return max(0, self.window - self._on_wire - self._backlog)

    def submit(self, batch: MadBatch, tags: np.ndarray) -> None:
        """Submit requests. Their TIDs (in ``batch.mad`` and ``batch.tid``) are overwritten. The
        batch is kept, not copied."""
        if len(batch) == 0:
            return
        first = self._table.add(batch, tags)
        batch.tid = np.arange(first, first + len(batch), dtype=np.uint64)
        self._waiting.append((first, batch))
        self._backlog += len(batch)

    def abandon(self) -> None:
        """Abandon all outstanding requests. Answers that arrive later count as strays, because TIDs
        are not used again."""
        self._table.abandon()
        for waiting in (self._waiting, self._retry, self._in_grace, self._in_timeout):
            waiting.clear()
        self._completed.clear()
        self._on_wire = self._retries_on_wire = self._backlog = 0

    def step(self, now_ps: int, inbox: MadBatch | None = None) -> tuple[MadBatch, int]:
        """Process the MADs that arrived. Return the MADs to send now, and the latest time of the
        next call."""
        self.receive(now_ps, inbox)
        return self.send(now_ps)

    def postpone(self, by_ps: int) -> None:
        """Postpone all deadlines by ``by_ps``, because the caller computed for that time and did
        not read incoming MADs. Answers may have arrived meanwhile. If a Set were repeated, it would
        find the effect of the first one (for example, another M_Key, which is a violation, IBA
        14.2.4)."""
        if by_ps * GRACE_PART > self.grace_ps:
            for sent in (self._in_grace, self._in_timeout):
                for i, (when_ps, tids) in enumerate(sent):
                    sent[i] = when_ps + by_ps, tids

    def completed(self) -> list[Completed]:
        """Return the requests that finished since the last call, in the order of arrival."""
        done, self._completed = self._completed, []
        return done

    # -- incoming MADs --

    def receive(self, now_ps: int, inbox: MadBatch | None = None) -> None:
        """Do the first half of :meth:`step`: match responses, then time out requests."""
        if inbox is not None and len(inbox):
            self._match(inbox)
        self._expire(now_ps)

    def _match(self, inbox: MadBatch) -> None:
        matches = self._table.match(inbox.mad)
        self._on_wire -= matches.on_wire
        self._retries_on_wire -= matches.repetitions
        rows, refused = matches.rows, matches.refused
        if matches.count < len(rows):
            self.strays += len(rows) - matches.count
            good = rows >= 0
            rows, refused, inbox = rows[good], refused[good], inbox[good]
        if len(rows):
            self._complete(rows, inbox, refused)

    def _complete(self, rows: np.ndarray, batch: MadBatch, refused: np.ndarray) -> None:
        table = self._table
        self._completed.append(Completed(table.tag[rows], table.kind[rows] & 0xFFFF, batch, refused))

    def _expire(self, now_ps: int) -> None:
        table = self._table
        while self._in_grace and self._in_grace[0][0] + self.grace_ps <= now_ps:
            overdue = table.rows_of(table.in_state(self._in_grace.popleft()[1], ON_WIRE))
            self._on_wire -= len(overdue)
            self._retries_on_wire -= int((table.tries[overdue] > 1).sum())
            table.state[overdue] = OVERDUE
        while self._in_timeout and self._in_timeout[0][0] + self.timeout_ps <= now_ps:
            over = table.in_state(self._in_timeout.popleft()[1], OVERDUE)
            if not len(over):
                continue
            rows = table.rows_of(over)
            tried = table.tries[rows] > self.retries
            retried = over[~tried]
            if len(retried):
                table.state[rows[~tried]] = RETRY
                self._retry.append(retried)
            if tried.any():
                self._give_up(rows[tried])

    def _give_up(self, rows: np.ndarray) -> None:
        self.timeouts += len(rows)
        requests = self._table.requests(rows)
        requests.status[:] = SendStatus.TIMEOUT
        self._table.finish(rows)
        self._complete(rows, requests, np.zeros(len(rows), np.bool_))

    # -- outgoing MADs --

    def send(self, now_ps: int) -> tuple[MadBatch, int]:
        """Do the second half of :meth:`step`: return the MADs to send now, and the next deadline."""
        parts: list[MadBatch] = []
        while self._retry and self._on_wire < self.window and self._retries_on_wire < self._retry_window:
            still = self._table.in_state(self._retry.popleft(), RETRY)
            most = min(self.window - self._on_wire, self._retry_window - self._retries_on_wire)
            now, rest = still[:most], still[most:]
            if len(rest):
                self._retry.appendleft(rest)
            self.retried += len(now)
            self._retries_on_wire += len(now)
            if len(now):
                parts.append(self._table.requests(self._table.rows_of(now)))
                self._leave(now_ps, now)
        while self._waiting and self._on_wire < self.window:
            first, batch = self._waiting.popleft()
            most = self.window - self._on_wire
            if len(batch) > most:
                self._waiting.appendleft((first + most, batch[most:]))
                batch = batch[:most]
            self._backlog -= len(batch)
            parts.append(batch)
            self._leave(now_ps, range(first, first + len(batch)))
        outbox = MadBatch.concat(parts) if parts else self._nothing
        self.sent += len(outbox)
        return outbox, self._deadline()

    def _leave(self, now_ps: int, tids: np.ndarray | range) -> None:
        rows = self._table.rows_of(tids)
        self._table.state[rows] = ON_WIRE
        self._table.tries[rows] += 1
        self._on_wire += len(tids)
        self._in_grace.append((now_ps, tids))
        self._in_timeout.append((now_ps, tids))

    def _deadline(self) -> int:
        if not self.busy:
            self._in_grace.clear()
            self._in_timeout.clear()
            return NEVER_PS
        table, deadline = self._table, NEVER_PS
        while self._in_grace and not len(table.in_state(self._in_grace[0][1], ON_WIRE)):
            self._in_grace.popleft()  # all requests of this entry are answered
        if self._in_timeout:
            deadline = self._in_timeout[0][0] + self.timeout_ps
        if self._in_grace and self._on_wire:  # the request is no longer counted in the window
            deadline = min(deadline, self._in_grace[0][0] + self.grace_ps)
        return deadline
