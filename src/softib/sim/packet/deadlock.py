"""A network that stands still: the cycle of buffers that wait for each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.sim.packet import tables as t
from softib.sim.packet.ethernet_tables import XOFF_SENT

__all__ = ["waiting_cycle"]


def waiting_cycle(net: Any, s: Any) -> tuple[tuple[int, int], ...]:
    """(port, VL) of output ports, each waiting for the receive buffer behind its link, in which a packet waits for the next one;
    empty where there is no such cycle."""
    waits = _waits_for(net, s)
    state: dict[int, int] = {}
    for root in sorted(waits):
        path: list[int] = []
        at = [iter((root,))]
        while at:
            row = next(at[-1], None)
            if row is None:
                at.pop()
                if path:
                    state[path.pop()] = 2
                continue
            if state.get(row) == 1:
                vls = int(net.opt[t.OPT_VLS])
                return tuple((r // vls, r % vls) for r in path[path.index(row) :])
            if row in state:
                continue
            state[row] = 1
            path.append(row)
            at.append(iter(waits.get(row, ())))
    return ()


def _waits_for(net: Any, s: Any) -> dict[int, list[int]]:
    """Port VL of an output → port VLs of the outputs for which packets wait in the buffer at the other end of its link."""
    vls, packet = int(net.opt[t.OPT_VLS]), s.packet
    found: dict[int, set[int]] = {}
    for row in np.flatnonzero(s.vl[:, t.RING]).tolist():
        out = row // vls
        if net.port[out, t.KIND] != t.SWITCH_PORT:
            continue
        last = at = int(s.vl[row, t.RING])
        while True:
            at = int(s.voq[at - 1, t.Q_NEXT])
            k = int(s.voq[at - 1, t.Q_HEAD])
            while k:
                behind, vl = int(packet[k, t.IN]), int(packet[k, t.VL])
                sender = int(net.port[behind, t.PEER])
                # Of Ethernet only a port that asked for a pause holds up what is behind it.
                if len(s.queue) == 1 or s.queue[behind * vls + vl, XOFF_SENT]:
                    found.setdefault(sender * vls + vl, set()).add(row)
                k = int(packet[k, t.NEXT])
            if at == last:
                break
    return {row: sorted(rows) for row, rows in found.items()}
