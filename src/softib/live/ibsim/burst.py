"""The arrays of one burst of datagrams, in one bundle that every kernel of this room takes whole."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.jit import table
from softib.live.ibsim.wire import FRAME_SIZE

__all__ = ["BURST", "COUNTS", "Burst", "burst_of"]

BURST = 64
"""Datagrams that are answered in one call: more than a socket's queue holds (10), so a burst is drained at once."""
COUNTS = 7
HEAD_WORDS, VECTOR_WORDS = 8, 2
"""``struct mmsghdr`` and ``struct iovec`` of 64-bit Linux (recvmmsg(2)) in 8-octet words."""

Burst: Any = table(
    "Burst",
    ["frames", "sls", "pkey_indices", "replies", "forwards", "forward_port", "forward_row", "counts",
     "mads", "words", "out", "out_words", "rows", "slids", "dlids", "lids", "tids", "client_rows", "client_ports", "fate",
     "served", "in_heads", "in_vectors", "out_heads", "out_vectors", "heads_at"],
)  # fmt: skip
"""What a call of the kernels reads and writes; every array has a row for each datagram.

``frames`` uint8[n, 288] what was received, with ``sls`` and ``pkey_indices`` uint16[n] of each;
``replies`` uint8[n, 288] what goes back to the sender; ``forwards`` uint8[n, 288] what another program must handle,
``forward_port`` the end port it is for, ``forward_row`` its row in ``frames``; ``counts`` int64[7], see
``live.kernels``. The rest is scratch: of the agents (``mads`` to ``served``), and for the system calls that take many
datagrams: ``…heads`` uint64[n, 8] are ``struct mmsghdr``, ``…vectors`` uint64[n, 2] their ``struct iovec``, ``heads_at``
uint64[2] the addresses of both arrays of heads.
"""


def burst_of(n: int = BURST) -> Any:
    """A :data:`Burst` of ``n`` rows; its message headers point into its frames and replies."""
    rows = lambda dtype: np.zeros(n, dtype)
    mads, out = np.zeros((2, n, 256), np.uint8)
    frames, replies, forwards = np.zeros((3, n, FRAME_SIZE), np.uint8)
    in_heads, in_vectors = _headers(frames)
    out_heads, out_vectors = _headers(replies)
    return Burst(
        frames=frames, sls=rows(np.uint8), pkey_indices=rows(np.uint16), replies=replies, forwards=forwards,
        forward_port=rows(np.int64), forward_row=rows(np.int64), counts=np.zeros(COUNTS, np.int64),
        mads=mads, words=mads.view(np.uint64), out=out, out_words=out.view(np.uint64), rows=rows(np.int64),
        slids=rows(np.uint16), dlids=rows(np.uint16), lids=rows(np.uint16), tids=rows(np.uint64),
        client_rows=rows(np.int64), client_ports=rows(np.int64), fate=rows(np.int64), served=np.zeros(2, np.int64),
        in_heads=in_heads, in_vectors=in_vectors, out_heads=out_heads, out_vectors=out_vectors,
        heads_at=np.array([in_heads.ctypes.data, out_heads.ctypes.data], np.uint64),
    )  # fmt: skip


def _headers(frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One message header for each of ``frames``, of its one row: mmsghdr words are name, length of the name, iov,
    iovlen, control, its length, flags, and the octets that were received."""
    n = len(frames)
    heads, vectors = np.zeros((n, HEAD_WORDS), np.uint64), np.zeros((n, VECTOR_WORDS), np.uint64)
    row = np.arange(n, dtype=np.uint64)
    vectors[:, 0] = np.uint64(frames.ctypes.data) + row * np.uint64(FRAME_SIZE)
    vectors[:, 1] = FRAME_SIZE
    heads[:, 2] = np.uint64(vectors.ctypes.data) + row * np.uint64(8 * VECTOR_WORDS)
    heads[:, 3] = 1
    return heads, vectors
