"""PortInfo: Get, Set, and the effect of a Set on the link (IBA 14.2.5.6, 7.2.7)."""

import numpy as np

from softib.agents.kernels.big_endian import clear, copy, get8, get16, inner, same
from softib.agents.kernels.faults.ber import settle
from softib.agents.kernels.faults.fault_columns import BITS, CUT, DEAD
from softib.agents.kernels.notice import notice
from softib.agents.kernels.training import agree
from softib.fabric.counters import COUNTER_NAMES
from softib.iba import constants as c
from softib.iba.port_states import INVALID, STATE_AFTER_SET
from softib.iba.smp import DATA_AT, MKEY_AT, SwitchInfo
from softib.iba.smp import PortInfo as P

SWITCH = int(c.NodeType.SWITCH)
DOWN, INIT, ACTIVE = int(c.PortState.DOWN), int(c.PortState.INIT), int(c.PortState.ACTIVE)
POLLING, DISABLED, LINK_UP = int(c.PhysState.POLLING), int(c.PhysState.DISABLED), int(c.PhysState.LINK_UP)
OK, BAD_FIELD = int(c.MadStatus.OK), int(c.MadStatus.BAD_FIELD)
LID_MCAST_MIN = c.LID_MCAST_MIN
TRAP_LINK_STATE = 128
LINK_DOWNED = COUNTER_NAMES.index("link_downed_counter")

LID_AT, SM_LID_AT = P.lid.byte, P.master_sm_lid.byte
LOCAL_PORT_AT = P.local_port_num.byte
WIDTH_ENABLED_AT, WIDTH_SUPPORTED_AT = P.link_width_enabled.byte, P.link_width_supported.byte
# LinkSpeedSupported + PortState; PortPhysicalState + LinkDownDefaultState
STATE_AT, PHYS_AT = P.port_state.byte, P.port_phys_state.byte
LMC_AT, SPEED_ENABLED_AT = P.lmc.byte, P.link_speed_enabled.byte
MTU_AT, MTU_CAP_AT, VL_CAP_AT, OPER_VLS_AT = P.neighbor_mtu.byte, P.mtu_cap.byte, P.vl_cap.byte, P.operational_vls.byte
VIOLATIONS_AT, REREGISTER_AT = P.mkey_violations.byte, P.client_reregister.byte
EXT2_AT, EXT_SUPPORTED_AT, EXT_ENABLED_AT = (
    P.link_speed_ext2_enabled.byte,
    P.link_speed_ext_supported.byte,
    P.link_speed_ext_enabled.byte,
)
STATE_CHANGE_AT = SwitchInfo.port_state_change.byte
STATE_CHANGE_BIT = 1 << (7 - SwitchInfo.port_state_change.offset % 8)
EXT_NONE, EXT_ALL = 30, 31
EXTENDED, PORT_MASK = c.SM_SUPPORTS_EXTENDED_SPEEDS, c.SM_SUPPORTS_EXTENDED_SPEEDS - 1


_END = (
    P.mkey,
    P.gid_prefix,
    P.lid,
    P.master_sm_lid,
    P.mkey_lease_period,
    P.mkey_protect,
    P.lmc,
    P.master_sm_sl,
    P.init_type,
    P.subnet_timeout,
    P.mcast_pkey_trap_suppression,
)
_LINK = (P.vl_high_limit, P.vl_stall_count, P.hoq_life, P.local_phy_errors, P.overrun_errors)
_ENFORCE = (
    P.partition_enforcement_inbound,
    P.partition_enforcement_outbound,
    P.filter_raw_inbound,
    P.filter_raw_outbound,
)
WRITABLE = np.stack([P.mask_of(*_END, *_LINK), P.mask_of(*_END, *_LINK), P.mask_of(*_LINK, *_ENFORCE)])
"""uint8[3, 64]: the bits that a Set stores unchanged, on a CA port, on port 0 of a switch, and on
an external port of a switch. Other bits are read-only, or code below handles them."""

CA_PORT, PORT0, EXTERNAL = 0, 1, 2


@inner
def kind_of(t, port):
    """Return the kind of ``port``: CA_PORT, PORT0 or EXTERNAL."""
    if t.node_type[t.port_node[port]] != SWITCH:
        return CA_PORT
    return PORT0 if t.port_num[port] == 0 else EXTERNAL


