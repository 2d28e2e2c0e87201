"""Groups on the fabric itself: packets are flooded through the tables that switches hold, and counted where they arrive."""

from __future__ import annotations

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.iba import sa
from softib.iba.constants import LID_MCAST_MIN, CapMask
from softib.iba.notice import Notice, TrapGid
from softib.iba.sa import JoinState, SaMethod, SaStatus
from softib.iba.smp import PortInfo, SwitchInfo
from softib.mad.batch import MadBatch
from softib.sm.sa.mcmember_record import broadcast_mgid
from tests.sm.managers.multicast_lab import FULL, LEVELS, MINE, arrivals, join, mgid
from tests.sm.sa.asking import Asked, H, hosts

M, E, R = SaMethod, SaStatus, sa.MCMemberRecord
BROADCAST = np.frombuffer(broadcast_mgid(0xFFFF), ">u8").astype(np.uint64)
SEND_ONLY = int(JoinState.SEND_ONLY)
KINDS = [{"kind": "fat-tree", "radix": 4, "levels": 3}, {"kind": "torus", "dims": [3, 3], "hosts_per_switch": 1}]


def leave(a: Asked, port: int, mgid=MINE, state: int = FULL):
    return a.ask(R, M.DELETE, frm=port, mgid=mgid, port_gid=a.gid(port), join_state=state)


@pytest.fixture(params=KINDS, ids=lambda k: k["kind"])
def net(request):
    kind = dict(request.param)
    try:
        return Asked(generate(kind.pop("kind"), **kind))
    except Exception as error:  # another signature of the generator is no matter of this test
        pytest.skip(f"no such topology here: {error}")


def test_everybody_gets_every_packet_once(net):
    ports = hosts(net).tolist()
    members, watcher, sender = ports[::2], ports[1], ports[3]
    status, records = join(net, members[0], **LEVELS)
    mlid = int(R.mlid.get(records[0]))
    assert status == 0 and mlid > LID_MCAST_MIN, "the broadcast group has the first one"
    for port in members[1:]:
        assert join(net, port)[0] == 0
    assert join(net, sender, state=SEND_ONLY)[0] == 0
    for source in (*members, sender):
        assert arrivals(net, source, mlid) == dict.fromkeys((m for m in members if m != source), 1)
    assert watcher not in arrivals(net, members[0], mlid)
    for port in members[:-1]:
        assert leave(net, port)[0] == 0
    assert arrivals(net, sender, mlid) == {members[-1]: 1}
    assert leave(net, members[-1])[0] == 0
    assert not net.fabric.mft[:, mlid - LID_MCAST_MIN].any(), "a group that ended leaves nothing in the tables"
    assert mlid not in R.mlid.get(net.ask(R)[1]).tolist()


def test_a_tree_heals_with_the_sweep():
    a = Asked(generate("fat-tree", radix=4, levels=3))
    ports = hosts(a).tolist()
    mlid = int(R.mlid.get(join(a, ports[0], **LEVELS)[1][0]))
    for port in ports[1:]:
        join(a, port)
    f = a.fabric
    used = [
        p
        for p in np.flatnonzero(f.linked & f.is_switch[f.port_node]).tolist()
        if f.is_switch[f.port_node[f.port_peer[p]]]
        and f.mft[int(f.switch_of_node[f.port_node[p]]), mlid - LID_MCAST_MIN, int(f.port_num[p]) >> 4]
        >> (int(f.port_num[p]) & 15)
        & 1
    ]
    a.plane.set_link(used[0], False)
    assert sum(arrivals_or_less(a, ports[0], mlid).values()) < len(ports) - 1, "the cable carried the tree"
    a.sweep()
    assert arrivals(a, ports[0], mlid) == dict.fromkeys(ports[1:], 1)


def arrivals_or_less(a: Asked, source: int, mlid: int) -> dict[int, int]:
    """As :func:`arrivals`, over links that are up."""
    f = a.fabric
    peers = f.port_peer.copy()
    down = f.port_state < 2
    before = f.mft.copy()
    for p in np.flatnonzero(down & f.is_switch[f.port_node]).tolist():
        f.mft[int(f.switch_of_node[f.port_node[p]]), mlid - LID_MCAST_MIN, int(f.port_num[p]) >> 4] &= np.uint16(
            ~(1 << (int(f.port_num[p]) & 15)) & 0xFFFF
        )
    try:
        return arrivals(a, source, mlid)
    finally:
        f.mft[:] = before
        assert (f.port_peer == peers).all()


