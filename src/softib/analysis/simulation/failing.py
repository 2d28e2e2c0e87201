"""A simulated run in which something fails: the workload's faults on a copy of the fabric, with its subnet manager on the same clock."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from softib.analysis.routed import Routed
    from softib.fabric.model import Fabric
    from softib.scenario.failures import FailureRun, ManagerSettings
    from softib.sim.messages import Messages
    from softib.sim.packet import PacketOptions
    from softib.workloads.workload import Workload

__all__ = ["fault_rows", "figures", "run_failing"]


def run_failing(
    found: Routed, workload: Workload, messages: Messages, options: PacketOptions,
    progress: Callable[[int, int, int], None] | None = None,
) -> FailureRun:  # fmt: skip
    """``messages`` on a copy of the fabric of ``found`` while the workload's faults happen. Raises :class:`InputError` and
    :class:`UnknownName` for a fault that cannot be, and where a manager would replace the tables that the run shall take."""
    from softib.scenario.failures import run_failures
    from softib.scenario.faults_in_time import TimedFault

    faults = [
        TimedFault(f.at, str(getattr(f, "kind", "")), f.where, f.model_dump(exclude={"at", "kind", "where"}))
        for f in workload.faults
    ]
    settings = _settings(found, workload)
    run = run_failures(found.fabric.copy(), messages, faults, options, settings, progress=progress)
    if settings.config is not None and found.config is None:
        note = f"the subnet manager brought the fabric up with {run.engine} before the run, and replaced its tables"
        run.outcome.notes = (*run.outcome.notes, note)
    return run


def _settings(found: Routed, workload: Workload) -> ManagerSettings:
    from softib.scenario.failures import ManagerSettings
    from softib.sim.packet.stepping import ProcessorTimes
    from softib.sm.config import SmConfig
    from softib.workloads.faults import Management

    m = workload.management or Management.model_validate({})
    times = ProcessorTimes(m.agent, m.forward, m.vl15_packets)
    if m.sm == "off":
        return ManagerSettings(None, times=times)
    if found.config is None and found.part.engine == "file":
        raise InputError("the subnet manager would replace the tables of a dump when something fails; add --sm off")
    config = replace(found.config or SmConfig(), window=m.window, timeout_ps=max(m.timeout, 1), retries=m.retries)
    return ManagerSettings(config, m.node or found.manager_node, m.manager, times)


def fault_rows(run: FailureRun) -> list[dict[str, Any]]:
    """Each fault, what it did, and when the manager had dealt with it; times in µs, None for what did not happen."""
    rows = []
    broken, back = iter(run.broken), iter(run.paths_back_ps)
    for r in run.records:
        row: dict[str, Any] = {
            "at_us": r.fault.at_ps / 1e6, "kind": r.fault.kind, "where": r.fault.where, "happened": r.happened,
            "lost_on_wire": r.lost_on_wire, "discarded": r.discarded, "paths_broken": next(broken) if r.happened else 0,
        }  # fmt: skip
        at = next(back) if r.happened else -1
        trap = next((t for t, _, _ in run.milestones.traps if r.happened and t >= r.fault.at_ps), -1)
        sweep = next(([b, e] for b, e in run.milestones.sweeps if 0 <= trap <= b), [-1, -1])
        row |= {
            "trap_us": _us(trap),
            "sweep_began_us": _us(sweep[0]),
            "sweep_ended_us": _us(sweep[1]),
            "paths_back_us": _us(at),
        }
        rows.append(row)
    return rows


def figures(run: FailureRun, fabric: Fabric) -> dict[str, Any]:
    """``faults``, ``management``, ``retransmission`` and ``unreachable`` as JSON has them."""
    arrived, repeated = run.outcome.arrived_ps >= 0, run.resent > 0
    ends = run.milestones.sweeps
    return {
        "faults": fault_rows(run),
        "management": {
            "sm": "internal" if run.manager_port >= 0 else "off", "engine": run.engine,
            "node": fabric.port_name(run.manager_port) if run.manager_port >= 0 else "", **run.mads,
            "traps": len(run.milestones.traps), "sweeps": [[_us(b), _us(e)] for b, e in ends],
            "tables_written": len(run.milestones.tables),
        },
        "retransmission": {
            "messages_lost": int((~arrived).sum()), "messages_resent": int(repeated.sum()), "messages_late": int((repeated & arrived).sum()),
            "packets_resent": int(run.resent.sum()), "packets_discarded": int(run.discarded),
            "packets_lost_on_wire": int(run.lost_on_wire),
        },
        "unreachable": [fabric.port_name(int(p)) for p in np.sort(run.unreachable)],
    }  # fmt: skip


def _us(ps: int) -> float | None:
    return ps / 1e6 if ps >= 0 else None
