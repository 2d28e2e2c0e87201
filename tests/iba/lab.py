"""One MAD as a packet, for tests that hand packets to other programs."""

from __future__ import annotations

import numpy as np

from softib.iba.mad_packets import mad_packets


def mad_packet(mad, dlid: int, slid: int, qp: int, *, src_qp: int | None = None, sl: int = 0, pkey: int = 0xFFFF,
               psn: int = 0) -> bytes:  # fmt: skip
    """``mad`` (256 bytes) from LID ``slid`` to QP ``qp`` at ``dlid``: LRH to VCRC."""
    rows = np.frombuffer(bytes(mad), np.uint8).reshape(1, -1)
    return mad_packets(rows, slid, dlid, sl, pkey, qp if src_qp is None else src_qp, qp, psn).tobytes()
