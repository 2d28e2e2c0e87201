"""The SMA of virtual ports of a CA port (:mod:`softib.iba.vendor.vports`): attributes and states.

An SMP concerns virtual ports of the physical port through which it arrives. AttributeModifier is
the index and the block (see :mod:`softib.iba.vendor.vports`). A virtual port reports the lower of
its own state and the state of its physical port.
"""

import numpy as np

from softib.agents.kernels.big_endian import clear, copy, get16, get64, inner, put16, put64
from softib.iba import constants as c
from softib.iba.smp import DATA_AT, PortInfo
from softib.iba.vendor import vports

OK, BAD_FIELD, BAD_ATTRIBUTE = int(c.MadStatus.OK), int(c.MadStatus.BAD_FIELD), int(c.MadStatus.BAD_ATTRIBUTE)
INIT, ARMED, ACTIVE = (int(s) for s in (c.PortState.INIT, c.PortState.ARMED, c.PortState.ACTIVE))
V, INFO = vports.VirtualizationInfo, vports.VPortInfo
FLAGS_AT, CAP_AT, HEAD_SIZE = V.virtualization_enable.byte, V.vport_cap.byte, 8
CHANGE_BIT = 0x20  # VPortStateChange, in the byte that also has VirtualizationEnable
STATE_AT, LID_AT, LID_INDEX_AT, GUID_AT = (
    INFO.vport_state.byte,
    INFO.vport_lid.byte,
    INFO.lid_by_vport_index.byte,
    INFO.vport_guid.byte,
)
LID_REQUIRED = 0x04  # in the byte with VPortState(4), ClientReregister(1), LidRequired(1)
INFO_SIZE, NODE_SIZE = INFO.vport_profile.byte + 8, vports.VNodeInfo.vnode_guid.byte + 8
STATES = vports.VPORT_STATES
CAP_MASK2_AT, PORT_STATE_AT = PortInfo.cap_mask2.byte + 1, PortInfo.port_state.byte
VIRTUAL = int(c.CapMask2.VIRTUALIZATION)
LID_MAX, GUIDS, PKEYS = c.LID_UCAST_MAX, vports.VPORT_GUIDS, vports.VPORT_PKEYS


@inner
def has_vports(t, port):
    """Return whether port ``port`` has virtual ports."""
    return t.port_info[port, CAP_MASK2_AT] & VIRTUAL != 0 and t.switch_of_node[t.port_node[port]] < 0


@inner
def vport_row(t, port, index):
    """Return the row of virtual port ``index``, or -1 if it is beyond VPortCap."""
    return np.int64(t.vport_base[port]) + index if index <= get16(t.virtualization[port], CAP_AT) else np.int64(-1)


@inner
def vport_state(t, port, row):
    """Return the VPortState that a Get reports."""
    return min(np.int64(t.vport_info[row, STATE_AT] >> 4), np.int64(t.port_info[port, PORT_STATE_AT] & 15))


@inner
def owns_vport_lid(t, port, lid):
    """Return whether a virtual port of ``port`` has this LID."""
    if not has_vports(t, port):
        return False
    base = np.int64(t.vport_base[port])
    for row in range(base, base + get16(t.virtualization[port], CAP_AT) + 1):
        if lid and get16(t.vport_info[row], LID_AT) == lid:
            return True
    return False


@inner
def virtualization_info(t, m, ingress, is_set):
    """Answer a Get or Set of VirtualizationInfo, which states the number of virtual ports. A Set
    with bit VPortStateChange clears this bit; the adapter controls all other fields."""
    if not has_vports(t, ingress):
        return BAD_ATTRIBUTE
    head = t.virtualization[ingress]
    if is_set and m[DATA_AT + FLAGS_AT] & CHANGE_BIT:
        head[FLAGS_AT] &= np.uint8(0xFF & ~CHANGE_BIT)
    clear(m, DATA_AT, 64)
    copy(m, DATA_AT, head, 0, HEAD_SIZE)
    return OK


