"""Tables of the subnet management agent. Each SMP reads or writes one block: GUIDs, P_Keys, SL to
VL, VL arbitration, forwarding.

Functions have the same signature as those in :mod:`softib.agents.kernels.sma`.
"""

import numpy as np

from softib.agents.kernels.big_endian import clear, copy, get16, get64, inner, put16, put64
from softib.agents.kernels.sma import BAD_ATTRIBUTE, BAD_FIELD, LFDB_CAP_AT, LIFE_AT, MFDB_CAP_AT, OK, SWITCH
from softib.iba import constants as c
from softib.iba.smp import DATA_AT, PortInfo

GUID_CAP_AT = PortInfo.guid_cap.byte
HIGH_CAP_AT, LOW_CAP_AT = PortInfo.vl_arb_high_cap.byte, PortInfo.vl_arb_low_cap.byte
LFT_NO_ROUTE = c.LFT_NO_ROUTE
ALL_OUTPUTS, ALL_INPUTS = 0x10000, 0x20000


@inner
def guid_info(t, m, ingress, modifier, is_set):
    """Get or Set a block of eight GUIDs of the end port. Entry 0 is the PortGUID, and is read-only
    (14.2.5.5)."""
    node = t.port_node[ingress]
    end = np.int64(t.node_base[node]) if t.node_type[node] == SWITCH else np.int64(ingress)
    first, cap = modifier * 8, np.int64(t.port_info[end, GUID_CAP_AT])
    if first >= cap:
        return BAD_FIELD
    base = np.int64(t.guid_base[end]) + first
    for i in range(8):
        at = DATA_AT + 8 * i
        if first + i < cap and base + i < t.guids.shape[0]:
            if is_set and first + i > 0:
                t.guids[base + i] = get64(m, at)
            put64(m, at, t.guids[base + i])
        else:
            clear(m, at, 8)
    return OK


@inner
def pkey_table(t, m, ingress, modifier, is_set):
    """Get or Set a block of 32 P_Keys. On a switch, the upper half of AttributeModifier selects the
    port (14.2.5.7)."""
    node = t.port_node[ingress]
    port = np.int64(ingress)
    if t.node_type[node] == SWITCH:
        number = modifier >> 16
        if number > t.node_nports[node]:
            return BAD_FIELD
        port = np.int64(t.node_base[node]) + number
    first, cap = (modifier & 0xFFFF) * 32, np.int64(t.pkey_cap[port])
    if first >= cap:
        return BAD_FIELD
    base = np.int64(t.pkey_base[port]) + first
    for i in range(32):
        at = DATA_AT + 2 * i
        if first + i < cap:
            if is_set:
                t.pkeys[base + i] = get16(m, at)
            else:
                put16(m, at, np.int64(t.pkeys[base + i]))
        else:
            clear(m, at, 2)
    return OK


@inner
def sl_to_vl(t, m, ingress, modifier, is_set):
    """Get or Set the SL-to-VL table of a CA port, or of an input and an output port of a switch
    (14.2.5.8).

    With one Set, a switch with OptimizedSLtoVLMappingProgramming can write the tables of all output
    ports (bit 16) or all input ports (bit 17).
    """
    node = t.port_node[ingress]
    if t.node_type[node] != SWITCH:
        row = t.sl2vl[t.sl2vl_base[ingress]]
        if is_set:
            copy(row, 0, m, DATA_AT, 8)
        copy(m, DATA_AT, row, 0, 8)
        clear(m, DATA_AT + 8, 56)
        return OK
    n, base = np.int64(t.node_nports[node]), np.int64(t.node_base[node])
    first_out, first_in = modifier & 0xFF, (modifier >> 8) & 0xFF
    last_out, last_in = first_out, first_in
    wild = modifier & (ALL_OUTPUTS | ALL_INPUTS)
    optimized = t.switch_info[t.switch_of_node[node], LIFE_AT] & 3
    if (modifier >> 18) or (wild and not (optimized and is_set)):
        return BAD_FIELD
    if modifier & ALL_OUTPUTS:
        first_out, last_out = 1, n
    if modifier & ALL_INPUTS:
        first_in, last_in = 0, n
    if last_out > n or last_in > n:
        return BAD_FIELD
    for out in range(first_out, last_out + 1):
        for into in range(first_in, last_in + 1):
            row = t.sl2vl[t.sl2vl_base[base + out] + into]
            if is_set:
                copy(row, 0, m, DATA_AT, 8)
            else:
                copy(m, DATA_AT, row, 0, 8)
    clear(m, DATA_AT + 8, 56)
    return OK


@inner
def vl_arbitration(t, m, ingress, modifier, is_set):
    """Get or Set one of four blocks of 32 (VL, weight) entries. Entries beyond the length of the
    port's table do not exist (14.2.5.9)."""
    node = t.port_node[ingress]
    block, number = modifier >> 16, modifier & 0xFFFF
    port = np.int64(ingress)
    if t.node_type[node] == SWITCH:
        if number > t.node_nports[node]:
            return BAD_FIELD
        port = np.int64(t.node_base[node]) + number
    if block < 1 or block > 4:
        return BAD_FIELD
    cap = np.int64(t.port_info[port, LOW_CAP_AT if block <= 2 else HIGH_CAP_AT])
    here = min(cap - (32 if block % 2 == 0 else 0), 32)
    if here <= 0:
        return BAD_FIELD
    row = t.vl_arb[port, block - 1]
    if is_set:
        copy(row, 0, m, DATA_AT, 2 * here)
    copy(m, DATA_AT, row, 0, 2 * here)
    clear(m, DATA_AT + 2 * here, 64 - 2 * here)
    return OK


@inner
def linear_fdb(t, m, ingress, modifier, is_set):
    """Get or Set the output ports of 64 LIDs (14.2.5.10)."""
    switch = t.switch_of_node[t.port_node[ingress]]
    if switch < 0:
        return BAD_ATTRIBUTE
    cap = min(get16(t.switch_info[switch], LFDB_CAP_AT), np.int64(t.lft.shape[1]))
    first = modifier * 64
    if first >= cap:
        return BAD_FIELD
    here = min(cap - first, 64)
    row = t.lft[switch]
    if is_set:
        copy(row, first, m, DATA_AT, here)
    else:
        copy(m, DATA_AT, row, first, here)
    for i in range(here, 64):
        m[DATA_AT + i] = LFT_NO_ROUTE
    return OK


@inner
def multicast_fdb(t, m, ingress, modifier, is_set):
    """Get or Set the port masks of 32 MLIDs for 16 ports. AttributeModifier: block in bits 0-8,
    group of 16 ports in bits 28-31 (14.2.5.12)."""
    node = t.port_node[ingress]
    switch = t.switch_of_node[node]
    if switch < 0:
        return BAD_ATTRIBUTE
    position, first = modifier >> 28, (modifier & 0x1FF) * 32
    cap = min(get16(t.switch_info[switch], MFDB_CAP_AT), np.int64(t.mft.shape[1]))
    if modifier & 0x0FFFFE00 or first >= cap or position * 16 > t.node_nports[node] or position >= t.mft.shape[2]:
        return BAD_FIELD
    for i in range(32):
        at = DATA_AT + 2 * i
        if first + i >= cap:
            clear(m, at, 2)
        elif is_set:
            t.mft[switch, first + i, position] = get16(m, at)
        else:
            put16(m, at, np.int64(t.mft[switch, first + i, position]))
    return OK
