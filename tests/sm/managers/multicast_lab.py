"""Joining multicast groups as a client does."""

from __future__ import annotations

import numpy as np

from softib.iba.constants import LID_MCAST_MIN
from softib.iba.sa import JoinState, MCMemberRecord, SaMethod
from tests.sm.sa.asking import Asked

MINE = np.array([0xFF12_601B_FFFF_0000, 0x0000_0001_FF00_0001], np.uint64)
LEVELS = {"qkey": 0x1234, "pkey": 0xFFFF, "sl": 0, "flow_label": 0, "tclass": 0}
FULL = int(JoinState.FULL)


def join(a: Asked, port: int, mgid=MINE, state: int = FULL, **more):
    return a.ask(MCMemberRecord, SaMethod.SET, frm=port, mgid=mgid, port_gid=a.gid(port), join_state=state, **more)


def mgid(n: int) -> np.ndarray:
    return np.array([0xFF12_4001_8001_0000, 0x1000 + n], np.uint64)


def arrivals(a: Asked, source: int, mlid: int) -> dict[int, int]:
    """Copies of one packet by host port: switches send it out of every port of its mask but the one it came by."""
    f = a.fabric
    row_of = {int(n): s for s, n in enumerate(np.flatnonzero(f.is_switch))}
    got: dict[int, int] = {}
    todo, steps = [int(f.port_peer[source])], 0
    while todo:
        steps += 1
        assert steps < 10_000, "the tree has a circle"
        at = todo.pop()
        node = int(f.port_node[at])
        if node not in row_of:
            got[at] = got.get(at, 0) + 1
            continue
        masks = f.mft[row_of[node], mlid - LID_MCAST_MIN]
        for portnum in range(1, int(f.node_nports[node]) + 1):
            out = int(f.node_base[node]) + portnum
            if masks[portnum >> 4] >> (portnum & 15) & 1 and out != at:
                todo.append(int(f.port_peer[out]))
    return got
