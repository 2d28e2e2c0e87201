"""A subnet read by Gets is the fabric that it is: against the arrays of the fabric behind the wire (its agents answer)."""

from __future__ import annotations

import numpy as np

from softib.fabric.topologies.registry import generate
from softib.iba.constants import Method
from softib.iba.smp import SwitchInfo
from softib.live.subnet_reader import fabric_of, read_subnet
from softib.scenario.bring_up import bring_up
from softib.sm.config import SmConfig
from tests.live.lab import Plane


def test_everything_that_mads_tell_is_there():
    real = generate("fat-tree", radix=4, levels=3)
    bring_up(real)
    wire = Plane(real)
    found = read_subnet(wire)
    f = fabric_of(found, "umad:")
    assert wire.methods == {int(Method.GET)}
    assert found.report.problems == []
    order = np.argsort(real.node_guid)
    assert (f.node_guid == real.node_guid[order]).all()
    assert f.node_names() == [real.node_names()[i] for i in order.tolist()]
    rows = {int(g): i for i, g in enumerate(real.node_guid)}
    ports = np.array(
        [real.node_base[rows[int(f.node_guid[n])]] + p for n, p in zip(f.port_node, f.port_num, strict=True)]
    )
    assert (f.lid == real.lid[ports]).all() and (f.port_state == real.port_state[ports]).all()
    assert (f.port_guid == real.port_guid[ports]).all()
    linked = f.port_peer >= 0
    assert (ports[f.port_peer[linked]] == real.port_peer[ports[linked]]).all() and linked.sum() == real.linked.sum()
    for s, node in enumerate(f.switch_node.tolist()):
        theirs = real.switch_of_node[rows[int(f.node_guid[node])]]
        top = int(SwitchInfo.linear_fdb_top.get(f.switch_info[s]))
        assert top > 0 and (f.lft[s, : top + 1] == real.lft[theirs, : top + 1]).all()
    first = [int(real.pkeys[real.pkey_base[p]]) for p in ports[f.end_ports()].tolist()]
    assert f.pkeys[f.pkey_base[f.end_ports()]].tolist() == first


def test_a_silent_node_is_a_problem_and_nothing_else():
    real = generate("fat-tree", radix=4, levels=2)
    silent = int(real.cas[3])
    wire = Plane(real, silent)
    found = read_subnet(wire, SmConfig(timeout_ps=10**9, retries=1))
    f = fabric_of(found, "umad:")
    assert f.sizes.nodes == real.sizes.nodes - 1
    assert len(found.report.problems) == 1 and "is not answered" in found.report.problems[0]
