"""Who sees which records (IBA 15.4.1.2), judged by the P_Key tables that the fabric holds: two ports share a partition when both have
its key and one of them as a full member (10.9.3)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.iba import sa
from softib.iba.sa import SaMethod
from softib.sm.managers.partitions import parse_partitions
from tests.sm.sa.asking import Asked, H, hosts

FILE = """Default=0x7fff, ipoib: ALL=limited, SELF=full;
red=0x1: {reds};
blue=0x2: {blues};
"""
TABLES = [
    sa.NodeRecord,
    sa.PortInfoRecord,
    sa.SwitchInfoRecord,
    sa.LFTRecord,
    sa.GUIDInfoRecord,
    sa.SMInfoRecord,
    sa.SL2VLRecord,
    sa.VLArbRecord,
    sa.LinkRecord,
    sa.InformInfoRecord,
    sa.ServiceRecord,
    sa.MFTRecord,
    sa.PathRecord,
]


@pytest.fixture(scope="module")
def net() -> Asked:
    """Hosts 1 to 5 are red, 5 to 9 blue; host 0 is the manager's."""
    fabric = generate("fat-tree", radix=4, levels=3)
    rows = np.flatnonzero(fabric.linked & ~fabric.is_switch[fabric.port_node])
    guids = [f"{int(g):#018x}=full" for g in fabric.port_guid[rows]]
    text = FILE.format(reds=", ".join(guids[1:6]), blues=", ".join(guids[5:10]))
    a = Asked(fabric, partitions=tuple(parse_partitions(text, "conf")))
    for host in (1, 8):
        port = int(hosts(a)[host])
        key = 0x8001 if host == 1 else 0x8002
        a.ask(sa.ServiceRecord, SaMethod.SET, frm=port, service_id=host, service_gid=a.gid(port), service_pkey=key)
        subscribe(a, port)
        a.ask(
            sa.MCMemberRecord,
            SaMethod.SET,
            frm=port,
            mgid=np.array([0xFF12_601B_0000_0000, host], np.uint64),
            port_gid=a.gid(port),
            join_state=1,
            qkey=1,
            pkey=key,
            sl=0,
            flow_label=0,
            tclass=0,
        )
    return a


def subscribe(a: Asked, port: int) -> None:
    """To everything."""
    head = H.pack(
        base_version=1, mgmt_class=3, class_version=2, method=int(SaMethod.SET), attr_id=sa.InformInfo.attr, tid=5
    )
    inform = sa.InformInfo.pack(
        lid_range_begin=0xFFFF, is_generic=1, subscribe=1, type=0xFFFF, trap_number=0xFFFF, producer_type=0xFFFFFF
    )
    a.raw(np.frombuffer(head.tobytes() + inform.tobytes(), np.uint8), a.lid(port))


def keys(a: Asked, port: int) -> set[int]:
    """P_Keys in the table of an end port."""
    f = a.fabric
    first = int(f.pkey_base[port])
    return {int(k) for k in f.pkeys[first : first + int(f.pkey_cap[port])] if k}


def share(a: Asked, one: int, other: int) -> bool:
    pairs = itertools.product(keys(a, one), keys(a, other))
    return one == other or any((p ^ q) & 0x7FFF == 0 and (p | q) & 0x8000 for p, q in pairs)


def port_of(a: Asked, lid: int) -> int:
    f = a.fabric
    ends = np.flatnonzero((f.lid == lid) & (~f.is_switch[f.port_node] | (f.port_num == 0)))
    return int(ends[0])


def concerns(a: Asked, record, row: np.ndarray) -> list[int]:
    """End ports that the requester must share a partition with."""
    names = {
        sa.LinkRecord: ("from_lid", "to_lid"),
        sa.PathRecord: ("slid", "dlid"),
        sa.PortInfoRecord: ("endport_lid",),
    }.get(record, ("lid",))
    if record is sa.InformInfoRecord:
        guid = int(record.fields["subscriber_gid"].get(row)[1])
        return [int(np.flatnonzero(a.fabric.port_guid == np.uint64(guid))[0])]
    return [port_of(a, int(record.fields[n].get(row))) for n in names]


@pytest.mark.parametrize("record", TABLES, ids=lambda r: r.__name__)
@pytest.mark.parametrize("host", [0, 1, 5, 8, 12])
def test_untrusted_see_what_they_share_a_partition_with(net, record, host):
    port = int(hosts(net)[host])
    fields = {"slid": net.lid(int(hosts(net)[5]))} if record is sa.PathRecord else {}
    status, everything = net.ask(record, frm=port, trusted=True, **fields)
    assert status == 0 and len(everything)
    status, seen = net.ask(record, frm=port, **fields)
    assert status == 0
    if record is sa.ServiceRecord:
        wanted = [
            bool(
                {int(record.fields["service_pkey"].get(r)), 0x7FFF & int(record.fields["service_pkey"].get(r))}
                & keys(net, port)
            )
            for r in everything
        ]
        assert len(seen) == sum(wanted)
        return
    wanted = [all(share(net, port, end) for end in concerns(net, record, row)) for row in everything]
    assert seen.tobytes() == everything[wanted].tobytes()
    if host in (8, 12) and record is sa.NodeRecord:
        assert len(seen) < len(everything), "the oracle leaves something out"


def test_a_path_needs_a_requester_who_sees_both_ends(net):
    rows = hosts(net)
    between = {"slid": net.lid(int(rows[1])), "dlid": net.lid(int(rows[2]))}
    for host, sees in ((1, True), (3, True), (8, False), (12, False)):
        status, found = net.ask(sa.PathRecord, SaMethod.GET, frm=int(rows[host]), **between)
        assert (status, len(found)) == ((0, 1) if sees else (int(sa.SaStatus.NO_RECORDS), 0)), host
    status, found = net.ask(sa.PathRecord, SaMethod.GET, frm=int(rows[12]), trusted=True, **between)
    assert (status, len(found)) == (0, 1)


def test_a_group_of_another_partition_is_not_shown(net):
    rows, mgid = hosts(net), np.array([0xFF12_601B_0000_0000, 1], np.uint64)
    for host, sees in ((2, True), (8, False)):
        port = int(rows[host])
        _, groups = net.ask(sa.MCMemberRecord, frm=port, mgid=mgid)
        status, path = net.ask(sa.PathRecord, SaMethod.GET, frm=port, sgid=net.gid(port), dgid=mgid)
        assert (len(groups), len(path)) == ((1, 1) if sees else (0, 0)), (host, status)


def test_pkey_tables_are_for_the_trusted_alone(net):
    port = int(hosts(net)[1])
    assert net.ask(sa.PKeyTableRecord, frm=port)[0] == sa.SaStatus.REQ_INVALID
    assert len(net.ask(sa.PKeyTableRecord, frm=port, trusted=True)[1])


def test_somebody_without_a_lid_sees_nothing(net):
    f = net.fabric
    batch_lid = int(f.lid.max()) + 50
    old, net.lid = net.lid, lambda port: batch_lid if port == -7 else old(port)
    try:
        assert len(net.ask(sa.NodeRecord, frm=-7)[1]) == 0
    finally:
        net.lid = old
