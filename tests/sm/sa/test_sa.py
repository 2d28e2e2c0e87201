"""The administrator in process: its tables against the fabric's own arrays, paths against a walk, nonsense against silence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softib.fabric.topologies.registry import generate
from softib.iba import sa
from softib.iba.constants import MgmtClass
from softib.iba.sa import SaMethod, SaStatus
from softib.iba.smp import PortInfo
from softib.sm.sa.message import matching
from tests.extent import examples
from tests.sm.sa.asking import Asked, H, hosts

M, E = SaMethod, SaStatus
P = sa.PathRecord


@pytest.fixture(scope="module")
def tree():
    return Asked(generate("fat-tree", radix=4, levels=3))


@pytest.fixture(scope="module")
def wide():
    return Asked(generate("fat-tree", radix=4, levels=2), lmc=2)


def test_tables_are_the_fabric(tree):
    """Every end port, port, cable and forwarding entry of the fabric stands in the tables, and nothing else."""
    f = tree.fabric
    _, nodes = tree.ask(sa.NodeRecord)
    assert len(nodes) == f.sizes.nodes
    lids = {int(lid) for lid in sa.NodeRecord.fields["lid"].get(nodes)}
    ends = np.concatenate([hosts(tree), f.node_base[f.is_switch]])
    assert lids == {tree.lid(p) for p in ends.tolist()}
    by_lid = dict(
        zip(
            sa.NodeRecord.fields["lid"].get(nodes).tolist(),
            sa.NodeRecord.fields["port_guid"].get(nodes).tolist(),
            strict=True,
        )
    )
    assert all(by_lid[tree.lid(p)] == int(f.port_guid[p]) for p in hosts(tree).tolist())
    _, ports = tree.ask(sa.PortInfoRecord)
    assert len(ports) == len(hosts(tree)) + int((f.node_nports[f.is_switch].astype(int) + 1).sum())
    _, links = tree.ask(sa.LinkRecord)
    assert len(links) == int(f.linked.sum())
    _, lft = tree.ask(sa.LFTRecord)
    told = {(int(sa.LFTRecord.lid.get(r)), int(sa.LFTRecord.block.get(r))): sa.LFTRecord.port.get(r) for r in lft}
    for s, node in enumerate(np.flatnonzero(f.is_switch).tolist()):
        lid = tree.lid(int(f.node_base[node]))
        for (owner, block), entries in told.items():
            if owner == lid:
                assert (f.lft[s, 64 * block : 64 * block + 64] == entries).all()


@settings(max_examples=examples(60), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    kind=st.sampled_from([sa.NodeRecord, sa.PortInfoRecord, sa.LinkRecord, sa.PathRecord, sa.ServiceRecord]),
)
def test_component_masks_select_what_a_loop_selects(seed, kind):
    """Columns against the definition, record by record and component by component."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 2, (40, kind.size), dtype=np.uint8)
    query = table[rng.integers(len(table))].copy()
    mask = int(rng.integers(0, 2**63)) & int(rng.integers(0, 2**63)) & int(rng.integers(0, 2**63))
    names = [n for i, n in enumerate(sa.COMPONENTS[kind]) if n and mask >> i & 1]

    def value(row, name):
        name, _, at = name.partition(":")
        v = kind.fields[name].get(row)
        return v[int(at)] if at else v

    want = [i for i, row in enumerate(table) if all(np.array_equal(value(row, n), value(query, n)) for n in names)]
    assert matching(kind, table, mask, query).tolist() == want


def walked(a: Asked, source: int, dlid: int) -> tuple[int, int]:
    """(port reached, smallest MTU) by the forwarding tables in the fabric itself."""
    f = a.fabric
    cap = PortInfo.mtu_cap.get(f.port_info)
    at, mtu = int(f.port_peer[source]), int(cap[source])
    rows = {int(n): s for s, n in enumerate(np.flatnonzero(f.is_switch))}
    for _ in range(64):
        mtu = min(mtu, int(cap[at]))
        node = int(f.port_node[at])
        if node not in rows:
            return at, mtu
        out = int(f.lft[rows[node], dlid])
        if out == 0:
            return int(f.node_base[node]), mtu
        leaving = int(f.node_base[node]) + out
        at, mtu = int(f.port_peer[leaving]), min(mtu, int(cap[leaving]))
    raise AssertionError("a circle")


