"""Figures of a run in which links or switches fail: the effect of each fault, and the reaction of the subnet
manager."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from softib.result import Result, key

if TYPE_CHECKING:
    from softib.fabric.model import Fabric
    from softib.scenario.failures import FailureRun

__all__ = ["FailureFigures", "FaultEffect", "ManagerOfRun", "Retransmission", "failure_figures", "fault_effects"]


@dataclass
class FaultEffect(Result):
    """A fault of a run; times are null for events that did not happen."""

    at_us: float
    kind: str
    where: str
    happened: bool
    lost_on_wire: int
    discarded: int
    paths_broken: int
    trap_us: float | None
    """Time at which a trap reached the manager."""
    sweep_began_us: float | None
    sweep_ended_us: float | None
    paths_back_us: float | None


@dataclass
class ManagerOfRun(Result):
    """The subnet manager during a run."""

    sm: str
    """``internal`` or ``off``."""
    engine: str
    node: str
    """The manager's port."""
    sent: int
    """Number of MADs that the manager and the devices sent."""
    lost: int
    answered: int
    vl15_dropped: int
    traps_sent: int
    traps: int
    """Number of traps that reached the manager."""
    sweeps: list[tuple[float | None, float | None]]
    """[begin, end] in us; null for a sweep that did not end."""
    tables_written: int
    """Number of times that forwarding tables were written."""


@dataclass
class Retransmission(Result):
    """Losses and retries of a run with faults."""

    messages_lost: int
    messages_resent: int
    messages_overdue: int = field(metadata=key("messages_late"))
    """Number of messages that were resent, and arrived."""
    packets_resent: int
    packets_discarded: int
    """Number of packets discarded at inactive ports."""
    packets_lost_on_wire: int
    packets_damaged: int
    """Number of packets with bit errors, counted at the damaged link."""


@dataclass
class FailureFigures(Result):
    """Figures of a run with faults."""

    faults: list[FaultEffect]
    management: ManagerOfRun
    retransmission: Retransmission
    unreachable: list[str]
    """Ports with traffic that, at the end of the run, were disconnected from all other ports."""


def fault_effects(run: FailureRun) -> list[FaultEffect]:
    """Return the effect of each fault, and the time at which the manager had handled it."""
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


def failure_figures(run: FailureRun, fabric: Fabric) -> FailureFigures:
    """Return the figures of a run with faults."""
    arrived, repeated = run.outcome.arrived_ps >= 0, run.resent > 0
    managed = run.manager_port >= 0
    return FailureFigures(
        faults=fault_effects(run),
        management=ManagerOfRun(
            sm="internal" if managed else "off",
            engine=run.engine,
            node=fabric.port_name(run.manager_port) if managed else "",
            **run.mads,
            traps=len(run.milestones.traps),
            sweeps=[(_us(began), _us(ended)) for began, ended in run.milestones.sweeps],
            tables_written=len(run.milestones.tables),
        ),
        retransmission=Retransmission(
            messages_lost=int((~arrived).sum()),
            messages_resent=int(repeated.sum()),
            messages_overdue=int((repeated & arrived).sum()),
            packets_resent=int(run.resent.sum()),
            packets_discarded=int(run.discarded),
            packets_lost_on_wire=int(run.lost_on_wire),
            packets_damaged=int(run.outcome.counters["port_rcv_errors"].sum()),
        ),
        unreachable=[fabric.port_name(int(p)) for p in np.sort(run.unreachable)],
    )


def _us(ps: int) -> float | None:
    return ps / 1e6 if ps >= 0 else None
