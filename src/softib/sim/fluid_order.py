"""What the fluid layer knows of adapters beside rates: the order of a queue pair's messages, and how many messages a second an adapter sends."""

from __future__ import annotations

import numpy as np

from softib.sim.messages import Messages, Opcode
from softib.sim.paths import Plane

__all__ = ["asks_first", "message_gaps", "queue_pairs", "same_direction"]


def queue_pairs(m: Messages) -> tuple[np.ndarray, np.ndarray]:
    """``(next, before)``: the next message of each one's queue pair, and the one before it (int64; -1: none). Computations have none."""
    after, before = np.full(len(m), -1, np.int64), np.full(len(m), -1, np.int64)
    order = np.argsort(m.qp, kind="stable")
    same = (m.qp[order][1:] == m.qp[order][:-1]) & ~m.computes[order][1:]
    after[order[:-1][same]], before[order[1:][same]] = order[1:][same], order[:-1][same]
    return after, before


def same_direction(m: Messages) -> np.ndarray:
    """The message before each one on its queue pair whose payload goes the same way to the same memory (int64; -1: none): these arrive in order (IBA chapter 9, ordering)."""
    before = np.full(len(m), -1, np.int64)
    rows = np.flatnonzero((m.opcode != Opcode.ATOMIC) & ~m.computes)
    direction = 2 * m.qp[rows].astype(np.int64) + (m.opcode[rows] == Opcode.READ)
    by = np.argsort(direction, kind="stable")
    order = rows[by]
    alike = (direction[by][1:] == direction[by][:-1]) & (m.dst[order][1:] == m.dst[order][:-1])
    before[order[1:][alike]] = order[:-1][alike]
    return before


def asks_first(m: Messages, after: np.ndarray, request_ps: np.ndarray) -> np.ndarray:
    """ps from the request of a READ until its data begins to leave, where the next message of the queue pair is no READ and goes behind the
    request (int64); 0 for all others."""
    read = m.opcode == Opcode.READ
    return np.where(read & (after >= 0) & ~read[after], request_ps, 0)


def message_gaps(plane: Plane, m: Messages, octets: np.ndarray, asks: np.ndarray) -> np.ndarray:
    """ps that the adapter lets pass from the request of each message to the next one of its port (int64); 0 where the octets of a message take longer
    than that: then the link is the limit. A READ of which only the request leaves at first (``asks``) is a short one."""
    gap = round(plane.profile.message_gap_ns * 1000)
    gbps = plane.gbps[plane.ends[m.src]]
    wire_ps = np.divide(octets * 8000.0, gbps, out=np.zeros(len(m)), where=gbps > 0)
    limited = ((wire_ps < gap) | (asks > 0)) & (plane.fabric.port_num[plane.ends[m.src]] > 0) & ~m.computes
    return np.where(limited, gap, 0)
