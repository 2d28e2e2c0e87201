"""Several managers whose MADs are counted, lost or dropped, and hosts that join, register and subscribe."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np

from softib.fabric.topologies.registry import generate
from softib.iba import sa
from softib.iba.constants import MgmtClass, SmpAttr
from softib.iba.sa import JoinState, SaHeader, SaMethod, mask_of
from softib.iba.smp import DATA_AT, PortInfo
from softib.mad.batch import MadBatch
from softib.sm.config import SmConfig
from softib.sm.sa.mcmember_record import broadcast_mgid
from tests.sm.sa.asking import PREFIX, Several

MINE = np.array([0xFF12_601B_FFFF_0000, 0x0000_0001_FF00_0001], np.uint64)
BROADCAST = np.frombuffer(broadcast_mgid(0xFFFF), ">u8").astype(np.uint64)
POLLS_S = SmConfig().polling_timeout_ps * (SmConfig().polling_retries + 1) / 1e12


class Lab(Several):
    """Managers on the first hosts of a fat tree; ``sets`` counts Set by attribute, ``reregisters`` ports told to join anew."""

    def __init__(self, loss: float = 0.0, deaf: bool = False, configs=None, fabric=None, **priorities: int):
        fabric = generate("fat-tree", radix=4, levels=3) if fabric is None else fabric
        self.hosts = np.flatnonzero(fabric.linked & ~fabric.is_switch[fabric.port_node])
        config = lambda n, p: SmConfig(priority=p, window=64, sweep_interval_ps=10**13, **(configs or {}).get(n, {}))
        super().__init__(
            fabric, **{n: (int(self.hosts[i]), config(n, p)) for i, (n, p) in enumerate(priorities.items())}
        )
        self.sets: Counter[int] = Counter()
        self.blocks: set[bytes] = set()
        self.reregisters, self.loss, self.deaf, self.copies = 0, loss, deaf, 0
        self.rng, self._send = random.Random(5), self.plane.send
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
        lost = ours & np.array([self.deaf or self.rng.random() < self.loss for _ in range(len(batch))], bool)
        return self._send(batch[~lost] if lost.any() else batch, port, now_ps)

    def start(self, name: str, seconds: float = 3.0) -> None:
        super().start(name)
        self.run(seconds)

    def request(self, master: str, host: int, record, method: SaMethod, **fields) -> None:
        """A host asks the master's administrator."""
        info = self.fabric.port_info
        head = SaHeader.pack(
            base_version=1,
            mgmt_class=3,
            class_version=2,
            method=int(method),
            attr_id=record.attr,
            tid=9,
            comp_mask=mask_of(record, *(n for n in fields if n in sa.COMPONENTS.get(record, ())))
            if record in sa.RECORDS.values()
            else 0,
        )
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
        self.request(
            master,
            host,
            sa.MCMemberRecord,
            SaMethod.SET,
            mgid=mgid,
            port_gid=gid,
            join_state=int(JoinState.FULL),
            **more,
        )

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
        self.request(
            master,
            6,
            sa.InformInfo,
            SaMethod.SET,
            lid_range_begin=0xFFFF,
            is_generic=1,
            subscribe=1,
            type=0xFFFF,
            trap_number=0xFFFF,
            producer_type=0xFFFFFF,
        )
        self.run(1)

    def known(self, name: str):
        """What a manager's administrator knows, as values that can be compared."""
        manager = self.sm[name].sa_manager
        groups = {
            m: (g.mlid, g.qkey, g.mtu, g.rate, g.pkey, {k: v.join_state for k, v in g.members.items()})
            for m, g in manager.groups.groups.items()
        }
        services = {
            k: (record.tobytes(), -(-ends // 10**12) if ends < 1 << 60 else None, lid)
            for k, (record, ends, lid) in manager.services.records.items()
        }
        return groups, services, manager.subscriptions.all

    def lids(self) -> np.ndarray:
        return PortInfo.lid.get(self.fabric.port_info)

    def tables(self) -> tuple[bytes, bytes]:
        return self.fabric.lft.tobytes(), self.fabric.mft.tobytes()

    def path_sls(self, name: str) -> np.ndarray:
        """SLs of all paths as this manager's administrator gives them, by switch and end port."""
        subnet = self.sm[name].sa_manager.subnet
        return np.array(subnet.routing.path_sl)

    def take_over(self, dead: str, new: str) -> None:
        """The master dies; counts begin anew with it."""
        self.kill(dead)
        self.sets.clear()
        self.blocks.clear()
        self.reregisters = 0
        self.run(POLLS_S)
        assert self.state(new) == "MASTER"
