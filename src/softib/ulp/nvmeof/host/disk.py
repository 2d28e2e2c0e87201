"""A namespace of a target as a disk of the initiator, over one or several paths, with reads and writes of any
length."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softib.errors import InputError, PeerError
from softib.plural import counted
from softib.ulp.nvmeof.codes import AnaState, Io, Status
from softib.ulp.nvmeof.host import queue_layout as layout
from softib.ulp.nvmeof.host.command_queue import CommandError, CommandQueue
from softib.ulp.nvmeof.host.controller import HostController
from softib.ulp.nvmeof.host.queue_kernels import CORRUPT, DONE, STOPPED, transfer

__all__ = ["CorruptData", "Disk"]

RETRY_S = 30.0
"""Maximum time for which a command waits for a usable path."""
PAUSE_S = 0.1
PATH_RELATED = 3
"""Status code type of path-related errors: the command may succeed on another path (NVMe 1.4, 8.20)."""
PREFERENCE = (AnaState.OPTIMIZED, AnaState.NON_OPTIMIZED)
LARGEST_ZEROES = 1 << 16
"""Maximum number of blocks in one Write Zeroes command."""


class CorruptData(PeerError):
    """Raised if a read returned data that differs from the data written."""


@dataclass(eq=False)
class _Path:
    """A controller with its I/O queues."""

    controller: HostController
    queues: list[CommandQueue]
    states: dict[int, AnaState] = field(default_factory=dict)
    broken: PeerError | None = None

    @property
    def address(self) -> str:
        return self.controller.address


class Disk:
    """Namespace ``nsid`` over ``controllers`` of one subsystem, each with ``queues`` I/O queues of
    ``depth`` commands of up to ``piece`` bytes. Raises :class:`InputError` for a namespace that does
    not exist, :class:`PeerError` if a controller refuses."""

    def __init__(
        self,
        controllers: Sequence[HostController],
        nsid: int,
        depth: int,
        piece: int,
        queues: int,
        notice: Callable[[str], None],
    ):
        namespaces = controllers[0].namespaces()
        if nsid not in namespaces:
            numbers = ", ".join(map(str, namespaces)) or "none"
            raise InputError(f"namespace {nsid} does not exist; the subsystem has {numbers}")
        identity = namespaces[nsid]
        self.nsid, self.blocks, self.shift = nsid, int(identity["nsze"]), int(identity["lbads"])
        self.read_only = bool(identity["nsattr"] & 1)
        self._group, self._notice = int(identity["anagrpid"]), notice
        self.paths = [_Path(c, c.open_queues(queues, depth, piece)) for c in controllers]
        self.piece = min(queue.piece for path in self.paths for queue in path.queues)
        self._lock = threading.Lock()
        for path in self.paths:
            for queue in path.queues:
                queue.columns.n[[layout.NSID, layout.SHIFT]] = nsid, self.shift

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        return self.blocks << self.shift

    @property
    def queue_count(self) -> int:
        """Return the number of I/O queues of a path."""
        return min(len(path.queues) for path in self.paths)

    # -- requests --

    def run(self, requests: Any, queue: int = 0) -> None:
        """Execute requests on queue number ``queue`` of the best path. Requests that fail because of their path are
        repeated on another path. On return, every request has a status. Raises :class:`CorruptData`, and
        :class:`PeerError` if no path is usable for :data:`RETRY_S`."""
        until = time.monotonic() + RETRY_S
        while True:
            path = self._best()
            if path is not None:
                pending = np.flatnonzero(requests.status < 0)
                part = requests if len(pending) == len(requests.status) else self._part(requests, pending)
                code = transfer(path.queues[queue].rings, path.queues[queue].columns, part)
                if part is not requests:
                    for name in ("status", "result", "ns", "bad"):
                        getattr(requests, name)[pending] = getattr(part, name)
                self._after(path, code, queue, requests)
            retry = (requests.status < 0) | ((requests.status >> 8 & 7) == PATH_RELATED)
            if not retry.any():
                return
            requests.status[retry] = -1
            if path is not None and code != DONE:  # try another path at once
                until = time.monotonic() + RETRY_S
                continue
            if time.monotonic() > until:
                raise self._no_path()
            time.sleep(PAUSE_S)

    @staticmethod
    def _part(requests: Any, rows: np.ndarray) -> Any:
        return layout.Requests(**{name: getattr(requests, name)[rows].copy() for name in requests._fields})

    def _after(self, path: _Path, code: int, queue: int, requests: Any) -> None:
        """Update the state of ``path`` after a transfer on it has ended with ``code``."""
        if code == CORRUPT:
            bad = int(np.flatnonzero(requests.bad)[0])
            raise CorruptData(f"{path.address}: block {int(requests.lba[bad])} has other data than was written")
        if code == DONE:
            path.controller.states_stale |= bool(((requests.status >> 8 & 7) == PATH_RELATED).any())
            return
        problem = path.controller.problem if code == STOPPED else None
        self._fail(path, problem or path.queues[queue].lost())

    def _fail(self, path: _Path, problem: PeerError) -> None:
        """Mark the path as failed."""
        with self._lock:
            if path.broken is None:
                path.broken = problem
                others = sum(p.broken is None for p in self.paths)
                if others:
                    self._notice(f"{problem}; {counted(others, 'other path')} left")

    def _best(self) -> _Path | None:
        """Return the path to use now."""
        with self._lock:
            alive = [path for path in self.paths if path.broken is None]
        for path in alive:
            if path.controller.problem is not None:
                self._fail(path, path.controller.problem)
            elif path.controller.states_stale:
                try:
                    path.states = path.controller.access_states()
                except PeerError as problem:
                    self._fail(path, problem)
        if not any(path.broken is None for path in self.paths):
            raise self._no_path()
        for state in PREFERENCE:
            for path in alive:
                if path.broken is None and path.states.get(self._group, AnaState.OPTIMIZED) == state:
                    return path
        for path in alive:
            path.controller.states_stale = True
        return None

    def _no_path(self) -> PeerError:
        broken = next((path.broken for path in self.paths if path.broken is not None), None)
        return broken or PeerError(f"{self.paths[0].address}: no path to namespace {self.nsid} is accessible")

    # -- bytes --

    def check(self, offset: int, size: int) -> tuple[int, int]:
        """Return the first block and the number of blocks. Raises :class:`InputError` if the range ends beyond the
        namespace or does not consist of whole blocks."""
        block = 1 << self.shift
        if size <= 0:
            raise InputError(f"size {size:,}: use at least {block:,} bytes, a block of the namespace")
        for name, value in (("offset", offset), ("size", size)):
            if value % block:
                raise InputError(f"{name} {value:,}: use a multiple of {block:,}, the block of the namespace")
        if offset < 0 or offset + size > self.size:
            raise InputError(
                f"bytes {offset:,} to {offset + size:,} are beyond the end of the namespace ({self.size:,})"
            )
        return offset >> self.shift, size >> self.shift

    def _transfer(self, opcode: Io, offset: int, data: np.ndarray, flags: int = 0) -> None:
        """Transfer ``data`` (uint8) to or from the disk."""
        lba, blocks = self.check(offset, len(data))
        step = self.piece >> self.shift
        starts = np.arange(0, blocks, step)
        requests = layout.requests(
            len(starts),
            opcode=int(opcode),
            lba=lba + starts,
            blocks=np.minimum(step, blocks - starts),
            flags=flags,
            memory=data.ctypes.data + (starts << self.shift),
        )
        self.run(requests)
        self._check(requests, opcode)

    def _check(self, requests: Any, opcode: Io) -> None:
        wrong = np.flatnonzero(requests.status & 0x7FF)
        if len(wrong):
            status, lba = int(requests.status[wrong[0]]), int(requests.lba[wrong[0]])
            name = opcode.name.lower().replace("_", " ")
            raise CommandError(f"{name} at byte {lba << self.shift:,}", status)

    def read(self, offset: int, size: int) -> bytes:
        """Read ``size`` bytes from ``offset``. Raises :class:`InputError`, :class:`PeerError`."""
        self.check(offset, size)
        data = np.empty(size, np.uint8)
        self._transfer(Io.READ, offset, data)
        return data.tobytes()

    def write(self, offset: int, data: bytes, through: bool = False) -> None:
        """Write ``data``; ``through``: the write must reach the medium (FUA)."""
        self._transfer(Io.WRITE, offset, np.frombuffer(data, np.uint8), layout.FUA if through else 0)

    def compare(self, offset: int, data: bytes) -> bool:
        """Return whether the disk contains ``data`` at this offset. The comparison runs at the target."""
        try:
            self._transfer(Io.COMPARE, offset, np.frombuffer(data, np.uint8))
        except CommandError as error:
            if error.status == Status.COMPARE_FAILURE:
                return False
            raise
        return True

    def zero(self, offset: int, size: int, deallocate: bool = False) -> None:
        """Write zeroes; ``deallocate``: the target may free the space."""
        lba, blocks = self.check(offset, size)
        starts = np.arange(0, blocks, LARGEST_ZEROES)
        requests = layout.requests(
            len(starts),
            opcode=int(Io.WRITE_ZEROES),
            lba=lba + starts,
            blocks=np.minimum(LARGEST_ZEROES, blocks - starts),
            flags=layout.DEALLOCATE if deallocate else 0,
        )
        self.run(requests)
        self._check(requests, Io.WRITE_ZEROES)

    def flush(self) -> None:
        """Write all cached data to the medium."""
        requests = layout.requests(1, opcode=int(Io.FLUSH))
        self.run(requests)
        self._check(requests, Io.FLUSH)

    def close(self) -> None:
        """Disconnect all paths."""
        for path in self.paths:
            path.controller.close()
