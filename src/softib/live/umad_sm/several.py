"""Several subnet managers in one process: each on a separate port and subnet, with separate
state.

The managers take turns, and share no state. If a port is lost or finds a live master, only the manager on that port
ends.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from softib.errors import SoftibError
from softib.live.umad_client.libc import poll_any
from softib.live.umad_client.port import UmadPort
from softib.live.umad_sm.manager import UmadManager, port_log
from softib.live.umad_sm.session import Job, Plan, Until, managing

__all__ = ["serve_several"]


@dataclass
class _Active:
    """A running manager: its port, and the function that returns whether it has finished."""

    job: Job
    manager: UmadManager
    port: UmadPort
    until: Until
    stack: ExitStack
    wait_s: float | None = None

    def step(self) -> bool:
        """Do one step without a wait. Return whether the manager has finished."""
        self.wait_s = self.manager.advance()
        return self.until(self.manager)

    def end(self) -> None:
        """Release the port."""
        self.manager.close()
        self.stack.close()


def serve_several(jobs: Sequence[tuple[Job, Plan]]) -> list[SoftibError]:
    """Manage the subnets of all jobs until SIGINT or SIGTERM; with ``Plan.once``, manage each only until it is up. On
    SIGHUP all managers read their settings again.

    A manager that cannot continue is logged, and its port is closed; the others continue. Returns the reasons of the
    managers that could not continue.
    """
    failed: list[SoftibError] = []
    running: list[_Active] = []
    stopped: list[int] = []
    before = {s: signal.signal(s, lambda number, _: stopped.append(number)) for s in (signal.SIGINT, signal.SIGTERM)}

    def reload(*_: object) -> None:
        for active in running:
            active.manager.reload()

    before[signal.SIGHUP] = signal.signal(signal.SIGHUP, reload)
    try:
        running.extend(active for job, plan in jobs if (active := _begin(job, plan, failed)) is not None)
        while running and not stopped:
            for active in list(running):
                if _over(active, failed):
                    running.remove(active)
                    active.end()
            _wait(running)
    finally:
        for active in running:
            active.end()
        for s, handler in before.items():
            signal.signal(s, handler)
    return failed


def _begin(job: Job, plan: Plan, failed: list[SoftibError]) -> _Active | None:
    with ExitStack() as stack:
        try:
            manager, port = stack.enter_context(managing(job, plan))
        except SoftibError as error:
            _fail(job, error, failed)
            return None
        return _Active(job, manager, port, Until(plan, job.device), stack.pop_all())


def _over(active: _Active, failed: list[SoftibError]) -> bool:
    try:
        return active.step()
    except SoftibError as error:
        _fail(active.job, error, failed)
        return True


def _fail(job: Job, error: SoftibError, failed: list[SoftibError]) -> None:
    port_log(job.device).error("manager ended", extra={"why": str(error)})
    failed.append(error)


def _wait(running: Sequence[_Active]) -> None:
    """Wait until MADs have arrived for one of the managers, or one has work. Waiting managers then receive their
    MADs."""
    idle = [active for active in running if active.wait_s is not None]
    if not idle:
        return
    longest = 0.0 if len(idle) < len(running) else max(0.0, min(active.wait_s or 0.0 for active in idle))
    for active, ready in zip(idle, poll_any([active.port.fd for active in idle], longest), strict=True):
        if ready or (active.wait_s or 0.0) <= 0:
            active.manager.take()
