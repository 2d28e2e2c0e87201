"""A node that does not answer costs nobody its timeouts; it is asked once a sweep, and between sweeps ever more rarely."""

from __future__ import annotations

import numpy as np

from softib.agents.plane import AgentPlane
from softib.fabric.node_finder import default_port
from softib.fabric.topologies.registry import generate
from softib.iba.constants import PortState, SmpAttr
from softib.iba.smp import MadHeader
from softib.mad.batch import MadBatch
from softib.sm.config import SmConfig
from softib.sm.health.silent import LONGEST
from softib.sm.subnet_manager import SubnetManager

MS = 10**9


class Wire:
    """A manager and its agents, on a virtual clock; answers of node ``silent`` are lost. ``asked``: when that node was asked."""

    def __init__(self):
        self.fabric = generate("fat-tree", radix=4, levels=2)
        self.silent, self.port = int(self.fabric.cas[5]), default_port(self.fabric)
        self.plane, self.sm = AgentPlane(self.fabric), SubnetManager(SmConfig(window=64, chunk=64))
        self.now_ps, self.deadline_ps = 0, 0
        self.asked: list[int] = []

    def step(self, inbox: MadBatch | None) -> MadBatch | None:
        outbox, self.deadline_ps = self.sm.step(self.now_ps, inbox)
        if not len(outbox):
            return None
        to = np.array([self.end(mad) for mad in outbox.mad])
        self.asked += [self.now_ps] * int((to == self.silent).sum())
        answers = self.plane.send(outbox, self.port, self.now_ps)
        return answers[np.array([self.end(mad) != self.silent for mad in answers.mad], bool)]

    def settle(self) -> int:
        """Until the manager rests; returns how long it took."""
        began, inbox = self.now_ps, self.step(None)
        while not self.sm.settled:
            if inbox is None:
                self.now_ps = max(self.now_ps, self.deadline_ps)
            inbox = self.step(inbox)
        return self.now_ps - began

    def wait(self, until_ps: int) -> None:
        """As a daemon does: step at each deadline."""
        inbox = None
        while self.now_ps < until_ps:
            inbox = self.step(inbox)
            if inbox is None:
                self.now_ps = min(until_ps, max(self.now_ps + 1, self.deadline_ps))

    def end(self, mad: np.ndarray) -> int:
        f = self.fabric
        node = int(f.port_node[self.port])
        for i in range(1, int(mad[7]) + 1):
            node = int(f.port_node[f.port_peer[f.port(node, int(mad[128 + i]))]])
        return node


def test_no_sweep_waits_for_a_silent_node():
    wire = Wire()
    for sweep in range(5):
        wire.sm.request_sweep()
        before = len(wire.asked)
        assert wire.settle() == 20 * MS, "a tenth of a timeout: what answers has answered by then"
        assert wire.asked[before:] == [wire.now_ps - 20 * MS], "asked once"
        assert wire.sm.report.nodes == wire.fabric.sizes.nodes - 1 and len(wire.sm.report.silent_ports) == 1, sweep
    f = wire.fabric
    cable = int(f.port_peer[f.port(wire.silent, 1)])
    others = f.linked & (f.port_node != wire.silent) & (np.arange(len(f.linked)) != cable)
    assert (f.port_state[others] == PortState.ACTIVE).all()


def test_it_is_asked_ever_more_rarely_and_managed_as_soon_as_it_answers():
    wire = Wire()
    wire.settle()
    sweeps = wire.sm.sweeps
    wire.wait(400_000 * MS)
    gaps = np.diff(wire.asked) // (200 * MS)
    assert gaps[:3].tolist() == [1, 1, 1], "the tries of any request"
    assert gaps[3:].tolist() == [min(2 << i, LONGEST) for i in range(len(gaps) - 3)]
    assert gaps.max() == LONGEST and wire.sm.sweeps == sweeps, "silence calls for no sweep"
    wire.silent = -1
    answers_at = wire.now_ps + LONGEST * 200 * MS
    wire.wait(answers_at + 1000 * MS)
    assert wire.sm.report.nodes == wire.fabric.sizes.nodes and not wire.sm.silent.ports
    assert (wire.fabric.port_state[wire.fabric.linked] == PortState.ACTIVE).all()
    assert wire.sm.sweeps == sweeps + 1 and wire.sm.report.sent < 120, "an incremental sweep"


def test_a_forged_answer_to_a_question_that_nobody_asked_is_dropped():
    wire = Wire()
    wire.settle()
    wire.wait(wire.now_ps + 200 * MS)
    forged = MadBatch.zeros(1)
    MadHeader.base_version.set(forged.mad, 1)
    MadHeader.mgmt_class.set(forged.mad, 0x81)
    MadHeader.method.set(forged.mad, 0x81)
    MadHeader.attr_id.set(forged.mad, int(SmpAttr.NODE_INFO))
    MadHeader.tid.set(forged.mad, np.array([0xFFFFFFF0], np.uint64))
    sweeps = wire.sm.sweeps
    wire.sm.step(wire.now_ps, forged)
    assert wire.sm.settled and wire.sm.sweeps == sweeps


def test_a_device_that_stops_answering_in_the_middle_is_asked_again():
    """It answered NodeInfo, and nothing after: the sweep reports it, and sweeps of its own ask again after 2 s, 4 s …"""
    wire = Wire()
    silent, wire.silent = wire.silent, -1
    wire.settle()
    f = wire.fabric
    cable = int(f.port_peer[f.port(silent, 1)])
    plane, wire.now_ps = wire.plane, wire.now_ps + MS
    plane.set_link(cable, False, wire.now_ps)
    plane.set_link(cable, True, wire.now_ps)
    deaf = {int(SmpAttr.PORT_INFO)}
    send = plane.send
    plane.send = lambda batch, port, now: (
        lambda a: a[np.array([wire.end(m) != silent or int(MadHeader.attr_id.get(m)) not in deaf for m in a.mad], bool)]
    )(send(batch, port, now))
    wire.sm.request_sweep()
    wire.settle()
    assert wire.sm.report.problems and wire.sm.report.nodes == f.sizes.nodes
    sweeps = wire.sm.sweeps
    wire.wait(wire.now_ps + 20_000 * MS)
    assert 3 <= wire.sm.sweeps - sweeps <= 5
    deaf.clear()
    wire.wait(wire.now_ps + 70_000 * MS)
    assert not wire.sm.report.problems and f.port_state[cable] == PortState.ACTIVE
