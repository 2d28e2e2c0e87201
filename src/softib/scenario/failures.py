"""A packet run in which links and switches fail, and the subnet manager re-routes on the same virtual clock.

    run = run_failures(fabric, messages, faults, options, settings)
    run.outcome, run.records, run.milestones, run.paths_back_ps

``fabric`` becomes the fabric of the run: a copy belongs here. It must be up; with a manager it is brought up first, before time 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from softib.agents.plane import AgentPlane
from softib.fabric.model import Fabric
from softib.mad.transactor import NEVER_PS
from softib.routing.engine import DEFAULT_ENGINE
from softib.routing.parts import components
from softib.scenario.bring_up import bring_up
from softib.scenario.faults_in_time import FaultRecord, FaultSchedule, TimedFault
from softib.scenario.management import ManagementPlane, Milestones, Station
from softib.scenario.multicast_groups import joined_groups
from softib.scenario.paths_in_use import PathsInUse
from softib.sim.ends import end_ports
from softib.sim.messages import Messages
from softib.sim.outcome import Outcome
from softib.sim.packet import constants
from softib.sim.packet.engine import outcome_of, service_levels
from softib.sim.packet.options import PacketOptions, Progress
from softib.sim.packet.stepping import PacketSteps, ProcessorTimes
from softib.sim.samples import Sampler
from softib.sm.config import SmConfig

__all__ = ["FailureRun", "ManagerSettings", "run_failures"]

LIGHT_SWEEP_PS = 10 * 10**12
"""OpenSM's sweep_interval."""


@dataclass(frozen=True)
class ManagerSettings:
    """``config``: the manager's, None: nobody manages; ``node``: where it runs; ``manager_ps``: what it takes from the arrival of a MAD to
    what it sends then; ``times`` of the devices' processors."""

    config: SmConfig | None = field(default_factory=SmConfig)
    node: str | int | None = None
    manager_ps: int = 5_000_000
    times: ProcessorTimes = field(default_factory=ProcessorTimes)


@dataclass
class FailureRun:
    """``resent`` int64[messages] packets sent again; ``broken`` by fault: paths in use that it broke; ``paths_back_ps`` by fault: when
    all of these led to their destination again (-1: not in this run); ``unreachable``: ends of paths in use that no live link joins to the rest.
    ``mads``: sent, lost and answered, and VL15Dropped of all ports. ``discarded``: packets that found their port inactive, ``lost_on_wire``: packets
    on a cable that was pulled, or in a switch that lost its power."""

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
    fabric: Fabric, messages: Messages, faults: Sequence[TimedFault], options: PacketOptions | None = None,
    settings: ManagerSettings | None = None, path_sl: np.ndarray | None = None, progress: Progress | None = None,
) -> FailureRun:  # fmt: skip
    """Run ``messages`` while ``faults`` happen.

    The run ends when every message is done (or can never be) and the manager has settled; faults after that do not happen. Raises as
    :func:`softib.sim.packet.run` and :func:`~softib.scenario.bring_up.bring_up` do, and :class:`InputError` or
    :class:`UnknownName` for a fault that cannot be.
    """
    options, settings = options or PacketOptions(), settings or ManagerSettings()
    schedule = FaultSchedule(fabric, faults)
    plane = AgentPlane(fabric)
    schedule.check(plane)
    sl, notes = service_levels(messages, path_sl)
    station, messages = _station(fabric, plane, settings, messages)
    steps = PacketSteps(fabric, messages, sl, options, settings.times)
    run = _Run(steps, schedule, ManagementPlane(steps, plane, station, settings.times.agent_ps), messages)
    run.go(options.until_ps, progress)
    return run.result(messages, notes, station)


def _station(
    fabric: Fabric, plane: AgentPlane, settings: ManagerSettings, messages: Messages
) -> tuple[Station | None, Messages]:
    """The manager, which has swept the fabric; from now on its window is that of its configuration. It has made the multicast groups
    of ``messages`` anew, which come back with their MLIDs."""
    if settings.config is None:
        return None, messages
    config = settings.config
    if not config.sweep_interval_ps:
        config = replace(config, sweep_interval_ps=LIGHT_SWEEP_PS)
    up = bring_up(fabric, DEFAULT_ENGINE, node=settings.node, plane=plane, config=config)
    messages = replace(messages, groups=joined_groups(up, end_ports(fabric), messages))
    up.sm.config = config
    up.sm.transactor.resize(config.window)
    return Station(up.sm, up.port, up.now_ps, settings.manager_ps), messages


