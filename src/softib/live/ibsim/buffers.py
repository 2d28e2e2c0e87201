"""The datagrams that are served at once and the system calls' headers for them, in one table."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.jit import table
from softib.live.exchange import BATCH
from softib.live.ibsim.wire import FRAME_SIZE

__all__ = ["IbsimBuffers", "buffers_of"]

HEADER_FIELDS, VECTOR_FIELDS = 8, 2
"""``struct mmsghdr`` and ``struct iovec`` of 64-bit Linux (recvmmsg(2)) as 8-byte numbers."""

IbsimBuffers: Any = table(
    "IbsimBuffers",
    ["frames", "replies", "client", "in_heads", "in_vectors", "out_heads", "out_vectors", "heads_at"],
)
"""``frames`` uint8[n, 288] what was received, ``replies`` uint8[n, 288] what goes back, ``client``
int64[3] port, number and descriptor of the client that is served
(:mod:`softib.live.ibsim.kernels`). For the system calls that take many datagrams: ``…heads``
uint64[n, 8] are ``struct mmsghdr``, ``…vectors`` uint64[n, 2] their ``struct iovec``, ``heads_at``
uint64[2] the addresses of both arrays of heads."""


def buffers_of(n: int = BATCH) -> Any:
    """:data:`IbsimBuffers` of ``n`` rows; the message headers point into the frames and replies."""
    frames, replies = np.zeros((2, n, FRAME_SIZE), np.uint8)
    in_heads, in_vectors = _headers(frames)
    out_heads, out_vectors = _headers(replies)
    return IbsimBuffers(
        frames=frames,
        replies=replies,
        client=np.zeros(3, np.int64),
        in_heads=in_heads,
        in_vectors=in_vectors,
        out_heads=out_heads,
        out_vectors=out_vectors,
        heads_at=np.array([in_heads.ctypes.data, out_heads.ctypes.data], np.uint64),
    )


def _headers(frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One message header for each of ``frames``, of its one row: the numbers of an mmsghdr are
    name, length of the name, iov, iovlen, control, its length, flags, and the bytes that were
    received."""
    n = len(frames)
    heads, vectors = np.zeros((n, HEADER_FIELDS), np.uint64), np.zeros((n, VECTOR_FIELDS), np.uint64)
    row = np.arange(n, dtype=np.uint64)
    vectors[:, 0] = np.uint64(frames.ctypes.data) + row * np.uint64(FRAME_SIZE)
    vectors[:, 1] = FRAME_SIZE
    heads[:, 2] = np.uint64(vectors.ctypes.data) + row * np.uint64(8 * VECTOR_FIELDS)
    heads[:, 3] = 1
    return heads, vectors
