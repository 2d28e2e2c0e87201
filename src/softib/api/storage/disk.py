"""Read and write a namespace of a target of NVMe over Fabrics."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from softib.api.arguments import Suggests
from softib.api.progress import Notice
from softib.api.storage.records import (
    FileComparison,
    NvmeBench,
    NvmeDiscovery,
    NvmeNamespace,
    NvmePort,
    NvmeSubsystem,
    state_text,
)
from softib.api.storage.target import PORT
from softib.errors import InputError
from softib.input_files import is_stdin, raw_pieces
from softib.source import warn
from softib.whole_files import write_file

if TYPE_CHECKING:
    from softib.ulp.nvmeof.host.controller import HostController
    from softib.ulp.nvmeof.host.discovery import Entry

__all__ = ["NvmeDisk", "nvme_connect", "nvme_discover"]

MOST_QUEUES = 16
READ_SHARES = {"read": 1.0, "write": 0.0, "mixed": 0.7}
WORST_DEPTH = 255
MAX_PIECE = 1 << 17
"""Maximum data of a command in bytes; a target may allow less."""
PART = 16 << 20
"""Bytes of a file that are in memory at a time."""


def _address(text: str) -> tuple[str, int]:
    """Return (address, port) of a text ``ADDRESS[:PORT]``."""
    address, colon, port = text.partition(":")
    if colon and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise InputError(f"{text!r}: the part after the colon is not a port; use 1 to 65535")
    return address, int(port) if colon else PORT


def nvme_discover(address: str) -> NvmeDiscovery:
    """Return the exports and ports of the target at ``address`` (``ADDRESS[:PORT]``, a target's
    ``$SOFTIB_ADDRESS``). Raises :class:`InputError`, :class:`PeerError` if it is not reachable."""
    from softib.ulp.nvmeof.host.discovery import discover, this_host

    entries = discover(*_address(address), this_host())
    return NvmeDiscovery(address, [NvmePort(e.port, e.address, e.service, e.nqn, None) for e in entries])


def nvme_connect(
    address: str,
    *,
    nqn: str | None = None,
    namespace: int = 1,
    depth: int = 32,
    queues: int = 1,
    notice: Notice = warn,
) -> NvmeDisk:
    """Connect to a namespace of the target at ``address``, over all ports in the target's discovery
    log page that can be reached. ``depth``: number of commands in flight on each of the ``queues``
    I/O queues. Raises :class:`InputError` for a subsystem or namespace that does not exist,
    :class:`PeerError` if the target is not reachable or refuses."""
    from softib.ulp.nvmeof.host.discovery import discover, this_host

    if not 1 <= depth <= WORST_DEPTH:
        raise InputError(f"depth {depth}: use 1 to {WORST_DEPTH}")
    if not 1 <= queues <= MOST_QUEUES:
        raise InputError(f"{queues} queues: use 1 to {MOST_QUEUES}")
    host = this_host()
    entries = discover(*_address(address), host)
    names = list(dict.fromkeys(e.nqn for e in entries))
    if nqn is None and len(names) != 1:
        raise InputError(f"{address} has {len(names)} subsystems; name one with --nqn: {', '.join(names)}")
    wanted = names[0] if nqn is None else nqn
    if wanted not in names:
        raise InputError(f"{address} has no subsystem {wanted!r}; it has {', '.join(names)}")
    return NvmeDisk([e for e in entries if e.nqn == wanted], host, namespace, depth, queues, notice)


class NvmeDisk(Suggests):
    """A connected namespace, as :func:`nvme_connect` returns it."""

    def __init__(self, entries: Sequence[Entry], host: object, namespace: int, depth: int, queues: int, notice: Notice):
        from softib.ulp.nvmeof.host.disk import Disk

        self._controllers = _controllers(entries, host, notice)
        self._entries, self._host = entries, host
        self._depth, self._queues, self._notice = depth, queues, notice
        try:
            self._disk = Disk(self._controllers, namespace, depth, MAX_PIECE, queues, notice)
        except BaseException:
            for controller in self._controllers:
                controller.close()
            raise

    @property
    def size(self) -> int:
        """Bytes of the namespace."""
        return self._disk.size

    def describe(self) -> NvmeSubsystem:
        """Return the subsystem, its paths and namespaces."""
        first = self._controllers[0]
        names = first.as_dict()
        paths = []
        for controller in self._controllers:
            states = controller.access_states()
            number = next(e.port for e in self._entries if e.address == controller.address)
            state = state_text(next(iter(states.values()))) if states else None
            paths.append(NvmePort(number, controller.address, controller.port, controller.nqn, state))
        spaces = [
            NvmeNamespace(i, int(n["nsze"]) << int(n["lbads"]), 1 << int(n["lbads"]), bool(n["nsattr"] & 1), None)
            for i, n in first.namespaces().items()
        ]
        return NvmeSubsystem(first.nqn, names["model"], names["serial"], first.host.nqn, paths, spaces)

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes from ``offset``; both must be multiples of the block size."""
        return self._disk.read(offset, size)

    def write(self, offset: int, data: bytes, through: bool = False) -> None:
        """Write ``data`` at ``offset``; with ``through``, it is on the medium when this returns."""
        self._disk.write(offset, data, through)

    def compare(self, offset: int, data: bytes) -> bool:
        """Return whether the namespace holds ``data`` at ``offset``. The target compares, so no data is read."""
        return self._disk.compare(offset, data)

    def read_file(self, file: str | os.PathLike[str], offset: int = 0, size: int | None = None) -> int:
        """Read ``size`` bytes from ``offset`` (default: to the end) into ``file`` (``-``: standard
        output), and return their number. The previous file stays if the bytes cannot be read."""
        count = self.size - offset if size is None else size
        self._disk.check(offset, count)

        def copy(out: BinaryIO) -> None:
            for at in range(offset, offset + count, PART):
                out.write(self.read(at, min(PART, offset + count - at)))
            out.flush()

        def into(part: Path) -> None:
            with part.open("wb") as out:
                copy(out)

        if is_stdin(file):
            copy(sys.stdout.buffer)
        else:
            write_file(file, into)
        return count

    def write_file(self, file: str | os.PathLike[str], offset: int = 0, through: bool = False) -> int:
        """Write the bytes of ``file`` (``-``: standard input) at ``offset``, and return their number.
        If a file is too large for the namespace, it is refused before the first byte is written; a stream that is too
        large is refused at the end of the namespace."""
        size = 0
        for at, piece in self._pieces(file, offset):
            self.write(at, piece, through)
            size += len(piece)
        return size

    def compare_file(self, file: str | os.PathLike[str], offset: int = 0) -> FileComparison:
        """Compare the namespace with the bytes of ``file`` at ``offset``; the target compares."""
        equal, size = True, 0
        for at, piece in self._pieces(file, offset):
            equal &= self.compare(at, piece)
            size += len(piece)
        return FileComparison(equal, size)

    def _pieces(self, file: str | os.PathLike[str], offset: int) -> Iterator[tuple[int, bytes]]:
        if not is_stdin(file) and Path(file).is_file():
            self._disk.check(offset, Path(file).stat().st_size)
        at = offset
        for piece in raw_pieces(file, PART):
            yield at, piece
            at += len(piece)
        if at == offset:
            self._disk.check(offset, 0)

    def zero(self, offset: int, size: int, deallocate: bool = False) -> None:
        """Write ``size`` bytes of zeroes at byte ``offset``; ``deallocate``: release the space in the target's file."""
        self._disk.zero(offset, size, deallocate)

    def flush(self) -> None:
        """Flush all written data to the medium."""
        self._disk.flush()

    def bench(self, *, size: int = 4096, seconds: float = 5.0, mix: str = "read", overwrite: bool = False) -> NvmeBench:
        """Measure random commands of ``size`` bytes for ``seconds`` (0.1 to 86,400): ``mix``
        ``read``, ``write`` or ``mixed`` (70 % reads). ``overwrite``: first fill the namespace with a
        pattern, and compare all data read with it; writes require this. Raises
        :class:`InputError` for an invalid argument, and :class:`PeerError` if data differs from the
        written pattern."""
        from softib.ulp.nvmeof.host.bench import fill, measure

        if mix not in READ_SHARES:
            raise InputError(f"mix {mix!r} does not exist; use one of {', '.join(READ_SHARES)}")
        if mix != "read" and not overwrite:
            raise InputError(
                f"mix {mix!r} writes to the namespace and destroys its data; to allow this, add overwrite (--overwrite)"
            )
        if not 0.1 <= seconds <= 86_400:
            raise InputError(f"{seconds:g} seconds: use 0.1 to 86,400")
        if overwrite:
            fill(self._disk, size)
        m = measure(self._disk, size, seconds, READ_SHARES[mix], overwrite)
        median_us, p99_us, max_us = (round(us, 1) for us in m.latency_us)
        return NvmeBench(
            size=size,
            depth=self._depth,
            queues=self._disk.queue_count,
            mix=mix,  # type: ignore[arg-type]
            verified=overwrite,
            seconds=round(m.seconds, 3),
            commands=m.commands,
            reads=m.reads,
            iops=round(m.commands / m.seconds, 1),
            bytes_per_second=round(m.commands * size / m.seconds, 1),
            latency_median_us=median_us,
            latency_99_us=p99_us,
            latency_max_us=max_us,
        )

    def serve_nbd(
        self,
        socket: str | os.PathLike[str],
        *,
        ready: Callable[[], None] = lambda: None,
        until: Callable[[], bool] = lambda: False,
    ) -> None:
        """Export the namespace as a network block device on a Unix socket until ``until`` is true,
        or Ctrl-C. ``ready`` is called when clients can connect. Raises :class:`InputError` if the
        socket cannot be created."""
        from softib.ulp.nvmeof.host.nbd import NbdServer

        server = NbdServer(self._disk, socket, self._notice)
        try:
            ready()
            server.serve(until)
        finally:
            server.close()

    def close(self) -> None:
        """Disconnect."""
        self._disk.close()

    def __enter__(self) -> NvmeDisk:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _controllers(entries: Sequence[Entry], host: object, notice: Notice) -> list[HostController]:
    """Return a controller on each port that can be reached. Raises :class:`PeerError` if none
    can."""
    from softib.errors import PeerError
    from softib.ulp.nvmeof.host.controller import HostController

    controllers: list[HostController] = []
    problems: list[PeerError] = []
    for entry in entries:
        try:
            controllers.append(HostController(entry.address, entry.service, entry.nqn, host))  # type: ignore[arg-type]
        except PeerError as problem:
            problems.append(problem)
    if not controllers:
        raise problems[0]
    for unreachable in problems:
        notice(f"{unreachable}; this path is not used")
    return controllers
