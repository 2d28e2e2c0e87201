"""What our preload library and the daemon say to each other, read from ``preload/umad/umad.h``."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from softib.live.c_header import PRELOAD, define, structures

__all__ = ["HEAD_SIZE", "MESSAGE_SIZE", "ask_of", "constant", "told", "types"]

HEADER = PRELOAD / "umad" / "umad.h"
HEAD_SIZE = 64
"""Octets of ``softib_umad_head``, the kernel's ``struct ib_user_mad_hdr``."""
MESSAGE_SIZE = HEAD_SIZE + 256


@cache
def types() -> dict[str, np.dtype]:
    """The structures of the header."""
    return structures(HEADER)


@cache
def constant(name: str) -> int:
    """``SOFTIB_UMAD_`` + ``name``."""
    return define(HEADER, f"SOFTIB_UMAD_{name}")


def ask_of(message: bytes) -> Any | None:
    """The question in ``message``, or None where it is none, or of another version."""
    kind = types()["softib_umad_ask"]
    if len(message) != kind.itemsize:
        return None
    asked = np.frombuffer(message, kind)[0]
    return asked if (asked["magic"], asked["version"]) == (constant("MAGIC"), constant("VERSION")) else None


def told(error: int = 0, value: int = 0) -> bytes:
    """An answer."""
    answer = np.zeros(1, types()["softib_umad_reply"])
    answer["magic"], answer["version"] = constant("MAGIC"), constant("VERSION")
    answer["error"], answer["value"] = error, value
    return answer.tobytes()