@inner
def selected_port(t, ingress, number):
    """Return the row of port ``number`` of the node to which ``ingress`` belongs; -1 = no such
    port. On a CA, number 0 means the ingress port."""
    node = t.port_node[ingress]
    if number > t.node_nports[node]:
        return np.int64(-1)
    if number == 0 and t.node_type[node] != SWITCH:
        return np.int64(ingress)
    return np.int64(t.node_base[node]) + number


@inner
def get_port_info(t, m, ingress, modifier):
    """Write PortInfo of the port that ``modifier`` selects into the MAD. Return the status.

    If MKeyProtectBits is 1, only a MAD with the right M_Key gets the M_Key.
    """
    port = selected_port(t, ingress, modifier & PORT_MASK)
    if port < 0:
        return BAD_FIELD
    hide_mkey = get8(t.port_info[port], LMC_AT) >> 6 == 1 and not same(t.port_info[port], 0, m, MKEY_AT, 8)
    copy(m, DATA_AT, t.port_info[port], 0, 64)
    m[DATA_AT + LOCAL_PORT_AT] = t.port_num[ingress]
    if hide_mkey:
        clear(m, DATA_AT, 8)
    if hides_speeds(t, port, modifier):
        hide_speeds(m)
    return OK


@inner
def hides_speeds(t, port, modifier):
    """Return whether strict firmware hides the extended speeds of an external port, because the
    manager does not support them."""
    return t.node_strict[t.port_node[port]] != 0 and not modifier & EXTENDED and t.port_num[port] != 0


@inner
def hide_speeds(m):
    """Set LinkSpeedExtSupported and LinkSpeedExtEnabled to 0, and also LinkSpeedExt2Supported and
    LinkSpeedExt2Enabled. The active speed stays."""
    m[DATA_AT + EXT_SUPPORTED_AT] &= 0xF0
    m[DATA_AT + EXT_ENABLED_AT] &= 0xE0
    m[DATA_AT + EXT2_AT] &= 0xE0


@inner
def set_port_info(t, m, ingress, modifier, now):
    """Set PortInfo completely, or, with status BAD_FIELD, not at all. The answer contains PortInfo
    after the Set."""
    port = selected_port(t, ingress, modifier & PORT_MASK)
    if port < 0:
        return BAD_FIELD
    hides = hides_speeds(t, port, modifier)
    if hides:
        hide_speeds(m)  # 0 in the enabled speeds means no change
    kind = kind_of(t, port)
    status = BAD_FIELD
    if (kind != CA_PORT or port == ingress) and valid(t, m[DATA_AT : DATA_AT + 64], t.port_info[port], kind):
        apply(t, m[DATA_AT : DATA_AT + 64], port, kind, now)
        status = OK
    reregister = m[DATA_AT + REREGISTER_AT] & 0x80
    copy(m, DATA_AT, t.port_info[port], 0, 64)
    m[DATA_AT + LOCAL_PORT_AT] = t.port_num[ingress]
    if status == OK and kind != EXTERNAL:
        m[DATA_AT + REREGISTER_AT] |= reregister
        if reregister:
            t.reregisters[port] += np.uint32(1)
    if hides:
        hide_speeds(m)
    return status


@inner
def enabled_ok(request, supported, everything):
    """Return whether a request for enabled widths or speeds is legal: no change, all supported
    ones, or a subset of them."""
    return request == 0 or request == everything or (request & ~supported) == 0


@inner
def unicast(new, old, at):
    """Return whether the LID at ``at`` may be set: a unicast LID, or 0 on a port that has no LID
    yet.

    Linux' qib and hfi1 reject 0 and multicast LIDs with "invalid field" (in ``subn_set_portinfo``),
    as 14.2.5.6 requires. On a subnet without a manager, ibportstate writes 0 again to a port
    without a LID, which is accepted. The low bits of a LID that the LMC covers are ignored when
    packets are matched (4.1.3), so a Set with such bits is not rejected.
    """
    lid = get16(new, at)
    return lid < LID_MCAST_MIN and (lid != 0 or get16(old, at) == 0)