class _Run:
    def __init__(self, steps: PacketSteps, schedule: FaultSchedule, management: ManagementPlane, messages: Messages):
        self.steps, self.schedule, self.management = steps, schedule, management
        self.before = management.fabric.counters.copy()
        single = np.flatnonzero(messages.group == 0)  # a group's tree is not a path
        q = steps.state.qp[steps.state.message["qp"][single]]
        lid = steps.state.message["lid"][single]
        self.paths = PathsInUse(management.fabric, steps.net, q["src"], q["dst"], lid)
        self.broken: list[np.ndarray] = []
        self.first_broken: list[int] = []
        self.paths_back: list[int] = []
        self.now_ps = 0
        management.written = self._written
        self.sampler = Sampler(steps.options.sample_ps) if steps.options.sample_ps else None

    def go(self, until_ps: int, progress: Progress | None) -> None:
        """Until everything is done, or can never be."""
        steps, management = self.steps, self.management
        while True:
            next_ps = min(self.schedule.next_ps(), management.next_ps(), until_ps + 1)
            if self._sampled_until(next_ps, progress):
                management.take(steps.now_ps)
                continue
            stands_still = steps.status == constants.STUCK
            if management.idle and steps.in_network == 0 and (steps.left <= 0 or stands_still):
                break
            if stands_still and management.idle and not self.schedule.waits:
                break
            if next_ps > until_ps or next_ps >= NEVER_PS:
                break
            self._at(next_ps)
        management.plane.faults.settle(management.plane.faults.marked(), management.base_ps + self.steps.now_ps)

    def _sampled_until(self, next_ps: int, progress: Progress | None) -> bool:
        """:meth:`PacketSteps.run_until`, with the samples that are due before ``next_ps`` while messages are under way."""
        steps = self.steps
        while self.sampler is not None and steps.left > 0 and self.sampler.next_ps < next_ps - 1:
            if steps.run_until(self.sampler.next_ps + 1, progress):
                return True
            if steps.status != constants.TIME_OVER or steps.left <= 0:
                break
            self.sampler.take(steps.state.port["xmit_octets"], steps.state.vl["queued"])
        return steps.run_until(next_ps, progress)

    def _at(self, now_ps: int) -> None:
        """What happens between two events at ``now_ps``: faults first."""
        self.now_ps = now_ps
        management = self.management
        known = [r.happened for r in self.schedule.records]
        if self.schedule.due(now_ps, management.base_ps, management.plane, self.steps):
            new = sum(r.happened for r in self.schedule.records) - sum(known)
            broken = self.paths.broken()
            for _ in range(new):
                already = np.concatenate([*self.broken, np.zeros(0, np.int64)])
                self.broken.append(np.setdiff1d(broken, already))
                self.first_broken.append(len(self.broken[-1]))
                self.paths_back.append(-1 if len(self.broken[-1]) else now_ps)
            self._written(now_ps)
        management.due(now_ps)

    def _written(self, now_ps: int) -> None:
        """Tables or links have changed: which broken paths lead again?"""
        for i, rows in enumerate(self.broken):
            if len(rows):
                self.broken[i] = rows = self.paths.broken(rows)
                if not len(rows):
                    self.paths_back[i] = now_ps

    def _cut_off(self, ends: np.ndarray) -> np.ndarray:
        """bool: end ports that no live link joins to the largest part of the fabric."""
        f = self.management.fabric
        peer = self.steps.net.port["peer"].astype(np.int64)
        ports = np.flatnonzero(peer >= 0)
        part = components(f.sizes.nodes, f.port_node[ports], f.port_node[peer[ports]])
        apart: np.ndarray = part[f.port_node[ends]] != np.bincount(part).argmax()
        return apart

    def result(self, messages: Messages, notes: tuple[str, ...], station: Station | None) -> FailureRun:
        """What the run has come to."""
        steps, fabric = self.steps, self.management.fabric
        s = steps.state
        behind = [r.fault for r in self.schedule.records if not r.happened]
        if behind:
            notes = (
                *notes,
                f"{len(behind)} faults lie behind the end of the run, such as {behind[0].kind} of {behind[0].where}",
            )
        status = constants.DONE if steps.left <= 0 and steps.in_network == 0 else steps.status
        status = constants.TIME_OVER if status == constants.MANAGED else status
        outcome = outcome_of(steps.net, s, messages, status, notes)
        outcome.log = steps.log()
        if self.sampler is not None:
            vls = int(steps.net.opt.vls)
            outcome.samples = self.sampler.finish(outcome.end_ps, s.port["xmit_octets"], s.vl["queued"], vls)
        for name in fabric.counters.dtype.names or ():
            outcome.counters[name] += fabric.counters[name] - np.minimum(self.before[name], fabric.counters[name])
        outcome.counters["vl15_dropped"] += s.smi["dropped"].astype(np.uint64)
        ends = np.unique(self.paths.end[self.paths.broken()])
        mads = {
            "sent": int(s.mads.sent), "lost": int(s.mads.lost), "answered": self.management.answered,
            "vl15_dropped": int(s.smi["dropped"].sum()), "traps_sent": self.management.traps.counts.sent,
        }  # fmt: skip
        engine = station.sm.routing.engine if station and station.sm.routing else ""
        return FailureRun(
            outcome, self.schedule.records, self.management.milestones, s.resent[: len(messages)].copy(),
            self.first_broken, self.paths_back, ends[self._cut_off(ends)], mads, engine, station.port if station else -1,
            int(s.port["inactive"].sum()), int(s.smi["cut"].sum()),
        )  # fmt: skip
