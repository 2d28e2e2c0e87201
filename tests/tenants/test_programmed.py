"""What the service says of a change is what the devices' own tables hold: programmed, pending until a port appears, taken back where one refuses;
what somebody else wrote is found."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("alembic", reason="alembic is not installed (the extra tenants)")

from softib.errors import InputError, PeerError
from softib.iba.smp import PortInfo
from softib.live.clock import clock_ps
from softib.sm.managers.partition_table import queue_changed
from softib.sm.sweep import between_sweeps
from softib.tenants import changes
from softib.tenants.changes import Options, Refused
from softib.tenants.drift import Drift, Drifts
from softib.tenants.findings import partition_findings
from softib.tenants.managers import FileManager
from softib.tenants.mastership import SILENT_LOOKS, MasterWatch
from softib.tenants.state import Draft, State
from softib.tenants.subnet import SubnetView
from softib.tenants.writer import Request
from tests.tenants.subnet_lab import add, delete, members, remove, search_now, until

DEFAULT, LIMITED = 0xFFFF, 0x7FFF


def test_a_change_is_in_the_devices_tables(lab):
    a, b, c = lab.hosts[1:4]
    assert lab.settled(add(lab, 5, members(a) | members(b, full=False), index0=True)).state == "programmed"
    assert (lab.table(a), lab.table(b), lab.table(c)) == ([0x8005, DEFAULT], [0x0005, DEFAULT], [DEFAULT])
    assert lab.settled(remove(lab, 5, a)).state == "programmed"
    assert lab.table(a) == [DEFAULT]
    limited = lab.change(lambda d: changes.set_everyone(d, "limited"))
    assert lab.settled(limited).state == "programmed"
    manager = lab.service.view.manager
    assert {g: lab.table(g)[-1] for g in lab.hosts} == {g: DEFAULT if g == manager else LIMITED for g in lab.hosts}
    assert lab.settled(lab.service.take_back(limited.revision, "test")).state == "programmed"
    assert lab.table(c) == [DEFAULT]


def test_a_change_takes_no_sweep_and_the_administrator_knows_it(lab):
    sm, (a, b) = lab.daemon.manager.sm, lab.hosts[1:3]
    sweeps = sm.sweeps
    assert lab.settled(add(lab, 9, members(a, b))).state == "programmed"
    end = {int(g): i for i, g in enumerate(sm.sa_manager.subnet.end_guid.tolist())}
    assert sm.sa_manager.sa.members.has(end[a], 0x8009) and not sm.sa_manager.sa.members.has(end[lab.hosts[3]], 9)
    assert lab.settled(lab.change(lambda d: changes.delete_partition(d, 9, 0.0))).state == "programmed"
    assert lab.table(a) == [DEFAULT] and not sm.sa_manager.sa.members.has(end[a], 9)
    assert sm.sweeps == sweeps
    until(lambda: "0x9," not in (lab.service.folder / "partitions.conf").read_text())
    lab.do(lambda: lab.daemon.sweep(reload=True))
    until(lambda: sm.sweeps > sweeps and sm.settled)
    assert lab.table(a) == [DEFAULT]


def test_a_member_that_is_not_there_is_pending_and_programmed_when_it_appears(lab):
    gone = lab.hosts[-1]
    lab.do(lambda: lab.daemon.router.set_link(lab.rows[gone], False, clock_ps()))
    until(lambda: lab.daemon.manager.sm.settled)
    lab.service.programmer.call(lab.service.view.discover)
    done = add(lab, 6, members(lab.hosts[1], gone))
    revision = lab.settled(done)
    assert revision.state == "pending" and f"{gone:016x}" in revision.detail
    assert 0x8006 in lab.table(lab.hosts[1])
    lab.do(lambda: lab.daemon.router.set_link(lab.rows[gone], True, clock_ps()))
    until(lambda: lab.service.store.revision(done.revision).state == "programmed", 40)
    assert 0x8006 in lab.table(gone)


def test_a_port_that_refuses_takes_its_change_back_and_no_other(lab):
    owned, free = lab.hosts[2], lab.hosts[3]
    lab.lock(owned)
    try:
        refused = add(lab, 7, members(owned, free))
        other = add(lab, 8, members(free))
        until(lambda: lab.settled(refused).state == "rolled-back", 60)
        revision = lab.settled(refused)
        assert f"{owned:016x}" in revision.detail and "0x8007" in revision.detail
        assert lab.settled(other).state == "programmed"
        until(lambda: lab.table(free)[-1] == 0x8008)
        assert 7 not in lab.service.state.partitions
        assert lab.service.state.partitions[8].members.keys() == {free}
    finally:
        lab.lock(owned, 0)


def test_what_somebody_else_wrote_is_a_finding_and_goes(lab):
    victim = lab.hosts[1]
    row = lab.rows[victim]
    f = lab.fabric
    stray = int(f.pkey_base[row] + f.pkey_cap[row] - 1)
    lab.do(lambda: f.pkeys.__setitem__(stray, 0x8123))
    search_now(lab)
    drifts = lambda resolved: [x for x in lab.service.findings(resolved) if x.kind == "drift" and "0x8123" in x.text]
    until(lambda: drifts(True))
    (drift,) = drifts(True)
    assert f"{victim:016x}" == drift.where
    until(lambda: 0x8123 not in lab._table(row))
    until(lambda: not drifts(False))
    (drift,) = drifts(True)
    assert drift.begun_s <= drift.ended_s, "the record stays, with its end"


def test_a_drift_is_present_until_the_table_is_read_without_it(lab, monkeypatch):
    """Another manager has the subnet: each search sees the same difference, which is one finding; it ends with the first table that was read without
    it."""
    victim, f = lab.hosts[1], lab.fabric
    stray = int(f.pkey_base[lab.rows[victim]] + f.pkey_cap[lab.rows[victim]] - 1)
    present = lambda: [x for x in lab.service.findings() if x.kind == "drift" and "0x8124" in x.text]
    monkeypatch.setattr(lab.service.programmer.manager, "is_master", lambda master: False)
    lab.do(lambda: f.pkeys.__setitem__(stray, 0x8124))
    for _ in range(2):
        search_now(lab)
        until(lambda: lab.service.programmer._search is None and present())
    assert [x.ended_s for x in present()] == [None] and "another subnet manager" in present()[0].text
    monkeypatch.undo()
    until(lambda: lab.service.programmer.master.look() or not lab.service.programmer.master.problem)
    search_now(lab)
    until(lambda: not present())
    assert 0x8124 not in lab._table(lab.rows[victim])


def test_a_drift_ends_when_a_change_programs_the_table(lab, monkeypatch):
    """Without another comparison: the table was read back with the wanted P_Keys after the change."""
    victim, programmer = lab.hosts[1], lab.service.programmer
    present = lambda: [x for x in lab.service.findings() if x.kind == "drift" and x.where == f"{victim:016x}"]
    programmer.call(lambda: programmer.drifts.enter([Drift(1.0, victim, "its port", (), (0x8125,))], False))
    assert present()
    monkeypatch.setattr(programmer._reconciliation, "run", lambda *_: None)
    assert lab.settled(add(lab, 0x35, members(victim))).state == "programmed"
    assert not present()


def test_a_change_before_the_first_search_does_not_cut_the_manager_off(lab):
    """The manager's port is unknown, so that nobody can refuse a partition that takes the default P_Key from its index 0: the partition is
    programmed without the index, and a finding says so."""
    manager, other = lab.service.view.manager, lab.hosts[-1]
    before = lab.table(other)
    assert lab.service.view.manager == manager != other and lab.service.is_read and before[0] == DEFAULT
    lab.service.close()
    go = threading.Event()
    lab.service = lab.serve(lab.folder, go)
    assert not lab.service.is_read
    done = add(lab, 0x31, members(manager, other), index0=True)
    assert lab.service.health().problem == "the subnet has not been read yet"
    go.set()
    assert lab.service.programmer.ready.wait(60) and lab.settled(done).state == "programmed"
    assert lab.table(manager) == [DEFAULT, 0x8031] and lab.table(other) == [*before, 0x8031]
    (finding,) = [f for f in lab.service.findings() if f.kind == "index0"]
    assert "0x31" in finding.text and f"{manager:016x}" == finding.where
    assert lab.settled(remove(lab, 0x31, manager)).state == "programmed"
    assert lab.table(other)[0] == 0x8031, "the index that the partition asks for"
    with pytest.raises(Refused, match="subnet manager's"):
        add(lab, 0x31, members(manager))
    assert lab.settled(delete(lab, 0x31)).state == "programmed"


def test_health_says_when_the_manager_answered_and_what_waits(lab, monkeypatch):
    def look() -> None:
        lab.service.programmer.master._due = 0.0

    done = add(lab, 0x32, members(lab.hosts[1]))
    assert lab.settled(done).state == "programmed"
    lab.service.programmer.call(look)
    until(lambda: lab.service.health().manager_reached)
    health = lab.service.health()
    assert (health.status, health.problem, health.waiting, health.database_writable) == ("ok", "", 0, True)
    assert (
        health.compared_s <= health.programmed_s <= lab.service.clock()
        and health.manager_answered_s <= lab.service.clock()
    )
    assert f"{lab.service.view.manager:016x}" in health.manager_port
    monkeypatch.setattr("softib.tenants.subnet.live_manager", lambda wire: None)  # no answer to Get(SMInfo)
    until(lambda: lab.service.programmer.call(look) or lab.service.health().manager_reached is False)
    assert lab.service.health().status == "degraded", "from the first look without an answer"
    until(lambda: lab.service.programmer.call(look) or lab.service.programmer.problem)
    sick = lab.service.health()
    assert "does not answer" in sick.problem and sick.manager_reached is False
    assert sick.manager_answered_s >= health.manager_answered_s
    waits = add(lab, 0x32, members(lab.hosts[2]))
    assert lab.settled(waits, 0.5).state == "durable" and lab.service.health().waiting == 1
    (finding,) = (f for f in lab.service.findings() if f.kind == "manager")
    assert (finding.text, finding.ended_s) == (sick.problem, None) and finding.begun_s >= health.manager_answered_s
    monkeypatch.setattr(lab.service.programmer.manager, "is_master", lambda master: False)
    until(lambda: lab.service.programmer.call(look) or lab.service.programmer.master.other)
    assert lab.service.health().manager_port == "", "that port is another manager's"
    assert f"{lab.service.view.manager:016x}" in lab.service.health().problem
    monkeypatch.undo()
    lab.service.programmer.call(look)
    assert lab.settled(waits).state == "programmed"
    until(lambda: lab.service.health().status == "ok")
    until(lambda: not [f for f in lab.service.findings() if f.kind == "manager"])
    past = [f for f in lab.service.findings(resolved=True) if f.kind == "manager" and f.begun_s == finding.begun_s]
    assert [f.ended_s >= f.begun_s for f in past] == [True]
    assert lab.settled(delete(lab, 0x32)).state == "programmed"


def test_no_change_waits_for_a_search_of_the_subnet(lab, monkeypatch):
    begun, may_end, discover = threading.Event(), threading.Event(), SubnetView.discover

    def slow(view):
        discover(view)
        begun.set()
        assert may_end.wait(30)

    monkeypatch.setattr(SubnetView, "discover", slow)
    programmer = lab.service.programmer
    drifts = len(programmer.drifts.kept)
    until(lambda: begun.is_set() or programmer.call(lambda: setattr(programmer, "_due", 0.0)))
    try:
        for pkey in (0x20, 0x21):
            assert lab.settled(add(lab, pkey, members(*lab.hosts[1:3])), 10).state == "programmed"
    finally:
        may_end.set()
    until(lambda: lab.service.programmer._search is None)
    assert {0x8020, 0x8021} <= set(lab.table(lab.hosts[1]))
    assert len(lab.service.programmer.drifts.kept) == drifts, "tables read before the change are not another's work"


def test_a_change_made_while_tables_are_compared_is_no_drift(lab, monkeypatch):
    programmer, sm = lab.service.programmer, lab.daemon.manager.sm
    victim = [g for g in lab.service.view.tables if g != lab.service.view.manager][-1]
    made, wanted = [], State.wanted

    def changing(state, guid, manager=0):
        if threading.current_thread() is programmer._thread and not made:  # the first table of the comparison
            made.append(None)
            made.append(add(lab, 0x30, members(victim)))
        return wanted(state, guid, manager)

    drifts, sweeps = len(programmer.drifts.kept), sm.sweeps
    monkeypatch.setattr(State, "wanted", changing)
    search_now(lab)
    until(lambda: len(made) == 2)
    assert lab.settled(made[1]).state == "programmed"
    assert 0x8030 in lab.table(victim)
    assert (len(programmer.drifts.kept), sm.sweeps) == (drifts, sweeps)


def test_a_key_that_a_port_still_holds_is_not_given_out(lab, monkeypatch):
    victim = lab.hosts[1]
    # The comparison of all tables, once a minute, does not take the key away meanwhile.
    monkeypatch.setattr(lab.service.programmer.manager, "is_master", lambda master: False)
    row, f = lab.rows[victim], lab.fabric
    stray = int(f.pkey_base[row] + f.pkey_cap[row] - 1)
    lab.do(lambda: f.pkeys.__setitem__(stray, 0x8321))
    lab.service.programmer.call(lambda: lab.service.view.read([victim]))
    with pytest.raises(Refused, match="0x321 is still in the table of"):
        lab.service.quarantine.refuse_held(0x321)
    lab.do(lambda: f.pkeys.__setitem__(stray, 0))
    lab.service.quarantine.refuse_held(0x321)
    monkeypatch.undo()
    until(lambda: lab.service.programmer.master.look() or not lab.service.programmer.master.problem)


def test_the_mtu_of_a_switchs_port_0_is_its_capability(lab):
    """OpenSM sets NeighborMTU at ports with a cable only, so port 0 keeps a value that says nothing (IBA 14.2.5.6)."""
    view = SubnetView(lab.service._open_wire)
    view.discover()
    try:
        db = view._reader.subnet.db
        rows = np.flatnonzero(db.is_switch[db.port_node] & (db.port_num == 0))
        info = db.port_info.copy()
        info[rows] = 0
        for name in ("lid", "mtu_cap"):
            field = getattr(PortInfo, name)
            values = info[rows]
            field.set(values, field.get(db.port_info[rows]))
            info[rows] = values
        db.port_info = info
        ports = [p for p in view._found(view._reader) if p.switch]
        assert len(ports) == len(rows) and {p.mtu for p in ports} == {5}, "4,096 bytes, although NeighborMTU is 0"
    finally:
        view.close()


def test_a_port_has_room_for_its_own_table(lab):
    guid = lab.hosts[6]
    entries = lab.service.view.room(guid)
    row, caps = lab.rows[guid], lab.fabric.pkey_cap
    assert entries == min(int(caps[row]), int(caps[lab.fabric.port_peer[row]]))  # the switch's is the smaller one

    def fill(draft):
        for i in range(entries):  # and the default partition
            changes.add_members(draft, 0x1000 + i, members(guid), Options(), lab.service.view.room)
        return ""

    with pytest.raises(InputError, match="would be in"):
        lab.change(fill)
    assert not lab.service.state.memberships(guid)


def test_a_repeated_request_is_one_change(lab):
    guid = lab.hosts[6]
    change = lambda d: changes.add_members(d, 0x20, members(guid), Options(), lab.service.view.room)
    one, two = lab.change(change, "req-1"), lab.change(change, "req-1")
    assert (one.revision, two.repeated) == (two.revision, True)


def test_a_service_that_begins_on_partitions_goes_on_with_them(lab, tmp_path):
    a, b = lab.hosts[1:3]
    assert lab.settled(add(lab, 0x40, members(a) | members(b, full=False))).state == "programmed"
    other = lab.serve(tmp_path)
    try:
        assert {g: m.full for g, m in other.state.partitions[0x40].members.items()} == {a: True, b: False}
        assert other.state.partitions[0x7FFF].everyone == "full"
        assert 0x8040 in lab.table(a)
    finally:
        other.close()


def test_the_work_of_a_change_is_that_of_its_port(lab, monkeypatch):
    """One block of the port's table and one of the switch port's are written (IBA 14.2.5.7), both tables and the node behind each are read, and the
    database gets the member and the revision."""
    guid, sets, statements = lab.hosts[2], [], []

    def counted(db, config, tables, queue, guids):
        unknown = queue_changed(db, config, tables, queue, guids)
        sets.append(len(queue))
        return unknown

    assert lab.settled(add(lab, 0x50, members(lab.hosts[1]))).state == "programmed"
    monkeypatch.setattr(between_sweeps, "queue_changed", counted)
    view, store, f, row = lab.service.view, lab.service.store, lab.fabric, lab.rows[guid]
    read = view._reader.transactor.sent
    store.db.set_trace_callback(statements.append)
    try:
        assert lab.settled(add(lab, 0x50, members(guid))).state == "programmed"
    finally:
        store.db.set_trace_callback(None)
    blocks = (int(f.pkey_cap[row]) + int(f.pkey_cap[f.port_peer[row]])) // 32
    assert sets == [2]
    assert view._reader.transactor.sent - read == 2 + blocks
    assert [s.split()[0] for s in statements] == [
        *("PRAGMA", "BEGIN", "INSERT", "INSERT", "COMMIT"),
        *("PRAGMA", "BEGIN", "UPDATE", "COMMIT"),
    ]


def test_changes_that_wait_share_a_commit(lab):
    statements, store = [], lab.service.store
    store.db.set_trace_callback(statements.append)
    try:
        with store._writes:
            new = lambda pkey: lambda d: changes.add_members(d, pkey, members(lab.hosts[3]), Options(), lambda g: 0)
            waiting = [lab.service.submit(Request(new(pkey), "test", "add")) for pkey in range(0x60, 0x70)]
        numbers = {one.result(20).revision for one in waiting}
    finally:
        store.db.set_trace_callback(None)
    assert len(numbers) == 16
    assert sum(s.startswith("INSERT INTO revision") for s in statements) == 16
    assert statements.count("COMMIT") <= 2 + sum(s.startswith("UPDATE") for s in statements)


# -- the master of the subnet --

OURS, OTHER = 0xA, 0xB


class View:
    """``answers``: the master's next answers; an exception is raised."""

    def __init__(self, manager: int, *answers: bool | Exception):
        self.manager, self.answers, self.passive = manager, list(answers), ""
        self.ports = {g: SimpleNamespace(guid=g, name=f"host-{g:x}[1]") for g in (OURS, OTHER)}

    def look_for_master(self) -> bool:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def watch_of(view: View) -> MasterWatch:
    manager = SimpleNamespace(title="OpenSM of the test", advice="stop the other one", is_master=lambda m: m == OURS)
    return MasterWatch(view, manager)


