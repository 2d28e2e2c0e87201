"""Replication between managers: hosts do not notice a take-over. MADs are counted on the fabric's side."""

from __future__ import annotations

import random

import numpy as np
import pytest

from softib.iba import sa
from softib.iba.constants import MgmtClass, SmpAttr
from softib.iba.sa import SaMethod
from softib.iba.vendor.replication import HEAD_AT, ReplicaHead
from softib.mad.batch import MadBatch
from softib.sm.managers.partitions import parse_partitions
from softib.sm.replication.records import copied
from softib.sm.replication.transfer import Replica, packed, unpacked
from tests.sm.replication.replication_lab import Lab


def test_a_take_over_changes_nothing_for_hosts():
    s = Lab(a=1, b=1)
    s.start("a")
    s.start("b")
    assert (s.state("a"), s.state("b")) == ("MASTER", "STANDBY")
    s.populate("a")
    knew, lids, tables = s.known("a"), s.lids().copy(), s.tables()
    assert len(knew[0]) == 2 and sorted(len(g[5]) for g in knew[0].values()) == [4, 8]
    assert len(knew[1]) == 2 and len(knew[2]) == 1
    s.take_over("a", "b")
    groups, services, subscriptions = s.known("b")
    assert (groups, subscriptions) == (knew[0], knew[2])
    for name, (record, ends, lid) in knew[1].items():
        assert services[name][0] == record and services[name][2] == lid
        assert ends is None or abs(services[name][1] - ends) <= 1, "a lease goes on"
    assert np.array_equal(s.lids(), lids) and s.tables() == tables
    assert not s.sets[SmpAttr.LFT] and not s.sets[SmpAttr.MFT], "tables that stand as wanted are not written"
    assert s.reregisters == 0, "nobody joins anew (ClientReregister, IBA 14.4.11)"
    assert s.sets[SmpAttr.PORT_INFO] >= len(s.hosts), "every port learns its new master"


def test_alias_guids_outlive_a_take_over():
    """Paths lead to an alias that the master before gave; what a host gave back is not there."""
    s = Lab(a=1, b=1)
    s.start("a")
    s.start("b")
    lid = {host: int(s.lids()[s.hosts[host]]) for host in (5, 6)}
    for host, fields in ((5, {"guid1": 0x77, "guid2": 0}), (6, {"guid1": 0x99})):
        s.request("a", host, sa.GUIDInfoRecord, SaMethod.SET, lid=lid[host], block=0, **fields)
    s.request("a", 6, sa.GUIDInfoRecord, SaMethod.DELETE, lid=lid[6], block=0, guid1=0x99)
    s.run(2)
    knew = s.sm["a"].sa_manager.sa.aliases
    tables = {guid: table.tolist() for guid, table in knew.tables.items() if table[1:].any()}
    assert len(tables) == 1 and 0x77 in knew.owners and 0x99 not in knew.owners
    s.take_over("a", "b")
    heir = s.sm["b"].sa_manager.sa.aliases
    for guid, entries in tables.items():
        assert [int(x) for x in heir.tables[guid]] == entries[: len(heir.tables[guid])]
    assert heir.owners == knew.owners
    assert int(s.sm["b"].sa_manager.subnet.ends_of_guid(np.array([0x77], np.uint64))[0]) >= 0


def test_without_a_copy_everybody_joins_anew():
    """Stock OpenSM as the master before: it does not answer the class."""
    s = Lab(deaf=True, a=1, b=1)
    s.start("a")
    s.start("b")
    s.populate("a")
    s.take_over("a", "b")
    assert s.reregisters >= len(s.hosts)
    assert not any(g[5] for g in s.known("b")[0].values())
    assert not s.sets[SmpAttr.LFT], "tables are read back whoever wrote them"
    asked = s.copies
    s.run(30)
    assert s.copies == asked, "a master asks nobody"


def test_a_master_that_never_rests_hands_over_to_one_that_takes_no_copy():
    """Stock OpenSM as a standby of higher priority sends trap 144 at every poll. Here a sweep follows each sweep, and an answer takes 150 ms, so that
    the copy ends in vain while one is in progress."""
    s = Lab(deaf=True, low=1, high=9)
    s.start("low")
    step, held = s.sm["low"].step, []

    def busy(now_ps: int, inbox: MadBatch | None):
        held.extend([(now_ps + 150 * 10**9, inbox)] if inbox is not None else [])
        came = [batch for at, batch in held if at <= now_ps]
        held[:] = [(at, batch) for at, batch in held if at > now_ps]
        outbox, due = step(now_ps, MadBatch.concat(came) if came else None)
        if s.state("low") == "MASTER":
            s.sm["low"].request_sweep()
        return outbox, min([due, *(at for at, _ in held)])

    s.sm["low"].step = busy
    s.start("high", 60)
    assert s.sm["low"].report.timeouts == 0
    assert (s.state("low"), s.state("high")) == ("STANDBY", "MASTER")


