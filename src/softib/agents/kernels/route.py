"""Route a MAD to its device, either by directed route, hop by hop, or by LID with the forwarding
tables.

Every function returns the row of the port through which the MAD *enters* its destination (port 0 of
a switch that is addressed by LID), or -1 if it is lost on the path. The egress ports of its path
are appended to ``path``; ``progress[HOPS]`` is their number. If a MAD is lost for a reason that is
counted, ``progress[LOSS]`` and ``progress[LOSS_AT]`` hold the reason and the port. :func:`blame`
counts the loss when it is certain that the MAD reached this port.
"""

import numpy as np

from softib.agents.kernels.big_endian import get16, inner, put16
from softib.agents.kernels.vports import owns_vport_lid
from softib.fabric.counters import COUNTER_NAMES, DETAIL_COUNTERS
from softib.iba import constants as c
from softib.iba.constants import DR_DIRECTION
from softib.iba.smp import (
    DR_DLID_AT,
    DR_SLID_AT,
    HOP_COUNT_AT,
    HOP_POINTER_AT,
    INITIAL_PATH_AT,
    METHOD_AT,
    RETURN_PATH_AT,
    STATUS_AT,
    PortInfo,
    SwitchInfo,
)
from softib.iba.vendor.ar import GROUP_MASK, ARInfo

SWITCH, GET_RESP = int(c.NodeType.SWITCH), int(c.Method.GET_RESP)
LINK_UP = int(c.PhysState.LINK_UP)
ARMED, ACTIVE, INIT = int(c.PortState.ARMED), int(c.PortState.ACTIVE), int(c.PortState.INIT)
PERMISSIVE, MCAST_MIN = c.LID_PERMISSIVE, c.LID_MCAST_MIN
MAX_HOPS = c.MAX_HOPS
LID_AT, LMC_AT, STATE_AT, PHYS_AT = (
    PortInfo.lid.byte,
    PortInfo.lmc.byte,
    PortInfo.port_state.byte,
    PortInfo.port_phys_state.byte,
)
REPAIR_AT, REPAIR_BIT = ARInfo.fr_enabled.byte, int(ARInfo.pack(fr_enabled=1)[ARInfo.fr_enabled.byte])
TOP_AT = SwitchInfo.linear_fdb_top.byte
RELAY_ERRORS, XMIT_DISCARDS = (COUNTER_NAMES.index(n) for n in ("port_rcv_switch_relay_errors", "port_xmit_discards"))
DLID_MAPPING, LOOPING, INACTIVE = (
    DETAIL_COUNTERS.names.index(n)
    for n in ("port_dlid_mapping_errors", "port_looping_errors", "port_inactive_discards")
)
TOUCHED, HOPS, REQUEST_HOPS, LOSS, LOSS_AT, ANSWER_LOST = range(6)
"""Indices into ``progress``: number of ports in ``touched``; number of hops in ``path``; number of
those that belong to the request; reason and port of a loss; 1 = not the request but its answer is
lost."""
NO_LOSS, NO_ROUTE, LOOP, PORT_DOWN = 0, 1, 2, 3


@inner
def link_up(t, port):
    """Return whether the physical link of ``port`` carries packets, which means that both ends are
    in LinkUp."""
    peer = t.port_peer[port]
    return peer >= 0 and (t.port_info[port, PHYS_AT] >> 4) == LINK_UP and (t.port_info[peer, PHYS_AT] >> 4) == LINK_UP


@inner
def owns(t, port, lid):
    """Return whether ``lid`` is one of the 2^LMC LIDs of an end port (equal in all bits except the
    lowest LMC bits, IBA 4.1.3), or the LID of one of its virtual ports."""
    base = (np.int64(t.port_info[port, LID_AT]) << 8) | np.int64(t.port_info[port, LID_AT + 1])
    if base != 0 and (base ^ lid) >> (np.int64(t.port_info[port, LMC_AT]) & 7) == 0:
        return True
    return owns_vport_lid(t, port, lid)


