"""Adaptive routing of a switch: ARInfo, groups, and the LIDs that use them (:mod:`softib.iba.vendor.ar`).

``ar_info`` holds the values that Sets wrote; a Get adds the capabilities of the device. A request
that is rejected changes nothing.
"""

import numpy as np

from softib.agents.kernels.big_endian import clear, copy, get16, get32, get64, inner, put16, put64
from softib.agents.kernels.sma import MELLANOX, is_mellanox_part
from softib.iba import constants as c
from softib.iba.devices import AR_SWITCHES
from softib.iba.smp import DATA_AT, SwitchInfo
from softib.iba.vendor import ar

OK, BAD_FIELD, BAD_ATTRIBUTE = int(c.MadStatus.OK), int(c.MadStatus.BAD_FIELD), int(c.MadStatus.BAD_ATTRIBUTE)
A, M = ar.ARInfo, ar.CapabilityMaskSMP
PARTS = np.array(sorted(AR_SWITCHES), np.int64)
LFDB_CAP_AT = SwitchInfo.linear_fdb_cap.byte


CAPABLE = A.pack(
    by_transp_cap=1,
    by_sl_cap=1,
    glb_groups=1,
    fr_supported=1,
    group_table_copy_sup=1,
    group_cap=ar.AR_GROUPS,
    ar_version_cap=1,
)
"""uint8[64]: the ARInfo that every switch with adaptive routing reports."""
SETTABLE = A.mask_of(
    A.by_sl_en,
    A.no_fallback,
    A.ar_enabled,
    A.fr_enabled,
    A.group_top,
    A.enable_by_sl_mask,
    A.by_transport_disable,
    A.ageing_time_value,
)
"""uint8[64]: the bits that a Set may change."""
WITH_AR = M.pack(is_extended_port_info_supported=1, is_adaptive_routing_rev1_supported=1)
WITHOUT_AR = M.pack(is_extended_port_info_supported=1)
SUB_GROUPS_AT, TOP_AT = A.sub_grps_active.byte, A.group_top.byte - 1
GROUPS, BLOCK, LIDS, RANGES = ar.AR_GROUPS, ar.AR_GROUP_BLOCK, ar.AR_LFT_BLOCK, ar.AR_GROUP_COPY_ENTRIES
CAPABILITY_MODIFIER, HASH, STATE_SHIFT, GROUP_MASK = (
    ar.CAPABILITY_MODIFIER,
    ar.HASH,
    ar.STATE_SHIFT,
    ar.GROUP_MASK,
)
MASK_OCTETS = 32


@inner
def ar_switch(t, ingress):
    """Return the row of the switch that owns port ``ingress``; -1 if it does not support adaptive
    routing."""
    node = t.port_node[ingress]
    switch = np.int64(t.switch_of_node[node])
    if switch >= 0:
        for i in range(PARTS.shape[0]):
            if PARTS[i] == t.device_id[node]:
                return switch
    return np.int64(-1)


@inner
def general_info_smp(t, m, ingress, modifier, is_set):
    """Get GeneralInfo of the subnet management class (Mellanox devices). Only its CapabilityMask is
    filled in."""
    node = t.port_node[ingress]
    if is_set or (t.vendor_id[node] != MELLANOX and not is_mellanox_part(np.int64(t.device_id[node]))):
        return BAD_ATTRIBUTE
    if modifier != CAPABILITY_MODIFIER:
        return BAD_FIELD
    copy(m, DATA_AT, WITH_AR if ar_switch(t, ingress) >= 0 else WITHOUT_AR, 0, 64)
    return OK


@inner
def ar_info(t, m, ingress, is_set):
    """Get or Set ARInfo. A Set stores the components that may be set. Each group has one
    subgroup."""
    switch = ar_switch(t, ingress)
    if switch < 0:
        return BAD_ATTRIBUTE
    image, status = t.ar_info[switch], OK
    if is_set:
        top = (get32(m, DATA_AT + TOP_AT) >> 12) & GROUP_MASK
        if top >= GROUPS or m[DATA_AT + SUB_GROUPS_AT] & 0x0F:
            status = BAD_FIELD
        else:
            for i in range(64):
                image[i] = m[DATA_AT + i] & SETTABLE[i]
    for i in range(64):
        m[DATA_AT + i] = image[i] | CAPABLE[i]
    return status


