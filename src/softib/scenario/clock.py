"""The clock of a packet simulation in which links fail and a subnet manager reacts.

Packets, faults and management each report the time at which they must act next. Only
:class:`RunClock` advances time. It runs packets up to the earliest of these times, then lets faults
and management act, in this order. If a MAD arrives earlier, the packets stop there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from softib.mad.transactor import NEVER_PS
from softib.sim.outcome import Sampler
from softib.sim.packet import constants

if TYPE_CHECKING:
    from softib.sim.packet.options import Progress
    from softib.sim.packet.stepping import PacketSteps

__all__ = ["RunClock"]


class Agenda(Protocol):
    """Base of faults and management: an object that acts between two events of the packet
    simulation."""

    @property
    def idle(self) -> bool:
        """Return whether no event is due until a packet arrives."""

    def next_ps(self) -> int:
        """Return the time at which the object acts next (:data:`~softib.mad.transactor.NEVER_PS`:
        never)."""

    def act(self) -> None:
        """Do everything that is due at :attr:`RunClock.now_ps`."""


class Management(Agenda, Protocol):
    """An agenda that also answers MADs."""

    def take(self) -> None:
        """Answer the MADs that have arrived."""


class RunClock:
    """``now_ps``: time since the start of the run. ``base_ps``: time on the devices' own clocks at
    the start of the run; they began when the fabric was brought up. ``steps``: the packet
    simulation, after :meth:`start`. ``samples``: the sampler of loads and queues (None: no
    samples)."""

    steps: PacketSteps

    def __init__(self) -> None:
        self.base_ps = self.now_ps = 0
        self.samples: Sampler | None = None

    @property
    def device_ps(self) -> int:
        """Return the current time on the devices' clocks."""
        return self.base_ps + self.now_ps

    def start(self, steps: PacketSteps) -> None:
        """Set the packet simulation to run."""
        self.steps = steps
        self.samples = Sampler(steps.options.sample_ps) if steps.options.sample_ps else None

    def run(self, faults: Agenda, management: Management, until_ps: int, progress: Progress | None) -> None:
        """Run until all messages are done and management is idle, or until nothing more can happen,
        but not beyond ``until_ps``."""
        steps = self.steps
        while True:
            next_ps = min(faults.next_ps(), management.next_ps(), until_ps + 1)
            if self._packets_until(next_ps, progress):
                self.now_ps = steps.now_ps
                management.take()
                continue
            stuck = steps.status == constants.STUCK
            if management.idle and ((steps.in_network == 0 and (steps.left <= 0 or stuck)) or (stuck and faults.idle)):
                break
            if next_ps > until_ps or next_ps >= NEVER_PS:
                break
            self.now_ps = next_ps
            faults.act()
            management.act()
        self.now_ps = steps.now_ps

    def _packets_until(self, next_ps: int, progress: Progress | None) -> bool:
        """Run packets up to ``next_ps``, and take the samples that are due before, while messages
        are in flight. Return True if a MAD arrived."""
        steps, samples = self.steps, self.samples
        while samples is not None and steps.left > 0 and samples.next_ps < next_ps - 1:
            if steps.run_until(samples.next_ps + 1, progress):
                return True
            if steps.status != constants.TIME_OVER or steps.left <= 0:
                break
            samples.take(steps.state.port["xmit_octets"], steps.state.vl["queued"])
        return steps.run_until(next_ps, progress)
