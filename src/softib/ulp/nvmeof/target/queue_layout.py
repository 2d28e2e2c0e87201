"""Columns of a queue of the target, shared by its kernel and its thread."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from softib.jit import table
from softib.ulp.nvmeof.rdma import Memory, QueuePair
from softib.ulp.nvmeof.work_requests import rings_of

__all__ = ["BUFFERS", "IN_CAPSULE_SIZE", "MAX_DATA", "MAX_ENTRIES", "TargetQueueColumns", "columns_of"]

MAX_ENTRIES = 256
"""Largest number of entries of a queue (CAP.MQES + 1)."""
MAX_DATA = 1 << 17
"""Maximum size of a command's data in bytes (MDTS)."""
IN_CAPSULE_SIZE = 4096
CAPSULE = 64 + IN_CAPSULE_SIZE
BUFFERS = 8
"""Number of data buffers of a queue. The buffer released last is used first, because it is in the cache."""
SPINS = 4000
"""Number of polls without a completion before the thread sleeps."""

ENTRIES, ADMIN, LKEY, CAPSULES_AT, BUFFERS_AT, RESPONSE_AT, SCRATCH_AT, ZEROES_AT, ERRNO_AT = range(9)
FREE, HELD, HELD_FIRST, HEAD, SLOT, STOP, WAIT, NUMBER_OF_NAMESPACES = range(9, 17)
TRACE_ROOM, TRACED, TRACE_AT, CLOCK_AT, MTU, PSN_IN, PSN_OUT = range(17, 24)
"""Indices of ``TargetQueue.n``: entries; 1 while all commands go to Python (before Connect, and in an
admin queue); the local key; addresses; free buffers; held capsules and the first of them; SQHD; the
slot of a command for Python; set by other threads: end or check for notices; polls without a completion
before the thread sleeps; namespaces; address of errno's copy. For a trace: rows of ``trace`` (0: there is no trace),
rows in use, its address, the address of a ``timespec``, the path MTU, and the next PSN of both directions."""
SPAN = 4 + CAPSULE // 8
"""Number of words in a row of ``trace``: direction, bytes, PSN, ns, and then the capsule or response."""
TRACE_ROWS = 256
N_READ, N_WRITTEN, N_READS, N_WRITES, N_ERRORS = range(5)
"""Indices of ``TargetQueue.done``: counts of bytes and commands."""

TargetQueueColumns = table(
    "TargetQueueColumns",
    "n capsule8 capsule16 capsule32 capsule64 received response16 response64 free held slot_buffer "
    "fd blocks shift refuse writable state done errno error64 trace clock",
)
"""Rows of ``capsule``, ``received``, ``slot_buffer`` are slots (receives); ``free`` is a stack of
buffers, ``held`` a ring of slots that wait for a buffer. By namespace: ``fd``, ``blocks``, ``shift``
(log2 of the block), ``refuse`` (the error status of all its commands, or 0), ``writable``, ``state``
(its ANA state on this port). ``error64``: the newest error (count, slot's cid, status, LBA, nsid)."""


class QueueMemory(NamedTuple):
    """A queue of the target in memory."""

    rings: Any
    columns: Any
    """:data:`TargetQueueColumns`."""
    registered: Memory
    """Memory that the adapter accesses: capsules, buffers and the response."""
    scratch: np.ndarray
    """Memory for the data of a command that the thread executes in Python."""


def columns_of(pair: QueuePair | None, entries: int, shared: dict[str, Any], traced: bool) -> QueueMemory:
    """Return the memory of a new queue with ``entries`` entries. ``shared``: the columns with one row per namespace."""
    capsules, buffers = entries * CAPSULE, BUFFERS * MAX_DATA
    size = capsules + buffers + 64
    memory = Memory(0, size) if pair is None else pair.memory(size)
    scratch = np.zeros(2 * MAX_DATA, np.uint8)
    data = memory.data[:capsules].reshape(entries, CAPSULE)
    response = memory.data[capsules + buffers :]
    n, errno, clock = np.zeros(24, np.int64), np.zeros(1, np.int32), np.zeros(2, np.int64)
    trace = np.zeros((TRACE_ROWS if traced else 2, SPAN), np.int64)
    n[[TRACE_ROOM, TRACE_AT, CLOCK_AT]] = len(trace) if traced else 0, trace.ctypes.data, clock.ctypes.data
    at = memory.address
    n[[CAPSULES_AT, BUFFERS_AT, RESPONSE_AT]] = at, at + capsules, at + capsules + buffers
    n[[SCRATCH_AT, ZEROES_AT, ERRNO_AT]] = scratch.ctypes.data, scratch.ctypes.data + MAX_DATA, errno.ctypes.data
    n[[ENTRIES, ADMIN, LKEY, FREE]] = entries, 1, memory.lkey, BUFFERS
    n[[WAIT, NUMBER_OF_NAMESPACES]] = SPINS, len(shared["fd"]) - 1
    columns = TargetQueueColumns(
        n=n,
        capsule8=data,
        capsule16=data.view(np.uint16),
        capsule32=data.view(np.uint32),
        capsule64=data.view(np.int64),
        received=np.zeros(entries, np.int64),
        response16=response[:16].view(np.uint16),
        response64=response[:16].view(np.int64),
        free=np.arange(BUFFERS, dtype=np.int64),
        held=np.zeros(entries, np.int64),
        slot_buffer=np.full(entries, -1, np.int64),
        done=np.zeros(5, np.int64),
        errno=errno,
        error64=np.zeros(5, np.int64),
        trace=trace,
        clock=clock,
        **shared,
    )
    return QueueMemory(rings_of(pair, 4 * entries), columns, memory, scratch)
