"""UD multicast: groups that our subnet manager made by joins, copies in switches, credits of copies (IBA 18.2.4.3, 10.5)."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest

from softib.errors import InputError
from softib.fabric.end_ports import end_ports
from softib.fabric.topologies.registry import generate
from softib.iba.smp import SwitchInfo
from softib.scenario.bring_up import bring_up
from softib.scenario.sa_requests import join_group
from softib.sim.messages import MulticastGroup, Transport, messages
from softib.sim.packet import PacketOptions, constants, run
from softib.sim.packet.engine import execute
from softib.sim.packet.manager_tables import deliveries_of
from tests.sim.packet.fabrics import no_lifetimes
from tests.sim.packet.groups import datagrams, grouped
from tests.sim.packet.lab import IDEAL, drained

LRH_TO_VCRC = 26 + 8 + 40
"""Octets around the payload of a multicast datagram: LRH, BTH, ICRC, VCRC, DETH, and the GRH, which all of them have."""


@pytest.mark.parametrize("levels", [2, 3])
def test_every_member_gets_every_packet_exactly_once(levels):
    """Three sources at once, one of them a member, one outside the group; the sender itself gets none of its own."""
    members, sources = [0, 1, 5, 9, 13, 14], [5, 9, 3]
    fabric, ends, group = grouped(members, sources, radix=8 if levels == 2 else 4, levels=levels)
    sent = datagrams(group, sources, 40)
    net, s, status, _ = execute(fabric, sent, PacketOptions())
    assert status == constants.DONE
    for i in range(len(sent)):
        ports, when, times = deliveries_of(net, s, i)
        own = ports == ends[sent.src[i]]
        assert np.array_equal(np.sort(ports), np.sort(ends[members]))
        assert (times[~own] == 1).all() and (times[own] == 0).all() and (when[~own] > 0).all()
    out = run(fabric, sent)
    assert out.done and (out.arrived_ps > 0).all()


def test_octets_in_times_fan_out_are_octets_out_and_credits_come_back():
    members = [0, 1, 2, 5, 9, 13, 14, 30]
    fabric, ends, group = grouped(members, [0])
    net, s, status, _ = execute(fabric, datagrams(group, [0], 25, size=1000), PacketOptions())
    assert status == constants.DONE and s.reg.in_network == 0
    octets = 1000 + LRH_TO_VCRC
    for node in np.flatnonzero(fabric.is_switch).tolist():
        ports = fabric.node_base[node] + 1 + np.arange(int(fabric.node_nports[node]))
        into, outof = s.port["rcv_octets"][ports].sum(), s.port["xmit_octets"][ports].sum()
        if into == 0:
            assert outof == 0
            continue
        mask = fabric.mft[int(fabric.switch_of_node[node]), group.mlid - 0xC000]
        entry = ports[s.port["rcv_octets"][ports] > 0]
        assert len(entry) == 1, "the group's tree"
        fan_out = sum(bin(int(word)).count("1") for word in mask) - (
            int(mask[int(fabric.port_num[entry[0]]) >> 4]) >> (int(fabric.port_num[entry[0]]) & 15) & 1
        )
        assert into == 25 * octets and outof == into * fan_out
    linked = np.flatnonzero(net.port["peer"] >= 0)
    assert np.array_equal(drained(net, s)[linked], net.rare["blocks"][net.port["peer"][linked]])
    counters = run(fabric, datagrams(group, [0], 25, size=1000)).counters
    assert counters["port_multicast_xmit_pkts"][ends[0]] == 25 and counters["port_unicast_xmit_pkts"].sum() == 0
    assert counters["port_multicast_rcv_pkts"][ends[members[1:]]].tolist() == [25] * 7


def test_one_slow_member_slows_the_group():
    """A member whose link another sender fills takes half of the datagrams' rate: all members get them at that rate then, though their
    own links are idle. The packet holds its buffer until the last copy has left (head-of-line blocking of multicast)."""
    members = [0, 1, 5, 9]
    fabric, _, group = grouped(members, [0])
    fabric = no_lifetimes(copy.deepcopy(fabric))
    options = PacketOptions(profile=IDEAL | {"vl_blocks": 512})
    n, size = 1500, 4096

    def rate(extra):
        sent = datagrams(group, [0], n, size=size)
        if extra:
            both = messages(
                np.append(sent.src, np.full(900, 2)),
                np.append(sent.dst, np.full(900, 9)),
                np.append(sent.size, np.full(900, 65536)),
                qp=np.append(sent.qp, np.full(900, 50)),
                transport=np.append(sent.transport, np.zeros(900, int)),
                group=np.append(sent.group, np.zeros(900, int)),
                groups=[group],
            )
            sent = both
        net, s, _, _ = execute(fabric, sent, replace(options, until_ps=300 * 10**6))
        got = [deliveries_of(net, s, i) for i in range(n)]
        return np.array([[when[ports == p][0] for p in net.group_port] for ports, when, _ in got]), net.group_port

    free, ports = rate(False)
    held, _ = rate(True)
    others = ports != end_ports(fabric)[0]
    ends = end_ports(fabric)
    fast = (ports == ends[1]).argmax()  # another member, whose own link carries nothing else
    took_free = np.diff(np.sort(free[:, fast])[[200, 700]])[0]
    took_held = np.diff(np.sort(held[held[:, fast] > 0, fast])[[200, 700]])[0]
    assert others.sum() == 3
    assert took_held / took_free == pytest.approx(2, rel=0.1)


def test_programs_that_wait_for_a_datagram_go_on_when_their_own_copy_is_there():
    """Each member answers by a WRITE to the source: a collect after a broadcast."""
    members = [0, 1, 5, 9]
    fabric, ends, group = grouped(members, [0])
    answer = messages(
        [0, 1, 5, 9],
        [1, 0, 0, 0],
        [2048, 64, 64, 64],
        transport=[Transport.UD, 0, 0, 0],
        group=[1, 0, 0, 0],
        groups=[group],
        first=[0, 0, 1, 2, 3],
        needs=[0, 0, 0],
    )
    net, s, _, _ = execute(fabric, answer, PacketOptions())
    ports, when, _ = deliveries_of(net, s, 0)
    at = dict(zip(ports.tolist(), when.tolist(), strict=True))
    for i, host in enumerate(members[1:], 1):
        assert s.message["began"][i] == at[int(ends[host])]


def test_what_cannot_be_is_one_line():
    fabric, _, group = grouped([0, 1], [0])
    with pytest.raises(InputError, match="subnet manager"):
        run(fabric, datagrams(MulticastGroup(np.array([0, 1])), [0], 1))
    with pytest.raises(InputError, match="fifo"):
        run(fabric, datagrams(group, [0], 1), PacketOptions(fifo=True))
    with pytest.raises(InputError, match="not a datagram"):
        run(fabric, messages([0], [1], 8, group=1, groups=[group]))
    with pytest.raises(InputError, match="not a member"):
        run(
            fabric,
            messages(
                [0, 5], [1, 0], 8, transport=[Transport.UD, 0], group=[1, 0], groups=[group], first=[0, 0, 1], needs=[0]
            ),
        )


def test_lost_copies_are_lost_for_their_member_alone():
    members = [0, 1, 5, 9]
    fabric, ends, group = grouped(members, [0])
    fabric.port_loss[ends[5], 0] = 100.0
    net, s, _, _ = execute(fabric, datagrams(group, [0], 3), PacketOptions())
    ports, _, times = deliveries_of(net, s, 0)
    assert dict(zip(ports.tolist(), times.tolist(), strict=True)) == {
        int(ends[0]): 0,
        int(ends[1]): 1,
        int(ends[5]): 0,
        int(ends[9]): 1,
    }
    assert s.port["rcv_errors"][ends[5]] == 3


def test_port_0_of_a_switch_is_a_member():
    """Bit 0 of its mask (IBA 18.2.4.3): it has each datagram once, when the packet is whole at the switch; the others have theirs, and all
    credits come back. Our administrator lets no switch join, so the bit is written by hand."""
    up = bring_up(generate("fat-tree", radix=8, levels=2, generation="NDR"))
    f, ends = up.fabric, end_ports(up.fabric)
    mlid = join_group(up, 1, ends[[0, 5]].tolist())
    leaf = int(f.port_node[f.port_peer[ends[0]]])
    switch = int(np.flatnonzero(ends == f.node_base[leaf])[0])
    f.mft[f.switch_of_node[leaf], mlid - constants.MULTICAST_LID, 0] |= 1
    sent = datagrams(MulticastGroup(np.array([0, 5, switch]), mlid), [0], 20)
    net, s, status, _ = execute(f, sent, PacketOptions())
    assert status == constants.DONE and s.reg.in_network == 0
    for i in range(len(sent)):
        ports, when, times = deliveries_of(net, s, i)
        others = ports != ends[0]
        assert (times[others] == 1).all() and (when[others] > 0).all()
    linked = np.flatnonzero((net.port["peer"] >= 0) & (f.port_num > 0))
    assert np.array_equal(drained(net, s)[linked * int(net.opt.vls)], net.rare["blocks"][net.port["peer"][linked]])


def test_a_switch_discards_what_is_beyond_its_multicast_fdb_top():
    """The tables of the group are there, and count for nothing above MulticastFDBTop; 0 sets no limit."""
    fabric, _, group = grouped([0, 1, 5], [0])
    sent = datagrams(group, [0], 3, size=1000)
    assert (run(fabric, sent).arrived_ps > 0).all()
    for top, arrives in ((0, True), (group.mlid, True), (group.mlid - 1, False), (0xBFFF, False)):
        SwitchInfo.mcast_fdb_top.set(fabric.switch_info, top)
        assert (run(fabric, sent).arrived_ps > 0).all() == arrives
