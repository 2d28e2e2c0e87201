"""The arrays of a running fabric in a shared mapping, so that other processes see them.

    shared = SharedFabric.create(path, fabric)     # in the daemon; shared.fabric has the arrays in the mapping
    seen = SharedFabric.open(path)                 # anywhere else: the same ports, tables and counters, read-only

The layout is ``preload/shared_fabric.h``; each column of :data:`softib.fabric.columns.COLUMNS` is
one entry of its directory.

Memory: the file's blocks are reserved when it is created, so a full file system causes one error line at the start, and
never a SIGBUS later. :data:`~softib.fabric.columns.LAZY_COLUMNS` are in a memfd, which uses memory only for pages that
were written, and is in no file system that could be full. *Reading* such memory through a mapping also allocates the
page (shmem faults allocate), so this module never does that: :meth:`SharedFabric.snapshot` reads only the extents that
exist.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import json
import mmap
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from softib.errors import InputError, SoftibBug, UnreadableFile, os_reason
from softib.fabric.columns import COLUMN_BY_NAME, COLUMNS, LAZY_COLUMNS, Column, Sizes
from softib.fabric.model import Fabric, Source
from softib.live.c_header import CHeader
from softib.live.instances import room_advice
from softib.live.proc import descriptor_path

__all__ = ["HEADER", "SharedFabric", "asks_for_files"]

HEADER = CHeader("shared_fabric.h")
SERVER = CHeader("verbs/fabric/server.h")
MAGIC = b"SOFTIBv"
LAZY_NAME = "softib-lazy"
ANSWER_S = 30
PAGE = 4096
EAGER, LAZY = 0, 1


def _plain(column: Column) -> tuple[str, tuple[int, ...]]:
    """Return the dtype and the inner dimensions of ``column`` in C, where a record of counters is an array of
    numbers."""
    dtype = np.dtype(column.dtype)
    if dtype.fields is None:
        return dtype.str, ()
    bases = {kind.base for kind, *_ in dtype.fields.values()}
    base = bases.pop()
    if bases or dtype.itemsize % base.itemsize:
        raise SoftibBug(f"column {column.name}: a record of several types cannot be in the shared fabric")
    return base.str, (dtype.itemsize // base.itemsize,)


class SharedFabric:
    """A mapped fabric. ``fabric`` has its arrays; only the daemon may write ``epoch``.
    ``files``: in the daemon, read-only descriptors of both files; in other processes, empty."""

    def __init__(self, fabric: Fabric, header: np.ndarray, files: tuple[int, ...] = ()):
        self.fabric, self.header, self.files = fabric, header, files

    @property
    def epoch(self) -> int:
        """Return the number of changes of the configuration so far."""
        return int(self.header["epoch"])

    @epoch.setter
    def epoch(self, value: int) -> None:
        self.header["epoch"] = value

    @classmethod
    def create(cls, path: Path, fabric: Fabric) -> SharedFabric:
        """Write ``fabric`` to a new file at ``path`` (mode 0600) and map it.

        Raises :class:`InputError` if the file system has no room for it.
        """
        types = HEADER.types()
        texts = _texts(fabric)
        directory = np.zeros(len(COLUMNS), types["softib_column"])
        texts_at = types["softib_shared_fabric"].itemsize + directory.nbytes
        ends = [_pages(texts_at + len(texts)), 0]
        for entry, column in zip(directory, COLUMNS, strict=True):
            array = getattr(fabric, column.name)
            dtype, inner = _plain(column)
            shape = (*array.shape, *inner)
            store = LAZY if column.name in LAZY_COLUMNS else EAGER
            entry["name"], entry["dtype"], entry["writer"], entry["store"] = column.name, dtype, column.writer, store
            entry["offset"], entry["ndim"] = ends[store], len(shape)
            entry["shape"][: len(shape)] = shape
            ends[store] = _pages(ends[store] + array.nbytes)
        memory = _reserve(path, ends[EAGER])
        lazy_fd, lazy = _sparse(ends[LAZY])
        header = np.frombuffer(memory, types["softib_shared_fabric"], 1)[0:1].reshape(())
        start = types["softib_shared_fabric"].itemsize
        np.frombuffer(memory, types["softib_column"], len(directory), start)[:] = directory
        memory[texts_at : texts_at + len(texts)] = texts
        header["version"], header["columns"] = HEADER.constant("SHARED_FABRIC_VERSION"), len(directory)
        header["directory"], header["size"], header["pid"] = start, ends[EAGER], os.getpid()
        header["lazy_fd"], header["lazy_size"] = lazy_fd, ends[LAZY]
        header["texts_at"], header["texts"] = texts_at, len(texts)
        header["name"] = fabric.name.encode()[:63]
        shared = _fabric_over((memory, lazy), directory, fabric)
        for column in COLUMNS:
            array = getattr(fabric, column.name)
            if column.name not in LAZY_COLUMNS or array.view(np.uint8).any():
                getattr(shared, column.name)[...] = array
        header["magic"] = MAGIC
        return cls(shared, header, (os.open(path, os.O_RDONLY | os.O_CLOEXEC), lazy_fd))

    @classmethod
    def open(cls, path: Path) -> SharedFabric:
        """Map the file at ``path`` read-only. Raises :class:`UnreadableFile` if it is not a shared fabric of this
        version, or its daemon has ended."""
        header, octets, lazy = _parts(path, _map)
        return cls(_fabric_of(header, octets, lazy), header)

    @classmethod
    def snapshot(cls, path: Path) -> Fabric:
        """Return a private copy of the shared fabric at ``path``. Raises the same errors as :meth:`open`.

        The copy is consistent only if the epoch that the *daemon* reports stays the same during the copy.
        """
        return _fabric_of(*_parts(path, _read))

    def close(self) -> None:
        """Release the daemon's resources other than the mapping."""
        for fd in self.files:
            os.close(fd)
        self.files = ()


