"""Writes down which collective of torch the messages of a recorded program belong to (``softib run
--record``)."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache

from softib.live.recording import COLLECTIVES

__all__ = ["noter"]

Note = Callable[[int, bool], None]
MOST = (1 << 32) - 1


@cache
def _library() -> Callable[[int, int, int], None] | None:
    """``softib_record_collective`` of libsoftib-verbs.so; None where this program is not recorded."""
    if not os.environ.get("SOFTIB_RECORD"):
        return None
    call = getattr(ctypes.CDLL(None), "softib_record_collective", None)
    if call is not None:
        call.argtypes, call.restype = [ctypes.c_uint32, ctypes.c_uint32, ctypes.c_int], None
    return call


def noter(what: str) -> Note | None:
    """Notes (octets, begins) of the collective that torch calls ``what``, by the thread that calls
    it; an end has no octets. None where nothing is recorded."""
    call = _library()
    if call is None:
        return None
    number = COLLECTIVES.constant(f"TORCH_{what.upper()}")
    return lambda octets, begins: call(number, min(octets, MOST) if begins else 0, int(begins))
