"""A packet simulation in which links and switches fail, and a subnet manager re-routes on the same
virtual clock.

    run = run_failures(fabric, messages, faults, options, settings)
    run.outcome, run.records, run.milestones, run.paths_back_ps

``fabric`` is changed by the run, so pass a copy. Without a manager, the fabric must already be up;
with a manager, the manager brings it up before time 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from softib.agents.plane import AgentPlane
from softib.components import components
from softib.fabric.end_ports import end_ports
from softib.fabric.model import Fabric
from softib.routing.engine import DEFAULT_ENGINE
from softib.scenario.bring_up import bring_up
from softib.scenario.clock import RunClock
from softib.scenario.faults_in_time import FaultRecord, FaultSchedule, TimedFault
from softib.scenario.management import ManagementPlane, Milestones, PathsInUse, Station
from softib.scenario.sa_requests import joined_groups
from softib.sim.messages import Messages
from softib.sim.outcome import Outcome
from softib.sim.packet import constants
from softib.sim.packet.engine import outcome_of, service_levels
from softib.sim.packet.options import PacketOptions, Progress
from softib.sim.packet.stepping import PacketSteps, ProcessorTimes
from softib.sm.config import SmConfig

__all__ = ["FailureRun", "ManagerSettings", "run_failures"]

LIGHT_SWEEP_PS = 10 * 10**12
"""OpenSM's sweep_interval in ps."""


@dataclass(frozen=True)
class ManagerSettings:
    """``config``: configuration of the manager; None: there is no manager. ``node``: the node on
    which it runs. ``manager_ps``: time between the arrival of a MAD at the manager and its
    reaction. ``times``: processing times of the devices."""

    config: SmConfig | None = field(default_factory=SmConfig)
    node: str | int | None = None
    manager_ps: int = 5_000_000
    times: ProcessorTimes = field(default_factory=ProcessorTimes)


@dataclass
class FailureRun:
    """Results of a run with faults.

    * ``resent`` int64[messages]: number of packets that were sent again.
    * ``broken``: number of paths in use that each fault broke.
    * ``paths_back_ps``: by fault, the time at which all these paths led to their destination again
      (-1: not in this run).
    * ``unreachable``: ends of paths in use that have no working link to the rest of the fabric.
    * ``mads``: numbers of MADs that were sent, lost and answered, and VL15Dropped of all ports.
    * ``discarded``: number of packets whose output port was inactive.
    * ``lost_on_wire``: number of packets on a cable when it was unplugged, or in a switch when it
      lost power.
    """

    outcome: Outcome
    records: list[FaultRecord]
    milestones: Milestones
    resent: np.ndarray
    broken: list[int]
    paths_back_ps: list[int]
    unreachable: np.ndarray
    mads: dict[str, int]
    engine: str
    manager_port: int
    discarded: int = 0
    lost_on_wire: int = 0


def run_failures(
    fabric: Fabric,
    messages: Messages,
    faults: Sequence[TimedFault],
    options: PacketOptions | None = None,
    settings: ManagerSettings | None = None,
    progress: Progress | None = None,
) -> FailureRun:
    """Run ``messages`` while ``faults`` happen. The run ends when no message can make progress and
    the manager has settled; later faults do not happen. Raises the errors of
    :func:`softib.sim.packet.run` and :func:`~softib.scenario.bring_up.bring_up`, and
    :class:`InputError` or :class:`UnknownName` for an impossible fault."""
    options, settings = options or PacketOptions(), settings or ManagerSettings()
    plane, clock = AgentPlane(fabric), RunClock()
    schedule = FaultSchedule(fabric, faults, plane, clock)
    station, messages = _station(fabric, plane, clock, settings, messages)
    management = ManagementPlane(clock, plane, station, settings.times.agent_ps)
    paths = PathsInUse(fabric)
    sl, notes = service_levels(messages, None)
    clock.start(PacketSteps(fabric, messages, sl, options, settings.times))
    before = fabric.counters.copy()
    _follow(paths, clock.steps, messages)
    schedule.happened = lambda number: paths.faults_happened(number, clock.now_ps)
    management.written = lambda: paths.tables_changed(clock.now_ps)
    try:
        clock.run(schedule, management, options.until_ps, progress)
    except KeyboardInterrupt:
        if not options.interruptible:
            raise
        clock.steps.status = constants.INTERRUPTED
    plane.faults.settle(plane.faults.marked(), clock.device_ps)
    outcome = _outcome(clock, schedule, management, messages, notes, before)
    s = clock.steps.state
    dead = np.unique(paths.end[paths.dead()])
    mads = {
        "sent": int(s.mads.sent),
        "lost": int(s.mads.lost),
        "answered": management.answered,
        "vl15_dropped": int(s.smi["dropped"].sum()),
        "traps_sent": management.traps.counts.sent,
    }
    return FailureRun(
        outcome,
        schedule.records,
        management.milestones,
        resent=s.resent[: len(messages)].copy(),
        broken=paths.broken,
        paths_back_ps=paths.back_ps,
        unreachable=dead[_cut_off(fabric, clock.steps, dead)],
        mads=mads,
        engine=station.sm.routing.engine if station and station.sm.routing else "",
        manager_port=station.port if station else -1,
        discarded=int(s.port["inactive"].sum()),
        lost_on_wire=int(s.smi["cut"].sum()),
    )


