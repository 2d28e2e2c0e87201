"""A network that stands still: the cycle of buffers that wait for each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.sim.packet import constants

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
                vls = int(net.opt.vls)
                return tuple((r // vls, r % vls) for r in path[path.index(row) :])
            if row in state:
                continue
            state[row] = 1
            path.append(row)
            at.append(iter(waits.get(row, ())))
    return ()


def _waits_for(net: Any, s: Any) -> dict[int, list[int]]:
    """Port VL of an output → port VLs of the outputs for which packets wait in the buffer at the other end of its link."""
    vls, packet = int(net.opt.vls), s.packet
    found: dict[int, set[int]] = {}
    for row in np.flatnonzero(s.vl["ring"]).tolist():
        out = row // vls
        if net.port["kind"][out] != constants.SWITCH_PORT:
            continue
        last = at = int(s.vl["ring"][row])
        while True:
            at = int(s.voq["next"][at - 1])
            k = int(s.voq["head"][at - 1])
            while k:
                behind, vl = int(packet["came_in"][k]), int(packet["vl"][k])
                sender = int(net.port["peer"][behind])
                # Of Ethernet only a port that asked for a pause holds up what is behind it.
                if len(s.queue) == 1 or s.queue["xoff_sent"][behind * vls + vl]:
                    found.setdefault(sender * vls + vl, set()).add(row)
                k = int(packet["next"][k])
            if at == last:
                break
    return {row: sorted(rows) for row, rows in found.items()}
