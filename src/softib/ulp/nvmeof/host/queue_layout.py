"""Columns of an I/O queue of the initiator, and of the requests that it executes."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.jit import table

__all__ = ["STEP", "HostQueueColumns", "Requests", "columns_of", "requests"]

CAPSULE, RESPONSE = 64, 16
(
    ENTRIES,
    PIECE,
    LKEY,
    RKEY,
    CAPSULES_AT,
    DATA_AT,
    RESPONSES_AT,
    IN_CAPSULE_MAX,
    NSID,
    SHIFT,
    FREE,
    STOP,
    TIMEOUT_NS,
    CLOCK_AT,
) = range(14)
"""Indices of ``HostQueueColumns.n``. ``PIECE``: bytes of a slot's data; ``IN_CAPSULE_MAX``: writes of at most this
length send their data in the capsule; ``STOP``: set by another thread when the association is lost;
``CLOCK_AT``: address of a ``timespec``."""
STEP = -7046029254386353131
"""Difference between consecutive words of a pattern: 2^64 divided by the golden ratio, rounded to an odd number."""

HostQueueColumns = table(
    "HostQueueColumns",
    "n capsule8 capsule16 capsule32 capsule64 data64 response16 response64 free slot_request slot_began clock",
)
"""The columns of a queue. Rows of ``capsule`` and ``data64`` are slots (commands); rows of ``response`` are
receives."""
Requests = table("Requests", "opcode lba blocks flags memory pattern status result ns bad")
"""The requests of one call. ``memory``: address of the data (0: see ``pattern``); ``pattern``: the first word of
the pattern that a write writes and a read must return, word i being ``pattern`` + i · ``STEP`` (1 in ``flags``);
``status``: -1 until the request has ended; ``ns``: the time from its start to its end; ``bad``: 1 if a read returned
other data."""
PATTERN, FUA, DEALLOCATE = 1, 2, 4
"""Bits of ``Requests.flags``."""


def columns_of(depth: int, piece: int, memory: Any, lkey: int, rkey: int) -> Any:
    """Return the columns of a queue. They are views of ``memory`` (:class:`~softib.ulp.nvmeof.rdma.Memory`), whose size
    is :func:`size_of`."""
    data, receives = depth * piece, depth + 1
    at = memory.address
    n, clock = np.zeros(14, np.int64), np.zeros(2, np.int64)
    n[[ENTRIES, PIECE, LKEY, RKEY, FREE]] = depth, piece, lkey, rkey, depth
    n[[DATA_AT, CAPSULES_AT, RESPONSES_AT, CLOCK_AT]] = (
        at,
        at + data,
        at + data + depth * CAPSULE,
        clock.ctypes.data,
    )
    capsules = memory.data[data : data + depth * CAPSULE].reshape(depth, CAPSULE)
    responses = memory.data[data + depth * CAPSULE :][: receives * RESPONSE].reshape(receives, RESPONSE)
    return HostQueueColumns(
        n=n,
        capsule8=capsules,
        capsule16=capsules.view(np.uint16),
        capsule32=capsules.view(np.uint32),
        capsule64=capsules.view(np.int64),
        data64=memory.data[:data].reshape(depth, piece).view(np.int64),
        response16=responses.view(np.uint16),
        response64=responses.view(np.int64),
        free=np.arange(depth, dtype=np.int64),
        slot_request=np.zeros(depth, np.int64),
        slot_began=np.zeros(depth, np.int64),
        clock=clock,
    )


def size_of(depth: int, piece: int) -> int:
    """Return the size in bytes of a queue's registered memory."""
    return depth * (piece + CAPSULE + RESPONSE) + RESPONSE


def requests(count: int, **columns: Any) -> Any:
    """Return ``count`` requests with the given columns; all other columns are 0."""
    arrays = {name: np.zeros(count, np.int64) for name in Requests._fields}
    for name, values in columns.items():
        arrays[name][:] = values
    arrays["status"][:] = -1
    return Requests(**arrays)
