"""One question to the administrator, taken apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.sm.inventory import Need

__all__ = ["Answer", "Request"]


@dataclass(frozen=True)
class Request:
    """``data`` uint8[≥200] is the record asked for or given; ``trusted``: it came with the SM_Key;
    ``lid`` and ``qp`` are the requester's, ``end`` its row in the subnet (-1: unknown). ``now_ps``
    is when it came."""

    method: int
    attr: int
    modifier: int
    comp_mask: int
    data: np.ndarray
    trusted: bool
    lid: int
    qp: int
    end: int
    now_ps: int


@dataclass(frozen=True)
class Answer:
    """``records`` uint8[n, size] answer a table; a single answer has one. None: nothing but the
    status.

    ``wait``: tables that must be read from the devices first (then the question is put again).
    """

    status: int = 0
    records: np.ndarray | None = None
    wait: Need | None = None
