"""Partitions that change without a sweep: devices, paths and groups are those of a manager that read the final file, and the work is that of the
change, however many other partitions there are."""

from __future__ import annotations

import random
import sys
from dataclasses import replace

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.iba import sa
from softib.iba.sa import SaMethod
from softib.sm.managers.partitions import parse_changes, parse_partitions
from tests.sm.sa.asking import Asked, hosts

FIRST = (3, 7, 10)
"""P_Keys of the ``indx0`` partitions. The smallest of a port's is at index 0; the service writes them last and in descending order."""
DEFAULT = "Default=0x7fff, ipoib : ALL=limited, SELF=full ;\n"


def tree() -> object:
    return generate("fat-tree", radix=4, levels=2)


def line(pkey: int, guids: dict[int, bool]) -> str:
    members = ", ".join(f"{g:#x}={'full' if full else 'limited'}" for g, full in sorted(guids.items()))
    return f"p{pkey}={pkey:#x}, ipoib, sl={pkey % 3}{', indx0' * (pkey in FIRST)} : {members} ;\n"


def seen(a: Asked) -> dict[str, object]:
    """Answers that depend on partitions: devices' tables, paths between all pairs, groups that each host sees."""
    f, out = a.fabric, dict[str, object]()
    for port in [*hosts(a).tolist(), *f.port_peer[hosts(a)].tolist()]:
        first = int(f.pkey_base[port])
        keys = f.pkeys[first : first + int(f.pkey_cap[port])]
        out[f"table {port}"] = int(keys[0]), sorted(keys[keys > 0].tolist())
    P, G = sa.PathRecord, sa.MCMemberRecord
    for s in hosts(a).tolist():
        for t in hosts(a).tolist():
            for key in (None, 3):
                wanted = {} if key is None else {"pkey": key | 0x8000}
                status, records = a.ask(P, SaMethod.GET, sgid=a.gid(s), dgid=a.gid(t), frm=s, **wanted)
                out[f"path {s} {t} {key}"] = status, [(int(P.pkey.get(r)), int(P.sl.get(r))) for r in records]
        out[f"groups {s}"] = sorted(bytes(G.mgid.get(r).tobytes()) for r in a.ask(G, frm=s)[1])
    return out


def test_changes_give_what_the_final_file_gives():
    chosen = random.Random(2034)
    fabric = tree()
    guids = [int(g) for g in fabric.port_guid[np.flatnonzero(fabric.linked & ~fabric.is_switch[fabric.port_node])]]
    now = {pkey: dict.fromkeys(guids[pkey : pkey + 3], True) for pkey in range(1, 5)}
    changing = Asked(fabric, partitions=tuple(parse_partitions(DEFAULT + "".join(line(k, v) for k, v in now.items()))))
    sweeps = changing.sm.sweeps
    for _ in range(12):
        text = ""
        for pkey in chosen.sample(range(1, 12), 3):
            now[pkey] = {g: chosen.random() < 0.6 for g in guids if chosen.random() < 0.4}
            text += line(pkey, now[pkey])
        assert changing.sm.repartition(parse_changes(text, "changes"))
        changing.run()
    assert changing.sm.sweeps == sweeps
    order = sorted(now, key=lambda k: (k in FIRST, -k if k in FIRST else k))
    file = DEFAULT + "".join(line(k, now[k]) for k in order if now[k])
    assert seen(changing) == seen(Asked(tree(), partitions=tuple(parse_partitions(file))))
    f, two = changing.fabric, 0
    for port in hosts(changing).tolist():
        its = [k for k in FIRST if int(f.port_guid[port]) in now.get(k, ())]
        assert not its or int(f.pkeys[int(f.pkey_base[port])]) & 0x7FFF == its[0]
        two += len(its) > 1
    assert two, "a port is in two of the partitions that want index 0"
    changing.sweep()
    assert changing.sm.report.sets == 0, "a sweep finds nothing to do"
    changing.sm.reconfigure(replace(changing.sm.config, partitions=tuple(parse_partitions(file))))
    changing.run()
    assert changing.sm.report.sets == 0, "the same file again moves no P_Key"


def test_a_file_that_comes_before_a_change_is_programmed_replaces_it():
    """A change that waits for the end of a sweep, and then another file: the file counts, and the manager goes on."""
    fabric = tree()
    guids = [int(g) for g in fabric.port_guid[np.flatnonzero(fabric.linked & ~fabric.is_switch[fabric.port_node])]]
    first, then = (DEFAULT + line(1, dict.fromkeys(guids[i : i + 2], True)) for i in (0, 1))
    a = Asked(fabric, partitions=tuple(parse_partitions(first)))
    assert a.sm.repartition(parse_changes(line(2, dict.fromkeys(guids[:3], True)), "changes"))
    a.sm.reconfigure(replace(a.sm.config, partitions=tuple(parse_partitions(then))))
    a.run()
    assert a.sm.settled and seen(a) == seen(Asked(tree(), partitions=tuple(parse_partitions(then))))


def calls_of_a_change(partitions: int) -> int:
    """Function calls that one change of two members costs among this many partitions."""
    fabric = tree()
    guids = [int(g) for g in fabric.port_guid[np.flatnonzero(fabric.linked & ~fabric.is_switch[fabric.port_node])]]
    every = [line(k, {guids[4 + k % 4]: True}) for k in range(1, partitions + 1)]
    a = Asked(fabric, partitions=tuple(parse_partitions(DEFAULT + "".join(every))))
    change = lambda *members: parse_changes(line(7, dict.fromkeys(members, True)), "change")
    assert a.sm.repartition(change(guids[1]))
    a.run()
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    changed = change(guids[2], guids[3])
    sys.setprofile(count)
    try:
        assert a.sm.repartition(changed)
        a.run()
    finally:
        sys.setprofile(None)
    return calls