def test_what_joining_needs():
    a = Asked(generate("fat-tree", radix=4, levels=2))
    x, y, z = hosts(a)[:3].tolist()
    assert join(a, x)[0] == E.REQ_INSUFFICIENT_COMPONENTS, "a new group needs its levels"
    assert join(a, x, state=SEND_ONLY, **LEVELS)[0] == E.REQ_INVALID, "nobody creates what he does not receive"
    assert join(a, x, mgid=np.array([1, 2], np.uint64), **LEVELS)[0] == E.REQ_INVALID
    assert join(a, x, **{**LEVELS, "pkey": 0x8123})[0] == E.REQ_INVALID, "no member of that partition"
    assert join(a, x, **LEVELS, mtu_selector=2, mtu=3)[0] == 0
    assert join(a, y, qkey=5)[0] == E.REQ_INVALID, "another Q_Key"
    assert join(a, y, mtu_selector=0, mtu=3)[0] == E.REQ_INVALID, "wants more than the group's MTU"
    assert leave(a, z)[0] == E.REQ_INVALID, "was never a member"
    assert join(a, y, **LEVELS)[0] == 0
    status, made = a.ask(R, M.SET, frm=z, port_gid=a.gid(z), join_state=FULL, **LEVELS)
    assert status == 0 and int(R.mgid.get(made[0])[0]) >> 56 == 0xFF, "without an MGID one is made up"
    assert join(a, x, BROADCAST)[0] == 0 and leave(a, x, BROADCAST)[0] == 0
    assert 0xC000 in R.mlid.get(a.ask(R)[1]).tolist(), "a partition's own group stays"
    _, trusted = a.ask(R, trusted=True)
    assert {tuple(g) for g in R.port_gid.get(trusted).tolist()} == {tuple(a.gid(p).tolist()) for p in (x, y, z)}
    _, untrusted = a.ask(R)
    assert not R.port_gid.get(untrusted).any()


def subscribe(a: Asked, port: int, trap: int, on: int = 1) -> int:
    inform = sa.InformInfo.pack(
        lid_range_begin=0xFFFF, is_generic=1, subscribe=on, type=0xFFFF, trap_number=trap, producer_type=0xFFFFFF
    )
    mad = np.zeros(256, np.uint8)
    mad[:56] = H.pack(base_version=1, mgmt_class=3, class_version=2, method=2, attr_id=3)
    mad[56:92] = inform
    return int(H.status.get(a.raw(mad, a.lid(port)).mad[0]))


def reports(batch: MadBatch) -> list[tuple[int, int, tuple[int, int]]]:
    """(trap, LID it went to, GID it speaks of)"""
    out = []
    for row in np.flatnonzero(batch.mad[:, 3] == M.REPORT).tolist():
        n = batch.mad[row, 56:120]
        gid = TrapGid.gid.get(Notice.data_details.get(n))
        out.append((int(Notice.trap_number.get(n)), int(batch.dlid[row]), (int(gid[0]), int(gid[1]))))
    return out


def test_who_subscribed_hears_of_groups_and_ports():
    a = Asked(generate("fat-tree", radix=4, levels=2))
    _, y, z = hosts(a)[:3].tolist()
    for trap in (64, 65, 66, 67):
        assert subscribe(a, y, trap) == 0
    assert subscribe(a, y, 66) == 0, "twice is once"
    assert len(a.ask(sa.InformInfoRecord)[1]) == 4
    join(a, z, **LEVELS)
    made = reports(MadBatch.concat([b for b in a.sent if len(b)]))
    assert [(t, to) for t, to, _ in made if t == 66][:1] == [(66, a.lid(y))] and made[0][2] == tuple(MINE.tolist())
    leave(a, z)
    assert 67 in {t for t, _, _ in reports(MadBatch.concat([b for b in a.sent if len(b)]))}
    gone = tuple(a.gid(z).tolist())
    a.plane.set_link(z, False)
    a.sm.request_sweep()
    assert (65, a.lid(y), gone) in reports(a.run())
    a.plane.set_link(z, True)
    a.sm.request_sweep()
    assert (64, a.lid(y), gone) in reports(a.run())
    assert subscribe(a, y, 64, on=0) == 0 and subscribe(a, y, 64, on=0) == E.REQ_INVALID
    assert subscribe(a, y, 257) == E.REQ_DENIED, "keys are told to the trusted alone"


def few_mlids(count: int) -> Asked:
    """A tree whose switches have room for ``count`` MLIDs, of which the partition's broadcast group has one."""
    fabric = generate("fat-tree", radix=4, levels=3)
    SwitchInfo.mcast_fdb_cap.set(fabric.switch_info, count)
    return Asked(fabric)


