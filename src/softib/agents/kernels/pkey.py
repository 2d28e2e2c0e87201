"""Partitions: which GMPs their destination port accepts (IBA 10.9, 18.2.4.2). SMPs belong to no
partition.

A MAD has a P_Key from its sender's table; its address states the index in this table. QP1 of the
destination accepts the MAD if an entry of the destination port's table matches: the low 15 bits are
equal, and at least one of the two keys is a full member. Switch ports with partition enforcement
apply the same rule to incoming or outgoing packets, with their own table.
"""

import numpy as np

from softib.agents.kernels.big_endian import get16, get32, inner, put16, put32
from softib.agents.kernels.notice import notice
from softib.agents.kernels.route import HOPS, REQUEST_HOPS, end_port
from softib.fabric.counters import COUNTER_NAMES
from softib.iba import constants as c
from softib.iba.notice import TrapBadKey as B
from softib.iba.notice import TrapBadSwitchPKey as W
from softib.iba.smp import PortInfo as P

SWITCH = int(c.NodeType.SWITCH)
MEMBER, PARTITION = 0x8000, 0x7FFF
ENFORCE_AT, CAP_MASK_AT, VIOLATIONS_AT, LID_AT = (
    P.partition_enforcement_inbound.byte,
    P.cap_mask.byte,
    P.pkey_violations.byte,
    P.lid.byte,
)
ENFORCE_IN = 1 << (7 - P.partition_enforcement_inbound.offset % 8)
ENFORCE_OUT = 1 << (7 - P.partition_enforcement_outbound.offset % 8)
SWITCH_TRAP = int(c.CapMask.PKEY_EXT_PORT_TRAP)
XMIT_CONSTRAINT, RCV_CONSTRAINT = (
    COUNTER_NAMES.index(n) for n in ("port_xmit_constraint_errors", "port_rcv_constraint_errors")
)
BAD_PKEY, BAD_SWITCH_PKEY = 257, 259
B_LID1_AT, B_LID2_AT, B_KEY_AT, B_SL_AT, B_QP2_AT = B.lid1.byte, B.lid2.byte, B.key.byte, B.sl.byte, B.qp2.byte
W_VALID_AT, W_LID1_AT, W_LID2_AT, W_PKEY_AT, W_SL_AT, W_QP2_AT, W_LID_AT, W_PORT_AT = (
    W.data_valid.byte,
    W.lid1.byte,
    W.lid2.byte,
    W.pkey.byte,
    W.sl.byte,
    W.qp2.byte,
    W.switch_lid.byte,
    W.portnum.byte,
)
ALL_BUT_GIDS = 0x3F
"""Value of DataValid: LIDs, P_Key, SL and QPs are known, GIDs are not. Bits are in the order of the
fields, lowest first."""
GSI = 1


@inner
def matching(t, port, pkey):
    """Return the entry in the table of ``port`` that matches ``pkey`` (10.9.1.2), or 0 if no entry
    does. Partition 0 is invalid."""
    if not pkey & PARTITION:
        return np.int64(0)
    base = np.int64(t.pkey_base[port])
    for i in range(np.int64(t.pkey_cap[port])):
        entry = np.int64(t.pkeys[base + i])
        if not (entry ^ pkey) & PARTITION and (entry | pkey) & MEMBER:
            return entry
    return np.int64(0)


@inner
def in_partition(t, port, pkey):
    """Return whether the table of ``port`` has a full or limited entry for the partition of
    ``pkey``."""
    base = np.int64(t.pkey_base[port])
    for i in range(np.int64(t.pkey_cap[port])):
        if pkey & PARTITION and not (np.int64(t.pkeys[base + i]) ^ pkey) & PARTITION:
            return True
    return False


@inner
def refuses(t, port, pkey, direction):
    """Return whether ``port`` is an external switch port that enforces partitions in ``direction``
    (in or out) and drops packets with this P_Key.

    Subnet managers (OpenSM's pkey_mgr) copy a host's table to the switch port at the other end of
    its cable. A limited member sends packets with the limited P_Key that is also in the switch
    port's table, so incoming packets are compared by partition only. Membership is compared for
    outgoing packets: those from a limited member to a limited member are dropped.
    """
    if (
        not t.port_info[port, ENFORCE_AT] & direction
        or t.node_type[t.port_node[port]] != SWITCH
        or t.port_num[port] == 0
    ):
        return False
    if direction == ENFORCE_IN:
        return not in_partition(t, port, pkey)
    return matching(t, port, pkey) == 0


