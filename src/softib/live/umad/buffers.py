"""The messages of an open umad device that are served at once, in one table."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.jit import table
from softib.live.exchange import BATCH
from softib.live.umad.wire import MESSAGE_SIZE

__all__ = ["UmadBuffers", "buffers_of"]

UmadBuffers: Any = table(
    "UmadBuffers", ["messages", "dwords", "answers", "answer_dwords", "addresses", "sizes", "awaits", "file"]
)
"""``messages`` uint8[n, 320] what a program wrote, ``answers`` uint8[n, 320] what it reads
(``dwords``, ``answer_dwords``: the same bytes as uint32[n, 80]); ``addresses`` uint64[2] of both;
``sizes`` int64[n] bytes of each message; ``awaits`` uint8[n] which of them are requests whose
sender waits for an answer; ``file`` int64[4] port, number, descriptor and receive flags of the
device that is served (:mod:`softib.live.umad.kernels`)."""


def buffers_of(n: int = BATCH) -> Any:
    """:data:`UmadBuffers` of ``n`` rows."""
    messages, answers = np.zeros((2, n, MESSAGE_SIZE), np.uint8)
    return UmadBuffers(
        messages=messages,
        dwords=messages.view(np.uint32),
        answers=answers,
        answer_dwords=answers.view(np.uint32),
        addresses=np.array([messages.ctypes.data, answers.ctypes.data], np.uint64),
        sizes=np.zeros(n, np.int64),
        awaits=np.zeros(n, np.uint8),
        file=np.zeros(4, np.int64),
    )
