"""READs over sockets: a socket has none, so the reader asks and the other side sends."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from softib.sim.messages import Messages, Opcode

__all__ = ["REQUEST_OCTETS", "without_reads"]

REQUEST_OCTETS = 24
"""Octets of the request: those of NVMe/TCP's ready-to-transfer (NVM Express TCP Transport
Specification 1.0, 3.6.2.8)."""


def without_reads(m: Messages) -> Messages:
    """``m`` with each READ as a request of the reader, a row behind all others, and the data as a
    message of the other side in the READ's own row. What waits for the READ waits for its data. The
    data and the requests of a queue pair are connections of their own."""
    reads = np.flatnonzero(m.opcode == Opcode.READ)
    if not len(reads):
        return m
    n, qps = len(m), int(m.qp.max()) + 1
    columns = {f.name: getattr(m, f.name) for f in fields(m)}
    made: dict[str, Any] = {
        name: np.concatenate([column, column[reads]])
        for name, column in columns.items()
        if isinstance(column, np.ndarray) and name not in ("first", "needs", "requests")
    }
    asks = np.arange(n, n + len(reads))
    made["src"][reads], made["dst"][reads] = m.dst[reads], m.src[reads]
    made["opcode"][reads] = made["opcode"][asks] = Opcode.SEND
    made["size"][asks] = REQUEST_OCTETS
    made["qp"][asks], made["qp"][reads] = m.qp[reads] + qps, m.qp[reads] + 2 * qps
    made["delay_ps"][reads] = made["start_ps"][reads] = 0
    owner = np.repeat(np.arange(n), np.diff(m.first))
    ask_of = np.arange(n)
    ask_of[reads] = asks
    waits, needs = np.concatenate([ask_of[owner], reads]), np.concatenate([m.needs, asks])
    order = np.argsort(waits, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(waits, minlength=n + len(reads)))]).astype(np.int64)
    return replace(m, **made, first=first, needs=needs[order])
