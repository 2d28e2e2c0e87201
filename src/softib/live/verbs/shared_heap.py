"""The file ``verbs`` of a running fabric: the daemon creates it, and frees objects that dead programs
leave in it.

The file is sparse. If the file system is full, the first access to a page causes a SIGBUS. So pages are reserved before
their first access: by programs (``preload/verbs/memory/heap/reserve.c``), and by the daemon for the head and the row of
each program.

Programs access the file directly (``preload/verbs/memory/heap/shared.h`` declares the layout, docs/decisions/0008 the
rules). When a program has ended, other programs can no longer find its objects. Its memory is freed as soon as the
hazard slots of all living programs show that none copies from or to it.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from softib.errors import InputError, os_reason
from softib.live.c_header import CHeader
from softib.live.proc import is_running
from softib.live.status import VerbsUsage

__all__ = ["HEADER", "SharedHeap", "UnreadCompletions", "sparse_file"]

HEADER = CHeader("verbs/memory/heap/shared.h", "SOFTIB_VERBS_")
types, constant = HEADER.types, HEADER.constant
MAGIC = b"SOFTIBq"
PROCESS_AT = 48
"""Position of the process number in an entry of the table of numbers; the lower bits are the offset of the object
(``memory/heap/number_table.h``)."""
TABLES = {
    "process": ("PROCESSES", "softib_process"),
    "member": ("MEMBERS", "softib_member"),
    "key": ("KEYS", "softib_key"),
}


def sparse_file(path: Path, size: int, mapped: int, reserved: Sequence[tuple[int, int]]) -> tuple[int, mmap.mmap]:
    """Return a new file of ``size`` bytes (mode 0600): its descriptor, and its first ``mapped``
    bytes. The blocks of ``reserved`` (offset, bytes) are allocated now, so that an access to them never causes a
    SIGBUS. Raises :class:`InputError` if the file cannot be made."""
    path.unlink(missing_ok=True)
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.truncate(fd, size)
            for offset, octets in reserved:
                os.posix_fallocate(fd, offset, octets)
            return fd, mmap.mmap(fd, mapped)
        except BaseException:
            os.close(fd)
            raise
    except OSError as error:
        raise InputError(f"{path}: cannot create the file: {os_reason(error)}") from None


@dataclass(frozen=True)
class EndedProgram:
    """A program that has closed its connection. Its memory is freed when its process ends:
    ``pidfd`` reports that, or, on systems without pidfds (-1), the ``pid`` that began at
    ``started``."""

    number: int
    pid: int
    started: int
    pidfd: int = -1

    def runs(self) -> bool:
        """Return whether the program, which has closed its connection, still runs."""
        if self.pidfd < 0:
            return is_running(self.pid, self.started)
        end = select.poll()
        end.register(self.pidfd, select.POLLIN)
        return not end.poll(0)

    def close(self) -> None:
        """Close the pidfd."""
        if self.pidfd >= 0:
            os.close(self.pidfd)


class SharedHeap:
    """A new sparse file at ``path`` (mode 0600). Raises :class:`InputError` if it cannot be made."""

    def __init__(self, path: Path):
        self.path = path
        self.pending: dict[int, EndedProgram] = {}
        self.fd, self.memory = sparse_file(path, constant("SIZE"), constant("HEAP"), [(0, mmap.PAGESIZE)])
        octets = np.frombuffer(self.memory, np.uint8)
        self.head = octets[: types()["softib_verbs"].itemsize].view(types()["softib_verbs"])
        self.processes, self.members, self.keys = (
            self._table(octets, place, kind, constant(f"{place}_N")) for place, kind in TABLES.values()
        )
        self.numbers = self._integers(octets, "NUMBERS", "<u8", constant("NUMBERS_N"))
        self.blocks = self._integers(octets, "BLOCKS", "<u4", constant("BLOCKS_N"))
        self.chunks_n = (constant("SIZE") - constant("HEAP")) // constant("CHUNK")
        self.owners = self._integers(octets, "OWNERS", "<u4", self.chunks_n)
        self.head["version"], self.head["size"], self.head["number_next"] = constant("VERSION"), constant("SIZE"), 2
        self.head["magic"] = MAGIC

    @staticmethod
    def _table(octets: np.ndarray, place: str, kind: str, n: int) -> np.ndarray:
        at, dtype = constant(place), types()[kind]
        return octets[at : at + n * dtype.itemsize].view(dtype)

    @staticmethod
    def _integers(octets: np.ndarray, place: str, dtype: str, n: int) -> np.ndarray:
        at = constant(place)
        return octets[at : at + n * np.dtype(dtype).itemsize].view(dtype)

    def _high(self, name: str, room: int) -> int:
        """Return the number of entries of a table that have been in use at any time. The rest must not be read, since a
        read allocates memory. Programs write this number, so it is limited to ``room``."""
        return min(int(self.head[name][0]), room)

    # -- a program joins --

    def reserve_row(self, number: int) -> None:
        """Reserve memory for the row of process ``number``. Raises OSError if the file system is full."""
        size = types()["softib_process"].itemsize
        os.posix_fallocate(self.fd, constant("PROCESSES") + number * size, size)

    def room(self) -> int:
        """Return the free bytes of the file system."""
        about = os.fstatvfs(self.fd)
        return about.f_bavail * about.f_frsize

    # -- a program leaves --

    def leave(self, number: int, pid: int, started: int, pidfd: int = -1) -> None:
        """Hide the objects of process ``number``, which has closed its connection, from other programs. :meth:`tick`
        frees them later, and closes ``pidfd``."""
        self.processes["alive"][number] = 0
        numbers = self._numbers_of(number)
        self._empty_regions_of(numbers)
        self.numbers[numbers] = 0
        self.members["qpn"][self._members_of(number)] = 0
        for keys in self._keys_of(number):
            self.keys["key"][keys] = 0
        for name in self._sockets_of(number):
            name.unlink(missing_ok=True)
        self.pending[number] = EndedProgram(number, pid, started, pidfd)
        self.tick()

    def _empty_regions_of(self, numbers: np.ndarray) -> None:
        """Set the length of other programs' regions to 0 if they are in device memory of processes ``numbers``, which
        is freed (``engine/keys.c``)."""
        region = HEADER.macro("SOFTIB_KEY_REGION")
        for taken in self._runs(np.flatnonzero(self.blocks[: self._high("block_high", len(self.blocks))])):
            keys = self.keys[taken]
            regions = (
                (keys["qpn"] != 0) & (keys["kind"] == region) & (keys["process"] != 0) & np.isin(keys["qpn"], numbers)
            )
            keys["length"][regions] = 0

    def tick(self) -> None:
        """Free the objects of ended programs that no living program uses."""
        for ended in [*self.pending.values()]:
            if not self._in_use(ended.number) and not ended.runs():
                self._free(ended.number)
                ended.close()
                del self.pending[ended.number]

    def _in_use(self, number: int) -> bool:
        """Return whether a living process copies to or from the objects of process ``number``."""
        living = self.processes[1 : self._high("process_high", len(self.processes) - 1) + 1]
        hazards = living["hazard"][living["alive"] == 1]
        return bool(((hazards & np.uint64(0xFFFF)) == number).any())

    def _free(self, number: int) -> None:
        numbers = self._numbers_of(number)  # objects that the program made after it had closed its connection
        self.numbers[numbers] = 0
        blocks = self._blocks_of(number)
        for keys in self._runs(blocks):
            self._clear(keys)
        self.blocks[blocks] = 0
        if len(blocks):
            self.head["block_hint"] = min(int(self.head["block_hint"][0]), int(blocks[0]))
        chunks = self._chunks_of(number)
        for run in np.split(chunks, np.flatnonzero(np.diff(chunks) != 1) + 1) if len(chunks) else ():
            self._punch(int(run[0]), len(run))
            self.owners[run] = 0
            self.head["chunk_hint"] = min(int(self.head["chunk_hint"][0]), int(run[0]))
        for socket in self._sockets_of(number):
            socket.unlink(missing_ok=True)

    def _punch(self, first: int, n: int) -> None:
        """Return the memory of chunks to the system; their next owner reads zeros."""
        size = constant("CHUNK")
        with mmap.mmap(self.fd, n * size, offset=constant("HEAP") + first * size) as part:
            try:
                part.madvise(mmap.MADV_REMOVE)
            except OSError:  # a file system without holes
                part.write(bytes(n * size))

    # -- owners --

    def _numbers_of(self, number: int) -> np.ndarray:
        used = self.numbers[: self._high("number_high", len(self.numbers))]
        return np.flatnonzero(used >> np.uint64(PROCESS_AT) == number)

    def _members_of(self, number: int) -> np.ndarray:
        used = self.members[: self._high("member_high", len(self.members))]
        return np.flatnonzero((used["process"] == number) & (used["qpn"] != 0))

    def _blocks_of(self, number: int) -> np.ndarray:
        return np.flatnonzero(self.blocks[: self._high("block_high", len(self.blocks))] == number)

    @staticmethod
    def _runs(blocks: np.ndarray) -> list[slice]:
        """Return the keys of ``blocks`` (ascending), in as few slices of the table as possible.
        Keys without an owner are not read, since a read would allocate memory."""
        each = constant("BLOCK_KEYS")
        parts = np.split(blocks, np.flatnonzero(np.diff(blocks) != 1) + 1) if len(blocks) else []
        return [slice(int(part[0]) * each, (int(part[-1]) + 1) * each) for part in parts]

    def _keys_of(self, number: int) -> list[slice]:
        return self._runs(self._blocks_of(number))

    def _clear(self, keys: slice) -> None:
        """Clear keys. Whole pages of keys are returned to the system (a block of keys fills a page of 4,096 bytes)."""
        at, size = constant("KEYS"), self.keys.itemsize
        first, last = at + keys.start * size, at + keys.stop * size
        if first % mmap.PAGESIZE == last % mmap.PAGESIZE == 0:
            with contextlib.suppress(OSError):  # a file system without holes
                self.memory.madvise(mmap.MADV_REMOVE, first, last - first)
                return
        self.keys[keys] = np.zeros((), self.keys.dtype)

    def _chunks_of(self, number: int) -> np.ndarray:
        return np.flatnonzero(self.owners[: self._high("chunk_high", len(self.owners))] == number)

    def _sockets_of(self, number: int) -> list[Path]:
        return [*self.path.parent.glob(f"wake-{number}-*")]

    def usage(self) -> VerbsUsage:
        """Return the number of objects and bytes that are in use."""
        blocks = np.flatnonzero(self.blocks[: self._high("block_high", len(self.blocks))])
        return VerbsUsage(
            int((self.processes["alive"][: self._high("process_high", len(self.processes) - 1) + 1] == 1).sum()),
            int(np.count_nonzero(self.numbers[: self._high("number_high", len(self.numbers))])),
            int(np.count_nonzero(self.members["qpn"][: self._high("member_high", len(self.members))])),
            sum(int(np.count_nonzero(self.keys["process"][taken])) for taken in self._runs(blocks)),
            int(np.count_nonzero(self.owners[: self._high("chunk_high", len(self.owners))])),
            os.fstat(self.fd).st_blocks * 512,
        )

    def close(self) -> None:
        """Remove the file, and the sockets that programs left."""
        self.path.unlink(missing_ok=True)
        for name in self.path.parent.glob("wake-*-*"):
            name.unlink(missing_ok=True)
        for ended in self.pending.values():
            ended.close()
        with contextlib.suppress(OSError):
            os.close(self.fd)


PLACE = (1 << 48) - 1
"""Mask for the offset of the object in an entry of the table of numbers."""


class UnreadCompletions:
    """An :data:`~softib.cm.connections.Unread` for the queue pairs of a running fabric: the completions
    that a program has not taken yet. Data that programs have written is not trusted: at worst, an answer is wrong.

    On hardware the end of a connection is slower than the data before it: a DREQ passes through two
    kernels, at least tens of microseconds after the last packet, whose completion is in the queue by
    then. So a program may poll its completion queue until it is empty, and then treat the disconnect event as the end
    of the data. Here, without this class, the DREQ of a sender could arrive before a receiver that waits for a
    processor has polled.
    """

    def __init__(self, memory: SharedHeap):
        self.memory = memory

    def __call__(self, qpn: int) -> Callable[[], bool] | None:
        ends = [(at, int(cq["producer"])) for at, cq in self._queues(qpn) if cq["producer"] != cq["consumer"]]
        if not ends:
            return None

        def still() -> bool:
            now = dict(self._queues(qpn))
            return any(at in now and 0 < (end - int(now[at]["consumer"])) & 0xFFFFFFFF < 1 << 31 for at, end in ends)

        return still

    def _queues(self, qpn: int) -> list[tuple[int, np.void]]:
        """Return the completion queues of a QP's sends and receives; one queue if they are the same."""
        if qpn >= min(int(self.memory.head["number_high"][0]), len(self.memory.numbers)):
            return []  # never used, and a read of the sparse table would allocate memory
        qp = self._object(int(self.memory.numbers[qpn]) & PLACE, "softib_qp")
        if qp is None or qp["is"] != HEADER.macro("SOFTIB_IS_QP") or qp["qpn"] != qpn:
            return []
        srq = self._object(int(qp["srq"]), "softib_srq")
        receives = int(srq["cq"]) if srq is not None and srq["cq"] else int(qp["recv_cq"])
        queues = ((at, self._object(at, "softib_cq")) for at in dict.fromkeys((receives, int(qp["send_cq"]))))
        return [(at, cq) for at, cq in queues if cq is not None]

    def _object(self, at: int, kind: str) -> np.void | None:
        dtype = types()[kind]
        if not constant("HEAP") <= at <= constant("SIZE") - dtype.itemsize:
            return None
        octets = os.pread(self.memory.fd, dtype.itemsize, at)
        return np.frombuffer(octets, dtype)[0] if len(octets) == dtype.itemsize else None
