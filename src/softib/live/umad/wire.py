"""The messages between libsoftib-umad.so and the daemon, as ``preload/umad/umad.h`` declares them."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.live.c_header import CHeader

__all__ = ["HEADER", "HEAD_SIZE", "MESSAGE_SIZE", "constant", "reply", "request_of", "types"]

HEADER = CHeader("umad/umad.h", "SOFTIB_UMAD_")
types, constant = HEADER.types, HEADER.constant
HEAD_SIZE = 64
"""Octets of ``softib_umad_head``, the kernel's ``struct ib_user_mad_hdr``."""
MESSAGE_SIZE = HEAD_SIZE + 256


def request_of(message: bytes) -> Any | None:
    """The request in ``message``, or None where it is none, or of another version."""
    kind = types()["softib_umad_ask"]
    if len(message) != kind.itemsize:
        return None
    request = np.frombuffer(message, kind)[0]
    return request if (request["magic"], request["version"]) == (constant("MAGIC"), constant("VERSION")) else None


def reply(error: int = 0, value: int = 0) -> bytes:
    """The reply to a request."""
    row = np.zeros(1, types()["softib_umad_reply"])
    row["magic"], row["version"] = constant("MAGIC"), constant("VERSION")
    row["error"], row["value"] = error, value
    return row.tobytes()
