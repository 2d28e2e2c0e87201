"""TraceRecord, subscriptions by LID, MultiPathRecord by ServiceID, guid2lid files of other programs."""

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.iba import sa
from softib.iba.constants import NodeType
from softib.iba.notice import Notice
from softib.iba.sa import PathRecord, SaMethod, SaStatus, TraceRecord, mask_of
from softib.live.internal_sm.guid2lid import read_lids
from softib.sm.managers.partitions import parse_partitions
from softib.sm.managers.qos_policy import parse_policy
from softib.sm.options.qos import QosConfig
from tests.sm.sa.asking import Asked, H, hosts


@pytest.fixture(scope="module")
def tree():
    return Asked(generate("fat-tree", radix=4, levels=3))


def trace(a, frm, trusted=False, **fields):
    head = H.pack(
        base_version=1,
        mgmt_class=3,
        class_version=2,
        method=int(SaMethod.GET_TRACE_TABLE),
        attr_id=TraceRecord.attr,
        tid=5,
        sm_key=int(trusted),
        comp_mask=mask_of(PathRecord, *fields),
    )
    reply = a.raw(np.frombuffer(head.tobytes() + PathRecord.pack(**fields).tobytes(), np.uint8), a.lid(frm))
    assert reply.mad[0, 3] == SaMethod.GET_TABLE_RESP
    status, records = a.records(reply)
    return status, [TraceRecord.unpack(bytes(r[: TraceRecord.size])) for r in records]


def test_a_trace_follows_the_tables_in_the_switches(tree):
    """Walked by the fabric's own arrays: node by node, port by port."""
    f, ports = tree.fabric, hosts(tree).tolist()
    for source, target in ((ports[0], ports[-1]), (ports[3], ports[2]), (ports[5], ports[5])):
        status, said = trace(tree, source, sgid=tree.gid(source), dgid=tree.gid(target))
        assert status == 0
        lid, at, seen = tree.lid(target), source, [(int(f.port_node[source]), 0, int(f.port_num[source]))]
        while int(f.port_node[at]) != int(f.port_node[target]):
            at = int(f.port_peer[at])
            node, switch = int(f.port_node[at]), int(f.switch_of_node[f.port_node[at]])
            if switch < 0:
                seen.append((node, int(f.port_num[at]), 0))
                break
            out = int(f.lft[switch, lid])
            seen.append((node, int(f.port_num[at]), out))
            at = int(f.node_base[node]) + out
        if source == target:
            seen = [(int(f.port_node[source]), 0, 0)]
        assert [r["node_id"] for r in said] == [f.node_guid[n] for n, _, _ in seen]
        number = lambda r, name: int(r[name] ^ r["node_id"]) >> 56 if r[name] else 0
        assert [(number(r, "entry_port_id"), number(r, "exit_port_id")) for r in said] == [(i, o) for _, i, o in seen]
        assert [r["node_type"] for r in said] == [f.node_type[n] for n, _, _ in seen]
        assert {r["gid_prefix"] for r in said} == {0xFE80 << 48}


def test_a_trace_needs_both_ends_and_a_path(tree):
    a, b = hosts(tree)[:2].tolist()
    assert trace(tree, a, sgid=tree.gid(a))[0] == SaStatus.REQ_INSUFFICIENT_COMPONENTS
    assert trace(tree, a, slid=tree.lid(a), dlid=0xBFFF)[0] == SaStatus.NO_RECORDS
    assert len(trace(tree, a, slid=tree.lid(a), dlid=tree.lid(b))[1]) == 3
    assert tree.ask(TraceRecord, SaMethod.GET_TABLE)[0] != 0, "another method"


def test_a_trace_is_seen_by_those_who_see_the_path():
    f = generate("fat-tree", radix=4, levels=2)
    cas = (f.node_base[f.cas] + 1).tolist()
    one, two = (hex(int(f.port_guid[p])) for p in cas[1:3])
    text = f"Default=0x7fff : ALL=limited, SELF=full;\nmine=0x5 : {one}=full, {two}=full;"
    a = Asked(f, partitions=parse_partitions(text, "partitions.conf"))
    ends = {"sgid": a.gid(cas[1]), "dgid": a.gid(cas[2])}
    assert trace(a, cas[1], **ends)[0] == 0
    assert trace(a, cas[3], **ends)[0] == SaStatus.NO_RECORDS and trace(a, cas[3], trusted=True, **ends)[0] == 0


def subscribe(a, port, begin, end=0, on=1, gid=(0, 0)):
    inform = sa.InformInfo.pack(
        gid=np.array(gid, np.uint64),
        lid_range_begin=begin,
        lid_range_end=end,
        is_generic=1,
        subscribe=on,
        type=0xFFFF,
        trap_number=0xFFFF,
        producer_type=0xFFFFFF,
    )
    head = H.pack(
        base_version=1, mgmt_class=3, class_version=2, method=int(SaMethod.SET), attr_id=sa.InformInfo.attr, tid=5
    )
    reply = a.raw(np.frombuffer(head.tobytes() + inform.tobytes(), np.uint8), a.lid(port))
    return int(H.status.get(reply.mad[0]))


