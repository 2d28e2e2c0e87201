"""ClassPortInfo of subnet administration (IBA 13.4.8.1, 15.2.5.1)."""

from __future__ import annotations

import numpy as np

from softib.iba.sa import ClassPortInfo, SaCapMask, SaCapMask2

__all__ = ["class_port_info"]

M, M2 = SaCapMask, SaCapMask2
CAP_MASK = M.NOTICE | M.OPTIONAL_RECORDS | M.UD_MULTICAST | M.MULTI_PATH | M.PORT_INFO_CAP_MASK_MATCH
CAP_MASK2 = M2.FULL_PORT_INFO | M2.EXTENDED_SPEEDS | M2.PORT_INFO_CAP_MASK2_MATCH | M2.SEND_ONLY_FULL_MEMBER
RESP_TIME = 0x10
"""4.096 us * 2^16 = 0.27 s: OpenSM's, and a sweep seldom takes longer."""
QKEY = 0x80010000


def class_port_info() -> np.ndarray:
    """uint8[72]; nothing is redirected."""
    return ClassPortInfo.pack(
        base_version=1,
        class_version=2,
        cap_mask=int(CAP_MASK),
        cap_mask2=int(CAP_MASK2),
        resp_time_value=RESP_TIME,
        redirect_qp=1,
        redirect_qkey=QKEY,
        trap_qkey=QKEY,
    )
