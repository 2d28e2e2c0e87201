"""The manager's own requests. A MAD is built when it can be sent. Answers are sorted by attribute
into data, rejections and missing answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from softib.iba.smp import DATA_AT
from softib.mad.smp_requests import RequestQueue
from softib.mad.transactor import Completed, Transactor
from softib.sm.sweep.report import SweepReport

__all__ = ["Answers", "RequestWindow", "by_attribute"]


@dataclass
class Answers:
    """Completed requests for one attribute: their ``tags``, and the ``data`` (uint8[n, 64]) of good
    answers. None means that there is no good answer; ``refused`` then tells whether the device
    rejected the request."""

    attr: int
    tags: np.ndarray
    data: np.ndarray | None = None
    refused: bool = False


def by_attribute(done: Completed) -> Iterator[Answers]:
    """Yield the answers in ``done``. For each attribute, rejections come before good answers."""
    mad, tags, attr, refused = done.batch.mad, done.tags, done.attr, done.refused
    if done.timed_out:
        yield from (Answers(a, tags[attr == a]) for a in np.unique(attr).tolist())
        return
    if refused.any():
        for a in np.unique(attr[refused]).tolist():
            yield Answers(a, tags[refused & (attr == a)], refused=True)
        mad, tags, attr = mad[~refused], tags[~refused], attr[~refused]
    one = len(attr) and bool((attr == attr[0]).all())
    for a in [int(attr[0])] if one else np.unique(attr).tolist():
        rows = slice(None) if one else attr == a
        yield Answers(a, tags[rows], mad[rows, DATA_AT : DATA_AT + 64])


class RequestWindow:
    """``queue`` holds the requests of the current phase or task that are not sent yet,
    ``transactor`` those that are outstanding."""

    def __init__(self, transactor: Transactor, queue: RequestQueue):
        self.transactor, self.queue = transactor, queue
        self._before = (0, 0, 0)

    def begin(self, queue: RequestQueue) -> None:
        """Begin a sweep: :meth:`count` counts its retries from this point."""
        t, self.queue = self.transactor, queue
        self._before = t.retried, t.timeouts, t.strays

    def count(self, report: SweepReport) -> None:
        """Count retries, timeouts and unexpected answers since :meth:`begin`."""
        t, (retried, timeouts, strays) = self.transactor, self._before
        report.retries, report.timeouts, report.strays = t.retried - retried, t.timeouts - timeouts, t.strays - strays

    def fill(self, chunk: int) -> None:
        """Pass requests to the transactor while it can send them at once."""
        most = min(self.transactor.room, chunk)
        while most > 0 and len(self.queue):
            batch, tags = self.queue.take(most)
            self.transactor.submit(batch, tags)
            most -= len(batch)

    def answers(self) -> Iterator[Answers]:
        """Yield the requests that were answered, refused or abandoned."""
        for done in self.transactor.completed():
            yield from by_attribute(done)
