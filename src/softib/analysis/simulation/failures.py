"""Figures of a run in which links or switches failed: the effect of each fault, and the reaction of
the subnet manager."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.result import Result

if TYPE_CHECKING:
    from softib.fabric.model import Fabric
    from softib.scenario.failures import FailureRun

__all__ = ["FaultEffect", "fault_effects", "figures"]


@dataclass
class FaultEffect(Result):
    """A fault of a run; times are null for what did not happen."""

    at_us: float
    kind: str
    where: str
    happened: bool
    lost_on_wire: int
    discarded: int
    paths_broken: int
    trap_us: float | None
    """When a trap reached the manager."""
    sweep_began_us: float | None
    sweep_ended_us: float | None
    paths_back_us: float | None


def fault_effects(run: FailureRun) -> list[FaultEffect]:
    """Return the effect of each fault, and when the manager had dealt with it."""
    effects = []
    broken, back = iter(run.broken), iter(run.paths_back_ps)
    for r in run.records:
        fault = r.fault
        trap = next((t for t, _, _ in run.milestones.traps if r.happened and t >= fault.at_ps), -1)
        sweep = next(((b, e) for b, e in run.milestones.sweeps if 0 <= trap <= b), (-1, -1))
        effects.append(
            FaultEffect(
                at_us=fault.at_ps / 1e6,
                kind=fault.kind,
                where=fault.where,
                happened=r.happened,
                lost_on_wire=r.lost_on_wire,
                discarded=r.discarded,
                paths_broken=next(broken) if r.happened else 0,
                trap_us=_us(trap),
                sweep_began_us=_us(sweep[0]),
                sweep_ended_us=_us(sweep[1]),
                paths_back_us=_us(next(back) if r.happened else -1),
            )
        )
    return effects


def figures(run: FailureRun, fabric: Fabric) -> dict[str, Any]:
    """Return ``faults``, ``management``, ``retransmission`` and ``unreachable`` of the figures of a
    run."""
    arrived, repeated = run.outcome.arrived_ps >= 0, run.resent > 0
    ends = run.milestones.sweeps
    return {
        "faults": fault_effects(run),
        "management": {
            "sm": "internal" if run.manager_port >= 0 else "off",
            "engine": run.engine,
            "node": fabric.port_name(run.manager_port) if run.manager_port >= 0 else "",
            **run.mads,
            "traps": len(run.milestones.traps),
            "sweeps": [[_us(b), _us(e)] for b, e in ends],
            "tables_written": len(run.milestones.tables),
        },
        "retransmission": {
            "messages_lost": int((~arrived).sum()),
            "messages_resent": int(repeated.sum()),
            "messages_late": int((repeated & arrived).sum()),
            "packets_resent": int(run.resent.sum()),
            "packets_discarded": int(run.discarded),
            "packets_lost_on_wire": int(run.lost_on_wire),
        },
        "unreachable": [fabric.port_name(int(p)) for p in np.sort(run.unreachable)],
    }


def _us(ps: int) -> float | None:
    return ps / 1e6 if ps >= 0 else None
