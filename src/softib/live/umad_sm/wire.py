"""A subnet manager's wire: what carries its MADs, and how many it hands over at a time."""

from __future__ import annotations

from typing import Protocol

from softib.live.clock import clock_ps
from softib.mad.batch import MadBatch
from softib.mad.transactor import Transactor

__all__ = ["MadWire", "Pacing"]

SLOW_PS, FAST_PS = 20 * 10**9, 5 * 10**9
"""A batch that took longer than 20 ms was too large, one that took less than 5 ms could have been
larger."""
FIRST, LEAST, MOST = 64, 8, 4096


class MadWire(Protocol):
    """:class:`softib.live.umad_client.port.UmadPort`, or something in its place."""

    def exchange(self, outbox: MadBatch | None = None) -> MadBatch | None:
        """Send a batch, and take what has come."""

    def wait(self, timeout_s: float) -> bool:
        """Is something there, or does it come within ``timeout_s``?"""


class Pacing:
    """Sets the window of ``transactor`` so that a batch is on a wire, which sends a few at a time,
    for about 10 ms.

    The transactor counts a timeout from when it hands a request over: with ever so many at once a
    slow wire would make requests late that nobody has been asked yet.
    """

    def __init__(self, transactor: Transactor):
        self.transactor = transactor
        transactor.resize(FIRST)

    def took(self, mads: int, duration_ps: int) -> None:
        """A batch of ``mads`` took so long."""
        window = self.transactor.window
        if duration_ps > SLOW_PS:
            self.transactor.resize(max(LEAST, window // 2))
        elif duration_ps < FAST_PS and 2 * mads > window:
            self.transactor.resize(min(MOST, 2 * window))

    def exchange(self, wire: MadWire, now_ps: int) -> MadBatch | None:
        """Send what the transactor has due by ``now_ps``, or wait at most 0.25 s for answers; what
        came, None for nothing."""
        outbox, deadline_ps = self.transactor.send(now_ps)
        self.transactor.postpone(clock_ps() - now_ps)
        if len(outbox):
            inbox = wire.exchange(outbox)
            self.took(len(outbox), clock_ps() - now_ps)
            return inbox
        if self.transactor.busy and wire.wait(min(0.25, max(0.0, (deadline_ps - clock_ps()) / 1e12))):
            return wire.exchange()
        return None
