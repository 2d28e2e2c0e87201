"""Reads the protection of a subnet, using only Gets: the answers of ports to requests without and with the M_Key, the
P_Key tables at both ends of each host's cable, the subnet managers, and the requesters that the subnet administration
trusts.
"""

from __future__ import annotations

import numpy as np

from softib.diags.finding import Location
from softib.diags.hardening.evidence import DEFAULT_BASE, FULL, EndPort, Evidence, Manager, Service
from softib.diags.hardening.rules import OPENSM_KEY
from softib.errors import PeerError
from softib.foreign_text import shown as shown_name
from softib.iba.constants import SmpAttr
from softib.iba.sa import PKeyTableRecord, PortInfoRecord, SaStatus, ServiceRecord
from softib.iba.smp import PortInfo, SMInfo, SwitchInfo
from softib.live.subnet_reader import Progress, SubnetReader
from softib.live.umad_client.wire import MadWire
from softib.mad.smp_requests import RequestQueue
from softib.plural import counted
from softib.sm.config import SmConfig
from softib.sm.database import Database
from softib.sm.sa.inventory import pkey_blocks
from softib.tenants.administration import ask_administration

__all__ = ["read_evidence"]

SM_STATES = ("not active", "discovering", "standby", "master")
"""SMInfo.SMState (IBA 14.4.1)."""
MOST_RECORDS = 64
"""Maximum number of PortInfoRecords requested from the subnet administration, which treats all of them in the same way.
Also the maximum number of ports whose services are read one by one.
"""
OPEN_PKEYS = (0, DEFAULT_BASE, DEFAULT_BASE | FULL)
"""P_Keys of services that hosts of all partitions may find."""


def read_evidence(
    wire: MadWire,
    mkey: int = 0,
    allowed: frozenset[int] | None = None,
    progress: Progress = lambda phase, nodes, mads: None,
) -> Evidence:
    """Return evidence about the subnet of ``wire``, read with the M_Key ``mkey`` (0: as a host that does not know it).
    Raises :class:`PeerError` if not even this host's port answers a request with this M_Key.
    """
    reader = SubnetReader(wire, SmConfig(mkey=mkey), progress)
    reader.nodes()
    db = reader.subnet.db
    evidence = Evidence(mkey=mkey, allowed=allowed)
    if db.sm_port < 0 and mkey:
        raise PeerError(f"no port answers a Get with the M_Key {mkey:#x}; use the manager's M_Key")
    if db.sm_port < 0:
        evidence.unread.append("no port answers without its M_Key, not even this host's; use --mkey to judge the rest")
        return evidence
    reader.managers()
    rows = db.end_ports()
    shown = _without_key(reader, rows) if mkey else np.ones(len(rows), bool)
    _ports(reader, rows, shown, evidence)
    _managers(reader, evidence)
    _administration(wire, reader, rows, evidence)
    silent = len({name for name, _, _ in reader.subnet.report.mute_nodes})
    if silent:
        evidence.unread.append(f"{counted(silent, 'device')} did not answer: protected by an M_Key, or defective")
    return evidence


def _without_key(reader: SubnetReader, rows: np.ndarray) -> np.ndarray:
    """Return whether each end port answers a Get without the M_Key (bool[n])."""
    db = reader.subnet.db
    keyed, reader.queue = reader.queue, RequestQueue(db.routes, 0)
    every, keys = np.arange(len(db.routes)), db.routes.mkey.copy()
    db.routes.set_mkey(every, np.zeros_like(keys))
    answered: set[int] = set()
    try:
        reader.queue.get(SmpAttr.PORT_INFO, db.port_route[rows], rows)
        reader.drive("ports without the M_Key", lambda attr, tags, data: answered.update(tags.tolist()))
    finally:
        reader.queue = keyed
        db.routes.set_mkey(every, keys)
    return np.isin(rows, list(answered))


def _ports(reader: SubnetReader, rows: np.ndarray, shown: np.ndarray, evidence: Evidence) -> None:
    db = reader.subnet.db
    host = ~db.is_switch[db.port_node[rows]]
    peer = np.where(host, db.port_peer[rows], -1)
    behind = np.where(peer >= 0, peer, 0)
    on_switch = (peer >= 0) & db.is_switch[db.port_node[behind]]
    info = db.switch_info[db.port_node[behind]]
    able = on_switch & (SwitchInfo.inbound_enforcement_cap.get(info) > 0) & (pkey_blocks(db, behind) > 0)
    checks = PortInfo.partition_enforcement_inbound.get(db.port_info[behind]) > 0
    tables = reader.pkey_tables(np.concatenate([rows, peer[able & checks]]))
    unread = 0
    for i, row in enumerate(rows.tolist()):
        table, leaf = tables.get(row), tables.get(int(peer[i]))
        unread += table is None
        evidence.ports.append(
            EndPort(
                where=_location(db, row),
                host=bool(host[i]),
                shown=bool(shown[i]),
                mkey=int(PortInfo.mkey.get(db.port_info[row])),
                protect=int(PortInfo.mkey_protect.get(db.port_info[row])),
                lease=int(PortInfo.mkey_lease_period.get(db.port_info[row])),
                pkeys=None if table is None else tuple(table.tolist()),
                leaf=_location(db, int(peer[i])) if on_switch[i] else None,
                enforces=bool(checks[i]) if able[i] else None,
                leaf_pkeys=None if leaf is None else frozenset(leaf.tolist()),
            )
        )
    if unread:
        evidence.unread.append(f"P_Key tables of {counted(unread, 'port')} did not answer")


