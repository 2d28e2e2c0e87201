"""The subnet management agent, except for its tables (:mod:`.sma_tables`). Each attribute has one
function ``(t, m, ingress, modifier, is_set) -> status``.

``m`` is the MAD, which becomes the answer; its attribute begins at byte 64. A request that is
rejected (status other than OK) changes nothing. The rules are those of IBA 14.2.5, the status
values those of IBA 13.4.7.
"""

import numpy as np

from softib.agents.kernels.big_endian import clear, copy, get16, inner, put16, put32, put64, same
from softib.agents.kernels.notice import DESC_CHANGED, local_change
from softib.iba import constants as c
from softib.iba import devices, smp
from softib.iba.smp import DATA_AT

SWITCH = int(c.NodeType.SWITCH)
OK, BAD_FIELD, BAD_ATTRIBUTE = int(c.MadStatus.OK), int(c.MadStatus.BAD_FIELD), int(c.MadStatus.BAD_ATTRIBUTE)
MELLANOX = 0x2C9
MELLANOX_PARTS = np.array(sorted({*devices.MELLANOX_PARTS, devices.AGGREGATION_NODE_ID}), np.int64)
S, N, P, X = smp.SwitchInfo, smp.NodeInfo, smp.PortInfo, smp.MlnxExtPortInfo
LFDB_CAP_AT, MFDB_CAP_AT, LFDB_TOP_AT, MFDB_TOP_AT = (
    S.linear_fdb_cap.byte,
    S.mcast_fdb_cap.byte,
    S.linear_fdb_top.byte,
    S.mcast_fdb_top.byte,
)
SYS_GUID_AT, NODE_GUID_AT, PORT_GUID_AT = N.sys_guid.byte, N.node_guid.byte, N.port_guid.byte
PARTITION_CAP_AT, DEVICE_AT, REVISION_AT = N.partition_cap.byte, N.device_id.byte, N.revision.byte
LOCAL_PORT_AT = N.local_port_num.byte
X_CHANGE_AT, X_SUPPORTED_AT, X_ENABLED_AT, X_ACTIVE_AT = (
    X.state_change_enable.byte,
    X.link_speed_supported.byte,
    X.link_speed_enabled.byte,
    X.link_speed_active.byte,
)
LIFE_AT = S.life_time_value.byte  # byte with LifeTimeValue(5), PortStateChange(1), OptimizedSLtoVLMapping(2)
CAP_MASK_AT, CAP_MASK2_AT = P.cap_mask.byte, P.cap_mask2.byte
MCAST_TOP_BIT = 0x40  # bit 30 of CapabilityMask, within its first byte
SET_DESC_BIT = 0x01  # bit 0 of CapabilityMask2, within its second byte
PORT_INFO_EXT_BIT, NO_FEC = 0x02, 1
E = smp.PortInfoExtended
FEC_ENABLED_AT = np.array(
    [
        E.fdr_fec_mode_enabled.byte,
        E.edr_fec_mode_enabled.byte,
        E.hdr_fec_mode_enabled.byte,
        E.ndr_fec_mode_enabled.byte,
    ],
    np.int64,
)
"""Offsets of the enabled FEC modes. Each field follows the supported modes of the same speed."""
LID_MCAST_MIN = c.LID_MCAST_MIN
NO_MCAST_TOP = LID_MCAST_MIN - 1


@inner
def node_info(t, m, ingress, modifier, is_set):
    """Get NodeInfo, which is read-only. LocalPortNum is the port through which the SMP arrived
    (14.2.5.3)."""
    if is_set:
        return BAD_ATTRIBUTE
    node = t.port_node[ingress]
    clear(m, DATA_AT, 64)
    m[DATA_AT] = 1
    m[DATA_AT + 1] = 1
    m[DATA_AT + 2] = t.node_type[node]
    m[DATA_AT + 3] = t.node_nports[node]
    put64(m, DATA_AT + SYS_GUID_AT, t.sys_guid[node])
    put64(m, DATA_AT + NODE_GUID_AT, t.node_guid[node])
    put64(m, DATA_AT + PORT_GUID_AT, t.port_guid[ingress])
    end = t.node_base[node] if t.node_type[node] == SWITCH else ingress
    put16(m, DATA_AT + PARTITION_CAP_AT, np.int64(t.pkey_cap[end]))
    put16(m, DATA_AT + DEVICE_AT, np.int64(t.device_id[node]))
    put32(m, DATA_AT + REVISION_AT, np.int64(t.revision[node]))
    # LocalPortNum (8 bits) and VendorID (24 bits) are one word.
    put32(m, DATA_AT + LOCAL_PORT_AT, (np.int64(t.port_num[ingress]) << 24) | np.int64(t.vendor_id[node]))
    return OK


@inner
def node_description(t, m, ingress, modifier, is_set, now):
    """Get NodeDescription. A Set is allowed if CapabilityMask2 says so (14.2.5.2); a change raises
    trap 144 on every end port."""
    node = t.port_node[ingress]
    if is_set:
        end = t.node_base[node] if t.node_type[node] == SWITCH else ingress
        if not t.port_info[end, CAP_MASK2_AT + 1] & SET_DESC_BIT:
            return BAD_ATTRIBUTE
        if not same(t.node_desc[node], 0, m, DATA_AT, 64):
            copy(t.node_desc[node], 0, m, DATA_AT, 64)
            describe(t, node, now, DESC_CHANGED)
    else:
        copy(m, DATA_AT, t.node_desc[node], 0, 64)
    return OK


