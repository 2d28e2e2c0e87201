"""Asks a manager's administrator as a client would, and carries MADs between several managers of one fabric."""

from __future__ import annotations

import numpy as np

from softib.fabric.model import Fabric
from softib.fabric.node_finder import find_node
from softib.iba.constants import CapMask, MgmtClass
from softib.iba.sa import RECORDS, SA_DATA, RmppFlag, SaHeader, SaMethod, mask_of
from softib.iba.smp import PortInfo
from softib.iba.structure import Structure
from softib.mad.batch import MadBatch
from softib.sm.config import SmConfig
from softib.sm.subnet_manager import SubnetManager
from tests.agents.client_plane import ClientPlane
from tests.sm.wire import settle

H = SaHeader
PREFIX = 0xFE80000000000000


class Asked:
    """A subnet brought up by our manager; ``ask`` puts one question as the port with ``lid`` would."""

    def __init__(self, fabric: Fabric, node: str | int | None = None, **config):
        self.fabric, self.plane = fabric, ClientPlane(fabric)
        self.sm = SubnetManager(SmConfig(**{"window": 256, "chunk": 256, **config}))
        cas = np.flatnonzero(fabric.linked & ~fabric.is_switch[fabric.port_node])
        self.port = int(cas[0] if node is None else fabric.port(find_node(fabric, node), 1))
        self.now_ps = settle(self.sm, self.plane, self.port)
        self.sent: list[MadBatch] = []

    def gid(self, port: int) -> np.ndarray:
        return np.array([PREFIX, int(self.fabric.port_guid[port])], np.uint64)

    def lid(self, port: int) -> int:
        return int(PortInfo.lid.get(self.fabric.port_info[port]))

    def sweep(self) -> None:
        self.sm.request_sweep()
        self.run()

    def run(self, inbox: MadBatch | None = None) -> MadBatch:
        """Until the manager rests; returns what it sent to clients."""
        out = [MadBatch.zeros(0)]
        while True:
            outbox, deadline = self.sm.step(self.now_ps, inbox)
            ours = outbox.mad[:, 1] == MgmtClass.SUBN_ADM
            out.append(outbox[ours])
            rest = outbox[~ours]
            if len(rest):
                inbox = self.plane.send(rest, self.port, self.now_ps)
            elif self.sm.settled:
                self.sent = out
                return MadBatch.concat([b for b in out if len(b)]) if any(map(len, out)) else out[0]
            else:
                inbox, self.now_ps = None, max(self.now_ps, deadline)

    def raw(self, mad: np.ndarray, lid: int, payload: bytes | None = None) -> MadBatch:
        batch = MadBatch.zeros(1)
        batch.mad[0, : len(mad)] = mad
        batch.slid[:], batch.dlid[:], batch.dqp[:], batch.sqp[:] = lid, self.lid(self.port), 1, 1
        batch.payload = {0: payload} if payload else None
        return self.run(batch)

    def ask(
        self,
        record: type[Structure],
        method: SaMethod = SaMethod.GET_TABLE,
        *,
        frm: int | None = None,
        trusted: bool = False,
        modifier: int = 0,
        extra: bytes = b"",
        **fields,
    ) -> tuple[int, np.ndarray]:
        """(status, records uint8[n, size]) of one question that fixes ``fields``."""
        octets = record.pack(**fields).tobytes() + extra
        mask = mask_of(record, *fields) if record in RECORDS.values() or fields else 0
        head = H.pack(
            base_version=1,
            mgmt_class=3,
            class_version=2,
            method=int(method),
            attr_id=record.attr,
            attr_mod=modifier,
            tid=77,
            sm_key=int(trusted),
            comp_mask=mask,
        )
        message = head.tobytes() + octets
        reply = self.raw(
            np.frombuffer(message[:256], np.uint8),
            self.lid(self.port if frm is None else frm),
            message if len(message) > 256 else None,
        )
        answers = np.flatnonzero(reply.mad[:, 3] & 0x80)
        assert len(answers) == 1
        return self.records(reply[answers])

    def records(self, reply: MadBatch) -> tuple[int, np.ndarray]:
        mad = reply.mad[0]
        status, size = int(H.status.get(mad)), 8 * int(H.attr_offset.get(mad))
        data = ((reply.payload or {}).get(0) or mad.tobytes())[SA_DATA:]
        if status or not size:
            return status, np.zeros((0, 8), np.uint8)
        n = 1
        if int(H.rmpp_flags.get(mad)) & RmppFlag.ACTIVE:
            segments = max(1, -(-len(data) // 200)) if reply.payload else 1
            n = (int(H.length.get(mad)) - 20 * segments) // size
        return status, np.frombuffer(data[: n * size], np.uint8).reshape(n, size).copy()


class Several:
    """Managers on ports of one fabric, each on its own clock of the same time; MADs for managers reach them."""

    def __init__(self, fabric: Fabric, **ports: tuple[int, SmConfig]):
        self.fabric, self.plane, self.now_ps = fabric, ClientPlane(fabric), 0
        self.at = {name: port for name, (port, _) in ports.items()}
        self.sm = {name: SubnetManager(config) for name, (_, config) in ports.items()}
        self.inbox: dict[str, list[MadBatch]] = {name: [] for name in ports}
        self.alive: set[str] = set()

    def start(self, name: str) -> None:
        self.alive.add(name)
        row = self.fabric.port_info[self.at[name] : self.at[name] + 1]
        PortInfo.cap_mask.set(row, PortInfo.cap_mask.get(row) | CapMask.IS_SM)

    def kill(self, name: str) -> None:
        self.alive.discard(name)
        row = self.fabric.port_info[self.at[name] : self.at[name] + 1]
        PortInfo.cap_mask.set(row, PortInfo.cap_mask.get(row) & np.uint32(~CapMask.IS_SM & 0xFFFFFFFF))

    def state(self, name: str) -> str:
        return self.sm[name].state.name

    def run(self, seconds: float) -> None:
        """Let this time pass."""
        end_ps = self.now_ps + int(seconds * 1e12)
        while True:
            due = end_ps
            for name in sorted(self.alive):
                due = min(due, self._turn(name))
            self._traps()
            if any(self.inbox[n] for n in self.alive):
                continue
            if self.now_ps >= end_ps:
                return
            self.now_ps = max(self.now_ps + 1, min(due, end_ps))

    def _turn(self, name: str) -> int:
        got, self.inbox[name] = self.inbox[name], []
        outbox, due = self.sm[name].step(self.now_ps, MadBatch.concat(got) if got else None)
        if len(outbox):
            asks = outbox.mad[:, 3] < 0x80  # a driver marks whose request it is
            outbox.mad[asks, 8] = 1 + sorted(self.at).index(name)
            answers = self.plane.send(outbox, self.at[name], self.now_ps)
            if len(answers):
                self.inbox[name].append(answers)
        for d in self.plane.take_deliveries():
            self._deliver(d)
        return due

    def _traps(self) -> None:
        for notice in self.plane.take_notices():
            made = self.plane.trap(notice)
            if made is not None:
                self.plane.send(made[0], made[1], self.now_ps)
                for d in self.plane.take_deliveries():
                    self._deliver(d)

    def _deliver(self, delivery) -> None:
        for i, port in enumerate(delivery.ports.tolist()):
            for name in self.alive:
                if self.at[name] == port and delivery.batch.mad[i, 3] != 7:
                    self.inbox[name].append(delivery.batch[i : i + 1])


def hosts(a: Asked) -> np.ndarray:
    f = a.fabric
    return np.flatnonzero(f.linked & ~f.is_switch[f.port_node])