@inner
def vport_info_smp(t, m, ingress, modifier, is_set):
    """Get or Set the VPortInfo of a virtual port. A Set raises the state by one (Initialize, Armed,
    Active), lowers it to Initialize, or keeps it (0). It also sets a LID if one is required."""
    if not has_vports(t, ingress):
        return BAD_ATTRIBUTE
    row = vport_row(t, ingress, modifier)
    if row < 0:
        return BAD_FIELD
    info, status = t.vport_info[row], OK
    if is_set:
        status = write_vport(t, m, ingress, row)
    clear(m, DATA_AT, 64)
    copy(m, DATA_AT, info, 0, INFO_SIZE)
    m[DATA_AT + STATE_AT] = (info[STATE_AT] & 0x0F) | (vport_state(t, ingress, row) << 4)
    return status


@inner
def write_vport(t, m, ingress, row):
    """Store the components that a Set may write. If one of them is illegal, nothing changes."""
    info, now = t.vport_info[row], vport_state(t, ingress, row)
    wanted, lid = np.int64(m[DATA_AT + STATE_AT] >> 4), get16(m, DATA_AT + LID_AT)
    physical = np.int64(t.port_info[ingress, PORT_STATE_AT] & 15)
    up = (wanted == ARMED and now == INIT) or (wanted == ACTIVE and now == ARMED)
    restart = wanted == INIT and now > INIT
    if not (wanted == 0 or wanted == now or restart or (up and wanted <= physical)):
        return BAD_FIELD
    required = info[STATE_AT] & LID_REQUIRED != 0
    if lid > LID_MAX or (lid and not required):
        return BAD_FIELD
    if get16(m, DATA_AT + LID_INDEX_AT) > get16(t.virtualization[ingress], CAP_AT):
        return BAD_FIELD
    if up or restart:
        info[STATE_AT] = (info[STATE_AT] & 0x0F) | (wanted << 4)
    if required:
        put16(info, LID_AT, lid)
    copy(info, LID_INDEX_AT, m, DATA_AT + LID_INDEX_AT, 2)
    return OK


@inner
def vport_states(t, m, ingress, modifier, is_set):
    """Get the states of 128 virtual ports, two per byte. Those beyond VPortCap are 0."""
    if is_set or not has_vports(t, ingress):
        return BAD_ATTRIBUTE
    cap, first = get16(t.virtualization[ingress], CAP_AT), modifier * STATES
    if first > cap:
        return BAD_FIELD
    clear(m, DATA_AT, 64)
    for i in range(min(STATES, cap + 1 - first)):
        state = vport_state(t, ingress, np.int64(t.vport_base[ingress]) + first + i)
        m[DATA_AT + (i >> 1)] |= state << (0 if i & 1 else 4)
    return OK


@inner
def vnode(t, m, ingress, modifier, is_set, description):
    """Get VNodeInfo or VNodeDescription of the virtual HCA to which a virtual port belongs."""
    if is_set or not has_vports(t, ingress):
        return BAD_ATTRIBUTE
    row = vport_row(t, ingress, modifier)
    if row < 0:
        return BAD_FIELD
    clear(m, DATA_AT, 64)
    if description:
        copy(m, DATA_AT, t.vnode_desc[row], 0, 64)
    else:
        copy(m, DATA_AT, t.vnode_info[row], 0, NODE_SIZE)
    return OK


@inner
def vport_guid_info(t, m, ingress, modifier, is_set):
    """Get or Set a block of a virtual port's GUIDs. Entry 0 is its PortGUID, and is read-only."""
    if not has_vports(t, ingress):
        return BAD_ATTRIBUTE
    row = vport_row(t, ingress, modifier >> 16)
    if row < 0 or modifier & 0xFFFF:
        return BAD_FIELD
    for i in range(GUIDS):
        if is_set and i:
            t.vport_guids[row, i] = get64(m, DATA_AT + 8 * i)
        put64(m, DATA_AT + 8 * i, t.vport_guids[row, i])
    return OK


@inner
def vport_pkey_table(t, m, ingress, modifier, is_set):
    """Get or Set a block of a virtual port's P_Keys."""
    if not has_vports(t, ingress):
        return BAD_ATTRIBUTE
    row = vport_row(t, ingress, modifier >> 16)
    if row < 0 or modifier & 0xFFFF:
        return BAD_FIELD
    for i in range(PKEYS):
        if is_set:
            t.vport_pkeys[row, i] = get16(m, DATA_AT + 2 * i)
        put16(m, DATA_AT + 2 * i, np.int64(t.vport_pkeys[row, i]))
    return OK