@inner
def describe(t, node, now, flags):
    """Report a change of ``node`` to the SM: trap 144 with ``flags`` on each of its end ports."""
    base = np.int64(t.node_base[node])
    if t.node_type[node] == SWITCH:
        local_change(t, now, base, flags)
        return
    for port in range(base + 1, base + np.int64(t.node_nports[node]) + 1):
        if t.port_peer[port] >= 0:
            local_change(t, now, port, flags)


@inner
def port_info_extended(t, m, ingress, modifier, is_set):
    """Get or Set PortInfoExtended, if bit 1 of CapabilityMask2 is set. A Set stores the enabled
    modes (14.2.5.19).

    Only supported modes can be enabled; "no FEC" can always be enabled.
    """
    node = t.port_node[ingress]
    number = modifier & 0x7FFFFFFF
    if number > t.node_nports[node]:
        return BAD_FIELD
    end = np.int64(t.node_base[node]) if t.node_type[node] == SWITCH else np.int64(ingress)
    if not t.port_info[end, CAP_MASK2_AT + 1] & PORT_INFO_EXT_BIT:
        return BAD_ATTRIBUTE
    port = np.int64(ingress)
    if number > 0 or t.node_type[node] == SWITCH:
        port = np.int64(t.node_base[node]) + number
    image, status = t.port_info_ext[port], OK
    if is_set:
        for at in FEC_ENABLED_AT:
            if get16(m, DATA_AT + at) & ~(get16(image, at - 2) | NO_FEC):
                status = BAD_FIELD
        if status == OK:
            for at in FEC_ENABLED_AT:
                copy(image, at, m, DATA_AT + at, 2)
    clear(m, DATA_AT, 64)
    copy(m, DATA_AT, image, 0, 24)
    return status


@inner
def switch_info(t, m, ingress, modifier, is_set):
    """Get or Set SwitchInfo. A Set stores LinearFDBTop, LifeTimeValue and MulticastFDBTop; if it
    writes 1 to PortStateChange, this bit is cleared."""
    node = t.port_node[ingress]
    switch = t.switch_of_node[node]
    if switch < 0:
        return BAD_ATTRIBUTE
    info = t.switch_info[switch]
    status = OK
    if is_set:
        top = get16(m, DATA_AT + LFDB_TOP_AT)
        mcast_top = get16(m, DATA_AT + MFDB_TOP_AT)
        has_mcast_top = t.port_info[t.node_base[node], CAP_MASK_AT] & MCAST_TOP_BIT != 0
        legal_mcast = mcast_top == 0 or NO_MCAST_TOP <= mcast_top < LID_MCAST_MIN + get16(info, MFDB_CAP_AT)
        if (top > 0 and top >= get16(info, LFDB_CAP_AT)) or (has_mcast_top and not legal_mcast):
            status = BAD_FIELD
        else:
            put16(info, LFDB_TOP_AT, top)
            if has_mcast_top:
                put16(info, MFDB_TOP_AT, mcast_top)
            kept = info[LIFE_AT] & (0x07 & ~(m[DATA_AT + LIFE_AT] & 0x04))
            info[LIFE_AT] = (m[DATA_AT + LIFE_AT] & 0xF8) | kept
    copy(m, DATA_AT, info, 0, 64)
    return status


@inner
def is_mellanox_part(device):
    """Return whether :mod:`softib.iba.devices` lists the DeviceID as a Mellanox device."""
    for i in range(MELLANOX_PARTS.shape[0]):
        if MELLANOX_PARTS[i] == device:
            return True
    return False


@inner
def mlnx_ext_port_info(t, m, ingress, modifier, is_set):
    """Get or Set Mellanox ExtendedPortInfo, which distinguishes FDR10 from QDR. A Set changes
    LinkSpeedEnabled only if StateChangeEnable is set.

    A Mellanox device supports it even with an OEM's VendorID, because OpenSM decides by DeviceID
    only.
    """
    node = t.port_node[ingress]
    if t.vendor_id[node] != MELLANOX and not is_mellanox_part(np.int64(t.device_id[node])):
        return BAD_ATTRIBUTE
    number = modifier & 0x7FFFFFFF
    if number > t.node_nports[node]:
        return BAD_FIELD
    port = np.int64(ingress)
    if number > 0 or t.node_type[node] == SWITCH:
        port = np.int64(t.node_base[node]) + number
    speeds = t.port_mlnx_speed[port]
    status = OK
    if is_set and m[DATA_AT + X_CHANGE_AT] & 1:
        if m[DATA_AT + X_ENABLED_AT] & ~speeds[0]:
            status = BAD_FIELD
        else:
            speeds[1] = m[DATA_AT + X_ENABLED_AT]
    clear(m, DATA_AT, 64)
    m[DATA_AT + X_SUPPORTED_AT] = speeds[0]
    m[DATA_AT + X_ENABLED_AT] = speeds[1]
    m[DATA_AT + X_ACTIVE_AT] = speeds[2]
    return status
