"""Runs a recorded or generated program on a fabric with the LogGOPS layer. Messages do not become table rows, so traces
of tens of millions of operations fit into memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from softib.errors import InputError
from softib.sim.loggops import Loggops, loggops
from softib.workloads.schedule.overheads import Overheads
from softib.workloads.schedule.schedule import Schedule, meetings

if TYPE_CHECKING:
    from softib.sim.paths import Plane

__all__ = ["ProgramRun", "replay"]


@dataclass(frozen=True)
class ProgramRun:
    """A program that was run. ``schedule``: its operations. ``host``: row of the end port of each rank. The times at
    which operations ended are also recorded."""

    schedule: Schedule
    host: np.ndarray
    outcome: Loggops

    def rank_ends_ps(self) -> np.ndarray:
        """Return the time at which each rank's last operation ended (int64[ranks], ps)."""
        s = self.schedule
        ends = np.zeros(s.ranks, np.int64)
        np.maximum.at(ends, s.rank, self.outcome.ended_ps)
        return ends


def replay(plane: Plane, s: Schedule, host: np.ndarray, cost: Overheads) -> ProgramRun:
    """Run the program ``s``. Raises the errors of :func:`~softib.workloads.schedule.messages.part_of`, with rank and
    operation."""
    s.check_values()
    meets = meetings(s)
    first, needs = s.first, s.needs
    if s.on_start.any():
        owner, needs = s.on_ends()
        order = np.argsort(owner, kind="stable")
        first = np.searchsorted(owner[order], np.arange(len(s) + 1)).astype(np.int64)
        needs = needs[order]
    columns = {
        "rank": s.rank,
        "kind": s.kind,
        "peer": s.peer,
        "size": s.size,
        "tag": s.tag,
        "compute_ps": s.compute_ps,
        "processor": s.processor_rows(),
        "meets": meets,
        "first": first,
        "needs": needs,
    }
    ps = tuple(
        round(v)
        for v in (cost.send_ns * 1e3, cost.receive_ns * 1e3, cost.memory_ns * 1e3, cost.memory_ps * 1e3, s.acknowledged)
    )
    outcome = loggops(plane, columns, host, (ps[0], ps[1], ps[2], ps[3], ps[4]), cost.eager_limit)
    if not outcome.done:
        i = int(np.argmax(outcome.ended_ps < 0))
        raise InputError(
            f"{s.name}: {s.where(i)}: the operation waits for itself, through its requirements or other ranks, so it "
            f"never ends; remove the cycle"
        )
    return ProgramRun(s, host, outcome)