def _pages(octets: int) -> int:
    return -(-octets // PAGE) * PAGE


def _reserve(path: Path, size: int) -> mmap.mmap:
    """Return a new file of ``size`` bytes, mapped. Its blocks are reserved, so a full file system is an error here, not
    a SIGBUS later."""
    path.unlink(missing_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, size)
        return mmap.mmap(fd, size)
    except OSError as error:
        path.unlink()
        raise InputError(
            f"{path}: no room for the shared fabric of {max(1, size >> 20)} MiB: "
            f"{room_advice(error) or os_reason(error)}"
        ) from None
    finally:
        os.close(fd)


def _sparse(size: int) -> tuple[int, mmap.mmap]:
    """Return a descriptor of ``size`` bytes that take no memory until written, and their mapping."""
    fd = os.memfd_create(LAZY_NAME, os.MFD_CLOEXEC)
    os.ftruncate(fd, max(size, PAGE))
    return fd, mmap.mmap(fd, max(size, PAGE))


def _texts(fabric: Fabric) -> bytes:
    """Return the data outside the columns, as JSON."""
    source = fabric.source
    texts = {
        "port_label": {str(k): v for k, v in fabric.port_label.items()},
        "node_system": {str(k): v for k, v in fabric.node_system.items()},
        "records": sorted(source.records),
        "format": source.format,
    }
    return json.dumps(texts).encode()


# -- reading --

Octets = Any
"""The bytes of a file as uint8[n]: a mapping or a copy."""


def _map(fd: int, size: int) -> Octets:
    return np.frombuffer(mmap.mmap(fd, size, prot=mmap.PROT_READ), np.uint8)


def _read(fd: int, size: int) -> Octets:
    """Return a copy of the file's data; holes stay zeros without memory."""
    octets = np.zeros(size, np.uint8)
    at = 0
    while True:
        try:
            at = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return octets  # the rest of the file is a hole
        end = min(os.lseek(fd, at, os.SEEK_HOLE), size)
        while at < end:
            got = os.preadv(fd, [octets[at:end].data], at)
            if not got:
                return octets
            at += got
        if at >= size:
            return octets


def _parts(path: Path, take: Callable[[int, int], Octets]) -> tuple[np.ndarray, Octets, Octets]:
    """Return the header, and the bytes of both files as ``take`` returns them."""
    kind = HEADER.types()["softib_shared_fabric"]
    octets = _open(path, take, kind.itemsize)
    header = octets[: kind.itemsize].view(kind).reshape(())
    version = HEADER.constant("SHARED_FABRIC_VERSION")
    if header["magic"].item() != MAGIC or int(header["version"]) != version or int(header["size"]) != len(octets):
        raise UnreadableFile(f"{path}: not a shared fabric of version {version}")
    return header, octets, _lazy(path, header, take)


def _lazy(path: Path, header: np.ndarray, take: Callable[[int, int], Octets]) -> Octets:
    """Return the second file. If the daemon is in the same PID namespace, open the file through /proc/PID/fd. Otherwise
    (another container, where this PID is another process) receive the descriptor from the daemon."""
    pid, size = int(header["pid"]), int(header["lazy_size"])
    link = descriptor_path(pid, int(header["lazy_fd"]))
    with contextlib.suppress(OSError):
        if os.readlink(link).startswith(f"/memfd:{LAZY_NAME}") and link.stat().st_size == max(size, PAGE):
            return _open(link, take, size)
    files = _handed_over(path.with_name("verbs.sock"))
    try:
        if not files:
            raise UnreadableFile(f"{path}: the daemon of this shared fabric (pid {pid}) has ended")
        return take(files[SERVER.constant("SERVER_LAZY")], max(size, PAGE))
    finally:
        for fd in files:
            os.close(fd)


def asks_for_files() -> bytes:
    """Return the greeting of a process that only reads. It receives the descriptors of the fabric's files, but does not
    join."""
    return b"".join(SERVER.constant(name).to_bytes(4, "little") for name in ("SERVER_MAGIC", "SERVER_VERSION"))


def _handed_over(address: Path) -> list[int]:
    """Return the descriptors that the daemon at the socket ``address`` sends; empty if there is no
    daemon."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.settimeout(ANSWER_S)
        sock.connect(str(address))
        sock.send(asks_for_files())
        return socket.recv_fds(sock, 4096, SERVER.constant("SERVER_FILES"), socket.MSG_CMSG_CLOEXEC)[1]
    return []


def _open(path: Path, take: Callable[[int, int], Octets], least: int) -> Octets:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < max(least, 1):
                raise UnreadableFile(f"{path}: {size} bytes are not a shared fabric")
            return take(file.fileno(), size)
    except OSError as error:
        raise UnreadableFile(f"{path}: {os_reason(error)}") from None


def _fabric_of(header: np.ndarray, octets: Octets, lazy: Octets) -> Fabric:
    start, n = int(header["directory"]), int(header["columns"])
    kind = HEADER.types()["softib_column"]
    directory = octets[start : start + n * kind.itemsize].view(kind)
    base = Fabric.__new__(Fabric)
    base.name = header["name"].item().decode("utf-8", "replace")
    at = int(header["texts_at"])
    texts = json.loads(octets[at : at + int(header["texts"])].tobytes())
    base.port_label = {int(k): v for k, v in texts["port_label"].items()}
    base.node_system = {int(k): v for k, v in texts["node_system"].items()}
    base.source = Source("shared-fabric", records=frozenset(texts["records"]))
    base.sizes = Sizes()
    return _fabric_over((octets, lazy), directory, base)


def _fabric_over(stores: tuple[Octets, Octets], directory: np.ndarray, like: Fabric) -> Fabric:
    """Return a fabric whose columns are views of ``stores`` (eager, lazy); everything else comes
    from ``like``."""
    new = copy.copy(like)
    sizes: dict[str, int] = {}
    for entry in directory:
        name = bytes(entry["name"]).decode()
        column = COLUMN_BY_NAME[name]
        shape = tuple(int(n) for n in entry["shape"][: int(entry["ndim"])])
        count = int(np.prod(shape, dtype=np.int64))
        dtype: Any = np.dtype(bytes(entry["dtype"]).decode())
        array = np.frombuffer(stores[int(entry["store"])], dtype, count, int(entry["offset"])).reshape(shape)
        record = np.dtype(column.dtype)
        if record.fields is not None:
            array = array.view(record)[..., 0] if count else np.zeros(shape[:-1], record)
        for dim, n in zip(column.dims, array.shape, strict=True):
            if isinstance(dim, str):
                sizes[dim] = n
        setattr(new, name, array)
    new.sizes = Sizes(**sizes)
    return new
