"""Virtual ports under a manager: LIDs, P_Keys, states, paths; what comes, goes, lies or is lost."""

from dataclasses import replace

import numpy as np
import pytest

from softib.fabric.power_cycle import power_on
from softib.fabric.topologies.registry import generate
from softib.fabric.virtual_ports import give_virtual_ports
from softib.iba.constants import LFT_NO_ROUTE, PortState, SmpAttr
from softib.iba.sa import GUIDInfoRecord, MCMemberRecord, NodeRecord, PathRecord, SaMethod, SaStatus
from softib.iba.smp import ATTR_AT, DATA_AT, METHOD_AT, PortInfo
from softib.iba.vendor.vports import VirtualizationInfo, VPortInfo
from softib.mad.batch import MadBatch
from softib.sm.dry_run import DryRun
from softib.sm.managers.partitions import parse_partitions
from softib.sm.tables.table_proof import prove_tables
from tests.agents.vport_changes import change_vport
from tests.sm.replication.replication_lab import Lab
from tests.sm.sa.asking import PREFIX, Asked, hosts

ACTIVE = PortState.ACTIVE


def fabric(shared=(0,), own=(1,), functions=3):
    """A fat tree of 32 hosts; some have functions that share their port's LID, some functions with LIDs of their own."""
    f = generate("fat-tree", radix=8, levels=2)
    ends = np.flatnonzero(f.linked & ~f.is_switch[f.port_node])
    counts, lids = np.zeros(f.sizes.ports, np.int64), np.zeros(f.sizes.ports, bool)
    counts[ends[[*shared, *own]]], lids[ends[list(own)]] = functions, True
    give_virtual_ports(f, counts, lids)
    return f, ends


def managed(f, **config):
    return Asked(f, sweep_interval_ps=10**13, **config)


def guid_of(f, port, index):
    return int(VPortInfo.vport_guid.get(f.vport_info[f.vport_base[port] + index]))


def lid_of(f, port, index):
    return int(VPortInfo.vport_lid.get(f.vport_info[f.vport_base[port] + index]))


def states(f):
    return VPortInfo.vport_state.get(f.vport_info)


def path(a, source, guid, **more):
    sgid = np.array([PREFIX, source], np.uint64)
    status, found = a.ask(PathRecord, SaMethod.GET, sgid=sgid, dgid=np.array([PREFIX, guid], np.uint64), **more)
    return status if status else PathRecord.unpack(found[0])


def sets(a):
    return {kind: n for kind, n in a.sm.report.mads.items() if kind.startswith("Set") and "MLNX_V" in kind}


def test_all_come_up_and_another_sweep_sets_nothing():
    f, ends = fabric()
    a = managed(f)
    assert (states(f) == ACTIVE).all() and not a.sm.report.problems
    assert sets(a) == {"Set MLNX_VPORT_INFO": 8 * 2 + 6}, "each up twice; LID or client reregister of six"
    own = [lid_of(f, ends[1], i) for i in range(4)]
    assert own[0] == 0 and len(set(own[1:])) == 3 and not set(own[1:]) & set(f.lid.tolist())
    assert not any(lid_of(f, ends[0], i) for i in range(4)), "nobody asks for LIDs there"
    a.sweep()
    assert not sets(a)


@pytest.mark.parametrize("engine", ["minhop", "ftree", "dfsssp", "lash", "nue"])
def test_paths_lead_to_them_and_tables_too(engine):
    """The LID of a virtual port is routed as its port's, whatever the engine; MADs by it arrive."""
    f, ends = fabric()
    a = managed(f, engine=engine)
    source = int(f.port_guid[ends[20]])
    for port, index in ((ends[0], 2), (ends[1], 1), (ends[1], 3)):
        record = path(a, source, guid_of(f, port, index))
        assert record["dlid"] == (lid_of(f, port, index) or f.lid[port])
        assert record["dgid"].tolist() == [PREFIX, guid_of(f, port, index)]
        back = path(a, guid_of(f, port, index), source)
        assert back["slid"] == record["dlid"] and back["sl"] == path(a, int(f.port_guid[port]), source)["sl"]
        assert record["sl"] == path(a, source, int(f.port_guid[port]))["sl"]
        assert path(a, source, guid_of(f, port, index), dlid=record["dlid"])["dlid"] == record["dlid"]
        assert (f.lft[:, record["dlid"]] == f.lft[:, f.lid[port]]).all()
    assert path(a, source, guid_of(f, ends[0], 2), dlid=int(f.lid[ends[4]])) == SaStatus.REQ_INVALID
    lid = lid_of(f, ends[1], 2)
    get = MadBatch.zeros(1)
    get.mad[0, :4] = 1, 1, 1, 1
    get.mad[0, ATTR_AT + 1] = SmpAttr.NODE_INFO
    get.dlid[:] = lid
    answer = a.plane.send(get, a.port, a.now_ps)
    assert len(answer) == 1 and answer.slid[0] == lid