def test_the_first_unanswered_look_is_told_and_changes_are_still_passed_on():
    watch = watch_of(View(OURS, True, *[False] * SILENT_LOOKS, True))
    watch.look()
    assert not watch.doubt
    for n in range(1, SILENT_LOOKS + 1):
        watch.look()
        assert "host-a[1]" in watch.doubt and "does not answer" in watch.doubt
        assert bool(watch.problem) == (n == SILENT_LOOKS), "it may be busy with a sweep"
    assert watch.look() and not watch.doubt


def test_a_standby_without_a_master_is_named_as_one(lab, monkeypatch):
    """An OpenSM that left the master's state still answers SMInfo."""
    from softib.live.umad_client.wire import Manager, Master
    from softib.sm.ha.election import SmState

    view = lab.service.view.sibling()
    view.discover()
    monkeypatch.setattr("softib.tenants.subnet.live_manager", lambda wire: Manager(Master(1, 2, 3), SmState.STANDBY))
    watch = watch_of(view)
    watch.manager.is_master = lambda master: True
    for _ in range(SILENT_LOOKS):
        watch.look()
        assert "answers, but is STANDBY; no manager is master" in watch.doubt and not watch.reached
    assert watch.problem.startswith("the subnet manager at ") and "does not answer" not in watch.problem
    monkeypatch.undo()
    assert watch.look() and not watch.doubt and not view.passive
    view.close()


