"""The manager's own requests on the wire: built when there is room, their answers sorted by
attribute."""

from __future__ import annotations

from collections.abc import Iterator

from softib.mad.smp_requests import RequestQueue
from softib.mad.transactor import Transactor
from softib.sm.sweep.report import SweepReport
from softib.sm.sweep.sorted_answers import Answers, by_attribute

__all__ = ["RequestWindow"]


class RequestWindow:
    """``queue`` is what the current phase or task still has to send, ``transactor`` what is under
    way."""

    def __init__(self, transactor: Transactor, queue: RequestQueue):
        self.transactor, self.queue = transactor, queue
        self._before = (0, 0, 0)

    def begin(self, queue: RequestQueue) -> None:
        """A sweep begins: its retries are counted from here."""
        t, self.queue = self.transactor, queue
        self._before = t.retried, t.timeouts, t.strays

    def count(self, report: SweepReport) -> None:
        """Retries, timeouts and strays since :meth:`begin`."""
        t, (retried, timeouts, strays) = self.transactor, self._before
        report.retries, report.timeouts, report.strays = t.retried - retried, t.timeouts - timeouts, t.strays - strays

    def fill(self, chunk: int) -> None:
        """Hand requests to the transactor as long as they could leave at once (a MAD is built when
        it leaves)."""
        most = min(self.transactor.room, chunk)
        while most > 0 and len(self.queue):
            batch, tags = self.queue.take(most)
            self.transactor.submit(batch, tags)
            most -= len(batch)

    def answers(self, only: int | None) -> Iterator[Answers]:
        """What was answered, refused or given up; ``only``: where the phase sent one attribute
        alone."""
        for done in self.transactor.completed():
            yield from by_attribute(done, only)