@pytest.mark.parametrize("engine", ["minhop", "ftree", "updn"])
def test_the_proof_of_tables_counts_their_lids(engine):
    """Each LID leads to its port: all arrive. A switch without a port for one of them loses the pairs of its hosts."""
    f, _ = fabric(own=(1, 2), functions=4)
    sm = managed(f, engine=engine).sm
    proof = prove_tables(sm.database, sm.graph, sm.routing, sm.config)
    assert (proof.lost, proof.loop) == (0, ()) and proof.good
    lids, graph = sm.database.vports.lid, sm.graph
    lid = int(lids[lids > 0][0])
    away = int(
        graph.end_switch[(graph.end_lid != lid) & (graph.end_switch != graph.end_switch[graph.end_lid == lid])][0]
    )
    lft = sm.routing.lft.copy()
    lft[away, lid] = LFT_NO_ROUTE
    senders = int(((graph.end_switch == away) & ~graph.end_is_switch).sum())
    assert prove_tables(sm.database, graph, replace(sm.routing, lft=lft), sm.config).lost == senders


def test_records_of_devices_are_those_of_ports():
    f, ends = fabric()
    a = managed(f)
    assert len(a.ask(NodeRecord)[1]) == len(f.end_ports())
    status, _ = a.ask(GUIDInfoRecord, SaMethod.SET, trusted=True, lid=lid_of(f, ends[1], 1), block=0, guid1=7)
    assert status == SaStatus.REQ_INVALID, "its own table is not the port's"


def test_partitions_by_guid_of_a_function():
    f, ends = fabric(functions=3)
    one, two = guid_of(f, ends[0], 1), guid_of(f, ends[1], 2)
    text = f"Default=0x7fff : ALL=limited, SELF=full;\nvms=0x1234 : {one:#x}=full, {two:#x}=full;\n"
    a = managed(f, partitions=parse_partitions(text, "partitions.conf"))
    rows = int(f.vport_base[ends[0]]) + 1, int(f.vport_base[ends[1]]) + 2
    for row in range(f.sizes.vports):
        held = [k for k in f.vport_pkeys[row].tolist() if k]
        assert held == ([0x7FFF, 0x9234] if row in rows else [0x7FFF] if row != int(f.vport_base[a.port]) else held)
    leaf = int(f.port_peer[ends[1]])
    base = int(f.pkey_base[leaf])
    assert 0x9234 in f.pkeys[base : base + int(f.pkey_cap[leaf])], "the switch in front lets it pass"
    base = int(f.pkey_base[ends[1]])
    assert 0x9234 not in f.pkeys[base : base + int(f.pkey_cap[ends[1]])], "the port itself is no member"
    assert path(a, one, two)["pkey"] == 0x9234
    assert path(a, int(f.port_guid[ends[1]]), two) == SaStatus.NO_RECORDS, "limited both"
    a.sweep()
    assert not sets(a)


def test_a_function_joins_a_group():
    f, ends = fabric()
    a = managed(f)
    guid = guid_of(f, ends[0], 1)
    gid = np.array([PREFIX, guid], np.uint64)
    status, record = a.ask(
        MCMemberRecord,
        SaMethod.SET,
        frm=int(ends[0]),
        port_gid=gid,
        join_state=1,
        qkey=5,
        pkey=0xFFFF,
        tclass=0,
        sl=0,
        flow_label=0,
    )
    assert not status
    mlid = int(MCMemberRecord.mlid.get(record[0]))
    peer = int(f.port_peer[ends[0]])
    mask = f.mft[f.switch_of_node[f.port_node[peer]], mlid - 0xC000]
    assert mask[f.port_num[peer] >> 4] >> (f.port_num[peer] & 15) & 1


