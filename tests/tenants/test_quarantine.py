"""A P_Key that a port may still hold is not given away: not by number, not as the next free one, not after a restart; only a reading of the port's
table, or an operator, frees it."""

from __future__ import annotations

import pytest

pytest.importorskip("alembic", reason="alembic is not installed (the extra tenants)")

from softib.live.clock import clock_ps
from softib.tenants import changes
from softib.tenants.changes import Options, Refused
from softib.tenants.service import RELEASE
from tests.tenants.subnet_lab import add, delete, members, search_now, until


@pytest.fixture
def silent(lab):
    """(port, pull): a member's port, and a function that pulls or plugs its cable and waits for the service to see that."""
    guid = lab.hosts[-1]

    def pull(up: bool) -> None:
        lab.do(lambda: lab.daemon.router.set_link(lab.rows[guid], up, clock_ps()))
        until(lambda: lab.daemon.manager.sm.settled)
        search_now(lab)
        until(lambda: (guid in lab.service.view.tables) == up and lab.service.programmer._search is None)

    yield guid, pull
    pull(True)


def left_behind(lab, silent, pkey: int) -> tuple[int, object]:
    """The partition ended while one of its members was not there: its table still has the key."""
    guid, pull = silent
    assert lab.settled(add(lab, pkey, members(lab.hosts[1], guid))).state == "programmed"
    pull(False)
    done = delete(lab, pkey)
    assert lab.settled(done).state == "pending"
    assert pkey | 0x8000 in lab._table(lab.rows[guid]), "nobody took it away"
    return guid, pull


def test_it_is_free_when_the_port_was_read_without_it(lab, silent):
    guid, pull = left_behind(lab, silent, 0x201)
    with pytest.raises(Refused, match=rf"0x201 may still be in the table of {guid:016x}.*/quarantine/0x201"):
        add(lab, 0x201, members(lab.hosts[2]))
    with pytest.raises(Refused):
        lab.service.quarantine.refuse_held(0x201)
    assert [r.ports for r in lab.service.quarantine.resting() if r.pkey == "0x201"] == [[f"{guid:016x}"]]
    lab.service._next_key = 0x201
    allotted: list[int] = []
    lab.change(lambda d: str(allotted.append(lab.service.allot(d, Options("other")))))
    assert allotted == [0x202]
    assert lab.settled(delete(lab, 0x202)).state == "programmed"
    pull(True)
    until(lambda: not [r for r in lab.service.quarantine.resting() if r.pkey == "0x201"], 40)
    assert 0x8201 not in lab._table(lab.rows[guid])
    lab.service.quarantine.refuse_held(0x201)
    assert lab.settled(add(lab, 0x201, members(lab.hosts[2]))).state == "programmed"
    assert lab.settled(delete(lab, 0x201)).state == "programmed"


def test_it_returns_to_its_own_members_and_by_an_undo(lab, silent):
    guid, _ = left_behind(lab, silent, 0x203)
    deleted = lab.service.store.revisions(1)[0].id
    assert lab.service.take_back(deleted, "test").revision > deleted
    delete(lab, 0x203)
    add(lab, 0x203, members(lab.hosts[1], guid))
    delete(lab, 0x203)


def test_an_operator_frees_it(lab, silent):
    guid, _ = left_behind(lab, silent, 0x204)
    done = lab.service.change(
        lambda d: changes.release(d, 0x204, lab.service.clock(), lab.service.quarantine.occupied), "olga", RELEASE
    )
    assert done.released == {0x204}
    assert not [r for r in lab.service.quarantine.resting() if r.pkey == "0x204"]
    assert lab.settled(add(lab, 0x204, members(lab.hosts[2]))).state == "programmed"
    with pytest.raises(Refused, match="it is not in quarantine"):
        lab.change(lambda d: changes.release(d, 0x204, lab.service.clock(), lab.service.quarantine.occupied))
    assert lab.settled(delete(lab, 0x204)).state == "programmed"
    assert 0x8204 in lab._table(lab.rows[guid])


def test_a_restart_does_not_forget_it(lab, silent):
    left_behind(lab, silent, 0x205)
    lab.restart()
    with pytest.raises(Refused, match="0x205 may still be"):
        lab.service.quarantine.refuse_held(0x205)
    lab.service.change(
        lambda d: changes.release(d, 0x205, lab.service.clock(), lab.service.quarantine.occupied), "olga", RELEASE
    )
    lab.restart()
    lab.service.quarantine.refuse_held(0x205)