def test_a_partition_whose_group_had_no_member_ends_without_a_write_of_multicast_tables():
    fabric = tree()
    guids = [int(g) for g in fabric.port_guid[np.flatnonzero(fabric.linked & ~fabric.is_switch[fabric.port_node])]]
    a = Asked(fabric, partitions=tuple(parse_partitions(DEFAULT + line(5, {guids[1]: True, guids[2]: True}))))
    (group,) = [g for g in a.sm.sa_manager.groups.groups.values() if g.pkey == 0x8005]
    port = int(np.flatnonzero(fabric.port_guid == guids[1])[0])
    mgid = np.frombuffer(group.mgid, ">u8").astype(np.uint64)
    ends = lambda: a.sm.repartition(parse_changes("p5=0x5, ipoib : ;", "end")) and set(a.sm.sa_manager.groups.changed)
    assert ends() == set() and group.mgid not in a.sm.sa_manager.groups.groups
    a.run()
    assert a.sm.repartition(parse_changes(line(5, {guids[1]: True}), "again"))
    a.run()
    assert a.ask(sa.MCMemberRecord, SaMethod.SET, frm=port, mgid=mgid, port_gid=a.gid(port), join_state=1)[0] == 0
    mlid = a.sm.sa_manager.groups.groups[group.mgid].mlid
    assert a.ask(sa.MCMemberRecord, SaMethod.DELETE, frm=port, mgid=mgid, port_gid=a.gid(port), join_state=1)[0] == 0
    assert not a.sm.sa_manager.groups.changed, "the tables were written without the member"
    assert ends() == set()
    a.run()
    assert a.sm.repartition(parse_changes(line(5, {guids[1]: True}), "again"))
    a.run()
    assert a.ask(sa.MCMemberRecord, SaMethod.SET, frm=port, mgid=mgid, port_gid=a.gid(port), join_state=1)[0] == 0
    assert ends() in ({mlid}, set()), "a group with a member outlives its partition, or its tables are written"


def test_a_change_costs_the_same_among_many_partitions():
    few, many = calls_of_a_change(20), calls_of_a_change(400)
    assert many <= 1.2 * few, (few, many)


@pytest.mark.parametrize("whole", [False, True], ids=["change", "file"])
def test_a_changed_group_is_the_new_files_and_its_members_join_again(whole):
    """MTU, rate and SL of IPoIB's groups, also of the one that a client made like the broadcast group; ports that are members, and no
    others, are asked to register again (PortInfo's ClientReregister), since Linux reads the attributes when it joins."""
    G, fabric = sa.MCMemberRecord, tree()
    a = Asked(fabric, node=None, partitions=tuple(parse_partitions(DEFAULT)))
    ports = [p for p in hosts(a).tolist() if p != a.port]
    members, others = ports[:2], ports[2:]
    everyone = f"p5=0x5, ipoib{{}} : {', '.join(f'{int(fabric.port_guid[p]):#x}=full' for p in ports)} ;\n"
    assert a.sm.repartition(parse_changes(everyone.format(""), "first"))
    a.run()
    broadcast = np.array([0xFF12401B80050000, 0xFFFFFFFF], np.uint64)
    all_nodes = np.array([0xFF12401B80050000, 0xE0000001], np.uint64)
    levels = {
        "qkey": 0xB1B,
        "mtu": 4,
        "mtu_selector": 2,
        "rate": 3,
        "rate_selector": 2,
        "sl": 0,
        "tclass": 0,
        "flow_label": 0,
    }
    join = lambda port, mgid, **more: a.ask(
        G, SaMethod.SET, frm=port, mgid=mgid, port_gid=a.gid(port), pkey=0x8005, join_state=1, **more
    )
    for port in members:
        assert join(port, broadcast)[0] == 0 and join(port, all_nodes, **levels)[0] == 0
    before = a.plane.tables.reregisters.copy()
    text = everyone.format(", mtu=5, rate=16, sl=3")
    if whole:
        a.sm.reconfigure(replace(a.sm.config, partitions=tuple(parse_partitions(DEFAULT + text))))
    else:
        assert a.sm.repartition(parse_changes(text, "change"))
    a.run()
    asked = a.plane.tables.reregisters.copy()
    again = np.flatnonzero(asked != before)
    assert sorted(again) == sorted(members) and not set(others) & set(again.tolist())
    changed = {**levels, "mtu": 5, "rate": 16, "sl": 3}
    for mgid in (broadcast, all_nodes):
        status, records = a.ask(G, frm=members[0], mgid=mgid)
        assert status == 0 and {tuple(int(getattr(G, n).get(r)) for n in ("mtu", "rate", "sl")) for r in records} == {
            (5, 16, 3)
        }
        assert join(members[1], mgid, **changed)[0] == 0
    status, (path,) = a.ask(
        sa.PathRecord, SaMethod.GET, frm=members[0], sgid=a.gid(members[0]), dgid=a.gid(members[1]), pkey=0x8005
    )
    assert status == 0 and int(sa.PathRecord.sl.get(path)) == 3
    a.sweep()
    assert np.array_equal(a.plane.tables.reregisters, asked), "no other sweep asks"
    assert not a.sm.sa_manager.groups.changed
