"""Traffic of applications: their libraries count the data that they send in the file ``traffic``, and this module adds
the counts to the counters of the ports.

Every QP owns a cell that only it writes (``preload/verbs/fabric/traffic.h``). The daemon adds the counts of cells to
the counters of the ports on their paths when these counters are needed: before a PMA Get is answered, before a counter
is read in sysfs, and a few times a second.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from softib.agents.kernels.app_traffic import fold_cells, free_chunks, retire_chunks
from softib.jit import table
from softib.live.c_header import CHeader
from softib.live.verbs.shared_heap import sparse_file

__all__ = ["HEADER", "Cells", "Traffic", "no_cells"]

HEADER = CHeader("verbs/fabric/traffic.h")
types, constant = HEADER.types, HEADER.constant
MAGIC = b"SOFTIBt"
CHUNKS = 1 << 14
"""Number of chunks: enough for a million cells. The file is sparse, so a chunk takes memory only when a process claims
it."""

Cells: Any = table("Cells", ["head", "cells", "counts", "seen", "watch", "link_clocks", "waited", "moved", "is_ip"])
"""The file as arrays for kernels: ``head`` uint32[4096] its first chunk, ``cells`` uint32[cells, 64]
and ``counts`` uint64[cells, 32] the same bytes, ``seen`` uint64[cells, 7] the counts of each cell that were already
added (packets forward and back, words forward and back, time of the last trap, corrupted packets forward and back),
``watch`` uint8[chunks] 1 = the chunk was dirty at the last check; ``link_clocks`` uint64[ports, 8] the links of paced
programs, ``waited`` uint64[ports] the part of it that was added to their PortXmitWait; ``moved`` uint64[ports, 2] words
that verbs received and sent at each port, and the part of them that is IP; ``is_ip`` uint8[65536] 1 = the process of
this number moves IP (``softib-ipoib``)."""


LINK_CLOCK_SIZE = 128
"""Bytes of ``struct softib_link_clock``, of which the kernels read the first words."""
PROCESSES = 1 << 16
WORD = 4


def _cells(octets: np.ndarray, chunks: int, ports: int) -> Any:
    size, each = constant("CHUNK_OCTETS"), constant("CELL_OCTETS")
    n = chunks * constant("CHUNK_CELLS")
    end = size + n * each
    body = octets[size:end].reshape(n, each)
    return Cells(
        head=octets[:size].view(np.uint32),
        cells=body.view(np.uint32),
        counts=body.view(np.uint64),
        seen=np.zeros((n, 7), np.uint64),
        watch=np.zeros(chunks, np.uint8),
        link_clocks=octets[end : end + ports * LINK_CLOCK_SIZE].view(np.uint64).reshape(ports, LINK_CLOCK_SIZE // 8),
        waited=np.zeros(ports, np.uint64),
        moved=np.zeros((ports, 2), np.uint64),
        is_ip=np.zeros(PROCESSES, np.uint8),
    )


def no_cells() -> Any:
    """Return the traffic of a fabric without applications."""
    return _cells(np.zeros(constant("CHUNK_OCTETS"), np.uint8), 0, 0)


class Traffic:
    """A new traffic file at ``path`` (mode 0600). ``tables``: the tables of the agents (``AgentPlane.tables``), to
    whose counters traffic is added. Raises :class:`InputError` if the file cannot be made."""

    def __init__(self, path: Path, tables: Any, chunks: int = CHUNKS):
        self.path, self.tables = path, tables
        ports, link_clocks_at = len(tables.port_peer), (chunks + 1) * constant("CHUNK_OCTETS")
        size = link_clocks_at + ports * LINK_CLOCK_SIZE
        clocks = link_clocks_at, max(1, ports * LINK_CLOCK_SIZE)
        fd, self.memory = sparse_file(path, size, size, [(0, constant("CHUNK_OCTETS")), clocks])
        octets = np.frombuffer(self.memory, np.uint8)
        self.cells = _cells(octets, chunks, ports)
        head = octets[: types()["softib_traffic"].itemsize].view(types()["softib_traffic"])
        head["version"], head["chunks"], head["size"] = constant("TRAFFIC_VERSION"), chunks, size
        head["pid"], head["link_clocks_at"], head["link_clocks"] = os.getpid(), link_clocks_at, ports
        head["magic"] = MAGIC
        self.head, self.fd = head, fd
        fold_cells(self.tables, self.cells, 0)  # compiled now, not while a program waits
        self.release(0xFFFFFFFF)

    def fold(self, now_ps: int) -> int:
        """Add new traffic to the counters, and raise traps for key violations. Return the number of cells with new
        counts."""
        return int(fold_cells(self.tables, self.cells, int(now_ps)))

    def moved(self, ports: Sequence[int]) -> tuple[int, int]:
        """Return the bytes that these ports received and sent by verbs, and the part of these that is IP, since the
        fabric began to run."""
        verbs, ip = self.cells.moved[list(ports)].sum(axis=0).tolist()
        return WORD * verbs, WORD * ip

    def release(self, process: int, now_ps: int = 0) -> None:
        """Add the counts of process number ``process``, which is dead, to the counters, and free its chunks."""
        retire_chunks(self.cells, np.uint32(process))
        self.fold(now_ps)
        free_chunks(self.cells, np.uint32(process))

    def owners(self) -> set[int]:
        """Return the numbers of the processes that own chunks."""
        used = int(self.head["high"][0])
        return {int(n) for n in self.cells.cells[: used * constant("CHUNK_CELLS") : constant("CHUNK_CELLS"), 0]} - {0}

    def close(self) -> None:
        """Remove the file; counts of programs that still map it are lost."""
        self.path.unlink(missing_ok=True)
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
