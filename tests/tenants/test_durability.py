"""What was acknowledged survives SIGKILL at any moment; what the database cannot take is refused whole."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("alembic", reason="alembic is not installed (the extra tenants)")

from softib.errors import InputError, PeerError
from softib.tenants import changes
from softib.tenants.changes import Options
from softib.tenants.intruders import Intruder
from softib.tenants.model import Member, Tenant
from softib.tenants.service import TenantService
from softib.tenants.state import Draft, State
from softib.tenants.store import FILE, Unavailable, waits_for
from softib.tenants.subnet import Held
from softib.tenants.writer import Request
from tests.tenants import subnet_lab
from tests.tenants.asking import Asking

KILLS = 100


def nowhere():
    raise InputError("no subnet in this test")


def add(guid: int, pkey: int = 5):
    return lambda draft: changes.add_members(draft, pkey, {guid: Member()}, Options(), lambda guid: 0)


@pytest.fixture
def service(tmp_path):
    one = TenantService(tmp_path, nowhere, None)
    yield one
    one.close()


def write_until_killed(folder: Path, first: int, fd: int) -> None:
    """Change the tenants in ``folder``, and write the number of each change that was acknowledged."""
    service = TenantService(folder, nowhere, None)
    os.write(fd, b"ready\n")

    def change(number: int) -> None:
        pkey = number % 0x7FF0 + 1
        service.change(add(number, pkey), "kill", "add", f"r{number}", "x")
        os.write(fd, f"{number}\n".encode())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(change, range(first, first + 100_000)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_no_acknowledged_change_is_lost_by_a_kill(tmp_path):
    moments, acknowledged = random.Random(34), set[int]()
    TenantService(tmp_path, nowhere, None).close()
    for kill in range(KILLS):
        read, write = os.pipe()
        child = multiprocessing.get_context("fork").Process(
            target=write_until_killed, args=(tmp_path, 1 + kill * 100_000, write)
        )
        child.start()
        os.close(write)
        with os.fdopen(read) as output:
            assert output.readline() == "ready\n"
            time.sleep(moments.uniform(0.0, 0.3))
            child.kill()
            acknowledged |= {int(line) for line in output.read().splitlines(keepends=True) if line.endswith("\n")}
        child.join()
        with sqlite3.connect(tmp_path / FILE) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            kept = {int(text, 16) for (text,) in db.execute("SELECT guid FROM member")}
            requests = {int(name[1:]) for (name,) in db.execute("SELECT request_id FROM revision")}
        assert acknowledged <= kept, f"lost at kill {kill}: {sorted(acknowledged - kept)[:5]}"
        assert requests == kept, "a revision without its rows, or rows without their revision"
    assert len(acknowledged) > KILLS


def test_a_locked_database_refuses_the_change_and_takes_it_later(service, monkeypatch):
    service.store.db.execute("PRAGMA busy_timeout = 50")
    other = sqlite3.connect(service.store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked"):
        service.change(add(1), "test", "add")
    assert service.health().status == "failed" and "locked" in service.health().problem
    assert 5 not in service.state.partitions
    other.execute("ROLLBACK")
    other.close()
    assert service.change(add(1), "test", "add").guids == {1}


def test_a_full_disk_refuses_the_change_whole(service):
    pages = service.store.db.execute("PRAGMA page_count").fetchone()[0]
    service.store.db.execute(f"PRAGMA max_page_count = {pages}")
    many = {guid: Member() for guid in range(1, 20_000)}
    with pytest.raises(Unavailable, match="full"):
        service.change(lambda d: changes.add_members(d, 5, many, Options(), lambda guid: 0), "test", "add")
    assert 5 not in service.state.partitions and service.store.state() == service.state
    service.store.db.execute("PRAGMA max_page_count = 1000000")
    assert service.store.try_write() == ""
    service.change(add(1), "test", "add")
    assert service.store.state() == service.state


def test_little_space_is_named_before_it_is_used_up(service, monkeypatch):
    """A full file system may still take the page of the test write, and refuse a larger change."""
    assert service.store.scarce() == ""
    full = shutil.disk_usage(service.folder)._replace(free=500 << 10)
    monkeypatch.setattr("softib.tenants.store.shutil.disk_usage", lambda folder: full)
    assert "only 500 KB are free" in service.store.scarce() and service.store.try_write() == ""


def test_an_error_that_another_change_causes_waits_for_its_commit(service):
    """Two requests with one id and different contents: the second is refused only because of the first, which a full disk takes back."""
    pages = service.store.db.execute("PRAGMA page_count").fetchone()[0]
    many = {guid: Member() for guid in range(1, 20_000)}
    large = lambda d: changes.add_members(d, 5, many, Options(), lambda guid: 0)
    with service.store._writes:
        blocked = service.submit(
            Request(add(9, 9), "test", "add")
        )  # the writer waits with it, so the next two share a commit
        while not service.writer._queue.empty():
            time.sleep(0.001)
        service.store.db.execute(f"PRAGMA max_page_count = {pages}")
        requests = [Request(large, "test", "add", "one"), Request(add(1, 6), "test", "add", "one", "other")]
        waiting = [service.submit(request) for request in requests]
    blocked.exception(20)
    for one in waiting:
        with pytest.raises(Unavailable, match="full"):
            one.result(20)
    service.store.db.execute("PRAGMA max_page_count = 1000000")
    assert service.change(add(1, 6), "test", "add", "one", "other").guids == {1}


def test_a_change_that_the_database_cannot_hold_fails_alone(service):
    """The writer goes on, and the changes that share its commit are made."""
    bad = lambda d: changes.create(d, 7, Options(name="\ud800"))
    with service.store._writes:
        blocked = service.submit(Request(add(9, 9), "test", "add"))
        while not service.writer._queue.empty():
            time.sleep(0.001)
        good = service.submit(Request(add(1, 6), "test", "add"))
        wrong = service.submit(Request(bad, "test", "create"))
        later = service.submit(Request(add(2, 6), "test", "add"))
    assert [one.result(20).guids for one in (blocked, good, later)] == [{9}, {1}, {2}]
    assert isinstance(wrong.exception(20), UnicodeEncodeError)
    assert 7 not in service.state.partitions and service.store.state() == service.state


def test_a_database_of_the_first_schema_keeps_its_revisions_and_gives_each_account_its_ids(tmp_path):
    """An id is its account's alone; those of accounts that are gone are nobody's."""
    from softib.tenants.migrations.versions import first

    rows = [
        (3, 1.5, "slurm", "allot", "slurm-c1-7-0/partition", "d", "programmed", "a", 2.5, "{}"),
        (4, 1.6, "red", "allot", "seven", "d", "durable", "b", None, "{}"),
        (7, 1.7, "gone", "allot", "eight", "d", "programmed", "c", 2.5, "{}"),
        (9, 1.8, "slurm", "delete", None, "", "programmed", "e", 2.5, "{}"),
    ]
    accounts = [("slurm", "operator", "", "x"), ("red", "tenant", "acme", "x")]
    with sqlite3.connect(tmp_path / FILE) as db:
        db.executescript(first.TABLES)
        db.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
        db.execute("INSERT INTO alembic_version VALUES ('first')")
        db.executemany("INSERT INTO revision VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        db.executemany("INSERT INTO account VALUES (?, ?, ?, ?)", accounts)
        db.execute("INSERT INTO tenant VALUES ('acme', 5)")
    db.close()
    (tmp_path / "tenants-1.db").write_bytes((tmp_path / FILE).read_bytes())
    service = TenantService(tmp_path, nowhere, None)
    try:
        kept = service.store.revisions()
        assert [(r.id, r.at_s, r.actor, r.request_id, r.state, r.detail) for r in reversed(kept)] == [
            (row[0], row[1], row[2], row[4], row[6], row[7]) for row in rows
        ]
        answer = lambda *words: service.submit(Request(add(1), *words)).result(20)
        assert answer("slurm", "allot", "slurm-c1-7-0/partition", "d", "\nslurm").revision == 3
        assert answer("red", "allot", "seven", "d", "acme\nred").revision == 4
        assert answer("gone", "allot", "eight", "d", "\ngone").revision == 10
        assert answer("red", "allot", "slurm-c1-7-0/partition", "another", "acme\nred").revision == 11
        assert service.store.state_of_backup("tenants-1.db").tenants.keys() == {"acme"}, "an older backup is restored"
        assert service.state.tenants["acme"].ports is None, "it may use any port, as before"
    finally:
        service.close()


def test_the_first_write_after_a_migration_has_the_new_columns(tmp_path):
    TenantService(tmp_path, nowhere, None).close()
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("ALTER TABLE tenant DROP COLUMN ports")
        db.execute("DROP TABLE finding")
        db.execute("UPDATE alembic_version SET version_num = 'isolated_ports'")
    db.close()
    service = TenantService(tmp_path, nowhere, None)
    try:
        acme = Tenant("acme", 6, ("00000000000000aa",))
        service.change(lambda draft: changes.put_tenant(draft, acme), "admin", "put tenant")
        assert service.store.state().tenants["acme"] == acme
    finally:
        service.close()


def test_one_process_has_the_tenants(service, tmp_path):
    with pytest.raises(InputError, match=rf"process {os.getpid()} with the tenants in .* already serves these tenants"):
        TenantService(tmp_path, nowhere, None)


def test_one_service_has_the_subnet_and_the_managers_file(tmp_path, monkeypatch):
    """Two services would undo each other's changes. The second one names the process and the folder of the first; the end of a process ends its
    locks."""
    from softib.tenants.exclusive import lock_subnet
    from softib.tenants.managers import FileManager

    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    held = lock_subnet("cloud", tmp_path / "one")
    text = rf"process {os.getpid()} with the tenants in {tmp_path}/one already serves the tenants of cloud"
    with pytest.raises(InputError, match=text):
        lock_subnet("cloud", tmp_path / "two")
    lock_subnet("other", tmp_path / "two").close()
    held.close()
    lock_subnet("cloud", tmp_path / "two").close()
    assert list(tmp_path.iterdir()) == [tmp_path / "softib"], "no lock is left"
    with pytest.raises(InputError, match="cannot be written"):
        FileManager(tmp_path / "absent" / "partitions.conf", "true").lock_path()


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (
            "echo 'Failed to reload opensm.service: Unit is masked.' >&2; echo 'See journalctl.' >&2",
            "masked. | See jour",
        ),
        ("for n in 1 2 3 4 5 6 7; do echo line $n; done", "line 1 | line 2 | line 3 | line 4 | … | line 7"),
        ("true", "it printed nothing"),
    ],
)
def test_a_failed_reload_is_quoted_with_its_cause(tmp_path, script, why):
    """The first lines of systemctl have the cause, its last line only a hint."""
    from softib.tenants.managers import FileManager

    manager = FileManager(tmp_path / "partitions.conf", f'sh -c "{script}; exit 3"')
    with pytest.raises(PeerError, match="ended with 3: ") as raised:
        manager.program(State.empty())
    assert why in str(raised.value) and "\n" not in str(raised.value)


def test_refused_packets_outlive_the_service_and_a_flood_is_bounded(tmp_path):
    clock = [10_000.0]
    port = {7: ("00000000000000aa", "host-a[1]")}
    served = lambda: TenantService(tmp_path, nowhere, None, lambda: clock[0])
    report = lambda key=0x8009, lid=7: Intruder(clock[0], 257, lid, 3, key, 3)
    service = served()
    try:
        intrusions = service.intrusions
        intrusions.take([report()])
        assert [f.where for f in service.findings()] == [""], "the subnet has not been read"
        intrusions.where_of, intrusions.name_of = (lambda lid: port.get(lid, ("", ""))[0]), (lambda lid: f"port {lid}")
        clock[0] += 60
        intrusions.take([report(), report()])
        intrusions.write()
    finally:
        service.close()
    service = served()
    try:
        (finding,) = service.findings()
        assert (finding.kind, finding.where, finding.begun_s, finding.ended_s) == ("intruder", port[7][0], 10_000, None)
        assert "port 7 sent to port 3 with P_Key 0x8009" in finding.text and finding.text.endswith("3 times")
        service.view.here, service.intrusions.where_of = int(port[7][0], 16), lambda lid: port.get(lid, ("",))[0]
        service.intrusions.take([report(0x7FFF), report(0x7FFF)])
        other, own = service.findings()
        assert (own.kind, own.where, other) == ("requests", port[7][0], finding) and own.text.startswith("2 requests")
        tables = service.view.tables
        service.view.tables = {service.view.here: Held((0x7FFF,), None)}
        assert own in service.findings(), "it was read as a limited member"
        service.view.tables = {service.view.here: Held((0xFFFF,), None)}
        assert service.findings() == [other], "its table has the full membership"
        (past,) = (f for f in service.findings(resolved=True) if f.kind == "requests")
        assert (past.begun_s, past.ended_s) == (own.begun_s, clock[0]) and "is a limited member" not in past.text
        service.view.tables = tables
        clock[0] += 3601
        assert service.findings() == []
        (ended,) = (f for f in service.findings(resolved=True) if f.kind == "intruder" and f.text.endswith("3 times"))
        assert ended.ended_s == 10_060
        ended = len(service.findings(resolved=True))
        service.intrusions.take([report()])
        assert len(service.findings()) == 1 and len(service.findings(resolved=True)) == ended + 1
        service.intrusions.take([report(key, lid) for key in range(1, 1500) for lid in (8, 9)])
        service.intrusions.write()
        assert len(service.findings()) <= 1000
        assert service.store.read("SELECT count(*) FROM intrusion")[0][0] <= 2000
    finally:
        service.close()


def test_a_backup_is_the_state(service, tmp_path):
    service.change(add(1), "test", "add")
    service.store.backup(tmp_path / "copy.db")
    (tmp_path / "again").mkdir()
    (tmp_path / "copy.db").rename(tmp_path / "again" / FILE)
    service.change(add(2), "test", "add")
    restored = TenantService(tmp_path / "again", nowhere, None)
    try:
        assert restored.state.partitions[5].members.keys() == {1}
    finally:
        restored.close()


def test_a_database_of_a_newer_softib_is_refused_in_one_line(tmp_path):
    TenantService(tmp_path, nowhere, None).close()
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("UPDATE alembic_version SET version_num = 'from-the-future'")
    with pytest.raises(InputError, match="is of a newer softib"):
        TenantService(tmp_path, nowhere, None)


def fill(folder: Path) -> Path:
    """A database of many pages, closed; its backup is beside it."""
    service = TenantService(folder, nowhere, None)
    many = {guid: Member(host=f"host-{guid}") for guid in range(1, 5000)}
    service.change(lambda d: changes.put_tenant(d, Tenant("red")), "test", "put")
    service.change(lambda d: changes.add_members(d, 5, many, Options(tenant="red"), lambda guid: 0), "test", "add")
    service.store.backup(folder / "tenants-1.db")
    service.close()
    return folder / FILE


def damage(path: Path, kind: str) -> None:
    if kind == "an entry":
        with sqlite3.connect(path) as db:
            db.execute("UPDATE tenant SET ports = '[1'")
        db.close()
        return
    data = bytearray(path.read_bytes())
    random_bytes = random.Random(1).randbytes(len(data))
    start, end = {"all": (0, len(data)), "the middle": (8192, len(data) - 4096), "a short file": (0, 700)}[kind]
    data[start:end] = random_bytes[start:end]
    path.write_bytes(data[:700] if kind == "a short file" else data)


@pytest.mark.parametrize("kind", ["all", "the middle", "a short file", "an entry"])
def test_a_damaged_database_is_named_with_its_repair(tmp_path, kind):
    """One line and code 2 of the command line, no bug of softib; the repair works."""
    path = fill(tmp_path)
    damage(path, kind)
    with pytest.raises(InputError) as raised:
        TenantService(tmp_path, nowhere, None)
    assert str(path) in str(raised.value) and "copy a backup" in str(raised.value)
    assert "\n" not in str(raised.value) and raised.value.exit_code == 2
    shutil.copy(tmp_path / "tenants-1.db", path)
    service = TenantService(tmp_path, nowhere, None)
    assert len(service.state.partitions[5].members) == 4999
    service.close()


@pytest.mark.parametrize("left", [None, 0, 1, 100, 512, 4096, 8192, 40960])
@pytest.mark.parametrize("trace", ["admin-password", "tenants-1.db"])
def test_a_lost_or_truncated_database_is_not_a_new_one(tmp_path, left, trace):
    """An empty database would end every partition of the subnet."""
    path = fill(tmp_path)
    backup = (tmp_path / "tenants-1.db").read_bytes()
    (tmp_path / "tenants-1.db").unlink()
    (tmp_path / trace).write_bytes(backup)
    if left is None:
        path.unlink()
    else:
        assert path.stat().st_size > left
        os.truncate(path, left)
    held = None if left is None else path.read_bytes()
    with pytest.raises(InputError) as raised:
        TenantService(tmp_path, nowhere, None)
    assert str(path) in str(raised.value) and "copy a backup" in str(raised.value) and raised.value.exit_code == 2
    assert (path.read_bytes() if path.exists() else None) == held, "the damaged file stays"
    path.write_bytes(backup)
    TenantService(tmp_path, nowhere, None).close()


def test_damage_while_it_serves_is_503(tmp_path):
    from softib.web.ufm.gate import Gate

    path = fill(tmp_path)
    service = TenantService(tmp_path, nowhere, None)
    try:
        with path.open("r+b") as file:
            file.write(random.Random(1).randbytes(path.stat().st_size))
        for connection in (service.store.db, service.store._reading):
            connection.execute("PRAGMA shrink_memory")  # pages in memory are undamaged
        for act in (lambda: service.store.revisions(), lambda: service.change(add(9), "test", "add")):
            with pytest.raises(Unavailable, match="copy a backup") as raised:
                act()
            assert str(path) in str(raised.value)
        assert service.health().status == "failed"
        ask = Asking(Gate(None, None, None, service.accounts, True))
        status, answer = ask("GET", "/ufmRest/resources/pkeys")
        assert status == 503 and "copy a backup" in answer["error"]
    finally:
        service.close()


def test_undo_gives_back_what_later_changes_did_not_touch(service):
    first = service.change(add(1), "test", "add")
    service.change(add(2), "test", "add")
    service.take_back(first.revision, "test")
    assert service.state.partitions[5].members.keys() == {2}  # the partition stays for the later member
    assert service.store.state() == service.state


def test_a_key_rests_in_quarantine(service):
    now = [1000.0]
    service.clock = lambda: now[0]
    draft = Draft(service.state)
    first = service.allot(draft, Options(name="red"))
    changes.delete_partition(draft, first, now[0])
    service._next_key = first
    assert service.allot(draft, Options(name="blue")) == first + 1
    now[0] += changes.QUARANTINE_S
    service._next_key = first
    assert service.allot(draft, Options(name="green")) == first


def test_every_end_of_a_partition_rests_its_key(service):
    """By an undo of its creation, of an undo, and by a restore: its members' tables had the key, whatever ended it."""
    now = [1000.0]
    service.clock = lambda: now[0]
    empty = State.empty()
    made = service.change(add(1), "test", "add")
    now[0] += 10
    done = service.take_back(made.revision, "test")
    assert done.rested == {5} and service.state.quarantine == {5: now[0] + changes.QUARANTINE_S}
    assert service.store.state() == service.state
    service._next_key = 5
    assert service.allot(Draft(service.state), Options(name="blue")) == 6
    back = service.take_back(done.revision, "test")
    assert service.state.partitions[5].members.keys() == {1} and not service.state.quarantine
    now[0] += 10
    service.take_back(back.revision, "test")
    assert service.state.quarantine == {5: now[0] + changes.QUARANTINE_S}
    service.change(add(1), "test", "add")
    now[0] += 10
    service.change(lambda d: changes.restore(d, empty, now[0]), "test", "restore")
    assert 5 not in service.state.partitions and service.state.quarantine == {5: now[0] + changes.QUARANTINE_S}


