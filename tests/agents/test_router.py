"""RouterInfo and its tables: what a router with ports in several subnets answers of the others (layouts of ib_types.h of NVIDIA's OpenSM)."""

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.fabric.builder import FabricBuilder
from softib.iba.constants import MadStatus, PortState
from softib.iba.smp import PortInfo
from softib.iba.vendor.router import SITE_LOCAL, AdjacentSubnet, NextHop, RouterInfo
from tests.agents.smps import SET, ask

INFO, NEXT, ADJACENT = 0xFFD0, 0xFFD1, 0xFFD2


def lab(prefixes):
    """A router with a port in each subnet: a switch with a host each."""
    b = FabricBuilder("routed")
    n = len(prefixes)
    switches = b.nodes(n, 2, 4, desc=[f"s{i}" for i in range(n)])
    hosts = b.nodes(n, 1, 1, desc=[f"h{i}" for i in range(n)])
    router = b.nodes(1, 3, n, desc=["rt"])
    b.links(switches, 1, hosts, 1)
    for i in range(n):
        b.links(switches[i : i + 1], 2, router, i + 1)
    f = b.build()
    for i, prefix in enumerate(prefixes):
        row = f.port_info[f.port(router[0], i + 1)][None]
        PortInfo.gid_prefix.set(row, prefix)
        PortInfo.port_state.set(row, PortState.ACTIVE)
        PortInfo.master_sm_lid.set(row, 100 + i)
    return f, AgentPlane(f), int(f.port(hosts[0], 1)), router[0]


def said(one, attr, block=0, method=1):
    _, plane, port, _ = one
    status, got = ask(plane, port, attr=attr, mod=block, path=(1, 2), method=method)
    return status, got[:64]


def test_site_local_subnets_are_adjacent_and_others_are_next_hops():
    one = lab([SITE_LOCAL | 1, SITE_LOCAL | 7, 0xFE80_0000_0000_0009, SITE_LOCAL | 0x0102])
    status, info = said(one, INFO)
    assert status == 0
    assert info[[7, 11, 14, 15]].tolist() == [3, 1, 2, 3], (
        "offsets of ib_router_info_t: cap, top of next hops; top, cap of adjacent ones"
    )
    assert int(RouterInfo.adjacent_table_top.get(info)) == 2 and int(RouterInfo.next_hop_table_top.get(info)) == 1
    rows = said(one, ADJACENT)[1].reshape(8, AdjacentSubnet.size)
    assert (
        rows[:2].tolist() == [[0xFF, 0xFF, 0, 7, 0, 0, 0, 101], [0xFF, 0xFF, 1, 2, 0, 0, 0, 103]] and not rows[2:].any()
    )
    (hop, *rest) = said(one, NEXT)[1].reshape(4, NextHop.size)
    assert hop.tolist() == [0xFE, 0x80, 0, 0, 0, 0, 0, 9, 0, 0, 0xFF, 0xFF, 0, 0, 0, 0] and not np.any(rest)


def test_what_is_down_or_in_the_same_subnet_or_there_already_is_no_other_subnet():
    one = lab([SITE_LOCAL | 1, SITE_LOCAL | 1, SITE_LOCAL | 7, SITE_LOCAL | 7, SITE_LOCAL | 8])
    f, router = one[0], one[3]
    PortInfo.port_state.set(f.port_info[f.port(router, 5)][None], PortState.INIT)
    assert int(RouterInfo.adjacent_table_top.get(said(one, INFO)[1])) == 1
    assert said(one, ADJACENT)[1][:8].tolist() == [0xFF, 0xFF, 0, 7, 0, 0, 0, 102]


def test_many_subnets_take_several_blocks():
    numbers = list(range(1, 21))
    one = lab([SITE_LOCAL | n for n in numbers])
    found = np.concatenate([said(one, ADJACENT, block)[1] for block in range(3)]).reshape(-1, 8)
    assert AdjacentSubnet.subnet_prefix.get(found[:19]).tolist() == numbers[1:] and not found[19:].any()


@pytest.mark.parametrize("attr", [INFO, NEXT, ADJACENT])
def test_it_is_read_only_and_nobody_else_has_it(attr):
    one = lab([SITE_LOCAL | 1, SITE_LOCAL | 7])
    assert said(one, attr, method=SET)[0] == MadStatus.BAD_ATTRIBUTE
    _, plane, port, _ = one
    assert ask(plane, port, attr=attr, path=(1,))[0] == MadStatus.BAD_ATTRIBUTE, "a switch"
    assert ask(plane, port, attr=attr)[0] == MadStatus.BAD_ATTRIBUTE, "a host"
    if attr != INFO:
        assert said(one, attr, block=9)[0] == MadStatus.BAD_FIELD