def test_opensm_needs_a_free_entry_in_a_full_block_of_the_switch_port(lab, tmp_path):
    """osm_pkey_mgr.c 3.3.23: it disables the check of the port if the P_Keys fill the last block, and if they exceed the table (ERR 0507)."""
    manager = FileManager(tmp_path / "partitions.conf", "true")
    assert [manager.leaf_room(n) for n in (32, 40, 63, 64, 128)] == [31, 40, 63, 63, 127]
    view = SubnetView(lab.service._open_wire, manager.leaf_room)
    view.discover()
    behind = [g for g in lab.hosts if view.ports[g].leaf >= 0]
    assert behind and all(view.room(g) == lab.service.view.room(g) - 1 for g in behind)
    room = view.room(behind[0])
    keys = {k: members(behind[0]) for k in range(1, room + 1)}
    draft = Draft(State.empty())
    for pkey in range(1, room):
        changes.add_members(draft, pkey, keys[pkey], Options(), view.room)
    state = State.empty()
    state.take(draft)
    with pytest.raises(Refused, match=f"has room for {room}; remove it"):
        changes.add_members(Draft(state), room, keys[room], Options(), view.room)
    view.unchecked = frozenset({behind[0]})
    texts = [f.text for f in partition_findings(state, view) if "do not check" in f.text]
    assert len(texts) == 1 and "part_enforce both" in texts[0], "an entry is left"
    draft = Draft(state)
    changes.add_members(draft, room, keys[room], Options(), lambda guid: 0)  # as adopted from the tables
    state.take(draft)
    texts = [f.text for f in partition_findings(state, view) if "do not check" in f.text]
    assert len(texts) == 1 and "fill the tables" in texts[0] and "part_enforce" not in texts[0]
    view.close()