@inner
def switch_violation(t, port, pkey, slid, dlid, sl, now):
    """Raise trap 259, if the switch supports it."""
    end = end_port(t, port)
    if not get32(t.port_info[end], CAP_MASK_AT) & SWITCH_TRAP:
        return
    row = notice(t, now, end, BAD_SWITCH_PKEY, np.int64(t.port_num[port]))
    if row < 0:
        return
    data = t.notice_data[row]
    put16(data, W_VALID_AT, ALL_BUT_GIDS)
    put16(data, W_LID1_AT, slid)
    put16(data, W_LID2_AT, dlid)
    put16(data, W_PKEY_AT, pkey)
    # SL (4 bits), reserved bits and the source QP are one word. Eight reserved bits and the
    # destination QP are the next one.
    put32(data, W_SL_AT, (sl << 28) | GSI)
    put32(data, W_QP2_AT - 1, GSI)
    put16(data, W_LID_AT, get16(t.port_info[end], LID_AT))
    data[W_PORT_AT] = t.port_num[port]


@inner
def end_port_violation(t, end, pkey, slid, dlid, sl, now):
    """Count a P_Key violation at end port ``end``, and raise trap 257."""
    info = t.port_info[end]
    violations = get16(info, VIOLATIONS_AT)
    if violations < 0xFFFF:
        put16(info, VIOLATIONS_AT, violations + 1)
    row = notice(t, now, end, BAD_PKEY, 0)
    if row < 0:
        return
    data = t.notice_data[row]
    put16(data, B_LID1_AT, slid)
    put16(data, B_LID2_AT, dlid)
    put32(data, B_KEY_AT, pkey)
    put32(data, B_SL_AT, (sl << 28) | GSI)
    put32(data, B_QP2_AT - 1, GSI)


@inner
def enforced(t, first, last, pkey, slid, dlid, sl, now):
    """Return the first hop of ``path`` between ``first`` and ``last`` at which a switch drops
    packets with ``pkey``; -1 = none. The violation is counted and reported.

    A packet that is dropped at egress does not pass that hop; one that is dropped at ingress does.
    """
    for i in range(first, last):
        egress = t.path[i]
        ingress = np.int64(t.port_peer[egress])
        if refuses(t, egress, pkey, ENFORCE_OUT):
            t.counters[egress, XMIT_CONSTRAINT] += np.uint64(1)
            switch_violation(t, egress, pkey, slid, dlid, sl, now)
            return np.int64(i)
        if refuses(t, ingress, pkey, ENFORCE_IN):
            t.counters[ingress, RCV_CONSTRAINT] += np.uint64(1)
            switch_violation(t, ingress, pkey, slid, dlid, sl, now)
            return np.int64(i + 1)
    return np.int64(-1)


@inner
def partitioned(t, port, at, index, sl, dlid, now):
    """Return the number of hops after which a GMP from ``port`` to ``at`` is dropped; -1 = it
    arrives.

    The path of the answer is checked too, with the P_Key that the answer will have: a request is
    not executed if a switch would drop its answer.
    """
    home, end = end_port(t, port), end_port(t, at)
    if index >= np.int64(t.pkey_cap[home]):
        return np.int64(0)
    pkey = np.int64(t.pkeys[np.int64(t.pkey_base[home]) + index])
    slid = get16(t.port_info[home], LID_AT)
    forward, hops = t.progress[REQUEST_HOPS], t.progress[HOPS]
    refused = enforced(t, 0, forward, pkey, slid, dlid, sl, now)
    if refused >= 0:
        return refused
    responder_pkey = matching(t, end, pkey)
    if end != home and responder_pkey == 0:
        end_port_violation(t, end, pkey, slid, dlid, sl, now)
        return forward
    if enforced(t, forward, hops, responder_pkey, dlid, slid, sl, now) >= 0:
        return forward
    return np.int64(-1)