@inner
def valid(t, new, old, kind):
    """Return whether every component of the request ``new`` is legal for a port whose PortInfo is
    now ``old``."""
    state, phys = get8(new, STATE_AT) & 15, get8(new, PHYS_AT) >> 4
    if kind != EXTERNAL:
        if not unicast(new, old, LID_AT) or not unicast(new, old, SM_LID_AT):
            return False
    if kind != PORT0:
        if STATE_AFTER_SET[get8(old, STATE_AT) & 15, state] == INVALID:
            return False
        # A Set may change the physical state only if PortState is "no change" or "down".
        if phys > DISABLED or (phys != 0 and state > DOWN):
            return False
        if (get8(new, PHYS_AT) & 15) > POLLING:
            return False
        if not enabled_ok(get8(new, WIDTH_ENABLED_AT), get8(old, WIDTH_SUPPORTED_AT), 0xFF):
            return False
        if not enabled_ok(get8(new, SPEED_ENABLED_AT) & 15, get8(old, STATE_AT) >> 4, 15):
            return False
        ext = get8(new, EXT_ENABLED_AT) & 31
        if ext != EXT_NONE and not enabled_ok(ext, get8(old, EXT_SUPPORTED_AT) & 15, EXT_ALL):
            return False
        if not enabled_ok(get8(new, EXT2_AT) & 7, (get8(old, EXT2_AT) >> 3) & 3, 7):
            return False
    if has_mtu(old, kind) and (get8(new, MTU_AT) >> 4) > (get8(old, MTU_CAP_AT) & 15):
        return False
    return not has_vls(old, kind) or (get8(new, OPER_VLS_AT) >> 4) <= (get8(old, VL_CAP_AT) >> 4)


@inner
def has_mtu(old, kind):
    """Return False for a port 0 whose MTUCap is 0. A base port 0 has no data path, so components of
    PortInfo for data paths are unused there (14.2.5.6). Unmanaged Quantum-2 switches report 0 in
    all these components, but accept a manager's values.
    """
    return kind != PORT0 or (get8(old, MTU_CAP_AT) & 15) != 0


@inner
def has_vls(old, kind):
    """Return False for a port 0 whose VLCap is 0, for the same reason as in :func:`has_mtu`."""
    return kind != PORT0 or (get8(old, VL_CAP_AT) >> 4) != 0


@inner
def _write(info, new, kind):
    """Copy those bits of ``new`` that a Set may write into ``info``."""
    for i in range(64):
        mask = np.int64(WRITABLE[kind, i])
        info[i] = (get8(info, i) & ~mask) | (get8(new, i) & mask)


@_write.in_python
def _write_at_once(info, new, kind):
    mask = WRITABLE[kind, :64]
    info[:64] = (info[:64] & ~mask) | (new[:64] & mask)


@inner
def apply(t, new, port, kind, now):
    """Store the components of a legal request, and change the link's state."""
    info = t.port_info[port]
    _write(info, new, kind)
    if get8(new, MTU_AT) >> 4 and has_mtu(info, kind):
        info[MTU_AT] = (get8(info, MTU_AT) & 0x0F) | (get8(new, MTU_AT) & 0xF0)
    if get8(new, OPER_VLS_AT) >> 4 and has_vls(info, kind):
        info[OPER_VLS_AT] = (get8(info, OPER_VLS_AT) & 0x0F) | (get8(new, OPER_VLS_AT) & 0xF0)
    if kind != EXTERNAL:
        # Violation counters stop at their maximum. A Set with 0 clears them; any other value is
        # ignored.
        for i in range(VIOLATIONS_AT, VIOLATIONS_AT + 6, 2):
            if get16(new, i) == 0:
                clear(info, i, 2)
    if kind != PORT0:
        enable(new, info)
        if get8(new, PHYS_AT) & 15:
            info[PHYS_AT] = (get8(info, PHYS_AT) & 0xF0) | (get8(new, PHYS_AT) & 0x0F)
        change_state(t, port, (get8(new, STATE_AT) & 15), (get8(new, PHYS_AT) >> 4), now)


@inner
def enable(new, info):
    """Set LinkWidthEnabled and the three LinkSpeedEnabled. 0 keeps the value; all ones enables
    everything that is supported."""
    width = get8(new, WIDTH_ENABLED_AT)
    if width:
        info[WIDTH_ENABLED_AT] = get8(info, WIDTH_SUPPORTED_AT) if width == 0xFF else width
    speed = get8(new, SPEED_ENABLED_AT) & 15
    if speed:
        speed = get8(info, STATE_AT) >> 4 if speed == 15 else speed
        info[SPEED_ENABLED_AT] = (get8(info, SPEED_ENABLED_AT) & 0xF0) | speed
    ext = get8(new, EXT_ENABLED_AT) & 31
    if ext:
        ext = get8(info, EXT_SUPPORTED_AT) & 15 if ext == EXT_ALL else ext
        info[EXT_ENABLED_AT] = (get8(info, EXT_ENABLED_AT) & 0xE0) | ext
    ext2 = get8(new, EXT2_AT) & 7
    if ext2:
        ext2 = (get8(info, EXT2_AT) >> 3) & 3 if ext2 == 7 else ext2
        info[EXT2_AT] = (get8(info, EXT2_AT) & 0xF8) | ext2