def test_a_settled_revision_waits_for_no_port(service):
    """The ports that a revision waited for are the detail of its last state alone."""
    done = service.change(add(1), "test", "add")
    text = service.store.revision(done.revision).detail
    for guids in ({1}, set(range(1, 9))):
        service._mark([done.revision], "pending", waits_for(guids))
        assert until_marked(service, done.revision, "waits for") == f"{text}; {waits_for(guids)}"
    assert waits_for({1}) == "waits for 1 port: 0000000000000001"
    service._mark([done.revision], "programmed", "")
    assert until_marked(service, done.revision, "") == text


def until_marked(service, number: int, marked: str) -> str:
    service.change(lambda draft: "a later commit", "test", "nothing")
    detail = service.store.revision(number).detail
    assert marked in detail
    return detail


# -- findings outlive the service --


@pytest.fixture
def lab(tmp_path):
    made = subnet_lab.SubnetLab(tmp_path / "tenants")
    yield made
    made.close()


def test_a_restart_keeps_present_and_ended_findings(lab):
    of = lambda kind, resolved=True: [x for x in lab.service.findings(resolved) if x.kind == kind]
    victim, *others = lab.hosts[1:4]
    f, row = lab.fabric, lab.rows[victim]
    lab.do(lambda: f.pkeys.__setitem__(int(f.pkey_base[row] + f.pkey_cap[row] - 1), 0x8123))
    subnet_lab.search_now(lab)
    subnet_lab.until(lambda: of("drift") and not of("drift", False))
    for pkey in (5, 6):
        assert lab.settled(subnet_lab.add(lab, pkey, subnet_lab.members(*others), index0=True)).state == "programmed"
    assert len(of("isolation", False)) == 1 and len(of("index0", False)) == 2
    subnet_lab.delete(lab, 6)
    assert not of("index0", False)
    before = {kind: of(kind) for kind in ("drift", "isolation", "index0")}
    lab.restart()
    assert {kind: of(kind) for kind in before} == before
    limited = lab.change(lambda d: changes.set_everyone(d, "limited"))
    assert lab.settled(limited).state == "programmed"
    (ended,) = of("isolation")
    assert ended.begun_s == before["isolation"][0].begun_s < ended.ended_s
    lab.restart()
    assert of("isolation") == [ended] and of("drift") == before["drift"]


def test_a_drift_at_the_end_of_the_service_ends_after_its_restart(lab):
    of = lambda resolved: [x for x in lab.service.findings(resolved) if x.kind == "drift"]
    victim = lab.hosts[1]
    lab.lock(victim)  # the manager cannot correct the table
    f, row = lab.fabric, lab.rows[victim]
    stray = int(f.pkey_base[row] + f.pkey_cap[row] - 1)
    lab.do(lambda: f.pkeys.__setitem__(stray, 0x8123))
    subnet_lab.search_now(lab)
    subnet_lab.until(lambda: of(False))
    (before,) = of(False)
    lab.restart()
    assert of(True) == [before], "one finding, not one of each process"
    lab.lock(victim, 0)
    lab.do(lambda: f.pkeys.__setitem__(stray, 0))
    subnet_lab.search_now(lab)
    subnet_lab.until(lambda: not of(False))
    (after,) = of(True)
    assert (after.begun_s, after.text) == (before.begun_s, before.text) and after.ended_s > after.begun_s