def traps(a):
    """Carry what devices raised to the manager; what it does then."""
    made = [m for n in a.plane.take_notices() if (m := a.plane.trap(n)) is not None]
    for batch, _ in made:
        a.run(batch)
    return len(made)


def test_a_function_that_comes_up_is_managed_at_once():
    f, ends = fabric(shared=range(2, 12))
    a = managed(f)
    a.plane.take_notices()
    before = lid_of(f, ends[1], 2)
    change_vport(a.plane, int(ends[1]), 2, False, a.now_ps)
    assert traps(a) == 1
    assert path(a, int(f.port_guid[ends[9]]), guid_of(f, ends[1], 2)) == SaStatus.REQ_INVALID_GID
    change_vport(a.plane, int(ends[1]), 2, True, a.now_ps)
    assert traps(a) == 1
    assert lid_of(f, ends[1], 2) == before and (states(f) == ACTIVE).all()
    counted = a.sm.report.mads
    assert counted["Get MLNX_VIRTUALIZATION_INFO"] == 1 and counted["Get MLNX_VPORT_INFO"] == 4, "that port alone"
    assert not VirtualizationInfo.vport_state_change.get(f.virtualization[ends[1]][None].repeat(8, 0).reshape(64))


def test_a_lost_trap_is_made_good_by_the_light_sweep():
    f, ends = fabric()
    a = managed(f)
    change_vport(a.plane, int(ends[0]), 2, False, a.now_ps)
    a.plane.take_notices()
    end = a.now_ps + 11 * 10**12
    while a.now_ps < end or not a.sm.settled:
        a.run()
        a.now_ps = max(a.now_ps + 10**11, a.now_ps)
    assert path(a, int(f.port_guid[ends[9]]), guid_of(f, ends[0], 2)) == SaStatus.REQ_INVALID_GID


def test_a_link_that_falls_takes_them_along():
    f, ends = fabric()
    a = managed(f)
    lid = lid_of(f, ends[1], 1)
    a.plane.set_link(int(ends[1]), False, a.now_ps)
    traps(a)
    assert path(a, int(f.port_guid[ends[9]]), guid_of(f, ends[1], 1)) == SaStatus.REQ_INVALID_GID
    a.plane.set_link(int(ends[1]), True, a.now_ps)
    a.sweep()
    assert path(a, int(f.port_guid[ends[9]]), guid_of(f, ends[1], 1))["dlid"] == lid


def test_lids_are_remembered_and_never_two_s():
    f, ends = fabric(own=range(1, 5))
    a = managed(f)
    held = {guid_of(f, p, i): lid_of(f, p, i) for p in ends[1:5] for i in (1, 2, 3)}
    power_on(f)
    second = Asked(f, sweep_interval_ps=10**13)
    assert {guid_of(f, p, i): lid_of(f, p, i) for p in ends[1:5] for i in (1, 2, 3)} == held, (
        "the lowest free ones again"
    )
    VPortInfo.vport_lid.set(f.vport_info, int(f.lid[ends[7]]), [f.vport_base[ends[2]] + 1])
    second.sweep()
    lids = [lid_of(f, p, i) for p in ends[1:5] for i in (1, 2, 3)] + f.lid[hosts(a)].tolist()
    assert len(lids) == len(set(lids)) and 0 not in lids