def _station(
    fabric: Fabric, plane: AgentPlane, clock: RunClock, settings: ManagerSettings, messages: Messages
) -> tuple[Station | None, Messages]:
    """Return the manager after its first sweep, with the window of its configuration. Also return
    ``messages`` with the MLIDs of their multicast groups, which this manager creates. Set the
    devices' clock to the time of ``clock``."""
    if settings.config is None:
        return None, messages
    config = settings.config
    if not config.sweep_interval_ps:
        config = replace(config, sweep_interval_ps=LIGHT_SWEEP_PS)
    up = bring_up(fabric, DEFAULT_ENGINE, node=settings.node, plane=plane, config=config)
    messages = replace(messages, groups=joined_groups(up, end_ports(fabric), messages))
    up.sm.config = config
    up.sm.transactor.resize(config.window)
    clock.base_ps = up.now_ps
    return Station(up.sm, up.port, settings.manager_ps), messages


def _follow(paths: PathsInUse, steps: PacketSteps, messages: Messages) -> None:
    """Follow the paths of messages to a single host. (A message to a multicast group has a tree,
    not a path.)"""
    single = np.flatnonzero(messages.group == 0)
    q = steps.state.qp[steps.state.message["qp"][single]]
    paths.follow(steps.net, q["src"], q["dst"], steps.state.message["lid"][single])


def _cut_off(fabric: Fabric, steps: PacketSteps, ends: np.ndarray) -> np.ndarray:
    """Return a mask of the ``ends`` that have no working link to the largest part of the fabric."""
    peer = steps.net.port["peer"].astype(np.int64)
    ports = np.flatnonzero(peer >= 0)
    part = components(fabric.sizes.nodes, fabric.port_node[ports], fabric.port_node[peer[ports]])
    apart: np.ndarray = part[fabric.port_node[ends]] != np.bincount(part).argmax()
    return apart


def _outcome(
    clock: RunClock,
    schedule: FaultSchedule,
    management: ManagementPlane,
    messages: Messages,
    notes: tuple[str, ...],
    before: np.ndarray,
) -> Outcome:
    """Return the outcome of the run. ``before``: the fabric's counters at its start."""
    steps, fabric = clock.steps, management.fabric
    s = steps.state
    not_due = [r.fault for r in schedule.records if not r.happened]
    if not_due:
        notes = (
            *notes,
            f"{len(not_due)} faults are after the end of the run, for example {not_due[0].kind} of {not_due[0].where}",
        )
    status = constants.DONE if steps.left <= 0 and steps.in_network == 0 else steps.status
    status = constants.TIME_OVER if status == constants.MANAGED else status
    outcome = outcome_of(steps.net, s, messages, status, notes)
    outcome.log = steps.log()
    if clock.samples is not None:
        vls = int(steps.net.opt.vls)
        outcome.samples = clock.samples.finish(outcome.end_ps, s.port["xmit_octets"], s.vl["queued"], vls)
    for name in fabric.counters.dtype.names or ():
        outcome.counters[name] += fabric.counters[name] - np.minimum(before[name], fabric.counters[name])
    outcome.counters["vl15_dropped"] += s.smi["dropped"].astype(np.uint64)
    return outcome
