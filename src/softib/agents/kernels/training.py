# mypy: ignore-errors
"""What a link agrees on when it trains: the widest width and the fastest speed that both ends enable (IBA 5.6, 7.2.7)."""

import numpy as np

from softib.agents.kernels.big_endian import get8, inner
from softib.iba.rates import SPEEDS, WIDTH_BITS
from softib.iba.smp import PortInfo as P
from softib.iba.smp import PortInfoExtended as E

WIDTH_ENABLED_AT, WIDTH_ACTIVE_AT = P.link_width_enabled.byte, P.link_width_active.byte
ACTIVE_AT = P.link_speed_active.byte  # LinkSpeedActive(4), LinkSpeedEnabled(4)
EXT_ACTIVE_AT, EXT_ENABLED_AT, EXT2_AT = (
    P.link_speed_ext_active.byte, P.link_speed_ext_enabled.byte, P.link_speed_ext2_enabled.byte,
)  # fmt: skip
EXT_NONE = 30
MLNX_ENABLED, MLNX_ACTIVE = 1, 2
PLAIN_WHEN_EXT = 4
"""LinkSpeedActive reads QDR while an extended speed is active (IBA 14.2.5.6)."""

LANES = np.array(sorted(WIDTH_BITS, reverse=True), np.int64)
WIDTH_BIT = np.array([WIDTH_BITS[int(n)] for n in LANES], np.int64)
CODES = np.array([s.code for s in SPEEDS], np.int64)
BITS = np.array([(s.speed_bit, s.ext_bit, s.ext2_bit, s.mlnx_bit) for s in SPEEDS], np.int64)
PAM4 = np.array([s.pam4 for s in SPEEDS], np.bool_)
FEC_AT, FEC_CAP_AT, RS_ACTIVE = E.fec_mode_active.byte, E.cap_mask.byte + 3, 2


@inner
def enabled_speeds(t, port):
    """Bit mask over speed codes that ``port`` enables."""
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
def agree(t, port, peer):
    """Write the active width and speed of a link that trains; False when its ends have none in common.

    No faster and no wider than the cable was at the start: what spoils a link is not mended by training.
    """
    widths = get8(t.port_info[port], WIDTH_ENABLED_AT) & get8(t.port_info[peer], WIDTH_ENABLED_AT)
    mine, theirs = enabled_speeds(t, port), enabled_speeds(t, peer)
    speeds = mine & theirs
    width, fastest = -1, -1
    for i in range(LANES.shape[0]):
        if width < 0 and widths & WIDTH_BIT[i] and LANES[i] <= t.trained[port, 0]:
            width = i
    for i in range(CODES.shape[0]):
        if (speeds >> CODES[i]) & 1 and CODES[i] <= t.trained[port, 1]:
            fastest = i
    if width < 0 or fastest < 0:
        return False
    for end in (port, peer):
        info = t.port_info[end]
        info[WIDTH_ACTIVE_AT] = WIDTH_BIT[width]
        ext, ext2 = BITS[fastest, 1], BITS[fastest, 2]
        plain = PLAIN_WHEN_EXT if ext or ext2 else BITS[fastest, 0]
        info[ACTIVE_AT] = (get8(info, ACTIVE_AT) & 0x0F) | (plain << 4)
        info[EXT_ACTIVE_AT] = (get8(info, EXT_ACTIVE_AT) & 0x0F) | (ext << 4)
        info[EXT2_AT] = (get8(info, EXT2_AT) & 0x9F) | ((ext2 & 3) << 5)
        t.port_mlnx_speed[end, MLNX_ACTIVE] = BITS[fastest, 3]
        if t.port_info_ext[end, FEC_CAP_AT]:  # PAM4 lanes work with RS-FEC only; slower ones of ours have none
            t.port_info_ext[end, FEC_AT + 1] = RS_ACTIVE if PAM4[fastest] else 0
    return True