@pytest.mark.parametrize("loss", [0.1, 0.4])
def test_lost_mads_are_sent_again(loss):
    s = Lab(loss=loss, a=1, b=1)
    s.start("a")
    s.start("b", 10)
    s.populate("a")
    for host in range(12, 16):
        s.join("a", host)
        s.run(1)
    s.run(25)
    knew = s.known("a")
    assert sorted(len(g[5]) for g in knew[0].values()) == [8, 8]
    s.take_over("a", "b")
    assert s.known("b")[0] == knew[0] and s.reregisters == 0


def test_a_handover_waits_until_the_heir_knows_everything():
    s = Lab(low=1, high=9)
    s.start("low")
    s.populate("low")
    knew = s.known("low")
    s.reregisters = 0
    s.start("high", 0.2)
    s.sm["low"].request_sweep()
    s.run(5)
    assert (s.state("high"), s.state("low")) == ("MASTER", "STANDBY")
    assert s.known("high")[0] == knew[0] and s.known("high")[2] == knew[2] and s.reregisters == 0
    s.join("high", 13)
    s.run(2)
    knew = s.known("high")
    s.take_over("high", "low")
    assert s.known("low")[0] == knew[0] and s.reregisters == 0


def test_only_what_changed_is_sent_and_a_change_meanwhile_is_programmed():
    """A cable fails in the time between: the new master sets blocks of the switches around it alone."""
    s = Lab(a=1, b=1)
    s.start("a")
    s.start("b")
    s.populate("a")
    s.run(12)
    s.copies = 0
    s.join("a", 12)
    s.run(1)
    assert s.copies == 2, "one MAD and its acknowledgement"
    f = s.fabric
    s.run(12)
    s.kill("a")
    before = f.lft.reshape(f.sizes.switches, -1, 64).copy()
    leaf = int(np.flatnonzero(f.linked & f.is_switch[f.port_node] & f.is_switch[f.port_node[f.port_peer]])[0])
    s.plane.set_link(leaf, False, s.now_ps)
    s.take_over("a", "b")
    changed = (f.lft.reshape(before.shape) != before).any(axis=2).sum()
    assert len(s.blocks) == changed > 0, (
        "as many blocks as differ (some in two rounds, so that no packet runs in a circle)"
    )
    assert s.reregisters == 0


def test_another_key_gets_no_answer_and_gives_no_records():
    s = Lab(a=1, b=1, configs={"b": {"sm_key": 5}})
    s.start("a")
    s.start("b")
    s.sm["b"].replication.stand_by(s.now_ps)
    head = ReplicaHead.pack(sm_key=5, guid=7)
    before = dict(s.sm["a"].replication.sender.standbys)
    batch = MadBatch.zeros(1)
    batch.mad[0, :4] = 1, MgmtClass.SM_REPLICA, 1, 1
    batch.mad[0, 17], batch.mad[0, HEAD_AT : HEAD_AT + 32] = 0x10, head
    s.inbox["a"].append(batch)
    copies = s.copies
    s.run(1)
    assert s.sm["a"].replication.sender.standbys == before == {} and s.copies <= copies + 1


def test_a_standby_without_a_file_takes_the_partitions_of_its_master():
    partitions = tuple(parse_partitions("Default=0x7fff, ipoib: ALL=full;\nstorage=0x123: ALL_CAS=full;\n", "conf"))
    s = Lab(a=1, b=1, configs={"a": {"partitions": partitions}})
    s.start("a")
    s.start("b")
    held = s.fabric.pkeys.copy()
    s.take_over("a", "b")
    assert s.sm["b"].config.partitions == partitions
    assert np.array_equal(s.fabric.pkeys, held) and (held == 0x8123).any() and not s.sets[SmpAttr.PKEY_TABLE]


def test_three_managers_in_turn():
    s = Lab(a=3, b=2, c=1)
    for name in "abc":
        s.start(name)
    s.populate("a")
    knew = s.known("a")
    s.take_over("a", "b")
    s.run(15)
    s.take_over("b", "c")
    assert s.known("c")[0] == knew[0] and s.reregisters == 0 and not s.sets[SmpAttr.LFT]


def test_records_of_any_octets_do_no_harm():
    rng = random.Random(3)
    replica = Replica()
    for i in range(3000):
        octets = rng.randbytes(rng.randrange(201))
        head = {"guid": 1, "copy": 1 + i // 50, "sequence": rng.randrange(60), "flags": rng.randrange(4)}
        replica.take(head, octets, i)
        list(unpacked(octets))
    copied(
        {
            bytes((rng.randrange(1, 10),)) + rng.randbytes(rng.choice((2, 8, 16, 24, 26, 70))): (
                rng.randbytes(rng.randrange(190)),
                0,
            )
            for _ in range(5000)
        }
    )


def test_records_survive_packing():
    rng = random.Random(4)
    records = [
        (rng.randbytes(rng.randrange(1, 40)), rng.choice((None, rng.randbytes(rng.randrange(157))))) for _ in range(500)
    ]
    parts = list(packed(records))
    assert [r for p in parts for r in unpacked(p)] == records and all(len(p) <= 200 for p in parts)