def test_groups_share_mlids_when_none_is_left():
    """Each member gets every packet of its group once; others who share the MLID may."""
    a = few_mlids(4)
    ports = hosts(a).tolist()
    members = {n: [ports[n], ports[(n + 5) % len(ports)], ports[(3 * n + 7) % len(ports)]] for n in range(9)}
    mlids = {}
    for n, some in members.items():
        for port in some:
            status, made = join(a, port, mgid(n), **LEVELS)
            assert status == 0
            mlids[n] = int(R.mlid.get(made[0]))
    assert set(mlids.values()) == {0xC001, 0xC002, 0xC003}, "three are left beside the broadcast group's"
    assert sorted(list(mlids.values()).count(m) for m in set(mlids.values())) == [3, 3, 3], "evenly"
    for n, some in members.items():
        reached = {p for k, others in members.items() if mlids[k] == mlids[n] for p in others}
        for source in some:
            assert arrivals(a, source, mlids[n]) == dict.fromkeys(reached - {source}, 1)


def test_a_group_that_ends_leaves_its_mlid_to_those_who_share_it():
    a = few_mlids(2)
    x, y, z = hosts(a)[:3].tolist()
    for port, n in ((x, 0), (y, 0), (y, 1), (z, 1)):
        assert join(a, port, mgid(n), **LEVELS)[0] == 0
    assert arrivals(a, z, 0xC001) == {x: 1, y: 1}
    assert leave(a, x, mgid(0))[0] == leave(a, y, mgid(0))[0] == 0
    assert arrivals(a, z, 0xC001) == {y: 1}
    a.sweep()
    assert arrivals(a, z, 0xC001) == {y: 1}
    for port in (y, z):
        leave(a, port, mgid(1))
    assert not a.fabric.mft[:, 1].any()
    status, made = join(a, x, mgid(2), **LEVELS)
    assert status == 0 and int(R.mlid.get(made[0])) == 0xC001, "free again"


def test_only_groups_of_one_partition_and_level_share():
    """Packets of 4,096 octets are nothing for a group whose links carry 2,048, and another partition's are nobody else's."""
    a = few_mlids(2)
    x, y = hosts(a)[:2].tolist()
    assert join(a, x, mgid(0), **LEVELS)[0] == 0
    assert join(a, y, mgid(1), **LEVELS, mtu_selector=2, mtu=4)[0] == E.NO_RESOURCES
    assert join(a, y, mgid(2), **{**LEVELS, "sl": 3})[0] == E.NO_RESOURCES
    assert join(a, y, mgid(3), **LEVELS)[0] == 0


def tops(a: Asked) -> set[int]:
    return set(SwitchInfo.mcast_fdb_top.get(a.fabric.switch_info).tolist())


def test_switches_look_into_their_tables_as_far_as_mlids_are_in_use():
    """MulticastFDBTop: the end of the block of the highest MLID, as OpenSM's use_mfttop has it for the MLID itself; it falls with the groups."""
    a = Asked(generate("fat-tree", radix=4, levels=3))
    x, y = hosts(a)[:2].tolist()
    assert tops(a) == {0xBFFF}, "nobody is in the broadcast group yet: the tables are empty"
    for n in range(31):
        join(a, x, mgid(n), **LEVELS)
    assert tops(a) == {0xC01F}
    assert int(R.mlid.get(join(a, y, mgid(31), **LEVELS)[1][0])) == 0xC020
    assert tops(a) == {0xC03F}
    assert leave(a, y, mgid(31))[0] == 0
    assert tops(a) == {0xC01F}


def test_what_a_manager_before_left_in_the_tables_is_beyond_the_top():
    a = Asked(generate("fat-tree", radix=4, levels=2))
    a.fabric.mft[:, 200] = 0xFFFF
    a.sweep()
    assert tops(a) == {0xBFFF}
    join(a, int(hosts(a)[0]), mgid(0), **LEVELS)
    assert tops(a) == {0xC01F}


def test_a_table_that_ends_before_its_block_does_is_the_limit():
    a = few_mlids(5)
    join(a, int(hosts(a)[0]), mgid(0), **LEVELS)
    assert tops(a) == {0xC004}


def test_a_switch_without_the_top_is_left_alone():
    fabric = generate("fat-tree", radix=4, levels=2)
    port0 = fabric.node_base[fabric.switch_node[0]]
    cap = PortInfo.cap_mask.get(fabric.port_info[[port0]]) & (0xFFFFFFFF ^ int(CapMask.MCAST_FDB_TOP))
    PortInfo.cap_mask.set(fabric.port_info, cap, np.array([port0]))
    a = Asked(fabric)
    join(a, int(hosts(a)[0]), mgid(0), **LEVELS)
    found = SwitchInfo.mcast_fdb_top.get(a.fabric.switch_info)
    assert found[0] == 0 and (found[1:] == 0xC01F).all()
