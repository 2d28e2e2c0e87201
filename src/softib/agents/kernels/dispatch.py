"""Process a MAD at its destination: select the agent, and make the answer (IBA 13.4, 14.2.1,
16.1)."""

import numpy as np

from softib.agents.kernels.ar import ar_group_copy, ar_group_table, ar_info, ar_lft, general_info_smp
from softib.agents.kernels.big_endian import get16, get32, inner
from softib.agents.kernels.cc import REFUSED, cc_agent
from softib.agents.kernels.mkey import admit
from softib.agents.kernels.pma import perf_agent
from softib.agents.kernels.port_info import get_port_info, set_port_info
from softib.agents.kernels.route import end_port, make_response
from softib.agents.kernels.router import adjacent_subnets, next_hops, router_info
from softib.agents.kernels.sharp import sharp_agent
from softib.agents.kernels.sma import mlnx_ext_port_info, node_description, node_info, port_info_extended, switch_info
from softib.agents.kernels.sma_tables import (
    guid_info,
    linear_fdb,
    multicast_fdb,
    pkey_table,
    sl_to_vl,
    vl_arbitration,
)
from softib.agents.kernels.vendor import vendor_agent
from softib.agents.kernels.vports import (
    virtualization_info,
    vnode,
    vport_guid_info,
    vport_info_smp,
    vport_pkey_table,
    vport_states,
)
from softib.iba import constants as c
from softib.iba.smp import ATTR_AT, CLASS_AT, METHOD_AT, MODIFIER_AT, VERSION_AT
from softib.jit import kernel

A = c.SmpAttr
NODE_DESC, NODE_INFO, SWITCH_INFO, GUID_INFO, PORT_INFO = (
    int(A.NODE_DESC),
    int(A.NODE_INFO),
    int(A.SWITCH_INFO),
    int(A.GUID_INFO),
    int(A.PORT_INFO),
)
PKEY_TABLE, SL2VL, VL_ARB, LFT, MFT, SM_INFO, MLNX, PORT_INFO_EXT = (
    int(A.PKEY_TABLE),
    int(A.SL2VL),
    int(A.VL_ARB),
    int(A.LFT),
    int(A.MFT),
    int(A.SM_INFO),
    int(A.MLNX_EXT_PORT_INFO),
    int(A.PORT_INFO_EXT),
)
GENERAL_INFO, AR_INFO, AR_GROUP, AR_LFT, AR_GROUP_COPY = (
    int(A.MLNX_GENERAL_INFO),
    int(A.MLNX_AR_INFO),
    int(A.MLNX_AR_GROUP),
    int(A.MLNX_AR_LFT),
    int(A.MLNX_AR_GROUP_COPY),
)
ROUTER_INFO, NEXT_HOPS, ADJACENT = int(A.MLNX_ROUTER_INFO), int(A.MLNX_NEXT_HOPS), int(A.MLNX_ADJACENT_SUBNETS)
VIRTUALIZATION, VPORT, VNODE, VPORT_STATE, VNODE_DESC, VPORT_GUIDS, VPORT_PKEYS = (
    int(A.MLNX_VIRTUALIZATION_INFO),
    int(A.MLNX_VPORT_INFO),
    int(A.MLNX_VNODE_INFO),
    int(A.MLNX_VPORT_STATE),
    int(A.MLNX_VNODE_DESC),
    int(A.MLNX_VPORT_GUID_INFO),
    int(A.MLNX_VPORT_PKEY_TABLE),
)
SUBN_LID, SUBN_DR, PERF = int(c.MgmtClass.SUBN_LID), int(c.MgmtClass.SUBN_DR), int(c.MgmtClass.PERF)
VENDOR, CONG_CTRL, SHARP = int(c.MgmtClass.VENDOR_MLNX), int(c.MgmtClass.CONG_CTRL), int(c.MgmtClass.SHARP)
GET, SET, TRAP_REPRESS = int(c.Method.GET), int(c.Method.SET), int(c.Method.TRAP_REPRESS)
TRAP, REPORT, SEND = int(c.Method.TRAP), int(c.Method.REPORT), int(c.Method.SEND)
BAD_VERSION, BAD_METHOD, BAD_ATTRIBUTE = (
    int(c.MadStatus.BAD_VERSION),
    int(c.MadStatus.BAD_METHOD),
    int(c.MadStatus.BAD_ATTRIBUTE),
)
NOTICE, MELLANOX = int(A.NOTICE), 0x2C9

RESPONSE_BIT = c.RESPONSE_BIT

SILENT, ANSWERED, FOR_CLIENT = 0, 1, 2