@inner
def directed(t, m, port):
    """Follow the initial path of ``m`` from the node of ``port``. Fill in the return path (IBA
    14.2.2.2)."""
    count = np.int64(m[HOP_COUNT_AT])
    if count > MAX_HOPS:
        return -1
    at = np.int64(port)
    hops = t.progress[HOPS]
    m[RETURN_PATH_AT] = t.port_num[at]
    for i in range(1, count + 1):
        node = t.port_node[at]
        out = np.int64(m[INITIAL_PATH_AT + i])
        if out < 1 or out > t.node_nports[node]:
            return -1
        # Only switches forward directed-route SMPs. A CA can only send them, through its port that
        # the path names first.
        if t.node_type[node] != SWITCH and (i > 1 or out != t.port_num[at]):
            return -1
        egress = t.node_base[node] + out
        if not link_up(t, egress):
            return lose(t, PORT_DOWN, egress)
        t.path[hops] = egress
        hops += 1
        t.progress[HOPS] = hops
        at = np.int64(t.port_peer[egress])
        m[RETURN_PATH_AT + i] = t.port_num[at]
    return at


@inner
def directed_back(t, m, port):
    """Return the path of a *response* that a client at ``port`` sends: it follows the return path
    backwards (IBA 14.2.2.4)."""
    count = np.int64(m[HOP_COUNT_AT])
    if count > MAX_HOPS:
        return -1
    at = np.int64(port)
    hops = t.progress[HOPS]
    for i in range(count, 0, -1):
        node = t.port_node[at]
        out = np.int64(m[RETURN_PATH_AT + i])
        if out < 1 or out > t.node_nports[node]:
            return -1
        if t.node_type[node] != SWITCH and (i < count or out != t.port_num[at]):
            return -1
        egress = t.node_base[node] + out
        if not link_up(t, egress):
            return lose(t, PORT_DOWN, egress)
        t.path[hops] = egress
        hops += 1
        t.progress[HOPS] = hops
        at = np.int64(t.port_peer[egress])
    return at


@inner
def by_lid(t, port, lid, is_smp):
    """Route a MAD to ``lid``, starting at ``port``, with the linear forwarding tables (IBA
    18.2.4.3).

    SMPs are sent on VL15, which needs INIT or better. All other packets need ACTIVE at each egress
    port, and ARMED or better at each ingress port (IBA 7.2.7).
    """
    if lid == 0 or lid >= MCAST_MIN:
        return -1
    at = np.int64(port)
    if owns(t, at, lid):
        return at
    node = t.port_node[at]
    if t.node_type[node] == SWITCH:
        egress = lookup(t, node, lid)
    else:
        egress = at
    hops = t.progress[HOPS]
    if t.node_type[node] != SWITCH:
        at = np.int64(-1)  # the CA's own port sends the MAD, so there is no ingress port
    # The limit of 63 hops in 14.2.1.2 applies only to directed routes. A path that visits more
    # switches than exist is a loop.
    for _ in range(t.lft.shape[0] + 1):
        if egress < 0:
            return lose(t, NO_ROUTE, at)
        if egress == at:
            return lose(t, LOOP, at)
        if not link_up(t, egress) or t.port_info[egress, STATE_AT] & 15 < (INIT if is_smp else ACTIVE):
            return lose(t, PORT_DOWN, egress)
        at = np.int64(t.port_peer[egress])
        t.path[hops] = egress
        hops += 1
        t.progress[HOPS] = hops
        if t.port_info[at, STATE_AT] & 15 < (INIT if is_smp else ARMED):
            return np.int64(-1)
        node = t.port_node[at]
        if t.node_type[node] != SWITCH:
            return at if owns(t, at, lid) else np.int64(-1)
        egress = lookup(t, node, lid)
        if egress == t.node_base[node]:
            return egress if owns(t, egress, lid) else np.int64(-1)
    return np.int64(-1)


@inner
def lose(t, why, port):
    """Record why and at which port a MAD is lost. Return -1."""
    t.progress[LOSS], t.progress[LOSS_AT] = why, port
    return np.int64(-1)