@pytest.mark.parametrize("which", ["tree", "wide"])
def test_every_path_leads_there(which, request):
    a = request.getfixturevalue(which)
    f, ends = a.fabric, hosts(a)
    owner = {}
    for p in ends.tolist():
        lmc = int(PortInfo.lmc.get(f.port_info[p]))
        owner |= {a.lid(p) + i: p for i in range(1 << lmc)}
    for source in ends[:3].tolist():
        status, paths = a.ask(P, sgid=a.gid(source))
        assert status == 0
        to_hosts = [r for r in paths if int(P.dlid.get(r)) in owner and owner[int(P.dlid.get(r))] != source]
        copies = 1 << int(PortInfo.lmc.get(f.port_info[source]))
        assert len(to_hosts) == (len(ends) - 1) * min(127, copies * copies)
        for r in to_hosts:
            dlid = int(P.dlid.get(r))
            reached, mtu = walked(a, source, dlid)
            assert reached == owner[dlid] and int(P.mtu.get(r)) == mtu
            assert (P.dgid.get(r) == a.gid(reached)).all() and owner[int(P.slid.get(r))] == source


def test_numb_path_and_the_first_ones_share_no_lid(wide):
    x, y = hosts(wide)[:2].tolist()
    status, paths = wide.ask(P, sgid=wide.gid(x), dgid=wide.gid(y), numb_path=4)
    slids, dlids = P.slid.get(paths).tolist(), P.dlid.get(paths).tolist()
    assert status == 0 and len(set(slids)) == len(set(dlids)) == 4
    status, one = wide.ask(P, M.GET, sgid=wide.gid(x), dgid=wide.gid(y), numb_path=4)
    assert status == 0 and len(one) == 1
    status, by_lid = wide.ask(P, slid=wide.lid(x) + 3, dlid=wide.lid(y) + 2)
    assert len(by_lid) == 1 and int(P.slid.get(by_lid[0])) == wide.lid(x) + 3


def test_statuses(tree):
    x, y = hosts(tree)[:2].tolist()
    nobody = np.array([0xFE80 << 48, 0x1234], np.uint64)
    assert tree.ask(P, M.GET, sgid=tree.gid(x), dgid=nobody)[0] == E.REQ_INVALID_GID
    assert tree.ask(P, M.GET, slid=tree.lid(x), dlid=40_000)[0] == E.NO_RECORDS
    assert tree.ask(P, M.GET, sgid=tree.gid(x), slid=tree.lid(y), dgid=tree.gid(y))[0] == E.REQ_INVALID
    assert tree.ask(P, M.GET, sgid=tree.gid(x))[0] == E.REQ_INSUFFICIENT_COMPONENTS
    assert tree.ask(P, M.GET, sgid=tree.gid(x), dgid=tree.gid(y), pkey=0x1234)[0] == E.NO_RECORDS
    assert tree.ask(sa.NodeRecord, M.GET)[0] == E.TOO_MANY_RECORDS
    assert tree.ask(sa.NodeRecord, M.GET, lid=40_000)[0] == E.NO_RECORDS
    assert tree.ask(sa.NodeRecord, lid=40_000)[0] == 0
    assert tree.ask(sa.NodeRecord, M.SET)[0] == 0x0C
    assert tree.ask(sa.PKeyTableRecord)[0] == E.REQ_INVALID
    assert tree.ask(sa.ServiceRecord, M.SET, service_name="x")[0] == E.REQ_INSUFFICIENT_COMPONENTS


def test_keys(tree):
    """The trusted read P_Key tables and M_Keys; a wrong key gets no answer at all."""
    status, table = tree.ask(sa.PKeyTableRecord, trusted=True)
    assert status == 0 and (sa.PKeyTableRecord.pkey.get(table)[:, 0] == 0xFFFF).any()
    mad = np.zeros(256, np.uint8)
    mad[:56] = H.pack(base_version=1, mgmt_class=3, class_version=2, method=1, attr_id=1, sm_key=12345)
    assert len(tree.raw(mad, 1)) == 0


