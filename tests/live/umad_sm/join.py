"""Joins a group, registers a service and subscribes as a host does: ``join.py MGID-in-hex`` under ``softib run``. Exits with the
status of the administrator's last bad answer."""

from __future__ import annotations

import sys

import numpy as np

from softib.iba import sa
from softib.iba.constants import MgmtClass, SmpAttr
from softib.iba.sa import SaHeader, SaMethod, mask_of
from softib.iba.smp import PortInfo
from softib.live.clock import clock_ps
from softib.live.umad_client.abi import ASKS
from softib.live.umad_client.devices import find_device
from softib.live.umad_client.port import UmadPort
from softib.live.umad_client.wire import smp_get, transact
from softib.mad.batch import MadBatch
from softib.mad.transactor import Transactor

PREFIX = 0xFE80000000000000
device = find_device()
port = UmadPort(device, {**ASKS, int(MgmtClass.SUBN_ADM): 0})
info = transact(port, smp_get(SmpAttr.PORT_INFO))
master = int(PortInfo.master_sm_lid.get(info))


def ask(record, method: SaMethod, **fields) -> int:
    """The status of one answer, 999 where none comes."""
    mask = mask_of(record, *fields) if record in sa.RECORDS.values() else 0
    head = SaHeader.pack(
        base_version=1, mgmt_class=3, class_version=2, method=int(method), attr_id=record.attr, comp_mask=mask
    )
    batch = MadBatch.zeros(1)
    message = np.frombuffer(head.tobytes() + record.pack(**fields).tobytes(), np.uint8)
    batch.mad[0, : len(message)] = message[:256]
    batch.dlid[:], batch.dqp[:], batch.sqp[:] = master, 1, 1
    t = Transactor(1, 300 * 10**9, 10)
    t.submit(batch, np.zeros(1, np.int64))
    inbox = None
    while t.busy:
        outbox, _ = t.step(clock_ps(), inbox)
        for done in t.completed():
            return 999 if done.timed_out else int(SaHeader.status.get(done.batch.mad[0]))
        inbox = port.exchange(outbox)
        if inbox is None:
            port.wait(0.05)
            inbox = port.exchange()
    return 999


octets = bytes.fromhex(sys.argv[1])
gid = np.array([PREFIX, device.guid], np.uint64)
codes = [
    ask(sa.MCMemberRecord, SaMethod.SET, mgid=np.frombuffer(octets, ">u8").astype(np.uint64), port_gid=gid, join_state=1, qkey=1,
        pkey=0xFFFF, sl=0, flow_label=0, tclass=0),
    ask(sa.ServiceRecord, SaMethod.SET, service_id=device.guid & 0xFFFF, service_gid=gid, service_pkey=0xFFFF),
    ask(sa.InformInfo, SaMethod.SET, lid_range_begin=0xFFFF, is_generic=1, subscribe=1, type=0xFFFF, trap_number=0xFFFF,
        producer_type=0xFFFFFF),
]  # fmt: skip # a table, its columns aligned
port.close()
sys.exit(min(255, max(codes)))