@inner
def change_state(t, port, state, phys, now):
    """Change the port's state as the state table says. If the port goes down, its link fails, and
    trains again unless the port is disabled."""
    old = get8(t.port_info[port], STATE_AT) & 15
    target = np.int64(STATE_AFTER_SET[old, state])
    if phys == 0 and state != DOWN:
        if target != old:
            t.port_info[port, STATE_AT] = (get8(t.port_info[port], STATE_AT) & 0xF0) | target
        return
    if phys == 0:
        # A Set of "Down" leaves a disabled port disabled; for other ports, LinkDownDefaultState is
        # the next state. A sleeping port wakes up when its peer polls, so it trains too.
        if get8(t.port_info[port], PHYS_AT) >> 4 == DISABLED:
            return
        phys = get8(t.port_info[port], PHYS_AT) & 15
        if phys == 0:
            phys = POLLING
    put_state(t, port, DOWN, phys, True, now)
    peer = np.int64(t.port_peer[port])
    if peer < 0:
        return
    if (get8(t.port_info[peer], PHYS_AT) >> 4) != DISABLED:
        put_state(t, peer, DOWN, POLLING, False, now)
    train(t, port, now)


@inner
def train(t, port, now):
    """Train the link. Both ends reach LinkUp and INIT if a cable with a signal connects them,
    neither is disabled or without power, and they have a common width and speed."""
    peer = np.int64(t.port_peer[port])
    if peer < 0:
        return
    if (get8(t.port_info[port], PHYS_AT) >> 4) == DISABLED or (get8(t.port_info[peer], PHYS_AT) >> 4) == DISABLED:
        return
    if (t.fault[port, BITS] | t.fault[peer, BITS]) & (CUT | DEAD):
        return
    if not agree(t, np.int64(port), peer):
        return
    put_state(t, port, INIT, LINK_UP, False, now)
    put_state(t, peer, INIT, LINK_UP, False, now)


@inner
def drop(t, port, now):
    """Let the link at ``port`` fail, because the cable was removed or the other end has no power.
    Both ends go down, count the failure, and poll."""
    fail(t, port, now)
    peer = np.int64(t.port_peer[port])
    if peer >= 0:
        fail(t, peer, now)


@inner
def fail(t, port, now):
    """Let one end of a link fail. LinkDownedCounter counts only links that were up."""
    if (get8(t.port_info[port], PHYS_AT) >> 4) == DISABLED:
        return
    if (get8(t.port_info[port], STATE_AT) & 15) != DOWN:
        t.counters[port, LINK_DOWNED] += np.uint64(1)
    put_state(t, port, DOWN, POLLING, False, now)


@inner
def put_state(t, port, state, phys, by_set, now):
    """Write PortState and PortPhysicalState. If the port goes down or comes up and no Set caused
    this, the switch sets PortStateChange, and raises trap 128 if it was not set before (IBA
    14.2.5.4, 14.2.5.1)."""
    settle(t, port, now)
    info = t.port_info[port]
    old = get8(info, STATE_AT) & 15
    info[STATE_AT] = (get8(info, STATE_AT) & 0xF0) | state
    info[PHYS_AT] = (get8(info, PHYS_AT) & 0x0F) | (phys << 4)
    if by_set or (old == DOWN) == (state == DOWN):
        return
    node = t.port_node[port]
    if t.node_type[node] != SWITCH:
        return
    switch = t.switch_of_node[node]
    if not get8(t.switch_info[switch], STATE_CHANGE_AT) & STATE_CHANGE_BIT:
        t.switch_info[switch, STATE_CHANGE_AT] |= STATE_CHANGE_BIT
        notice(t, now, np.int64(t.node_base[node]), TRAP_LINK_STATE, np.int64(t.port_num[port]))
