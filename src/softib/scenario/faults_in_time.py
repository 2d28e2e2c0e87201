"""Timed faults of a packet simulation: the effect of each on the fabric, and on the packets in
flight.

Ports, counters and traps change as on a running fabric
(:class:`softib.agents.link_faults.LinkFaults`). :mod:`softib.sim.packet.kernels.link.link_changes`
removes the packets that are lost.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.agents.plane import AgentPlane
from softib.errors import InputError, UnknownName
from softib.fabric.faults.targets import node_at, port_at
from softib.fabric.model import Fabric
from softib.iba.constants import NodeType
from softib.iba.rates import SPEED_BY_NAME
from softib.mad.transactor import NEVER_PS

if TYPE_CHECKING:
    from softib.scenario.clock import RunClock

__all__ = ["OF_NODE", "FaultRecord", "FaultSchedule", "TimedFault"]

OF_NODE = ("switch-down", "switch-up")
TRAINED = "trained"
"""The end of training of a downgraded link. It is an event in the schedule, but not a fault that a
file can contain."""


@dataclass(frozen=True)
class TimedFault:
    """A fault: its ``kind`` in :mod:`softib.workloads.faults`, its time ``at_ps``, its place
    ``where`` (the name of a port or switch), and its options."""

    at_ps: int
    kind: str
    where: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class FaultRecord:
    """The immediate effect of a fault. ``lost_on_wire``: number of packets that were lost on the
    cable, or in a switch without power. ``discarded``: number of packets that the ports at the
    other end discarded (PortXmitDiscards). ``row``: row of the port, or of the node. ``happened``:
    False if the run ended before the fault."""

    fault: TimedFault
    row: int
    happened: bool = False
    lost_on_wire: int = 0
    discarded: int = 0


class FaultSchedule:
    """The faults of a run, ordered by time. ``happened(number)`` is called after faults were
    applied, with their number. Raises :class:`UnknownName` and :class:`InputError` for places that
    the fabric does not have, and for a link that cannot train to the given width or speed."""

    def __init__(self, fabric: Fabric, faults: Sequence[TimedFault], plane: AgentPlane, clock: RunClock):
        self.fabric, self.plane, self.clock = fabric, plane, clock
        self.happened: Callable[[int], None] = lambda number: None
        order = sorted(range(len(faults)), key=lambda i: (faults[i].at_ps, i))
        self.records = [FaultRecord(faults[i], _row(fabric, faults[i])) for i in order]
        self._queue: list[tuple[int, int, str, FaultRecord]] = [
            (r.fault.at_ps, i, r.fault.kind, r) for i, r in enumerate(self.records)
        ]
        heapq.heapify(self._queue)
        self._order = len(self.records)
        for r in self.records:
            if r.fault.kind == "downgrade":
                plane.faults.check_limit(r.row, *_limit(r.fault))

    @property
    def idle(self) -> bool:
        """Return whether every fault has happened."""
        return not self._queue

    def next_ps(self) -> int:
        """Return the time of the next fault."""
        return self._queue[0][0] if self._queue else NEVER_PS

    def act(self) -> None:
        """Apply the faults that are due."""
        due = new = 0
        while self._queue and self._queue[0][0] <= self.clock.now_ps:
            _, _, kind, record = heapq.heappop(self._queue)
            due, new = due + 1, new + (not record.happened)
            record.happened = True
            before = self._lost()
            self._apply(kind, record)
            lost = self._lost()
            record.lost_on_wire += lost[0] - before[0]
            record.discarded += lost[1] - before[1]
        if due:
            self.happened(new)

    def _apply(self, kind: str, r: FaultRecord) -> None:
        faults, options, steps = self.plane.faults, r.fault.options, self.clock.steps
        now_ps, at = self.clock.now_ps, self.clock.device_ps
        dead: np.ndarray | None = None
        if kind == "link-down":
            faults.cut(r.row, at)
        elif kind in ("link-up", TRAINED):
            faults.mend(r.row, at)
        elif kind == "ber":
            faults.noise(r.row, float(options["ber"]), at)
            faults.publish()
        elif kind == "slow-port":
            steps.drains(r.row, float(options["gbps"]))
        elif kind == "downgrade":
            was_up = faults.is_up(r.row)
            if was_up:
                faults.cut(r.row, at)
            faults.limit(r.row, *_limit(r.fault), at)
            if was_up:
                self._order += 1
                heapq.heappush(self._queue, (now_ps + int(options["training"]), self._order, TRAINED, r))
        else:
            faults.power(r.row, kind == "switch-up", at)
            if kind == "switch-down":
                dead = np.array(list(self.fabric.ports_of(r.row, port0=True)), np.int64)
        steps.links_changed(self._touched(r), now_ps, dead)
        if dead is not None:
            steps.power_lost(dead)

    def _touched(self, r: FaultRecord) -> np.ndarray:
        """Return both ends of every link that a fault may change."""
        f = self.fabric
        ports = np.array(list(f.ports_of(r.row)) if r.fault.kind in OF_NODE else [r.row], np.int64)
        peers = f.port_peer[ports]
        return np.concatenate([ports, peers[peers >= 0]])

    def _lost(self) -> tuple[int, int]:
        state = self.clock.steps.state
        return int(state.smi["cut"].sum()), int(state.port["inactive"].sum())


def _limit(fault: TimedFault) -> tuple[int | None, int | None]:
    speed = fault.options.get("speed")
    if speed is None and fault.options.get("width") is None:
        raise InputError(f"fault downgrade of {fault.where} needs a width (lanes), a speed (generation), or both")
    if speed is not None and str(speed).upper() not in SPEED_BY_NAME:
        raise UnknownName("speed", str(speed), SPEED_BY_NAME)
    return fault.options.get("width"), None if speed is None else SPEED_BY_NAME[str(speed).upper()].code


def _row(fabric: Fabric, fault: TimedFault) -> int:
    if fault.kind in OF_NODE:
        node = node_at(fabric, fault.where)
        if fabric.node_type[node] != NodeType.SWITCH:
            raise InputError(f"fault {fault.kind}: {fabric.node_name(node)} is not a switch")
        return node
    port = port_at(fabric, fault.where)
    if fabric.port_peer[port] < 0:
        raise InputError(f"fault {fault.kind}: {fabric.port_name(port)} has no cable; name a port with a cable")
    return port
