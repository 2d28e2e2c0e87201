"""A fabric in this process, brought up, and the wire over which it is polled."""

from __future__ import annotations

from functools import cache

import numpy as np

from softib.agents.plane import AgentPlane
from softib.fabric.columns import CableMedium
from softib.fabric.node_finder import default_port
from softib.fabric.topologies.registry import generate
from softib.iba.constants import Method, MgmtClass
from softib.iba.smp import ATTR_AT, CLASS_AT, METHOD_AT, PortInfo
from softib.mad.batch import MadBatch
from softib.monitor.perfmgr import Pace, Poller
from softib.monitor.requests import perf_gets
from softib.scenario.bring_up import bring_up


class Wire:
    """To the agents of ``fabric``. ``mute``: LIDs whose answers never arrive; ``asked``: (class, attribute, LID) of each request; ``most``: requests to one LID in one batch."""

    def __init__(self, fabric, additional: bool = False):
        self.fabric, self.port = fabric, default_port(fabric)
        self.plane = AgentPlane(fabric, additional_counters=additional)
        self.mute: set[int] = set()
        self.asked: list[tuple[int, int, int]] = []
        self.methods: set[int] = set()
        self.most = 0
        self.now_ps = 0

    def exchange(self, outbox: MadBatch | None = None) -> MadBatch | None:
        if outbox is None or not len(outbox):
            return None
        self.methods |= set(outbox.mad[:, METHOD_AT].tolist())
        attr = (outbox.mad[:, ATTR_AT].astype(int) << 8) | outbox.mad[:, ATTR_AT + 1]
        lid_routed = outbox.mad[:, CLASS_AT] != int(MgmtClass.SUBN_DR)
        self.asked += zip(outbox.mad[:, CLASS_AT].tolist(), attr.tolist(), outbox.dlid.tolist(), strict=True)
        if lid_routed.any():
            self.most = max(self.most, int(np.bincount(outbox.dlid[lid_routed]).max()))
        heard = ~np.isin(outbox.dlid, list(self.mute)) if self.mute else np.ones(len(outbox), bool)
        if not heard.any():
            return None
        answers = self.plane.send(outbox[heard], self.port, self.now_ps)
        return answers if len(answers) else None

    def wait(self, timeout_s: float) -> bool:
        return False


class Clock:
    """Nanoseconds that move when a test says so."""

    def __init__(self):
        self.ns = 10**18

    def __call__(self) -> int:
        return self.ns


@cache
def _up():
    fabric = generate("fat-tree", radix=4, levels=2, generation="NDR")
    bring_up(fabric)
    return fabric


def fabric_up():
    """Six switches and eight hosts, ACTIVE; each call gives a fabric of its own."""
    return _up().copy()


def port_of(fabric, name: str, portnum: int) -> int:
    return int(fabric.port(fabric.node_names().index(name), portnum))


def row_of(targets, fabric, port: int) -> int:
    """Row of a port of ``fabric`` in a poller's targets."""
    guid, number = int(fabric.node_guid[fabric.port_node[port]]), int(fabric.port_num[port])
    at = np.flatnonzero((targets.ports.node_guid == guid) & (targets.ports.portnum == number))
    assert len(at) == 1
    return int(at[0])


def clear(wire: Wire, fabric, port: int) -> None:
    """What ``perfquery -R`` sends: Set(PortCounters) with every CounterSelect bit."""
    node = int(fabric.port_node[port])
    agent = int(fabric.node_base[node]) if fabric.is_switch[node] else port
    lid = int(PortInfo.lid.get(fabric.port_info[agent]))
    batch = perf_gets(0x12, np.array([lid], np.uint16), np.array([fabric.port_num[port]], np.uint8))
    batch.mad[0, METHOD_AT] = int(Method.SET)
    batch.mad[0, 66:68] = 0xFF
    batch.mad[0, 64 + 16] = 0xFF  # CounterSelect2
    answers = wire.plane.send(batch, wire.port, 0)
    assert len(answers) == 1 and answers.mad[0, 5] == 0


QUICK = Pace(timeout_ps=5 * 10**9)


class Lab:
    def __init__(self, additional: bool = False, optical: bool = False, pace: Pace = QUICK):
        self.fabric = fabric_up()
        if optical:
            self.fabric.cable_medium[:], self.fabric.cable_length_m[:] = CableMedium.MULTIMODE, 20.0
        self.wire, self.clock = Wire(self.fabric, additional), Clock()
        self.poller = Poller(self.wire, pace, now_ns=self.clock)

    def round(self):
        self.clock.ns += 10**9
        return self.poller.round()

    def add(self, port: int, counter: str, n: int) -> None:
        column = self.fabric.counters if counter in self.fabric.counters.dtype.names else self.fabric.detail_counters
        column[counter][port] += np.uint64(n)