def _location(db: Database, row: int) -> Location:
    node = int(db.port_node[row])
    number = int(db.port_num[row])
    return Location(db.name(node), int(db.port_guid[row]), number if number or not db.is_switch[node] else None)


def _managers(reader: SubnetReader, evidence: Evidence) -> None:
    db = reader.subnet.db
    for row, data in sorted(reader.subnet.others.items()):
        evidence.managers.append(
            Manager(
                _location(db, row),
                int(SMInfo.guid.get(data)),
                SM_STATES[int(SMInfo.sm_state.get(data)) & 3],
                int(SMInfo.priority.get(data)),
                int(SMInfo.sm_key.get(data)),
            )
        )


def _administration(wire: MadWire, reader: SubnetReader, rows: np.ndarray, evidence: Evidence) -> None:
    """Request records that only trusted requesters may see (IBA 15.4.1) from the subnet administration."""
    db = reader.subnet.db
    lids = PortInfo.lid.get(db.port_info[rows])
    master = int(PortInfo.master_sm_lid.get(db.port_info[db.sm_port]))
    if not master or not lids.any():
        evidence.unread.append("the subnet administration: this port has no LID, or no master manager")
        return
    target = int(lids[lids > 0][0])
    for sm_key in (0, OPENSM_KEY):
        answer = ask_administration(wire, master, PKeyTableRecord, {"lid": target, "block": 0}, sm_key)
        if answer.status is not None:
            shows = answer.good and np.asarray(PKeyTableRecord.pkey.get(answer.record)).any()
            evidence.trusts[sm_key] = bool(shows)
    if not evidence.trusts:
        evidence.unread.append("the subnet administration did not answer")
        return
    with_lid = np.flatnonzero(lids[:MOST_RECORDS])
    for row, lid in zip(rows[with_lid].tolist(), lids[with_lid].tolist(), strict=True):
        fields = {"endport_lid": int(lid), "portnum": int(db.port_num[row])}
        answer = ask_administration(wire, master, PortInfoRecord, fields)
        if answer.status is None:
            evidence.unread.append("the subnet administration stopped answering")
            return
        if answer.good and int(PortInfoRecord.mkey.get(answer.record)):  # type: ignore[attr-defined]
            evidence.mkey_records.append(_location(db, row))
    _services(wire, master, db, rows, evidence)


def _services(wire: MadWire, master: int, db: Database, rows: np.ndarray, evidence: Evidence) -> None:
    """Read the services that the subnet administration returns to this host. One Get is enough if at most one service
    matches it. If several match (IBA 15.4.4), send one Get for each port.
    """
    ask = lambda fields: ask_administration(wire, master, ServiceRecord, fields)
    answers = [ask({})]
    if answers[0].status == SaStatus.TOO_MANY_RECORDS:
        prefixes = PortInfo.gid_prefix.get(db.port_info[rows])
        answers = []
        for row, prefix in zip(rows[:MOST_RECORDS].tolist(), prefixes[:MOST_RECORDS].tolist(), strict=True):
            gid = (int(prefix), int(db.port_guid[row]))
            answers.append(ask({"service_gid": gid}))
            for pkey in OPEN_PKEYS if answers[-1].status == SaStatus.TOO_MANY_RECORDS else ():
                answers.append(ask({"service_gid": gid, "service_pkey": pkey}))
                if answers[-1].status == SaStatus.TOO_MANY_RECORDS:
                    evidence.services.append(Service(gid[1], pkey, "several services"))
        if len(rows) > MOST_RECORDS:
            evidence.unread.append(f"services of {counted(len(rows) - MOST_RECORDS, 'port')}")
    records = {one.record.tobytes(): one.record for one in answers if one.good}
    evidence.services += [_service(record) for record in records.values()]


def _service(record: np.ndarray) -> Service:
    name = bytes(ServiceRecord.service_name.get(record)).rstrip(b"\0").decode("utf-8", "replace")
    number = int(ServiceRecord.service_id.get(record))
    return Service(
        int(ServiceRecord.service_gid.get(record)[1]),
        int(ServiceRecord.service_pkey.get(record)),
        f"service {shown_name(name)}" if name else f"service {number:#x}",
    )