def test_a_stray_key_of_a_port_that_fell_silent_is_known(lab, silent):
    guid, pull = silent
    f, row = lab.fabric, lab.rows[guid]
    stray = int(f.pkey_base[row] + f.pkey_cap[row] - 1)
    lab.do(lambda: f.pkeys.__setitem__(stray, 0x8206))
    view, seen = lab.service.view.sibling(), []

    def look() -> None:  # in the programmer's thread, which does not take the key away meanwhile
        lab.do(lambda: f.pkeys.__setitem__(stray, 0x8206))
        for up in (True, False):
            lab.do(lambda up=up: lab.daemon.router.set_link(row, up, clock_ps()))
            until(lambda: lab.daemon.manager.sm.settled)
            view.discover()
            view.read(view.ports)
            seen.append((guid in view.tables, view.holders(0x206)))

    try:
        lab.service.programmer.call(look)
        assert seen == [(True, (guid,)), (False, (guid,))]
    finally:
        view.close()
    pull(True)
    until(lambda: 0x8206 not in lab._table(row), 40)


def test_a_member_that_was_never_there_blocks_nothing(lab):
    """A typing error, or the GUID of a pod that never began: no port can hold what none was programmed with."""
    assert lab.settled(add(lab, 0x207, members(0xDEAD))).state == "pending"
    delete(lab, 0x207)
    lab.service.quarantine.refuse_held(0x207)
    assert add(lab, 0x207, members(lab.hosts[2])).revision
    delete(lab, 0x207)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_deleted_partition_leaves_nothing_pending(lab, restarts):
    """20,000 mistyped GUIDs: their addition ends as superseded, the deletion as programmed, and health counts neither."""
    mistyped = members(*range(0xDEAD0000, 0xDEAD0000 + 20_000))
    service = lambda: lab.service
    state = lambda done: service().store.state_of(done.revision)  # decodes no rows
    first = add(lab, 0x208, mistyped | members(lab.hosts[1]))
    other = add(lab, 0x209, members(0xDEAD0001))
    assert [lab.settled(done).state for done in (first, other)] == ["pending", "pending"]
    fewer = lab.change(lambda d: changes.remove_members(d, 0x208, list(mistyped)[:10]))
    until(lambda: state(fewer) == "programmed", 40)
    if restarts:
        lab.restart()
    end = delete(lab, 0x208)
    until(lambda: (state(first), state(end)) == ("superseded", "programmed"), 40)
    assert state(other) == "pending", "its port may appear"
    assert "waits for" not in service().store.revision(first.revision).detail
    assert not [r for r in service().quarantine.resting() if r.pkey == "0x208"]
    assert delete(lab, 0x209)
    until(lambda: state(other) == "superseded", 40)
    until(lambda: service().health().pending == 0, 40)


def test_a_member_that_had_the_key_is_waited_for(lab, silent):
    """A member that was programmed before its cable was pulled still has the key: its removal stays pending."""
    guid, pull = left_behind(lab, silent, 0x20A)
    search_now(lab)
    until(lambda: lab.service.programmer._search is None)
    newest = lab.service.store.revisions(1)[0]
    assert newest.state == "pending" and f"{guid:016x}" in newest.detail
    assert [r.ports for r in lab.service.quarantine.resting() if r.pkey == "0x20a"] == [[f"{guid:016x}"]]
    pull(True)
    until(lambda: lab.service.store.revision(newest.id).state == "programmed", 40)


def test_nothing_is_programmed_before_it_was_read_back(lab, monkeypatch):
    """The connection to the subnet is lost, and the manager does nothing: a table as read earlier is no proof."""
    guid = lab.hosts[2]
    programmer = lab.service.programmer
    idle = lambda state, pkeys=None: None
    programmer.call(lambda: (lab.service.view.close(), monkeypatch.setattr(programmer.manager, "program", idle)))
    done = add(lab, 0x208, members(guid))
    try:
        until(lambda: lab.service.store.state_of(done.revision) != "durable", 40)
        assert 0x8208 not in lab._table(lab.rows[guid])
        assert lab.service.store.state_of(done.revision) in ("rolled-back", "refused")
    finally:
        monkeypatch.undo()
        if 0x208 in lab.service.state.partitions:
            delete(lab, 0x208)