def test_a_lost_wire_reaches_no_master():
    watch = watch_of(View(OURS, True, PeerError("the wire was lost")))
    watch.look()
    with pytest.raises(PeerError):
        watch.look()
    assert watch.reached is False and watch.doubt


def test_another_master_that_ended_is_not_the_master():
    """Ports keep the LID of a master that was killed."""
    watch = watch_of(View(OTHER, True, False))
    watch.look()
    assert watch.rival and "host-b[1] (000000000000000b) is the master subnet manager, not" in watch.problem
    watch.look()
    assert not watch.rival and watch.problem, "and ours is not the master either"
    assert "is the master" not in watch.problem.replace("when the master is", "") and "host-b[1]" in watch.problem


def test_a_manager_that_left_does_not_name_its_own_port_as_the_other_master():
    """While a master hands over, ports still name the former one, and softib's manager is already a standby."""
    watch, ours = watch_of(View(OURS, True, True, True)), [True]
    watch.manager.is_master = lambda master: ours[0]
    watch.look()
    ours[0] = False
    watch.look()
    assert "is not the master any more" in watch.problem and "host-a[1]" not in watch.problem
    watch.view.manager = OTHER
    watch.look()
    assert "host-b[1] (000000000000000b) is the master subnet manager, not" in watch.problem


