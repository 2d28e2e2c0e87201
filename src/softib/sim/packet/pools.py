"""Pools of packets, credits, events and MADs: tables whose unused rows are on a free list. A pool that is nearly empty
grows. Also the queues of events."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.errors import LimitError
from softib.iba.constants import MAD_SIZE
from softib.jit.rows import Rows
from softib.sim.packet import constants
from softib.sim.packet.tables.engine import CREDIT, EVENT, EVENT_BLOCK, LOG, MAD_ROW, MADS, SMI
from softib.sim.packet.tables.links import PACKET

__all__ = ["MOST_ROWS", "POOLS", "grow", "grow_mads", "longer", "management_state", "new_pools", "waiting"]


FIRST_MADS = 256


def management_state(ports: int) -> dict[str, np.ndarray]:
    """Return the arrays of the management plane. A run without management passes 1 for ``ports``, and gets arrays of
    one row."""
    rows = FIRST_MADS if ports > 1 else 1
    mads, mad_row = MADS.zeros(1), MAD_ROW.zeros(rows)
    mad_row["next"][1:-1] = np.arange(2, rows)
    mads["free"], mads["spare"] = min(1, rows - 1), rows - 1
    return {
        "mads": mads,
        "smi": SMI.zeros(ports),
        "mad": np.zeros((rows, MAD_SIZE), np.uint8),
        "mad_row": mad_row,
        "inbox": np.zeros(rows, np.int64),
    }


def grow_mads(s: Any, least: int) -> Any:
    """Return the state with room for at least ``least`` MADs. New rows are added to the free list of MADs."""
    old = len(s.mad)
    if s.mads.spare >= least:
        return s
    rows = 2 * old + least
    mad, mad_row, inbox = (
        np.zeros((rows, MAD_SIZE), np.uint8),
        MAD_ROW.zeros(rows),
        np.zeros(rows, np.int64),
    )
    mad[:old], mad_row[:old], inbox[:old] = s.mad, s.mad_row, s.inbox
    mad_row["next"][old:-1] = np.arange(old + 1, rows)
    mad_row["next"][-1] = s.mads.free
    s.mads.free = old
    s.mads.spare += rows - old
    return s._replace(mad=mad, mad_row=mad_row, inbox=inbox)


POOLS = {"packet": PACKET, "credit": CREDIT, "event": EVENT_BLOCK}
"""Pools by name, each with a free list: ``reg.free_NAME`` is the list's first row, ``reg.spare_NAMEs`` its length, and
the column ``next`` of a row is the following row."""
MOST_ROWS = 1 << 28
"""Largest number of rows of a pool: an event's payload has 28 bits."""


def _pool(rows: int, kind: Rows) -> np.ndarray:
    """Return a pool whose rows from 1 on are all on the free list."""
    pool = kind.zeros(rows)
    pool["next"][1:-1] = np.arange(2, rows)
    return pool


def new_pools(reg: Any, rows: dict[str, int], timers: int) -> dict[str, np.ndarray]:
    """Return pools of ``rows`` rows each, with their free lists in ``reg``, and empty event queues."""
    pools = {name: _pool(rows[name], kind) for name, kind in POOLS.items()}
    for name in POOLS:
        reg[f"free_{name}"], reg[f"spare_{name}s"] = 1, rows[name] - 1
    pools["event"]["count"][0] = constants.EVENTS_A_BLOCK  # row 0 belongs to no bucket and has no room
    heaps = {name: EVENT.zeros(room_for(rows["event"])) for name in ("heap", "due", "sorting", "later")}
    return {
        **pools,
        **heaps,
        "timer": EVENT.zeros(timers),
        "digits": np.zeros(256, np.int64),
        "bucket": np.zeros(constants.BUCKETS, np.int64),
        "used": np.zeros(constants.BUCKETS // 64, np.uint64),
    }


def room_for(blocks: int) -> int:
    """Return the rows of a queue that must hold all events of ``blocks`` blocks at once."""
    return constants.EVENTS_A_BLOCK * blocks + 256


def grow(s: Any, least: int = 0) -> Any:
    """Return the state with twice the rows in each pool that is nearly empty, or has fewer than
    ``least`` rows. Raises :class:`LimitError` if event numbers cannot represent that number of rows."""
    changed: dict[str, np.ndarray] = {}
    for name, kind in POOLS.items():
        pool, spare = getattr(s, name), f"spare_{name}s"
        ahead = int(s.reg.later_n) if name == "event" else 0
        if s.reg[spare] - ahead >= max(len(pool) // 4, 2 * constants.MARGIN, least):
            continue
        rows = 2 * len(pool) + least + ahead
        if rows > MOST_ROWS:
            raise LimitError(f"{rows:,} rows of {name}s are too many for one run")
        changed[name] = larger = kind.zeros(rows)
        larger[: len(pool)] = pool
        larger["next"][len(pool) : -1] = np.arange(len(pool) + 1, rows)
        larger["next"][-1] = s.reg[f"free_{name}"]
        s.reg[f"free_{name}"] = len(pool)
        s.reg[spare] += rows - len(pool)
    if s.reg.log_rows > len(s.log) - 2 * constants.MARGIN:
        changed["log"] = longer(s.log, LOG, 2 * len(s.log))
    events = len(changed.get("event", s.event))
    for name, count in {**waiting(s), "due": 0, "sorting": 0}.items():
        old = getattr(s, name)
        need = max(room_for(events) if name != "timer" else 0, 2 * len(old) if count > len(old) // 2 else 0)
        need = max(need, count + 2 * least if name == "timer" and count + least > len(old) else 0)
        if need > len(old):
            changed[name] = longer(old, EVENT, need)
    return s._replace(**changed)


def longer(old: np.ndarray, kind: Rows, rows: int) -> np.ndarray:
    """Return ``old`` extended to ``rows``."""
    rows_ = kind.zeros(rows)
    rows_[: len(old)] = old
    return rows_


def waiting(s: Any) -> dict[str, int]:
    """Return, for each heap, the number of entries for which it must have room. That of the current bucket must also
    have room for the due events, which may return to it."""
    due = int(s.reg.due_n - s.reg.due_at)
    return {"heap": int(s.reg.heap_n) + due, "later": int(s.reg.later_n), "timer": int(s.reg.timer_n)}