@pytest.mark.parametrize(
    "lie", ["guid of another port", "no guid", "two alike", "index beyond", "cap of 65535", "silent"]
)
def test_adapters_that_lie(lie):
    """Whatever an adapter says, the others are managed and the sweep ends."""
    f, ends = fabric(shared=(0, 5), own=(1,))
    rows = f.vport_base[ends[0]] + np.array([1, 2])
    if lie == "guid of another port":
        VPortInfo.vport_guid.set(f.vport_info, int(f.port_guid[ends[9]]), rows[:1])
    elif lie == "no guid":
        VPortInfo.vport_guid.set(f.vport_info, 0, rows[:1])
    elif lie == "two alike":
        VPortInfo.vport_guid.set(f.vport_info, 4711, rows)
    a = Asked.__new__(Asked)
    send = None
    if lie in ("index beyond", "cap of 65535", "silent"):
        from tests.agents.client_plane import ClientPlane

        send = ClientPlane.send

        def lying(self, batch, port, now_ps=0):
            answers = send(self, batch, port, now_ps)
            attr = answers.mad[:, ATTR_AT].astype(int) << 8 | answers.mad[:, ATTR_AT + 1]
            head = attr == SmpAttr.MLNX_VIRTUALIZATION_INFO
            if lie == "silent":
                return answers[attr != SmpAttr.MLNX_VPORT_STATE]
            if head.any():
                top = 0xFFFF
                for row in np.flatnonzero(head & (answers.mad[:, METHOD_AT] == 0x81)):
                    data = answers.mad[row, DATA_AT : DATA_AT + 64]
                    VirtualizationInfo.vport_index_top.set(data, top)
                    if lie == "cap of 65535":
                        VirtualizationInfo.vport_cap.set(data, top)
            return answers

        ClientPlane.send = lying
    try:
        a.__init__(f, sweep_interval_ps=10**13)
    finally:
        if send is not None:
            ClientPlane.send = send
    assert a.sm.report.mads["Get NODE_INFO"] < 200 and a.sm.transactor.sent < 5000
    assert (PortInfo.port_state.get(f.port_info[f.linked]) == ACTIVE).all()
    if lie != "silent":
        assert (states(f)[f.vport_base[ends[5]] : f.vport_base[ends[5]] + 4] == ACTIVE).all()
    said = " ".join(a.sm.report.notes + a.sm.report.problems)
    assert {"index beyond": "VPortIndexTop", "cap of 65535": "VPortIndexTop", "silent": "VPORT_STATE"}.get(
        lie, "skipped"
    ) in said


@pytest.mark.parametrize("copied", [True, False])
def test_a_take_over_changes_nothing_of_them(copied):
    """With a copy nobody registers anew; without one all do, and LIDs stay as VPortInfo reads them."""
    f, _ = fabric()
    s = Lab(a=1, b=1, fabric=f, deaf=not copied)
    s.start("a")
    s.start("b")
    before = f.vport_info.copy()
    s.take_over("a", "b")
    assert (f.vport_info == before).all()
    assert s.sets[SmpAttr.MLNX_VPORT_INFO] == (0 if copied else 6), "ClientReregister of the functions"
    assert not s.sets[SmpAttr.MLNX_VPORT_PKEY_TABLE] and not s.sets[SmpAttr.LFT]


def test_with_an_lmc_they_have_one_lid():
    f, ends = fabric()
    a = managed(f, lmc=2)
    lids = [lid_of(f, ends[1], i) for i in (1, 2, 3)]
    blocks = {lid + i for lid in f.lid[ends].tolist() for i in range(4)}
    assert len(set(lids)) == 3 and not set(lids) & blocks
    source = int(f.port_guid[ends[20]])
    assert path(a, source, guid_of(f, ends[1], 2))["dlid"] == lids[1]
    table = lambda guid: a.ask(
        PathRecord,
        SaMethod.GET_TABLE,
        sgid=np.array([PREFIX, source], np.uint64),
        dgid=np.array([PREFIX, guid], np.uint64),
    )[1]
    assert len(table(guid_of(f, ends[0], 2))) == len(table(int(f.port_guid[ends[0]]))) > 1, "those of its port"


def test_a_dry_run_sets_nothing_and_says_what_it_would():
    f, ends = fabric()
    before = f.vport_info.copy(), f.vport_pkeys.copy()
    from softib.sm.config import SmConfig
    from softib.sm.subnet_manager import SubnetManager
    from tests.agents.client_plane import ClientPlane

    sm, plane, dry = SubnetManager(SmConfig(window=256, chunk=256)), ClientPlane(f), DryRun()
    now, inbox = 0, None
    while True:
        outbox, deadline = sm.step(now, dry.back(inbox))
        if len(outbox):
            inbox = plane.send(dry.out(outbox), int(ends[0]), now)
        elif sm.settled:
            break
        else:
            inbox, now = None, max(now, deadline)
    assert (f.vport_info == before[0]).all() and (f.vport_pkeys == before[1]).all()
    changes = [c for c in dry.changes(sm.database) if c.attr == "VPortInfo"]
    assert len(changes) == 8
    assert {r[0] for c in changes for r in c.rows} == {"vport_state", "vport_lid"}