def test_the_master_moves_to_a_standby_that_reads_the_same_file(tmp_path):
    """The tables are compared when it moves, because a standby may have read an older file."""
    watch = watch_of(View(OURS, True, True, False, True, True))
    watch.manager = FileManager(tmp_path / "partitions.conf", "true", [OURS, OTHER])
    assert (watch.look(), watch.look()) == (False, False)
    watch.view.manager = OTHER
    assert (watch.look(), watch.look(), watch.look()) == (False, True, False), "it does not answer at first"
    assert not watch.problem
    alone = watch_of(View(OURS, True, True))
    alone.manager = FileManager(tmp_path / "partitions.conf", "true")
    alone.look()
    alone.view.manager = OTHER
    assert not alone.look() and "name it in --managers" in alone.problem


@pytest.mark.parametrize("answers", [True, False])
def test_a_drift_names_another_master_only_if_there_is_one(answers):
    watch = watch_of(View(OTHER, answers))
    watch.look()
    drifts = Drifts(lambda: 1.0)
    drifts.enter([Drift(1.0, OURS, "host-a[1]", (5,), ())], watch.rival)
    assert ("another subnet manager is the master" in str(drifts.kept[0])) == answers


def test_the_full_membership_of_the_manager_moves_with_it_and_is_no_drift(lab):
    """Another host was the master, with the same file: its port is a full member of the default partition, and the
    port of softib's manager a limited one, until a sweep writes both."""
    drifts = lambda: [x for x in lab.service.findings(True) if x.kind == "drift"]
    limited = lab.change(lambda d: changes.set_everyone(d, "limited"))
    assert lab.settled(limited).state == "programmed"
    before, manager, f = drifts(), lab.service.view.manager, lab.fabric
    former = next(g for g in lab.hosts if g != manager)
    default = lambda guid: [k for k in lab._table(lab.rows[guid]) if k & LIMITED == LIMITED]
    first = lambda guid, key: f.pkeys.__setitem__(
        int(f.pkey_base[lab.rows[guid]]) + lab._table(lab.rows[guid]).index(key ^ 0x8000), key
    )
    lab.do(lambda: (first(former, DEFAULT), first(manager, LIMITED)))
    lab.service.programmer.call(lambda: lab.service.view.managers.add(former))
    search_now(lab)
    until(lambda: (default(former), default(manager)) == ([LIMITED], [DEFAULT]))
    until(lambda: lab.service.programmer._search is None and lab.service.view.managers == {manager})
    assert drifts() == before
    lab.do(lambda: first(former, DEFAULT))  # the same without a move
    search_now(lab)
    until(lambda: [x.where for x in drifts()[len(before) :]] == [f"{former:016x}"])
    until(lambda: default(former) == [LIMITED])
    named = lab.change(
        lambda d: changes.add_members(d, 0x7FFF, members(manager, full=False), Options(), lab.service.view.room)
    )
    assert lab.settled(named).state == "programmed" and default(manager) == [DEFAULT]
    assert lab.service.programmed(lab.service.state.partitions[0x7FFF], manager)
    for one in (named, limited):
        assert lab.settled(lab.service.take_back(one.revision, "test")).state == "programmed"
