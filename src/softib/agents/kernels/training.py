"""Link training: it selects the largest width and the fastest speed that both ends enable (IBA 5.6,
7.2.7), and an FEC mode that both enable for this speed (14.2.5.19)."""

import numpy as np

from softib.agents.kernels.big_endian import get8, get16, inner
from softib.iba.rates import SPEEDS, WIDTH_BITS
from softib.iba.smp import PortInfo as P
from softib.iba.smp import PortInfoExtended as E

WIDTH_ENABLED_AT, WIDTH_ACTIVE_AT = P.link_width_enabled.byte, P.link_width_active.byte
ACTIVE_AT = P.link_speed_active.byte  # LinkSpeedActive(4), LinkSpeedEnabled(4)
EXT_ACTIVE_AT, EXT_ENABLED_AT, EXT2_AT = (
    P.link_speed_ext_active.byte,
    P.link_speed_ext_enabled.byte,
    P.link_speed_ext2_enabled.byte,
)
EXT_NONE = 30
MLNX_ENABLED, MLNX_ACTIVE = 1, 2
PLAIN_WHEN_EXT = 4
"""LinkSpeedActive is QDR while an extended speed is active (IBA 14.2.5.6)."""

LANES = np.array(sorted(WIDTH_BITS, reverse=True), np.int64)
WIDTH_BIT = np.array([WIDTH_BITS[int(n)] for n in LANES], np.int64)
CODES = np.array([s.code for s in SPEEDS], np.int64)
BITS = np.array([(s.speed_bit, s.ext_bit, s.ext2_bit, s.mlnx_bit) for s in SPEEDS], np.int64)
PAM4 = np.array([s.pam4 for s in SPEEDS], np.bool_)
FEC_AT, FEC_CAP_AT = E.fec_mode_active.byte, E.cap_mask.byte + 3
FEC_ENABLED_AT = np.array(
    [
        E.fields[f"{s.name.lower()}_fec_mode_enabled"].byte if f"{s.name.lower()}_fec_mode_enabled" in E.fields else -1
        for s in SPEEDS
    ],
    np.int64,
)
"""Offset of FECModeEnabled for each generation in ``SPEEDS``; -1 if the attribute has no field for
it."""
NO_FEC, FIRECODE, RS, LOW_LATENCY_RS = 1, 2, 4, 8
NONE_ACTIVE, FIRECODE_ACTIVE, RS_ACTIVE, LOW_LATENCY_RS_ACTIVE = 0, 1, 2, 3
CANNOT = -1
"""Result if lanes of this kind need FEC, and the ends have no common enabled mode."""


@inner
def enabled_speeds(t, port):
    """Return a mask of the speed codes that ``port`` enables."""
    info = t.port_info[port]
    plain, ext, ext2 = get8(info, ACTIVE_AT) & 15, get8(info, EXT_ENABLED_AT) & 31, get8(info, EXT2_AT) & 7
    if ext == EXT_NONE:
        ext = np.int64(0)
    mlnx = get8(t.port_mlnx_speed[port], MLNX_ENABLED)
    mask = np.int64(0)
    for i in range(CODES.shape[0]):
        named = (plain & BITS[i, 0]) | (ext & BITS[i, 1]) | (ext2 & BITS[i, 2])
        if named and (mlnx & BITS[i, 3]) == BITS[i, 3]:
            mask |= np.int64(1) << CODES[i]
    return mask


@inner
def common_fec(t, port, peer, i):
    """Return FECModeActive of a link at ``SPEEDS[i]``: of the modes that both ends enable, the one
    with the shortest delay. PAM4 lanes do not work without RS-FEC. Slower lanes work without FEC if
    the ends have no common mode. If a port does not have the attribute, the peer's modes are
    used."""
    at = FEC_ENABLED_AT[i]
    modes = np.int64(NO_FEC | FIRECODE | RS | LOW_LATENCY_RS)
    stated = False
    for end in (port, peer):
        if at >= 0 and t.port_info_ext[end, FEC_CAP_AT]:
            modes &= get16(t.port_info_ext[end], at)
            stated = True
    if not stated:
        return RS_ACTIVE if PAM4[i] else NONE_ACTIVE
    if PAM4[i]:
        return RS_ACTIVE if modes & RS else (LOW_LATENCY_RS_ACTIVE if modes & LOW_LATENCY_RS else CANNOT)
    if modes & NO_FEC or not modes & (FIRECODE | RS | LOW_LATENCY_RS):
        return NONE_ACTIVE
    if modes & FIRECODE:
        return FIRECODE_ACTIVE
    return RS_ACTIVE if modes & RS else LOW_LATENCY_RS_ACTIVE


@inner
def agree(t, port, peer):
    """Write the active width, speed and FEC mode of a link that trains. Return False if its ends
    have no common ones.

    Speed and width are limited to those that the cable had at the start, so that training does not
    repair a damaged link.
    """
    widths = get8(t.port_info[port], WIDTH_ENABLED_AT) & get8(t.port_info[peer], WIDTH_ENABLED_AT)
    local, theirs = enabled_speeds(t, port), enabled_speeds(t, peer)
    speeds = local & theirs
    width, fastest = -1, -1
    for i in range(LANES.shape[0]):
        if width < 0 and widths & WIDTH_BIT[i] and LANES[i] <= t.trained[port, 0]:
            width = i
    for i in range(CODES.shape[0]):
        if (speeds >> CODES[i]) & 1 and CODES[i] <= t.trained[port, 1] and common_fec(t, port, peer, i) != CANNOT:
            fastest = i
    if width < 0 or fastest < 0:
        return False
    fec = common_fec(t, port, peer, fastest)
    for end in (port, peer):
        info = t.port_info[end]
        info[WIDTH_ACTIVE_AT] = WIDTH_BIT[width]
        ext, ext2 = BITS[fastest, 1], BITS[fastest, 2]
        plain = PLAIN_WHEN_EXT if ext or ext2 else BITS[fastest, 0]
        info[ACTIVE_AT] = (get8(info, ACTIVE_AT) & 0x0F) | (plain << 4)
        info[EXT_ACTIVE_AT] = (get8(info, EXT_ACTIVE_AT) & 0x0F) | (ext << 4)
        info[EXT2_AT] = (get8(info, EXT2_AT) & 0x9F) | ((ext2 & 3) << 5)
        t.port_mlnx_speed[end, MLNX_ACTIVE] = BITS[fastest, 3]
        if t.port_info_ext[end, FEC_CAP_AT]:
            t.port_info_ext[end, FEC_AT + 1] = fec
    return True
