"""Replication between managers: hosts do not notice a take-over. MADs are counted on the fabric's side."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.iba import sa
from softib.iba.constants import MgmtClass, SmpAttr
from softib.iba.mad_offsets import DATA_AT
from softib.iba.replication import HEAD_AT, ReplicaHead
from softib.iba.sa import JoinState, SaHeader, SaMethod, mask_of
from softib.iba.smp import PortInfo
from softib.mad.batch import MadBatch
from softib.sm.config import SmConfig
from softib.sm.partitions import parse_partitions
from softib.sm.replication.messages import packed, unpacked
from softib.sm.replication.records import copied
from softib.sm.replication.replica import Replica
from softib.sm.sa.mcmember import broadcast_mgid
from tests.sm.asking import PREFIX, Several

MINE = np.array([0xFF12_601B_FFFF_0000, 0x0000_0001_FF00_0001], np.uint64)
BROADCAST = np.frombuffer(broadcast_mgid(0xFFFF), ">u8").astype(np.uint64)
POLLS_S = SmConfig().polling_timeout_ps * (SmConfig().polling_retries + 1) / 1e12


class Lab(Several):
    """Managers on the first hosts of a fat tree; ``sets`` counts Set by attribute, ``reregisters`` ports told to join anew."""

    def __init__(self, loss: float = 0.0, deaf: bool = False, configs=None, **priorities: int):
        fabric = generate("fat-tree", radix=4, levels=3)
        self.hosts = np.flatnonzero(fabric.linked & ~fabric.is_switch[fabric.port_node])
        config = lambda n, p: SmConfig(priority=p, window=64, sweep_interval_ps=10**13, **(configs or {}).get(n, {}))
        super().__init__(
            fabric, **{n: (int(self.hosts[i]), config(n, p)) for i, (n, p) in enumerate(priorities.items())}
        )
        self.sets: Counter[int] = Counter()
        self.blocks: set[bytes] = set()
        self.reregisters, self.loss, self.deaf, self.copies = 0, loss, deaf, 0
        self.dice, self._send = random.Random(5), self.plane.send
        self.plane.send = self._counted

    def _counted(self, batch: MadBatch, port: int, now_ps: int):
        klass, attr = batch.mad[:, 1], batch.mad[:, 16].astype(int) << 8 | batch.mad[:, 17]
        sets = (batch.mad[:, 3] == 2) & np.isin(klass, (MgmtClass.SUBN_LID, MgmtClass.SUBN_DR))
        self.sets.update(attr[sets].tolist())
        lft = batch.mad[sets & (attr == SmpAttr.LFT)]
        self.blocks |= {
            m[20:24].tobytes() + m[128:192].tobytes() for m in lft
        }  # block, and the directed route to the switch
        ports = batch.mad[sets & (attr == SmpAttr.PORT_INFO), DATA_AT : DATA_AT + 64]
        self.reregisters += int(PortInfo.client_reregister.get(ports).sum())
        ours = klass == MgmtClass.SM_REPLICA
        self.copies += int(ours.sum())
        lost = ours & np.array([self.deaf or self.dice.random() < self.loss for _ in range(len(batch))], bool)
        return self._send(batch[~lost] if lost.any() else batch, port, now_ps)

    def start(self, name: str, seconds: float = 3.0) -> None:
        super().start(name)
        self.run(seconds)

    def request(self, master: str, host: int, record, method: SaMethod, **fields) -> None:
        """A host asks the master's administrator."""
        info = self.fabric.port_info
        head = SaHeader.pack(base_version=1, mgmt_class=3, class_version=2, method=int(method), attr_id=record.attr, tid=9,
                             comp_mask=mask_of(record, *(n for n in fields if n in sa.COMPONENTS.get(record, ()))) if record in sa.RECORDS.values() else 0)  # fmt: skip
        message = np.frombuffer(head.tobytes() + record.pack(**fields).tobytes(), np.uint8)
        batch = MadBatch.zeros(1)
        batch.mad[0, : len(message)] = message[:256]
        batch.slid[:] = PortInfo.lid.get(info[self.hosts[host]])
        batch.dlid[:] = PortInfo.lid.get(info[self.at[master]])
        batch.dqp[:] = batch.sqp[:] = 1
        self.inbox[master].append(batch)

    def join(self, master: str, host: int, mgid=MINE) -> None:
        more = {} if mgid is BROADCAST else {"qkey": 1, "pkey": 0xFFFF, "sl": 0, "flow_label": 0, "tclass": 0}
        gid = np.array([PREFIX, int(self.fabric.port_guid[self.hosts[host]])], np.uint64)
        self.request(master, host, sa.MCMemberRecord, SaMethod.SET, mgid=mgid, port_gid=gid,
                     join_state=int(JoinState.FULL), **more)  # fmt: skip

    def populate(self, master: str) -> None:
        """Members, a service with a lease and one without, a subscription."""
        for host in range(4, 12):
            self.join(master, host, BROADCAST)
            if host % 2:
                self.join(master, host)
        gid = np.array([PREFIX, int(self.fabric.port_guid[self.hosts[5]])], np.uint64)
        for name, more in ((7, {"service_lease": 500}), (8, {})):
            self.request(
                master, 5, sa.ServiceRecord, SaMethod.SET, service_id=name, service_gid=gid, service_pkey=0xFFFF, **more
            )
        self.request(master, 6, sa.InformInfo, SaMethod.SET, lid_range_begin=0xFFFF, is_generic=1, subscribe=1, type=0xFFFF,
                     trap_number=0xFFFF, producer_type=0xFFFFFF)  # fmt: skip
        self.run(1)

    def known(self, name: str):
        """What a manager's administrator knows, as values that can be compared."""
        desk = self.sm[name].sa_manager
        groups = {m: (g.mlid, g.qkey, g.mtu, g.rate, g.pkey, {k: v.join_state for k, v in g.members.items()})
                  for m, g in desk.groups.groups.items()}  # fmt: skip
        services = {k: (record.tobytes(), -(-ends // 10**12) if ends < 1 << 60 else None, lid)
                    for k, (record, ends, lid) in desk.services.records.items()}  # fmt: skip
        return groups, services, desk.subscriptions.all

    def lids(self) -> np.ndarray:
        return PortInfo.lid.get(self.fabric.port_info)

    def tables(self) -> tuple[bytes, bytes]:
        return self.fabric.lft.tobytes(), self.fabric.mft.tobytes()

    def take_over(self, dead: str, new: str) -> None:
        """The master dies; counts begin anew with it."""
        self.kill(dead)
        self.sets.clear()
        self.blocks.clear()
        self.reregisters = 0
        self.run(POLLS_S)
        assert self.state(new) == "MASTER"


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
    dice = random.Random(3)
    replica = Replica()
    for i in range(3000):
        octets = dice.randbytes(dice.randrange(201))
        head = {"guid": 1, "copy": 1 + i // 50, "sequence": dice.randrange(60), "flags": dice.randrange(4)}
        replica.take(head, octets, i)
        list(unpacked(octets))
    copied({bytes((dice.randrange(1, 10),)) + dice.randbytes(dice.choice((2, 8, 16, 24, 26, 70))): (dice.randbytes(dice.randrange(190)), 0)
            for _ in range(5000)})  # fmt: skip


def test_records_survive_packing():
    dice = random.Random(4)
    records = [
        (dice.randbytes(dice.randrange(1, 40)), dice.choice((None, dice.randbytes(dice.randrange(157)))))
        for _ in range(500)
    ]
    parts = list(packed(records))
    assert [r for p in parts for r in unpacked(p)] == records and all(len(p) <= 200 for p in parts)
