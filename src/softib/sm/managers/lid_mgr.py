"""Assignment of LIDs to end ports (IBA 4.1.3, 14.4.3).

The rules are OpenSM's. A port gets its stored LIDs (OpenSM's guid2lid file). If none are stored, it
keeps its current LID if that is valid. LIDs of absent ports are not reassigned while other LIDs are
free. The manager's port gets its LIDs first, then the others by ascending PortGUID, each the lowest
free LIDs. A CA port gets 2^LMC LIDs, the first of which is a multiple of 2^LMC; port 0 of a switch
gets one. With LMC 0, the LIDs are the same as OpenSM's. With another LMC, blocks are assigned
before single LIDs, so that there are still free blocks when few LIDs are left. (OpenSM assigns all
by PortGUID.)
"""

from __future__ import annotations

import numpy as np

from softib.errors import LimitError
from softib.iba.constants import LID_UCAST_MAX
from softib.iba.lids import blocks_of, may_stand
from softib.iba.smp import PortInfo
from softib.plural import counted, plural
from softib.sm.database import Database

__all__ = ["Lids", "assign"]

Lids = dict[int, tuple[int, int]]
"""PortGUID → first and last LID."""
FREE_AT_LEAST = 1024
"""LIDs of absent ports are reassigned only if fewer LIDs than this are free, because aligned blocks
need space."""


def assign(db: Database, lmc: int, lids: Lids | None = None, fresh: bool = False) -> None:
    """Fill ``db.port_lid`` and ``db.port_lmc`` of every end port. ``lids`` are the stored LIDs,
    which are updated. ``fresh``: ignore LIDs that ports already have (OpenSM's ``reassign_lids``,
    used in the first sweep of a master).

    Raises :class:`LimitError`, which states the limit, if there are not enough unicast LIDs. No MAD
    has been sent then.
    """
    ports = db.end_ports()
    wide = np.where(db.port_num[ports] == 0, 0, lmc)
    needed = int((1 << wide).sum())
    if needed > LID_UCAST_MAX:
        raise LimitError(
            f"this subnet needs {counted(needed, 'LID')} (LMC {lmc}); a subnet has {LID_UCAST_MAX:,} unicast LIDs"
            " (IBA 4.1.3): split it, or lower the LMC"
        )
    info = db.port_info[ports]
    lids = {} if lids is None else lids
    guids = db.port_guid[ports].tolist()
    remembered = np.array([lids[g][0] if g in lids else 0 for g in guids], np.int64)
    held = np.where(remembered > 0, remembered, 0 if fresh else PortInfo.lid.get(info))
    order = np.argsort(remembered == 0, kind="stable")  # a stored LID takes precedence over one read from a port
    lid = np.empty(len(ports), np.int64)
    lid[order], used = _kept(held[order], wide[order])
    away = _away(lids, set(guids), used)
    if int((lid == 0).sum()) << lmc <= int((~(used | away)).sum()) - FREE_AT_LEAST:
        used |= away
    for width in np.unique(wide)[::-1].tolist():  # aligned blocks first: single LIDs fit into the rest
        rows = np.flatnonzero((lid == 0) & (wide == width))
        free = _free_blocks(used, width)
        if len(free) < len(rows):
            raise LimitError(
                f"{counted(len(rows), 'port')} {plural(len(rows), 'needs', 'need')} blocks of {1 << width} LIDs, "
                f"and {len(free)} such blocks are free between the"
                f" LIDs that other ports keep; a subnet has {LID_UCAST_MAX:,} unicast LIDs (IBA 4.1.3)"
            )
        lid[rows] = free[: len(rows)]
        used[(lid[rows][:, None] + np.arange(1 << width)).ravel()] = True
    db.port_lid[:], db.port_lmc[:] = 0, 0
    db.port_lid[ports], db.port_lmc[ports] = lid, wide
    last = lid + (1 << wide) - 1
    taken = {guid: (a, b) for guid, a, b in zip(guids, lid.tolist(), last.tolist(), strict=True)}
    if len(lids) > len(taken):  # some port is absent; its stored LIDs are deleted if another port has them now
        for guid in [
            g
            for g, (a, b) in lids.items()
            if g not in taken and (a > LID_UCAST_MAX or ((lid <= b) & (last >= a)).any())
        ]:
            del lids[guid]
    lids.update(taken)


def _away(lids: Lids, here: set[int], used: np.ndarray) -> np.ndarray:
    """Return bool[LIDs]: the LIDs of absent ports."""
    out = np.zeros_like(used)
    for guid, (first, last) in lids.items():
        if guid not in here:
            out[first : last + 1] = True
    return out & ~used


def _kept(lid: np.ndarray, wide: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the LIDs that ports may keep (0 for the others), and a mask bool[LIDs] of the LIDs
    that they occupy. If several ports have the same LID, the first one keeps it."""
    valid = may_stand(lid, wide)
    used = np.zeros(LID_UCAST_MAX + 1, bool)
    used[0] = True
    used[blocks_of(lid[valid], wide[valid])] = True
    return np.where(valid, lid, 0), used


def _free_blocks(used: np.ndarray, width: int) -> np.ndarray:
    """Return the first LIDs of the free aligned blocks of 2^``width``, ascending."""
    blocks = used.reshape(-1, 1 << width)
    return np.flatnonzero(~blocks.any(axis=1)) << width
