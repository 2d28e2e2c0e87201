"""A manager that computes for longer than its requests' timeout: what was answered meanwhile is not asked again."""

from __future__ import annotations

import pytest

from softib.live.umad_sm import manager as manager_module
from softib.live.umad_sm.manager import UmadManager
from softib.mad.batch import MadBatch
from softib.sm.config import SmConfig
from softib.sm.subnet_manager import SubnetManager
from tests.sm.managers.mkeys_lab import A, B, Lab

MS = 10**9


class LateWire:
    """Answers lie there for the next look at the wire, as a device's do. ``clock`` is its time in ps."""

    def __init__(self, lab: Lab):
        self.lab, self.clock_ps, self.unread = lab, 0, []

    def exchange(self, outbox: MadBatch | None = None) -> MadBatch | None:
        came, self.unread = self.unread, []
        if outbox is not None:
            self.unread = [self.lab.plane.send(outbox, self.lab.port, self.clock_ps)]
        return MadBatch.concat(came) if came else None

    def wait(self, timeout_s: float) -> bool:
        if not self.unread:
            self.clock_ps += max(1, int(timeout_s * 1e12))
        return bool(self.unread)


@pytest.mark.parametrize("where", ["the step", "between steps"])
def test_what_was_answered_while_the_manager_computed_is_in_time(monkeypatch, where):
    """Else a Set of PortInfo goes twice, and the second, with the key of before, is a violation (IBA 14.2.4)."""
    lab = Lab()
    wire = LateWire(lab)
    first = lab.managed(mkey=A, mkey_protect=3)
    lab.down()
    monkeypatch.setattr(manager_module, "clock_ps", lambda: wire.clock_ps)
    m = UmadManager(wire, SmConfig(mkey=B, mkey_protect=3))
    m.sm.mkeys.local_guid = int(lab.fabric.port_guid[lab.port])
    m.sm.mkeys.update(first.mkeys.held)
    m.sm.mkeys.neighbours.update(first.mkeys.neighbours)
    step = SubnetManager.step

    def slow(sm, now_ps, inbox):
        wire.clock_ps += 700 * MS * (where == "the step")
        return step(sm, now_ps, inbox)

    def done(m: UmadManager) -> bool:
        wire.clock_ps += 700 * MS * (where == "between steps")
        return m.sm.settled and m.sm.sweeps > 0

    monkeypatch.setattr(SubnetManager, "step", slow)
    m.run(done)
    assert lab.keys() == {B} and lab.violations() == 0
    assert m.sm.transactor.retried == m.sm.transactor.strays == 0 and m.sm.report.problems == []
