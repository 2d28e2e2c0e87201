"""A dry run tells what a real run then does (oracle: the fabric's own arrays before and after), and sends no Set (IBA 13.4.5)."""

from __future__ import annotations

import numpy as np

from softib.agents.plane import AgentPlane
from softib.fabric.node_finder import default_port
from softib.fabric.topologies.registry import generate
from softib.iba.constants import Method, MgmtClass
from softib.iba.smp import PortInfo, SwitchInfo
from softib.mad.batch import MadBatch
from softib.scenario.bring_up import bring_up
from softib.sm.config import SmConfig
from softib.sm.dry_run import DryRun
from softib.sm.subnet_manager import SubnetManager


def rehearse(fabric) -> tuple[DryRun, SubnetManager, list[int]]:
    """One sweep through a dry run: (it, the manager, methods of all that reached the agents)."""
    plane, sm, dry = AgentPlane(fabric), SubnetManager(SmConfig(window=256, chunk=256)), DryRun()
    port, inbox, now_ps, methods = default_port(fabric), None, 0, []
    while not sm.sweeps or sm.phase:
        outbox, deadline_ps = sm.step(now_ps, inbox)
        inbox = None
        if len(outbox):
            wire = dry.out(outbox)
            methods += wire.mad[:, 3].tolist()
            inbox = dry.back(plane.send(wire, port, now_ps))
        else:
            now_ps = max(now_ps, deadline_ps)
    return dry, sm, methods


def test_what_it_says_is_what_a_real_run_writes():
    fabric = generate("fat-tree", radix=8, levels=3)
    real = fabric.copy()
    before_info, before_switch = fabric.port_info.copy(), fabric.switch_info.copy()
    dry, sm, methods = rehearse(fabric)
    assert set(methods) == {int(Method.GET)}, "no Set reaches a device"
    assert (fabric.port_info == before_info).all() and (fabric.switch_info == before_switch).all()
    assert (fabric.lft == 255).all()
    bring_up(real)
    node_of = {int(g): i for i, g in enumerate(real.node_guid)}
    lft = np.full_like(real.lft, 255)
    lid, state, tops = real.lid.copy() * 0, real.port_state.copy() * 0, {}
    for change in dry.changes(sm.database):
        node = node_of[change.guid]
        assert change.name == real.node_name(node)
        if change.attr == "LFT":
            for entry, now, then in change.rows:
                assert now == 255
                lft[real.switch_of_node[node], entry] = then
        fields = {what: (now, then) for what, now, then in change.rows}
        port = int(real.node_base[node]) + change.modifier
        if change.attr == "PortInfo" and "lid" in fields:
            lid[port] = fields["lid"][1]
        if change.attr == "PortInfo" and "port_state" in fields:
            assert fields["port_state"][0] == int(PortInfo.port_state.get(before_info[port]))
            state[port] = fields["port_state"][1]
        if change.attr == "SwitchInfo":
            tops[node] = fields["linear_fdb_top"][1]
    assert (lft == real.lft).all()
    assert (lid == real.lid).all()
    assert (state[real.linked] == real.port_state[real.linked]).all()
    assert tops == {
        int(n): int(SwitchInfo.linear_fdb_top.get(real.switch_info[real.switch_of_node[n]])) for n in real.switch_node
    }
    assert dry.sets == sm.report.sets


def test_a_subnet_that_is_as_wanted_needs_nothing():
    fabric = generate("fat-tree", radix=4, levels=2)
    bring_up(fabric)
    dry, sm, methods = rehearse(fabric)
    assert dry.changes(sm.database) == []
    assert int(Method.SET) not in methods


def test_what_goes_by_lid_is_not_sent():
    """Congestion control is addressed by LIDs that a dry run gave to nobody."""
    dry, batch = DryRun(), MadBatch.zeros(2)
    batch.mad[:, :4] = 1, int(MgmtClass.CONG_CTRL), 2, int(Method.SET)
    batch.mad[1, 1], batch.mad[1, 3] = int(MgmtClass.SUBN_DR), int(Method.GET)
    sent = dry.out(batch)
    assert sent.mad[:, 1].tolist() == [int(MgmtClass.SUBN_DR)]
    back = dry.back(None)
    assert back is not None and back.mad[0, :4].tolist() == [1, int(MgmtClass.CONG_CTRL), 2, int(Method.GET_RESP)]
    assert dry.assumed == 1


def test_a_refused_get_changes_nothing():
    dry = DryRun()
    batch = MadBatch.zeros(1)
    batch.mad[0, :4] = 1, int(MgmtClass.SUBN_DR), 1, int(Method.SET)
    batch.mad[0, 15], batch.mad[0, 17] = 9, 0x15
    sent = dry.out(batch)
    assert sent.mad[0, 3] == Method.GET and batch.mad[0, 3] == Method.SET
    answer = sent.copy()
    answer.mad[0, 3], answer.mad[0, 5] = int(Method.GET_RESP), 0x0C
    back = dry.back(answer)
    assert back is not None and back.mad[0, 5] == 0x0C
    assert not dry._held
