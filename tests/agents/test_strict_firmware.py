"""Bit 31 of PortInfo's AttributeModifier (SMSupportExtendedSpeeds, IBA 14.2.5.6), at firmware that insists on it and at one that does not."""

from __future__ import annotations

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.fabric.topologies.registry import generate
from softib.iba.smp import PortInfo
from softib.sm.config import SmConfig, config_of
from softib.sm.options.file import read_options
from softib.sm.subnet_manager import SubnetManager
from tests.agents.smps import SET, ask
from tests.sm.wire import settle

BIT = 1 << 31
P = PortInfo


@pytest.fixture(params=["strict", "lenient"])
def tree(request):
    f = generate("fat-tree", radix=4, levels=2, generation="NDR")
    f.node_strict[:] = f.is_switch & (request.param == "strict")
    return f, AgentPlane(f), int(np.flatnonzero(f.linked & ~f.is_switch[f.port_node])[0])


def test_who_does_not_say_that_he_knows_extended_speeds_does_not_see_or_set_them(tree):
    f, plane, host = tree
    leaf = int(f.port_node[f.port_peer[host]])
    row, hidden = int(f.port(leaf, 2)), bool(f.node_strict[leaf])
    for modifier, sees in ((2, not hidden), (2 | BIT, True)):
        status, data = ask(plane, host, attr=0x15, mod=modifier, path=[1])
        info = data[:64].copy()
        assert status == 0 and P.link_speed_ext_active.get(info) == 8, "what a link runs at is shown"
        assert (P.link_speed_ext_supported.get(info), P.link_speed_ext_enabled.get(info)) == (
            (15, 15) if sees else (0, 0)
        )
        info = f.port_info[row].copy()
        P.port_state.set(info, 0)
        P.port_phys_state.set(info, 0)
        P.link_speed_ext_enabled.set(info, 4)
        status, data = ask(plane, host, method=SET, attr=0x15, mod=modifier, path=[1], data=info)
        assert status == 0 and P.link_speed_ext_enabled.get(data[:64]) == (4 if sees else 0)
        assert P.link_speed_ext_enabled.get(f.port_info[row]) == (4 if sees else 15)
        P.link_speed_ext_enabled.set(f.port_info[row : row + 1], 15)


def test_softibs_manager_says_it_and_needs_no_mad_more(tree):
    f, plane, host = tree
    sm = SubnetManager(SmConfig())
    settle(sm, plane, host)
    assert sm.report.mads["Get PORT_INFO"] == int(f.node_nports[f.is_switch].sum()) + int(f.is_switch.sum()) + len(
        f.cas
    ), "each port once"
    for speed, enabled in ((4, 4), (31, 15)):
        sm = SubnetManager(config_of(read_options(f"force_link_speed_ext {speed}\n").options))
        settle(sm, plane, host)
        rows = f.linked & f.is_switch[f.port_node] & (f.port_num > 0)
        assert set(P.link_speed_ext_enabled.get(f.port_info[rows]).tolist()) == {enabled}
        assert not sm.report.problems
