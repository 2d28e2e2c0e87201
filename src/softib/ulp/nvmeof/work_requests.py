"""Columns of work requests and completions, and names of their indices. Initiator and target use them. Kernels of
:mod:`softib.ulp.nvmeof.ring_kernels` take ``Rings``."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.jit import table
from softib.ulp.nvmeof.rdma import QueuePair

__all__ = ["BATCH", "CQ", "PAIR", "Rings", "rings_of"]

BATCH = 32
"""Maximum number of completions per poll."""
CQ, PAIR, SQ_ROOM, SEND_WR, SEND_WR_2, RECV_WR, WC, BAD, FAILURE = range(9)
"""Indices of ``Rings.n``: addresses of the completion queue, the queue pair and the columns; free
entries of the send queue; the status of the completion that ended the connection."""
NUMBERS = 9

Rings = table("Rings", "n send64 send32 sge64 sge32 recv64 recv32 rsge64 rsge32 wc64 wc32 bad")
"""``send``: two ``ibv_send_wr`` with two ``ibv_sge`` each; ``recv`` and ``rsge``: one
``ibv_recv_wr`` and its ``ibv_sge``; ``wc``: ``ibv_wc``; ``bad``: the ``bad_wr`` of posts."""


def rings_of(pair: QueuePair | None, sends: int) -> Any:
    """Return the columns for ``pair``, whose send queue has ``sends`` entries. None: return columns without a queue
    pair, to compile kernels."""
    send64, sge64 = np.zeros((2, 16), np.int64), np.zeros((4, 2), np.int64)
    recv64, rsge64 = np.zeros((1, 4), np.int64), np.zeros((1, 2), np.int64)
    wc64, bad, n = np.zeros((BATCH, 6), np.int64), np.zeros(1, np.int64), np.zeros(NUMBERS, np.int64)
    send64[0, 1] = 0
    send64[:, 2] = sge64.ctypes.data + 32 * np.arange(2)
    recv64[0, 2] = rsge64.ctypes.data
    recv64.view(np.uint32)[0, 6] = 1
    n[[CQ, PAIR]] = (0, 0) if pair is None else pair.pointers
    n[SQ_ROOM] = sends
    n[[SEND_WR, SEND_WR_2, RECV_WR, WC, BAD]] = (
        send64.ctypes.data,
        send64.ctypes.data + 128,
        recv64.ctypes.data,
        wc64.ctypes.data,
        bad.ctypes.data,
    )
    columns = (a for a64 in (send64, sge64, recv64, rsge64, wc64) for a in (a64, a64.view(np.uint32)))
    return Rings(n, *columns, bad)
