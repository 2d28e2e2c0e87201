"""Joining multicast groups as a client does."""

from __future__ import annotations

import numpy as np

from softib.iba.sa import JoinState, MCMemberRecord, SaMethod
from tests.sm.asking import Asked

MINE = np.array([0xFF12_601B_FFFF_0000, 0x0000_0001_FF00_0001], np.uint64)
LEVELS = {"qkey": 0x1234, "pkey": 0xFFFF, "sl": 0, "flow_label": 0, "tclass": 0}
FULL = int(JoinState.FULL)


def join(a: Asked, port: int, mgid=MINE, state: int = FULL, **more):
    return a.ask(MCMemberRecord, SaMethod.SET, frm=port, mgid=mgid, port_gid=a.gid(port), join_state=state, **more)


def mgid(n: int) -> np.ndarray:
    return np.array([0xFF12_4001_8001_0000, 0x1000 + n], np.uint64)
