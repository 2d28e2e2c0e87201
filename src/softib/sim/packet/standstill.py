"""The cause of a standstill: a cycle of buffers that wait for each other, or another cause."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.plural import counted
from softib.sim.packet import constants

__all__ = ["standstill_notes"]


def waiting_cycle(net: Any, s: Any) -> tuple[tuple[int, int], ...]:
    """Return (port, VL) of a cycle of output ports: each waits for the receive buffer at the other
    end of its link, in which a packet waits for the next port. Empty if there is no cycle."""
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
    """Return, for each port VL of an output, the port VLs of the outputs for which packets wait in the buffer at the
    other end of its link."""
    vls, packet = int(net.opt.vls), s.packet
    waits: dict[int, set[int]] = {}
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
                # In Ethernet only a port that requested a pause stops its peer.
                if len(s.queue) == 1 or s.queue["xoff_sent"][behind * vls + vl]:
                    waits.setdefault(sender * vls + vl, set()).add(row)
                k = int(packet["next"][k])
            if at == last:
                break
    return {row: sorted(rows) for row, rows in waits.items()}


ENTRIES = 64
"""Largest number of entries of a table of VLArbitrationTable; blocks 0 and 1 are low priority,
2 and 3 high priority (IBA 14.2.5.9)."""


def standstill_notes(
    net: Any, s: Any, began: np.ndarray, arrived: np.ndarray, completed: np.ndarray
) -> tuple[str, ...]:
    """Return text lines about VLs on which packets wait at a port whose arbitration tables do not serve the VL, and
    about messages that wait for others that never arrive or are never acknowledged. ``began``, ``arrived``,
    ``completed`` int64[messages]: times in ps, -1 if it did not happen."""
    notes = []
    unserved, ports = _unserved(net, s)
    if unserved:
        vls = ", ".join(str(vl) for vl in unserved)
        notes.append(
            f"packets wait forever at {counted(ports, 'port')} on VL {vls}, "
            "which no arbitration table of the port serves (qos_vlarb_low)"
        )
    never = int((began < 0).sum())
    lost = int(((began >= 0) & (arrived < 0)).sum())
    if never:
        silent = int(((arrived >= 0) & (completed < 0)).sum())
        reasons = [f"{lost:,} were sent and never arrived"] if lost or not silent else []
        reasons += [f"{silent:,} arrived and were never acknowledged"] if silent else []
        notes.append(f"{counted(never, 'message')} never began: they wait for others, of which {' and '.join(reasons)}")
    elif lost and not notes:
        notes.append(f"{counted(lost, 'message')} never arrived: retries were exhausted, or the transport has none")
    return tuple(notes)


def _unserved(net: Any, s: Any) -> tuple[list[int], int]:
    """Return (VLs with packets that wait for a port whose tables do not serve them, the number of such
    ports)."""
    ports = np.flatnonzero(s.port["ready"])
    caps = {0: net.rare["low_cap"][ports], 2: net.rare["high_cap"][ports]}
    written = (caps[0] > 0) | (caps[2] > 0)
    vls, at = [], np.zeros(len(ports), bool)
    for vl in range(int(net.opt.vls)):
        served = ~written
        for block, cap in caps.items():
            entries = net.vl_arb[ports, block : block + 2].reshape(len(ports), 2 * ENTRIES)
            vls_of, weights = entries[:, ::2] & 15, entries[:, 1::2]
            serves = (vls_of == vl) & (weights > 0) & (np.arange(ENTRIES) < cap[:, None])
            served = served | serves.any(axis=1)
        waits = (s.port["ready"][ports] >> vl & 1).astype(bool) & ~served
        if waits.any():
            vls.append(vl)
            at |= waits
    return vls, int(at.sum())