def reported(a, issuer):
    """LIDs to which a trap of the port with LID ``issuer`` goes."""
    notice = Notice.pack(is_generic=1, type=4, producer_type=1, trap_number=144, issuer_lid=issuer)
    a.sm.sa_manager.forward(notice)
    out, _ = a.sm.sa_manager.send(a.now_ps)
    return set(out.dlid[out.mad[:, 3] == SaMethod.REPORT].tolist())


@pytest.mark.parametrize(
    ("begin", "end", "hears"),
    [
        ("a", 0, "a"),
        ("a", "a", "a"),
        ("a", "c", "abc"),
        ("b", "a", "b"),
        (0xFFFF, 0, "abcd"),
        ("c", 0xBFFF, "cd"),
        (0, 0, "abcd"),
    ],
)
def test_reports_of_a_range_of_lids(begin, end, hears):
    """InformInfo.LIDRangeBegin to LIDRangeEnd (13.4.8.3): one LID where the end is lower, all of the subnet by 0xffff."""
    a = Asked(generate("fat-tree", radix=4, levels=2))
    lids = sorted(a.lid(p) for p in hosts(a))
    name = dict(zip("abcd", [lids[1], lids[2], lids[3], lids[5]], strict=True))
    listener = next(p for p in hosts(a).tolist() if a.lid(p) == lids[0])
    assert subscribe(a, listener, name.get(begin, begin), name.get(end, end)) == 0
    assert "".join(n for n, lid in name.items() if reported(a, lid) == {lids[0]}) == hears
    assert subscribe(a, listener, name.get(begin, begin), name.get(end, end), on=0) == 0
    assert not any(reported(a, lid) for lid in name.values())


def test_ranges_of_others_are_refused():
    f = generate("fat-tree", radix=4, levels=2)
    cas = (f.node_base[f.cas] + 1).tolist()
    one = hex(int(f.port_guid[cas[1]]))
    a = Asked(f, partitions=parse_partitions(f"Default=0x7fff : ALL=limited, SELF=full;\nmine=0x5 : {one}=full;", "p"))
    manager, other = a.lid(a.port), a.lid(cas[2])
    assert subscribe(a, cas[1], manager) == 0 and subscribe(a, cas[1], 0xFFFF) == 0
    assert subscribe(a, cas[1], other) == SaStatus.REQ_INVALID, "both are limited members"
    assert (
        subscribe(a, cas[1], 1, 0xBFFF) == SaStatus.REQ_INVALID
        and subscribe(a, cas[1], 5, 0xC000) == SaStatus.REQ_INVALID
    )
    gid = lambda guid: (0xFE80 << 48, guid)
    assert subscribe(a, cas[1], 0, gid=gid(int(f.port_guid[cas[2]]))) == SaStatus.REQ_INVALID
    assert subscribe(a, cas[1], 0, gid=gid(4711)) == 0, "nobody has it yet"


def test_a_multipath_record_has_the_level_of_its_service():
    text = """qos-levels
        qos-level
            name: DEFAULT
            sl: 0
        end-qos-level
        qos-level
            name: store
            sl: 3
        end-qos-level
    end-qos-levels
    qos-match-rules
        qos-match-rule
            service-id: 0x0123456789abcdef
            qos-level-name: store
        end-qos-match-rule
    end-qos-match-rules
    """
    a = Asked(generate("fat-tree", radix=4, levels=2), qos=QosConfig(), qos_policy=parse_policy(text))
    one, two = hosts(a)[:2].tolist()
    gids = b"".join(a.gid(p).astype(">u8").tobytes() for p in (one, two))
    ask = lambda **more: a.ask(sa.MultiPathRecord, SaMethod.GET_MULTI, sgid_count=1, dgid_count=1, extra=gids, **more)[
        1
    ]
    assert PathRecord.sl.get(ask())[0] == 0
    assert PathRecord.sl.get(ask(service_id_8msb=0x01, service_id_56lsb=0x23456789ABCDEF))[0] == 3
    assert PathRecord.sl.get(ask(service_id_8msb=0x02, service_id_56lsb=0x23456789ABCDEF))[0] == 0


def test_guid2lid_files_that_others_wrote(tmp_path):
    path = tmp_path / "guid2lid"
    path.write_text(
        "# by hand\n0x11 0x5\n0X12 0x0008 0x000B   # LMC 2\n\n0x13\n0x14 5\n0x15 0x0 0x0\nrubbish 1 2\n0x16 0x20 0x1f\n17 c d e\n"
    )
    assert read_lids(path) == {0x11: (5, 5), 0x12: (8, 11)}
    f = generate("fat-tree", radix=4, levels=2)
    guid = int(f.port_guid[np.flatnonzero(f.node_type[f.port_node] == NodeType.CA)[3]])
    path.write_text(f"{guid:#x} 0x77\n")
    from softib.agents.plane import AgentPlane
    from softib.sm.config import SmConfig
    from softib.sm.subnet_manager import SubnetManager
    from tests.sm.wire import settle

    sm = SubnetManager(SmConfig())
    sm.lids.update(read_lids(path))
    settle(sm, AgentPlane(f), int(np.flatnonzero(f.linked & ~f.is_switch[f.port_node])[0]))
    lids = {int(sm.database.port_guid[p]): int(sm.database.port_lid[p]) for p in sm.database.end_ports()}
    assert lids[guid] == 0x77 and sorted(lids.values())[: len(lids) - 1] == list(range(1, len(lids))), (
        "the others get free ones"
    )
