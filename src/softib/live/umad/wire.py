"""The messages between libsoftib-umad.so and the daemon, as ``preload/umad/umad.h`` declares them, and the buffers for
the messages of an open device."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.jit import table
from softib.live.c_header import CHeader
from softib.live.exchange_kernels import BATCH

__all__ = [
    "HEADER",
    "HEAD_SIZE",
    "MESSAGE_SIZE",
    "UmadBuffers",
    "buffers_of",
    "constant",
    "reply",
    "request_of",
    "types",
]

HEADER = CHeader("umad/umad.h", "SOFTIB_UMAD_")
types, constant = HEADER.types, HEADER.constant
HEAD_SIZE = 64
"""Bytes of ``softib_umad_head``, the kernel's ``struct ib_user_mad_hdr``."""
MESSAGE_SIZE = HEAD_SIZE + 256


def request_of(message: bytes) -> Any | None:
    """Return the request in ``message``; None if it is not a request of this version."""
    kind = types()["softib_umad_ask"]
    if len(message) != kind.itemsize:
        return None
    request = np.frombuffer(message, kind)[0]
    return request if (request["magic"], request["version"]) == (constant("MAGIC"), constant("VERSION")) else None


def reply(error: int = 0, value: int = 0) -> bytes:
    """Return the reply to a request."""
    row = np.zeros(1, types()["softib_umad_reply"])
    row["magic"], row["version"] = constant("MAGIC"), constant("VERSION")
    row["error"], row["value"] = error, value
    return row.tobytes()


UmadBuffers: Any = table(
    "UmadBuffers", ["messages", "dwords", "answers", "answer_dwords", "addresses", "sizes", "awaits", "file"]
)
"""``messages`` uint8[n, 320]: messages that a program wrote; ``answers`` uint8[n, 320]: messages that it reads
(``dwords``, ``answer_dwords``: the same bytes as uint32[n, 80]); ``addresses`` uint64[2]: addresses of both arrays;
``sizes`` int64[n] bytes of each message; ``awaits`` uint8[n] marks the requests whose sender waits for an answer;
``file`` int64[4] port, number, descriptor and receive flags of the device that is served
(:mod:`softib.live.umad.kernels`)."""


def buffers_of(n: int = BATCH) -> Any:
    """Return :data:`UmadBuffers` of ``n`` rows."""
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
