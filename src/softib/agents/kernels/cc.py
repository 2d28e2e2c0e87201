"""The congestion control agent (IBA annex A10.4). A congestion manager writes its settings, and the
simulator uses them."""

import numpy as np

from softib.agents.kernels.big_endian import clear, copy, get16, get32, inner, put32, same
from softib.agents.kernels.mkey import WRONG, key_state, violated
from softib.agents.kernels.pma import class_port_info
from softib.agents.kernels.route import end_port
from softib.fabric.columns import CCT_ENTRIES
from softib.iba import cc
from softib.iba import constants as c
from softib.iba.smp import ATTR_AT, DATA_AT, METHOD_AT, MODIFIER_AT

SWITCH, SET = int(c.NodeType.SWITCH), int(c.Method.SET)
OK, BAD_ATTRIBUTE, BAD_FIELD = int(c.MadStatus.OK), int(c.MadStatus.BAD_ATTRIBUTE), int(c.MadStatus.BAD_FIELD)
REFUSED = -1
KEY_AT, LOG_AT, CLASS_VERSION = cc.CC_KEY_AT, cc.CC_LOG_AT, cc.CC_CLASS_VERSION
SETTING_SIZE, CA_SIZE = cc.SwitchCongestionSetting.size, cc.CACongestionSetting.size
CLASS_PORT_INFO, INFO, KEY_INFO, LOG, SWITCH_SETTING, PORT_SETTING, CA_SETTING, TABLE, TIME_STAMP = (
    0x01,
    cc.CongestionInfo.attr,
    cc.CongestionKeyInfo.attr,
    cc.CongestionLogSwitch.attr,
    cc.SwitchCongestionSetting.attr,
    cc.SwitchPortCongestionSetting.attr,
    cc.CACongestionSetting.attr,
    cc.CongestionControlTable.attr,
    cc.TimeStamp.attr,
)
K, S, A = cc.CongestionKeyInfo, cc.SwitchCongestionSetting, cc.CACongestionSetting
PROTECT_AT, LEASE_AT, VIOLATIONS_AT = K.cc_key_protect_bit.byte, K.cc_key_lease_period.byte, K.cc_key_violations.byte
PROTECT = 0x80
TABLE_CAP_AT = cc.CongestionInfo.control_table_cap.byte
LOG_SIZE = cc.CongestionLogSwitch.size
LOG_TIME_SWITCH_AT, LOG_TIME_CA_AT = (
    cc.CongestionLogSwitch.current_time_stamp.byte,
    cc.CongestionLogCA.current_time_stamp.byte,
)
LOG_SWITCH, LOG_CA = 1, 2
PARTS = np.array(
    [
        (0, S.victim_mask.byte, 32),
        (1, S.credit_mask.byte, 32),
        (2, S.threshold.byte, 2),
        (3, S.cs_threshold.byte, 4),
        (4, S.marking_rate.byte, 2),
    ],
    np.int64,
)
"""The bytes of SwitchCongestionSetting that each bit of ControlMap applies to (A10.4.3.6)."""
PORT_BLOCK, CCT_BLOCK, CCT_AT = cc.SWITCH_PORT_BLOCK, cc.CCT_BLOCK, 4
ENTRIES_AT, ENTRY = A.entries.byte, cc.CACongestionEntry.size
CA_MAP_AT = A.control_map.byte
RESP_TIME = 18
PS_PER_TICK = 1_024_000
"""Picoseconds per tick of TimeStamp, whose unit is 1.024 us (A10.4.3.10)."""


@inner
def key_fits(t, m, end, now):
    """Return whether the MAD may be executed: the port has no CC_Key, the MAD has the right key, or
    the MAD is a Get (A10.4.2). A Set with a wrong key is counted and starts the lease. When the
    lease ends, the protect bit is cleared."""
    info = t.cc_key_info[end]
    if key_state(info, t.cc_until, end, m, KEY_AT, PROTECT_AT, PROTECT, now) != WRONG or m[METHOD_AT] != SET:
        return True
    violated(info, t.cc_until, end, VIOLATIONS_AT, LEASE_AT, now)
    return False


@inner
def key_info(t, m, end, is_set):
    """Get or Set CongestionKeyInfo. If the protect bit is set, the key is returned only to a MAD
    with the CC_Key."""
    info = t.cc_key_info[end]
    if is_set:
        copy(info, 0, m, DATA_AT, 8)
        info[PROTECT_AT] = m[DATA_AT + PROTECT_AT] & PROTECT
        copy(info, LEASE_AT, m, DATA_AT + LEASE_AT, 2)
        if get16(m, DATA_AT + VIOLATIONS_AT) == 0:
            clear(info, VIOLATIONS_AT, 2)
    knows = is_set or same(info, 0, m, KEY_AT, 8)
    clear(m, DATA_AT, 192)
    copy(m, DATA_AT, info, 0, 16)
    if info[PROTECT_AT] & PROTECT and not knows:
        clear(m, DATA_AT, 8)
    return OK