@inner(inline="always")
def subnet_agent(t, m, ingress, now):
    """Answer a Get or Set of one subnet management attribute. Return the status."""
    attribute, modifier = get16(m, ATTR_AT), get32(m, MODIFIER_AT)
    is_set = m[METHOD_AT] == SET
    if attribute == LFT:
        return linear_fdb(t, m, ingress, modifier, is_set)
    if attribute == PORT_INFO:
        # Bit 31 of AttributeModifier: the SM supports extended speeds.
        if is_set:
            return set_port_info(t, m, ingress, modifier, now)
        return get_port_info(t, m, ingress, modifier)
    if attribute == NODE_INFO:
        return node_info(t, m, ingress, modifier, is_set)
    if attribute == NODE_DESC:
        return node_description(t, m, ingress, modifier, is_set, now)
    if attribute == SWITCH_INFO:
        return switch_info(t, m, ingress, modifier, is_set)
    if attribute == PKEY_TABLE:
        return pkey_table(t, m, ingress, modifier, is_set)
    if attribute == SL2VL:
        return sl_to_vl(t, m, ingress, modifier, is_set)
    if attribute == VL_ARB:
        return vl_arbitration(t, m, ingress, modifier, is_set)
    if attribute == MFT:
        return multicast_fdb(t, m, ingress, modifier, is_set)
    if attribute == GUID_INFO:
        return guid_info(t, m, ingress, modifier, is_set)
    if attribute == PORT_INFO_EXT:
        return port_info_extended(t, m, ingress, modifier, is_set)
    if attribute == MLNX:
        return mlnx_ext_port_info(t, m, ingress, modifier, is_set)
    if attribute == AR_LFT:
        return ar_lft(t, m, ingress, modifier, is_set)
    if attribute == AR_GROUP:
        return ar_group_table(t, m, ingress, modifier, is_set)
    if attribute == AR_GROUP_COPY:
        return ar_group_copy(t, m, ingress, modifier, is_set)
    if attribute == AR_INFO:
        return ar_info(t, m, ingress, is_set)
    if attribute == GENERAL_INFO:
        return general_info_smp(t, m, ingress, modifier, is_set)
    if attribute == ROUTER_INFO:
        return router_info(t, m, ingress, is_set)
    if attribute == NEXT_HOPS:
        return next_hops(t, m, ingress, modifier, is_set)
    if attribute == ADJACENT:
        return adjacent_subnets(t, m, ingress, modifier, is_set)
    return vport_agent(t, m, ingress, attribute, modifier, is_set)


@inner
def vport_agent(t, m, ingress, attribute, modifier, is_set):
    """Answer a Get or Set of one attribute of virtual ports. Return the status."""
    if attribute == VPORT:
        return vport_info_smp(t, m, ingress, modifier, is_set)
    if attribute == VIRTUALIZATION:
        return virtualization_info(t, m, ingress, is_set)
    if attribute == VPORT_STATE:
        return vport_states(t, m, ingress, modifier, is_set)
    if attribute == VPORT_PKEYS:
        return vport_pkey_table(t, m, ingress, modifier, is_set)
    if attribute == VPORT_GUIDS:
        return vport_guid_info(t, m, ingress, modifier, is_set)
    if attribute == VNODE or attribute == VNODE_DESC:
        return vnode(t, m, ingress, modifier, is_set, attribute == VNODE_DESC)
    return BAD_ATTRIBUTE


@inner
def arrive_gmp(t, m, ingress, now):
    """Process a GMP of performance management, congestion control, Mellanox' vendor class, or the
    class of aggregation nodes, at its destination."""
    klass, method = m[CLASS_AT], m[METHOD_AT]
    is_vendor = klass == VENDOR and t.vendor_id[t.port_node[ingress]] == MELLANOX
    is_sharp = klass == SHARP and t.sharp_of_node[t.port_node[ingress]] >= 0
    if (klass != PERF and klass != CONG_CTRL and not is_vendor and not is_sharp) or method & RESPONSE_BIT:
        return FOR_CLIENT
    if method == TRAP_REPRESS:
        return SILENT
    if m[VERSION_AT] != (2 if klass == CONG_CTRL else 1):
        make_response(m, BAD_VERSION, False)
        return ANSWERED
    if method != GET and method != SET:
        make_response(m, BAD_METHOD, False)
        return ANSWERED
    if klass == PERF:
        status = np.int64(perf_agent(t, m, ingress, now))
    elif klass == CONG_CTRL:
        status = np.int64(cc_agent(t, m, ingress, now))
    elif klass == SHARP:
        status = np.int64(sharp_agent(t, m, ingress))
    else:
        status = np.int64(vendor_agent(t, m, ingress, now))
    if status == REFUSED:
        return SILENT
    make_response(m, status, False)
    return ANSWERED


@kernel(shared=True, _nrt=False)
def arrive(t, m, ingress, now, slid):
    """Process a MAD at its destination. Return SILENT, ANSWERED (``m`` is now the answer) or
    FOR_CLIENT.

    ``slid`` is the source LID in the packet's LRH.
    """
    klass, method = m[CLASS_AT], m[METHOD_AT]
    is_smp = klass == SUBN_LID or klass == SUBN_DR
    if not is_smp:
        return arrive_gmp(t, m, ingress, now)
    if method & RESPONSE_BIT:
        return FOR_CLIENT
    # TrapRepress ends a trap of the device, or of a program on that port (IBA 13.4.5, 13.4.9)
    if method == TRAP_REPRESS:
        # The M_Key is checked as for a Set (14.2.4.2). The driver hfi1 does this too, and OpenSM
        # fills in the key.
        if get16(m, ATTR_AT) == NOTICE and not admit(t, m, end_port(t, ingress), now, slid):
            return SILENT
        return FOR_CLIENT
    if m[VERSION_AT] != 1:
        make_response(m, BAD_VERSION, klass == SUBN_DR)
        return ANSWERED
    if is_smp:
        attribute = get16(m, ATTR_AT)
        # SMInfo, traps and reports are for the subnet manager on that node, which answers them
        # itself.
        if attribute == SM_INFO or method == TRAP or method == REPORT or method == SEND:
            return FOR_CLIENT
        if method != GET and method != SET:
            make_response(m, BAD_METHOD, klass == SUBN_DR)
            return ANSWERED
        if not admit(t, m, end_port(t, ingress), now, slid):
            return SILENT
        status = subnet_agent(t, m, ingress, now)
        make_response(m, status, klass == SUBN_DR)
        return ANSWERED
