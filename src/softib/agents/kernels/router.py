"""A router's information about other subnets (:mod:`softib.iba.vendor.router`): its ports on these
subnets, as the subnet managers there have configured them.

Site-local prefixes are in the table of adjacent subnets, others in the table of next hops. Routers
do not exchange tables, so a subnet that is reachable only through a second router is in no table.
Each Get reads all values from PortInfo; there is no Set.
"""

import numpy as np

from softib.agents.kernels.big_endian import clear, copy, get64, inner, put16, put32
from softib.agents.kernels.route import link_up
from softib.agents.kernels.sma import MELLANOX, is_mellanox_part
from softib.iba import constants as c
from softib.iba.smp import DATA_AT, PortInfo
from softib.iba.vendor import router

ROUTER, ACTIVE = int(c.NodeType.ROUTER), int(c.PortState.ACTIVE)
OK, BAD_FIELD, BAD_ATTRIBUTE = int(c.MadStatus.OK), int(c.MadStatus.BAD_FIELD), int(c.MadStatus.BAD_ATTRIBUTE)
R, N, J = router.RouterInfo, router.NextHop, router.AdjacentSubnet
NEXT_TOP_AT, NEXT_CAP_AT, ADJACENT_TOP_AT, ADJACENT_CAP_AT, SUBNETS_AT = (
    R.next_hop_table_top.byte,
    R.next_hop_table_cap.byte,
    R.adjacent_table_top.byte,
    R.adjacent_table_cap.byte,
    R.cap_supported_subnets.byte,
)
NEXT_PKEY_AT, NEXT_SIZE = N.pkey.byte, N.size
ADJACENT_PKEY_AT, NUMBER_AT, SM_AT, ADJACENT_SIZE = J.pkey.byte, J.subnet_prefix.byte, J.master_sm_lid.byte, J.size
PREFIX_AT, STATE_AT, SM_LID_AT = PortInfo.gid_prefix.byte, PortInfo.port_state.byte, PortInfo.master_sm_lid.byte
SITE_LOCAL_HEAD = router.SITE_LOCAL >> 16
NEXT_BLOCK, ADJACENT_BLOCK = router.NEXT_HOP_BLOCK, router.ADJACENT_BLOCK


@inner
def is_router(t, ingress):
    """Return whether the node is a router that supports these attributes."""
    node = t.port_node[ingress]
    return t.node_type[node] == ROUTER and (
        t.vendor_id[node] == MELLANOX or is_mellanox_part(np.int64(t.device_id[node]))
    )


@inner
def is_remote_port(t, ingress, port):
    """Return whether ``port`` is ACTIVE, on another subnet than ``ingress``, and the first of the
    router's ports on that subnet."""
    if not link_up(t, port) or t.port_info[port, STATE_AT] & 15 != ACTIVE:
        return False
    prefix = get64(t.port_info[port], PREFIX_AT)
    if prefix == get64(t.port_info[ingress], PREFIX_AT):
        return False
    for earlier in range(np.int64(t.node_base[t.port_node[ingress]]) + 1, port):
        if link_up(t, earlier) and t.port_info[earlier, STATE_AT] & 15 == ACTIVE:
            if get64(t.port_info[earlier], PREFIX_AT) == prefix:
                return False
    return True


@inner
def is_site_local(t, port):
    """Return whether the port's prefix is site-local."""
    return get64(t.port_info[port], PREFIX_AT) >> np.uint64(16) == np.uint64(SITE_LOCAL_HEAD)


@inner
def nth_remote_port(t, ingress, site_local, n):
    """Return the port of record ``n`` of a table, or -1 after the last record. With ``n`` -1,
    return the number of records."""
    node, count = t.port_node[ingress], np.int64(0)
    for number in range(1, np.int64(t.node_nports[node]) + 1):
        port = np.int64(t.node_base[node]) + number
        if is_remote_port(t, ingress, port) and is_site_local(t, port) == site_local:
            if count == n:
                return port
            count += 1
    return count if n < 0 else np.int64(-1)


@inner
def router_info(t, m, ingress, is_set):
    """Get RouterInfo: the number of the router's subnets, and the capacity of its tables."""
    if is_set or not is_router(t, ingress):
        return BAD_ATTRIBUTE
    most = max(np.int64(t.node_nports[t.port_node[ingress]]) - 1, 0)
    clear(m, DATA_AT, 64)
    put32(m, DATA_AT + NEXT_CAP_AT, most)
    put32(m, DATA_AT + NEXT_TOP_AT, nth_remote_port(t, ingress, False, -1))
    m[DATA_AT + ADJACENT_TOP_AT] = nth_remote_port(t, ingress, True, -1)
    m[DATA_AT + ADJACENT_CAP_AT] = most
    m[DATA_AT + SUBNETS_AT] = most + 1
    return OK


@inner
def next_hops(t, m, ingress, modifier, is_set):
    """Get a block of the table of next hops: four subnets whose prefixes are not site-local."""
    if is_set or not is_router(t, ingress):
        return BAD_ATTRIBUTE
    if modifier * NEXT_BLOCK >= max(np.int64(t.node_nports[t.port_node[ingress]]) - 1, 1):
        return BAD_FIELD
    clear(m, DATA_AT, 64)
    for i in range(NEXT_BLOCK):
        port = nth_remote_port(t, ingress, False, modifier * NEXT_BLOCK + i)
        if port >= 0:
            at = DATA_AT + NEXT_SIZE * i
            copy(m, at, t.port_info[port], PREFIX_AT, 8)
            put16(m, at + NEXT_PKEY_AT, np.int64(t.pkeys[t.pkey_base[port]]))
    return OK


@inner
def adjacent_subnets(t, m, ingress, modifier, is_set):
    """Get a block of the table of adjacent subnets: eight site-local subnets."""
    if is_set or not is_router(t, ingress):
        return BAD_ATTRIBUTE
    if modifier * ADJACENT_BLOCK >= max(np.int64(t.node_nports[t.port_node[ingress]]) - 1, 1):
        return BAD_FIELD
    clear(m, DATA_AT, 64)
    for i in range(ADJACENT_BLOCK):
        port = nth_remote_port(t, ingress, True, modifier * ADJACENT_BLOCK + i)
        if port >= 0:
            at = DATA_AT + ADJACENT_SIZE * i
            put16(m, at + ADJACENT_PKEY_AT, np.int64(t.pkeys[t.pkey_base[port]]))
            copy(m, at + NUMBER_AT, t.port_info[port], PREFIX_AT + 6, 2)
            copy(m, at + SM_AT, t.port_info[port], SM_LID_AT, 2)
    return OK
