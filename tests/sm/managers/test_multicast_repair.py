"""A cable or a switch that multicast trees need is gone: which groups change, what is Set, and that everybody is served again."""

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.iba.constants import LID_MCAST_MIN, MFT_BLOCK, SmpAttr
from softib.iba.sa import MCMemberRecord
from softib.iba.smp import ATTR_AT, METHOD_AT
from tests.sm.managers.multicast_lab import LEVELS, arrivals, join, mgid
from tests.sm.sa.asking import Asked, hosts

GROUPS, MEMBERS = 24, 6


class Net(Asked):
    """Three-level fat tree of 128 hosts, 24 groups of 6 members; counts Sets of multicast tables."""

    def __init__(self, engine):
        super().__init__(generate("fat-tree", radix=8, levels=3), engine=engine, sweep_interval_ps=10**13)
        rng, ports = np.random.default_rng(5), hosts(self)
        self.groups = {}
        for i in range(GROUPS):
            members = rng.choice(ports, MEMBERS, replace=False).tolist()
            record = join(self, members[0], mgid(i + 1), **LEVELS)[1][0]
            for port in members[1:]:
                assert join(self, port, mgid(i + 1))[0] == 0
            self.groups[int(MCMemberRecord.mlid.get(record))] = members
        self.set_blocks = []
        send = self.plane.send

        def counted(batch, port, now_ps=0):
            is_mft = (
                (batch.mad[:, ATTR_AT + 1] == SmpAttr.MFT) & (batch.mad[:, METHOD_AT] == 2) & (batch.mad[:, 1] == 0x81)
            )
            self.set_blocks += [batch.mad[row].tobytes() for row in np.flatnonzero(is_mft)]
            return send(batch, port, now_ps)

        self.plane.send = counted

    def column(self, mlid):
        return self.fabric.mft[:, mlid - LID_MCAST_MIN].copy()

    def whole(self, mlid):
        members = self.groups[mlid]
        return arrivals(self, members[0], mlid) == dict.fromkeys(members[1:], 1)

    def links(self, mlid):
        """Ports between switches that the group's tree takes."""
        f = self.fabric
        inner = np.flatnonzero(f.linked & f.is_switch[f.port_node] & f.is_switch[f.port_node[f.port_peer]])
        mask = self.column(mlid)[f.switch_of_node[f.port_node[inner]], f.port_num[inner] >> 4]
        return set(inner[(mask >> (f.port_num[inner] & 15) & 1) > 0].tolist())

    def after(self, ports, up):
        """Groups whose trees changed, by a sweep that traps call for, and how many blocks it Set; what no group changed of is Set nowhere."""
        before = {mlid: self.column(mlid) for mlid in self.groups}
        table = self.fabric.mft.copy()
        self.set_blocks.clear()
        for port in ports:
            self.plane.set_link(int(port), up, self.now_ps)
        self.now_ps += 2 * 10**12
        for notice in self.plane.take_notices():
            if (made := self.plane.trap(notice)) is not None:
                self.run(made[0])
        shape = (len(table), -1, MFT_BLOCK, table.shape[2])
        differ = (table != self.fabric.mft).reshape(shape).any(axis=2)
        assert len(set(self.set_blocks)) <= int(differ.sum()), "blocks that stay are not Set"
        return {mlid for mlid, column in before.items() if (column != self.column(mlid)).any()}, len(self.set_blocks)


@pytest.fixture(params=["updn", "ftree"])
def net(request):
    return Net(request.param)


def test_a_cable_moves_only_the_groups_that_took_it(net):
    assert all(net.whole(mlid) for mlid in net.groups)
    used = {mlid: net.links(mlid) for mlid in net.groups}
    busy = max(set.union(*used.values()), key=lambda p: sum(p in u for u in used.values()))
    needed = {mlid for mlid, u in used.items() if busy in u}
    assert 0 < len(needed) < GROUPS
    f, engine = net.fabric, net.sm.routing.engine
    both = {p for end in (busy, int(f.port_peer[busy])) for p in f.ports_of(int(f.port_node[end]))}
    beside = {mlid for mlid, u in used.items() if both & u}
    moved, blocks = net.after([busy], False)
    assert needed <= moved <= (beside if engine == "updn" else needed), "updn ranks a core without a cable as no root"
    assert len(moved) < GROUPS and all(net.whole(mlid) for mlid in net.groups)
    assert 0 < blocks <= 4 * len(net.fabric.switch_node)
    back, _ = net.after([busy], True)
    assert back <= moved and all(net.whole(mlid) for mlid in net.groups)
    assert {m: net.links(m) for m in net.groups} == used, "as before"


def test_a_core_switch_takes_only_its_own_trees_along(net):
    f = net.fabric
    used = {mlid: net.links(mlid) for mlid in net.groups}
    core = [n for n in f.switch_node.tolist() if f.node_name(n).startswith("core")]
    ports = {n: set(f.ports_of(n)) for n in core}
    victim = max(core, key=lambda n: sum(bool(ports[n] & u) for u in used.values()))
    needed = {mlid for mlid, u in used.items() if ports[victim] & u}
    assert needed
    moved, _ = net.after(sorted(ports[victim]), False)
    here = {mlid for mlid in net.groups if net.whole(mlid)}
    assert here == set(net.groups) and moved == needed


def test_groups_take_different_roots(net):
    f = net.fabric
    taken = [
        len({m for m in net.groups if set(f.ports_of(n)) & net.links(m)})
        for n in f.switch_node.tolist()
        if f.node_name(n).startswith("core")
    ]
    assert sum(n > 0 for n in taken) >= len(taken) / 2 and max(taken) <= GROUPS / 4
