"""Pools of packets, credits and events, and queues of events: rows on a free list, and more of them when they are short."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.errors import LimitError
from softib.sim.packet import tables as t
from softib.sim.packet.network import aligned

__all__ = ["MOST_ROWS", "POOLS", "grow", "new_pools", "waiting"]

POOLS = {"packet": (t.PK_COLUMNS, np.int32, t.NEXT, t.FREE_PACKET, t.SPARE_PACKETS), "credit": (t.CREDIT_COLUMNS, np.int64, t.C_NEXT,
         t.FREE_CREDIT, t.SPARE_CREDITS), "event": (t.EVENT_COLUMNS, np.int64, t.E_NEXT, t.FREE_EVENT, t.SPARE_EVENTS)}  # fmt: skip
"""Pool → (columns, type, column of the free list's link, its head and its length in ``reg``)."""
MOST_ROWS = 1 << 28
"""An event's payload has 28 bits."""


def _pool(rows: int, columns: int, dtype: Any, link: int) -> np.ndarray:
    """A pool whose rows 1 … are all on the free list."""
    pool = aligned((rows, columns), dtype)
    pool[1:-1, link] = np.arange(2, rows)
    return pool


def new_pools(reg: np.ndarray, rows: dict[str, int], timers: int) -> dict[str, np.ndarray]:
    """Pools of ``rows`` each, their free lists in ``reg``, and empty queues of events."""
    made: dict[str, np.ndarray] = {}
    for name, (columns, dtype, link, head, spare) in POOLS.items():
        made[name] = _pool(rows[name], columns, dtype, link)
        reg[head], reg[spare] = 1, rows[name] - 1
    made["event"][0, t.E_COUNT] = t.E_MANY  # nobody's block has no room
    heaps = {name: np.zeros((room_for(rows["event"]), 2), np.int64) for name in ("heap", "due", "sorting", "far")}
    return {
        **made, **heaps, "digits": np.zeros(256, np.int64), "when": made["packet"].view(np.int64), "timer": np.zeros((timers, 2), np.int64),
        "bucket": np.zeros(t.BUCKETS, np.int64), "used": np.zeros(t.BUCKETS // 64, np.uint64),
    }  # fmt: skip


def room_for(blocks: int) -> int:
    """Rows of a queue that all events of so many blocks may come into at once."""
    return t.E_MANY * blocks + 256


def grow(s: Any, least: int = 0) -> Any:
    """The state with twice the room in each pool that is short, or has not ``least`` rows. Raises :class:`LimitError` beyond what event numbers can tell apart."""
    changed: dict[str, np.ndarray] = {}
    for name, (columns, dtype, link, head, spare) in POOLS.items():
        pool = getattr(s, name)
        ahead = int(s.reg[t.LATER_N]) if name == "event" else 0
        if s.reg[spare] - ahead >= max(len(pool) // 4, 2 * t.MARGIN, least):
            continue
        rows = 2 * len(pool) + least + ahead
        if rows > MOST_ROWS:
            raise LimitError(f"{rows:,} rows of {name}s are too many for one run")
        more = aligned((rows, columns), dtype)
        more[: len(pool)] = pool
        more[len(pool) : -1, link] = np.arange(len(pool) + 1, rows)
        more[-1, link] = s.reg[head]
        s.reg[head] = len(pool)
        s.reg[spare] += rows - len(pool)
        changed[name] = more
        if name == "packet":
            changed["when"] = more.view(np.int64)
    if s.log[0, t.L_ROWS] > len(s.log) - 2 * t.MARGIN:
        changed["log"] = np.zeros((2 * len(s.log), t.LOG_COLUMNS), np.int64)
        changed["log"][: len(s.log)] = s.log
    events = len(changed.get("event", s.event))
    for name, count in {**waiting(s), "due": 0, "sorting": 0}.items():
        old = getattr(s, name)
        need = max(room_for(events) if name != "timer" else 0, 2 * len(old) if count > len(old) // 2 else 0)
        need = max(need, count + 2 * least if name == "timer" and count + least > len(old) else 0)
        if need > len(old):
            changed[name] = np.zeros((need, 2), np.int64)
            changed[name][: len(old)] = old
    return s._replace(**changed)


def waiting(s: Any) -> dict[str, int]:
    """Heap → how many entries it needs room for: what is due may go back to the heap of now."""
    due = int(s.reg[t.DUE_N] - s.reg[t.DUE_AT])
    return {"heap": int(s.reg[t.HEAP_N]) + due, "far": int(s.reg[t.LATER_N]), "timer": int(s.reg[t.TIMER_N])}