def test_services_live_as_long_as_their_lease(tree):
    S = sa.ServiceRecord
    port = int(hosts(tree)[1])
    offer = {"service_id": 7, "service_gid": tree.gid(port), "service_pkey": 0xFFFF}
    key = np.array([1, 2], np.uint64)
    status, _ = tree.ask(S, M.SET, frm=port, **offer, service_lease=30, service_key=key, service_name="storage")
    assert status == 0
    status, found = tree.ask(S, service_name="storage")
    assert len(found) == 1 and not S.service_key.get(found).any() and int(S.service_lease.get(found)[0]) == 30
    assert tree.ask(S, M.DELETE, **offer, service_key=np.array([1, 3], np.uint64))[0] == E.REQ_INVALID, "not its port"
    tree.now_ps += 20 * 10**12
    assert int(S.service_lease.get(tree.ask(S, trusted=True)[1])[0]) == 10
    tree.now_ps += 11 * 10**12
    assert len(tree.ask(S)[1]) == 0
    assert tree.ask(S, M.SET, frm=port, **offer, service_key=key)[0] == 0, "without a lease: for ever"
    tree.now_ps += 10**18
    assert tree.ask(S, M.DELETE, **offer, service_key=key)[0] == 0 and len(tree.ask(S)[1]) == 0


def test_multi_path(tree):
    ends = hosts(tree)[:5].tolist()
    gids = b"".join(tree.gid(p).astype(">u8").tobytes() for p in ends)
    status, paths = tree.ask(sa.MultiPathRecord, M.GET_MULTI, sgid_count=2, dgid_count=3, extra=gids)
    pairs = {(int(s), int(d)) for s, d in zip(P.slid.get(paths), P.dlid.get(paths), strict=True)}
    assert status == 0 and pairs == {(tree.lid(s), tree.lid(d)) for s in ends[:2] for d in ends[2:]}
    many = b"".join(tree.gid(p).astype(">u8").tobytes() for p in hosts(tree)[:15].tolist())  # longer than a MAD
    status, paths = tree.ask(sa.MultiPathRecord, M.GET_MULTI, sgid_count=5, dgid_count=10, extra=many)
    assert status == 0 and len(paths) == 50
    assert tree.ask(sa.MultiPathRecord, M.GET_MULTI, sgid_count=200, dgid_count=3, extra=gids)[0] == E.REQ_INVALID


@settings(max_examples=examples(400), deadline=None)
@given(data=st.data())
def test_fuzzed_requests_get_answers_and_raise_nothing(data, tree):
    """Any octets behind a plausible head: a status the specification knows, an answer whose sizes agree, or silence."""
    attr = data.draw(st.sampled_from([*[int(a) for a in sa.SaAttr], 0, 0x10, 0xFFFF]))
    method = data.draw(st.sampled_from([int(m) for m in SaMethod] + [0, 3, 5, 0x7F]))
    mad = np.frombuffer(data.draw(st.binary(min_size=256, max_size=256)), np.uint8).copy()
    if data.draw(st.booleans()):
        mad[56:] = 0
        mad[58:80] = data.draw(st.sampled_from([0, 1, 0xFF]))
    mask = data.draw(st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 0x10003, 0x300C])))
    mad[:56] = H.pack(
        base_version=1,
        mgmt_class=3,
        class_version=2,
        method=method,
        attr_id=attr,
        comp_mask=mask,
        sm_key=data.draw(st.sampled_from([0, 1])),
        attr_mod=data.draw(st.sampled_from([0, 1 << 31])),
    )
    reply = tree.raw(mad, data.draw(st.sampled_from([1, 2, 0, 0xFFFF])))
    answers = reply[reply.mad[:, 1] == MgmtClass.SUBN_ADM]
    answers = answers[answers.mad[:, 3] >= 0x80]
    assert len(answers) == (0 if method & 0x80 else 1)
    if len(answers):
        status, records = tree.records(answers)
        known = {int(s) for s in SaStatus} | {0x04, 0x08, 0x0C, 0x1C}
        assert status in known and (not status or not len(records))


def test_an_empty_question_of_everybody_is_refused_where_the_answer_had_no_end(tree, monkeypatch):
    from softib.sm.sa import path_record as path

    monkeypatch.setattr(path, "MOST_RECORDS", 100)
    assert tree.ask(P)[0] == E.NO_RESOURCES
    assert tree.ask(P, sgid=tree.gid(int(hosts(tree)[0])))[0] == 0