@inner
def switch_setting(t, m, switch, is_set):
    """Get or Set SwitchCongestionSetting. A Set changes the components whose bit in ControlMap is
    set."""
    image = t.cc_switch_setting[switch]
    if is_set:
        chosen = get32(m, DATA_AT)
        for i in range(PARTS.shape[0]):
            if (chosen >> PARTS[i, 0]) & 1:
                copy(image, PARTS[i, 1], m, DATA_AT + PARTS[i, 1], PARTS[i, 2])
        copy(image, 0, m, DATA_AT, 4)
    clear(m, DATA_AT, 192)
    copy(m, DATA_AT, image, 0, SETTING_SIZE)
    return OK


@inner
def port_setting(t, m, node, modifier, is_set):
    """Get or Set a block of SwitchPortCongestionSetting. The first block begins with port 0."""
    n, first = np.int64(t.node_nports[node]), modifier * PORT_BLOCK
    if first > n:
        return BAD_FIELD
    for i in range(PORT_BLOCK):
        at = DATA_AT + 4 * i
        if first + i > n:
            clear(m, at, 4)
        elif is_set:
            copy(t.cc_port_setting[t.node_base[node] + first + i], 0, m, at, 4)
        else:
            copy(m, at, t.cc_port_setting[t.node_base[node] + first + i], 0, 4)
    return OK


@inner
def ca_setting(t, m, end, is_set):
    """Get or Set CACongestionSetting. A Set changes the entries of the SLs in ControlMap."""
    image = t.cc_ca_setting[end]
    if is_set:
        chosen = get16(m, DATA_AT + CA_MAP_AT)
        copy(image, 0, m, DATA_AT, ENTRIES_AT)
        for sl in range(16):
            if (chosen >> sl) & 1:
                copy(image, ENTRIES_AT + ENTRY * sl, m, DATA_AT + ENTRIES_AT + ENTRY * sl, ENTRY)
    clear(m, DATA_AT, 192)
    copy(m, DATA_AT, image, 0, CA_SIZE)
    return OK


@inner
def control_table(t, m, end, modifier, is_set):
    """Get or Set a block of 64 entries of the CongestionControlTable, and the table's limit."""
    image = t.cc_table[end]
    first = modifier * CCT_BLOCK
    if first >= CCT_ENTRIES:
        return BAD_FIELD
    if is_set:
        if get16(m, DATA_AT) >= CCT_ENTRIES:
            return BAD_FIELD
        copy(image, 0, m, DATA_AT, 2)
        copy(image, CCT_AT + 2 * first, m, DATA_AT + CCT_AT, 2 * CCT_BLOCK)
    clear(m, DATA_AT, 192)
    copy(m, DATA_AT, image, 0, 2)
    copy(m, DATA_AT + CCT_AT, image, CCT_AT + 2 * first, 2 * CCT_BLOCK)
    return OK


@inner
def congestion_log(t, m, end, is_switch, now):
    """Get CongestionLog: the entries that the simulation wrote, with the log's type and the current
    time."""
    copy(m, LOG_AT, t.cc_log[end], 0, LOG_SIZE)
    m[LOG_AT] = LOG_SWITCH if is_switch else LOG_CA
    put32(m, LOG_AT + (LOG_TIME_SWITCH_AT if is_switch else LOG_TIME_CA_AT), (now // PS_PER_TICK) & 0xFFFFFFFF)
    return OK


@inner
def cc_agent(t, m, ingress, now):
    """Answer a Get or Set of one congestion control attribute. Return the status, or REFUSED if the
    CC_Key is wrong."""
    attribute, modifier, is_set = get16(m, ATTR_AT), get32(m, MODIFIER_AT), m[METHOD_AT] == SET
    node, end = t.port_node[ingress], end_port(t, ingress)
    is_switch = t.node_type[node] == SWITCH
    if not key_fits(t, m, end, now):
        return np.int64(REFUSED)
    if attribute == CLASS_PORT_INFO:
        return class_port_info(t, m, end, 1, CLASS_VERSION, 0, 0, is_set)
    if attribute == KEY_INFO:
        return key_info(t, m, end, is_set)
    if attribute == SWITCH_SETTING and is_switch:
        return switch_setting(t, m, t.switch_of_node[node], is_set)
    if attribute == PORT_SETTING and is_switch:
        return port_setting(t, m, node, modifier, is_set)
    if attribute == CA_SETTING and not is_switch:
        return ca_setting(t, m, end, is_set)
    if attribute == TABLE and not is_switch:
        return control_table(t, m, end, modifier, is_set)
    if is_set:
        return BAD_ATTRIBUTE
    if attribute == LOG:
        return congestion_log(t, m, end, is_switch, now)
    if attribute == INFO:
        clear(m, DATA_AT, 192)
        m[DATA_AT + TABLE_CAP_AT] = 0 if is_switch else CCT_ENTRIES // CCT_BLOCK
        return OK
    if attribute == TIME_STAMP:
        clear(m, DATA_AT, 192)
        put32(m, DATA_AT, (now // PS_PER_TICK) & 0xFFFFFFFF)
        return OK
    return BAD_ATTRIBUTE