@inner
def ports_exist(m, at, nports):
    """Return whether the mask at ``at`` contains only ports 1…``nports``."""
    for bit in range(8 * MASK_OCTETS):
        if (m[at + MASK_OCTETS - 1 - bit // 8] >> (bit % 8)) & 1 and (bit == 0 or bit > nports):
            return False
    return True


@inner
def ar_group_table(t, m, ingress, modifier, is_set):
    """Get or Set ARGroupTable: two groups per block."""
    switch = ar_switch(t, ingress)
    if switch < 0:
        return BAD_ATTRIBUTE
    first = (modifier & 0xFFF) * BLOCK
    if modifier >> 12 or first >= GROUPS:
        return BAD_FIELD
    status, nports = OK, np.int64(t.node_nports[t.port_node[ingress]])
    if is_set:
        for i in range(BLOCK):
            if not ports_exist(m, DATA_AT + MASK_OCTETS * i, nports):
                status = BAD_FIELD
        if status == OK:
            for i in range(BLOCK):
                for w in range(4):
                    t.ar_group[switch, first + i, w] = get64(m, DATA_AT + MASK_OCTETS * i + 8 * (3 - w))
    for i in range(BLOCK):
        for w in range(4):
            put64(m, DATA_AT + MASK_OCTETS * i + 8 * (3 - w), t.ar_group[switch, first + i, w])
    return status


@inner
def ar_group_copy(t, m, ingress, modifier, is_set):
    """Set ARGroupTableCopy: copy one group to ranges of other groups."""
    switch = ar_switch(t, ingress)
    if switch < 0 or not is_set:
        return BAD_ATTRIBUTE
    if modifier >= GROUPS:
        return BAD_FIELD
    for i in range(RANGES):
        last, first = get16(m, DATA_AT + 4 * i), get16(m, DATA_AT + 4 * i + 2)
        if last >= GROUPS or first > last:
            return BAD_FIELD
    for i in range(RANGES):
        last, first = get16(m, DATA_AT + 4 * i), get16(m, DATA_AT + 4 * i + 2)
        if last > 0:
            for group in range(first, last + 1):
                for w in range(4):
                    t.ar_group[switch, group, w] = t.ar_group[switch, modifier, w]
    return OK


@inner
def ar_lft(t, m, ingress, modifier, is_set):
    """Get or Set ARLinearForwardingTable: the modes and groups of 16 LIDs. Their ports are stored
    in the LinearForwardingTable."""
    switch = ar_switch(t, ingress)
    if switch < 0:
        return BAD_ATTRIBUTE
    cap = min(get16(t.switch_info[switch], LFDB_CAP_AT), np.int64(t.lft.shape[1]))
    first = (modifier & 0xFFFFFF) * LIDS
    if modifier >> 24 or first >= cap:
        return BAD_FIELD
    here, status = min(cap - first, LIDS), OK
    if is_set:
        for i in range(here):
            at = DATA_AT + 4 * i
            if m[at] & 0x3F or m[at] >> 6 == HASH or get16(m, at + 2) >= GROUPS:
                status = BAD_FIELD
        if status == OK:
            for i in range(here):
                at = DATA_AT + 4 * i
                t.lft[switch, first + i] = m[at + 1]
                t.ar_lft[switch, first + i] = ((m[at] >> 6) << STATE_SHIFT) | get16(m, at + 2)
    clear(m, DATA_AT, 64)
    for i in range(here):
        at, v = DATA_AT + 4 * i, np.int64(t.ar_lft[switch, first + i])
        m[at] = (v >> STATE_SHIFT) << 6
        m[at + 1] = t.lft[switch, first + i]
        put16(m, at + 2, v & GROUP_MASK)
    return status