@inner
def blame(t):
    """Count the recorded loss. If a switch cannot forward the packet (no route, or back to its
    ingress port), the ingress port counts it (IBA 16.1.3.5, 16.1.4.1). If a port is down, this port
    counts it (16.1.4.2: inactive)."""
    why, port = t.progress[LOSS], t.progress[LOSS_AT]
    t.progress[LOSS] = NO_LOSS
    if why == PORT_DOWN:
        t.counters[port, XMIT_DISCARDS] += np.uint64(1)
        t.detail_counters[port, INACTIVE] += np.uint64(1)
    elif why != NO_LOSS and t.port_num[port]:
        t.counters[port, RELAY_ERRORS] += np.uint64(1)
        t.detail_counters[port, LOOPING if why == LOOP else DLID_MAPPING] += np.uint64(1)


@inner
def lookup(t, node, lid):
    """Return the port through which switch ``node`` forwards packets to ``lid``: port 0 if the LID
    is the switch's own; -1 if packets are dropped."""
    switch = t.switch_of_node[node]
    if lid > get16(t.switch_info[switch], TOP_AT) or lid >= t.lft.shape[1]:
        return np.int64(-1)
    out = t.lft[switch, lid]
    if out > t.node_nports[node]:
        return np.int64(-1)
    egress = np.int64(t.node_base[node]) + np.int64(out)
    if out and t.ar_info[switch, REPAIR_AT] & REPAIR_BIT and not link_up(t, egress):
        return repaired(t, node, lid, egress)
    return egress


@inner
def repaired(t, node, lid, egress):
    """Return ``egress``, the port in the forwarding table, if its link is up. If it is down and
    ARInfo.fr_enabled is set, return the first port of the LID's group whose link is up."""
    switch, base = t.switch_of_node[node], np.int64(t.node_base[node])
    group = t.ar_lft[switch, lid] & GROUP_MASK
    if group == 0 or group >= t.ar_group.shape[1]:
        return egress
    for num in range(1, np.int64(t.node_nports[node]) + 1):
        bit = t.ar_group[switch, group, num >> 6] >> np.uint64(num & 63) & np.uint64(1)
        if bit and link_up(t, base + num) and t.port_info[base + num, STATE_AT] & 15 == ACTIVE:
            return base + num
    return egress


@inner
def route_smp(t, m, port, dlid):
    """Return the path of a directed-route request. The request states whether a LID-routed part
    comes before or after its directed part.

    IBA 14.2.2.1: if DrSLID is permissive, the directed part starts at the requester; if DrDLID is
    permissive, it ends at the responder.
    """
    at = np.int64(port)
    if get16(m, DR_SLID_AT) != PERMISSIVE:
        at = by_lid(t, at, dlid, True)
        if at < 0:
            return at
        if m[HOP_COUNT_AT] > 0 and t.node_type[t.port_node[at]] != SWITCH:
            return np.int64(-1)
    at = directed(t, m, at)
    target = get16(m, DR_DLID_AT)
    if at >= 0 and target != PERMISSIVE:
        node = t.port_node[at]
        if t.node_type[node] == SWITCH:
            at = by_lid(t, np.int64(t.node_base[node]), target, True)
        elif not owns(t, at, target):
            return np.int64(-1)
    return at


@inner
def end_port(t, port):
    """Return the port that has the LID and M_Key of the node that a MAD enters through ``port``:
    ``port`` itself, or port 0 of a switch."""
    node = t.port_node[port]
    if t.node_type[node] == SWITCH:
        return np.int64(t.node_base[node])
    return np.int64(port)


@inner
def make_response(m, status, is_directed):
    """Turn a request into its response: set method, status and direction bit (IBA 13.4.5,
    14.2.1.2)."""
    m[METHOD_AT] = GET_RESP
    put16(m, STATUS_AT, (status & 0x7FFF) | (DR_DIRECTION if is_directed else 0))
    m[HOP_POINTER_AT] = 0 if is_directed else m[HOP_POINTER_AT]
