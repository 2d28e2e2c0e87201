"""Why a run stands still although no buffers wait for each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.plural import counted

__all__ = ["standstill_notes"]

ENTRIES = 64
"""Most entries of a table of VLArbitrationTable; low priority stands in blocks 0 and 1, high priority in 2 and 3 (IBA 14.2.5.9)."""


def standstill_notes(net: Any, s: Any, began: np.ndarray, arrived: np.ndarray) -> tuple[str, ...]:
    """Lines for people: VLs that no arbitration table of a port serves although packets wait there, and messages that wait for others that never arrive. ``began``, ``arrived``
    int64[messages] ps, -1: not."""
    found = []
    unserved, ports = _unserved(net, s)
    if unserved:
        vls = ", ".join(str(vl) for vl in unserved)
        found.append(
            f"packets wait for ever at {counted(ports, 'port')} on VL {vls}, which no arbitration table there serves (qos_vlarb_low)"
        )
    never = int((began < 0).sum())
    lost = int(((began >= 0) & (arrived < 0)).sum())
    if never:
        found.append(
            f"{counted(never, 'message')} never began: they wait for others, of which {lost:,} were sent and never arrived"
        )
    elif lost and not found:
        found.append(f"{counted(lost, 'message')} never arrived: nobody repeats them, or their retries were exceeded")
    return tuple(found)


def _unserved(net: Any, s: Any) -> tuple[list[int], int]:
    """(VLs on which something waits for a port whose tables serve others alone, how many ports)."""
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
