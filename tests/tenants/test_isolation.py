"""The proof of isolation is the rule of IBA 10.9.3 over the tables in the devices' own memory: every pair of ports, with every key that they share."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("alembic", reason="alembic is not installed (the extra tenants)")

from softib.tenants import changes
from softib.tenants.isolation import Isolation
from tests.tenants.subnet_lab import add, delete, members

DEFAULT = 0x7FFF


def tables(lab) -> dict[int, list[int]]:
    """PortGUID → its P_Keys in the device: ports of hosts, and switches' port 0."""
    f = lab.fabric
    return {int(f.port_guid[row]): lab._table(row) for row in f.end_ports().tolist()}


def by_rule(lab, asked: list[int]) -> tuple[set[tuple[int, int, int]], set[tuple[int, int, int]]]:
    """(a, b, P_Key) that meet without leave, and those of the manager's port."""
    held, partitions, sm = tables(lab), lab.service.state.partitions, lab.service.view.manager
    full = lambda pkey, guid: partitions[pkey].members[guid].full
    meets, excepted = set(), set()
    for a in asked:
        for b in held.keys() - {a}:
            both = [p for p in partitions if p != DEFAULT and {a, b} <= partitions[p].members.keys()]
            allowed = {p for p in both if full(p, a) or full(p, b)}
            for key in {k & DEFAULT for k in held[a]} & {k & DEFAULT for k in held[b]}:
                if key | 0x8000 not in held[a] and key | 0x8000 not in held[b]:
                    continue  # two limited members
                if key in allowed or (key == DEFAULT and allowed):
                    continue
                row = (min(a, b), max(a, b), key)
                in_partition = any(sm in p.members for p in partitions.values())
                (excepted if key == DEFAULT and sm in (a, b) and not in_partition else meets).add(row)
    return meets, excepted


def rows(listed) -> set[tuple[int, int, int]]:
    return {(m.a, m.b, m.pkey) for m in listed}


def judged(lab, asked: list[int]) -> Isolation:
    """What the service says, which is what the rule says."""
    found = lab.service.isolation(asked)
    assert (rows(found.meets), rows(found.exceptions)) == by_rule(lab, asked)
    assert found.pairs == len(found.meets) and not found.silent
    return found


@pytest.fixture
def two(lab):
    """Two ports in a partition each, and one that is in none; none is the manager's."""
    a, b, c = [g for g in lab.hosts if g != lab.service.view.manager][3:6]
    assert lab.settled(add(lab, 0x110, members(a))).state == "programmed"
    assert lab.settled(add(lab, 0x111, members(b))).state == "programmed"
    yield a, b, c
    assert [lab.settled(delete(lab, k)).state for k in (0x110, 0x111)] == ["programmed", "programmed"]


@pytest.fixture
def limited(lab):
    done = lab.change(lambda d: changes.set_everyone(d, "limited"))
    assert lab.settled(done).state == "programmed"
    yield
    assert lab.settled(lab.change(lambda d: changes.set_everyone(d, "full"))).state == "programmed"


def test_full_members_of_the_default_partition_meet(lab, two):
    a, b, c = two
    found = judged(lab, [a, b])
    assert {(min(a, b), max(a, b), DEFAULT), (min(a, c), max(a, c), DEFAULT)} <= rows(found.meets)
    assert {lab.service.view.manager} == {({m.a, m.b} - {a, b}).pop() for m in found.exceptions}
    assert "full and full member of 0x7fff, the default partition" in found.meets[0].reason
    findings = [f for f in lab.service.findings() if f.kind == "isolation"]
    assert len(findings) == 1 and "default_membership" in findings[0].text


def test_limited_members_of_it_reach_only_the_manager(lab, two, limited):
    a, b, _ = two
    found = judged(lab, [a, b])
    assert (found.pairs, len(found.exceptions)) == (0, 2)
    assert "subnet manager's port" in found.exceptions[0].reason
    assert not [f for f in lab.service.findings() if f.kind == "isolation"]


def test_a_managers_host_with_a_partition_is_no_exception(lab, two, limited):
    a, b, _ = two
    manager = lab.service.view.manager
    assert lab.settled(add(lab, 0x112, members(manager))).state == "programmed"
    found = judged(lab, [a, b])
    assert found.pairs == 2 and not found.exceptions
    assert "run the manager on a host without a partition" in found.meets[0].reason
    assert [f.where for f in lab.service.findings() if f.kind == "isolation"] == [f"{manager:016x}"]
    assert lab.settled(delete(lab, 0x112)).state == "programmed"


def test_a_key_that_a_port_got_since_the_last_reading_is_seen(lab, two, limited):
    a, b, c = two
    row, f = lab.rows[c], lab.fabric
    stray = int(f.pkey_base[row] + f.pkey_cap[row] - 1)
    lab.do(lambda: f.pkeys.__setitem__(stray, 0x0110))
    try:
        assert rows(judged(lab, [a, b]).meets) == {(min(a, c), max(a, c), 0x110)}
    finally:
        lab.do(lambda: f.pkeys.__setitem__(stray, 0))


@pytest.mark.parametrize("seed", range(4))
def test_random_partitions_and_stray_keys(lab, seed):
    pick, f = random.Random(seed), lab.fabric
    ports = list(tables(lab))
    keys = range(0x120, 0x126)
    for key in keys:
        chosen = pick.sample(ports, pick.randrange(1, 6))
        both = {g: m for g in chosen for m in members(g, full=pick.random() < 0.5).values()}
        assert lab.settled(add(lab, key, both)).state == "programmed"
    everyone = pick.choice(("full", "limited"))
    assert lab.settled(lab.change(lambda d: changes.set_everyone(d, everyone))).state == "programmed"
    strays = [int(f.pkey_base[row] + f.pkey_cap[row] - 1) for row in pick.sample(list(lab.rows.values()), 3)]
    for stray in strays:
        lab.do(lambda stray=stray: f.pkeys.__setitem__(stray, pick.choice(keys) | pick.choice((0, 0x8000))))
    try:
        judged(lab, pick.sample(ports, 5))
        judged(lab, ports)
    finally:
        for stray in strays:
            lab.do(lambda stray=stray: f.pkeys.__setitem__(stray, 0))
        for key in keys:
            lab.settled(delete(lab, key))
        lab.settled(lab.change(lambda d: changes.set_everyone(d, "full")))


def test_a_switch_is_a_member_by_its_port_0(lab):
    """IBA 14.2.5.3: a switch's PartitionCap is the size of its port 0's table."""
    f = lab.fabric
    row = next(r for r in f.end_ports().tolist() if not f.port_num[r])
    guid = int(f.port_guid[row])
    assert lab.settled(add(lab, 0x130, members(guid, full=False))).state == "programmed"
    assert 0x0130 in lab._table(row)
    assert lab.service.programmed(lab.service.state.partitions[0x130], guid)
    assert all(guid not in guids for guids in lab.service.view.names.values()), "no host has that name"
    assert lab.settled(delete(lab, 0x130)).state == "programmed"
    assert 0x0130 not in lab._table(row)
