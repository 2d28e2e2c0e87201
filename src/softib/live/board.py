"""The board: the arrays of a running fabric in one shared mapping, so that other processes see the same.

    board = Board.create(path, fabric)      # in the daemon; board.fabric has the arrays in the mapping
    seen = Board.open(path)                 # anywhere else: the same ports, tables and counters, read-only

The layout is ``preload/board.h``; each column of :data:`softib.fabric.columns.COLUMNS` is one entry of its directory.
"""

from __future__ import annotations

import copy
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np

from softib.errors import InputError, SoftibBug, UnreadableFile
from softib.fabric.columns import COLUMN_BY_NAME, COLUMNS, Column
from softib.fabric.model import Fabric
from softib.live.c_header import define, structures

__all__ = ["HEADER", "Board"]

HEADER = Path(__file__).resolve().parent.parent / "preload" / "board.h"
MAGIC = b"SOFTIBv"
PAGE = 4096
MAX_DIMS = 4


def _plain(column: Column) -> tuple[str, tuple[int, ...]]:
    """dtype and further dimensions of ``column`` as C sees it: a record of counters is an array of its numbers."""
    dtype = np.dtype(column.dtype)
    if dtype.fields is None:
        return dtype.str, ()
    bases = {kind.base for kind, *_ in dtype.fields.values()}
    base = bases.pop()
    if bases or dtype.itemsize % base.itemsize:
        raise SoftibBug(f"column {column.name}: a record of several types has no place on the board")
    return base.str, (dtype.itemsize // base.itemsize,)


class Board:
    """A mapped board. ``fabric`` has its arrays; ``epoch`` may be written by the daemon alone."""

    def __init__(self, memory: mmap.mmap, fabric: Fabric, header: np.ndarray):
        self.memory, self.fabric, self.header = memory, fabric, header

    @property
    def epoch(self) -> int:
        """Changes of the configuration so far."""
        return int(self.header["epoch"])

    @epoch.setter
    def epoch(self, value: int) -> None:
        self.header["epoch"] = value

    @classmethod
    def create(cls, path: Path, fabric: Fabric) -> Board:
        """Write the board of ``fabric`` to a new file at ``path`` (mode 0600) and map it.

        Raises :class:`InputError` where the file system has no room for it.
        """
        types = structures(HEADER)
        directory = np.zeros(len(COLUMNS), types["softib_column"])
        end = _pages(types["softib_board"].itemsize + directory.nbytes)
        for entry, column in zip(directory, COLUMNS, strict=True):
            array = getattr(fabric, column.name)
            dtype, more = _plain(column)
            shape = (*array.shape, *more)
            entry["name"], entry["dtype"], entry["writer"] = column.name, dtype, column.writer
            entry["offset"], entry["ndim"] = end, len(shape)
            entry["shape"][: len(shape)] = shape
            end = _pages(end + array.nbytes)
        memory = _reserve(path, end)
        header = np.frombuffer(memory, types["softib_board"], 1)[0:1].reshape(())
        start = types["softib_board"].itemsize
        np.frombuffer(memory, types["softib_column"], len(directory), start)[:] = directory
        header["version"], header["columns"] = define(HEADER, "SOFTIB_BOARD_VERSION"), len(directory)
        header["directory"], header["size"], header["pid"] = start, end, os.getpid()
        header["name"] = fabric.name.encode()[:63]
        shared = _fabric_over(memory, directory, fabric)
        for column in COLUMNS:
            getattr(shared, column.name)[...] = getattr(fabric, column.name)
        header["magic"] = MAGIC
        return cls(memory, shared, header)

    @classmethod
    def open(cls, path: Path) -> Board:
        """Map the board at ``path`` read-only. Raises :class:`UnreadableFile` where it is no board of this version."""
        types = structures(HEADER)
        kind = types["softib_board"]
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < kind.itemsize:
                    raise UnreadableFile(f"{path}: {size} octets are no board")
                memory = mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)
        except OSError as error:
            raise UnreadableFile(f"{path}: {error.strerror or error}") from None
        header = np.frombuffer(memory, kind, 1).reshape(())
        version = define(HEADER, "SOFTIB_BOARD_VERSION")
        if header["magic"].item() != MAGIC or int(header["version"]) != version or int(header["size"]) != size:
            raise UnreadableFile(f"{path}: not a board of version {version}")
        start, n = int(header["directory"]), int(header["columns"])
        directory = np.frombuffer(memory, types["softib_column"], n, start)
        base = Fabric.__new__(Fabric)
        base.name = header["name"].item().decode("utf-8", "replace")
        base.port_label, base.node_system = {}, {}
        return cls(memory, _fabric_over(memory, directory, base), header)


def _pages(octets: int) -> int:
    return -(-octets // PAGE) * PAGE


def _reserve(path: Path, size: int) -> mmap.mmap:
    """A new file of ``size`` octets, mapped. Its blocks are reserved now: a full file system is an error here, not a
    SIGBUS later."""
    path.unlink(missing_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, size)
        return mmap.mmap(fd, size)
    except OSError as error:
        path.unlink()
        raise InputError(f"{path}: no room for the board of {size >> 20} MiB: {error.strerror or error}") from None
    finally:
        os.close(fd)


def _fabric_over(memory: mmap.mmap, directory: np.ndarray, like: Fabric) -> Fabric:
    """A fabric whose columns are views of ``memory``; the rest is ``like``'s."""
    new = copy.copy(like)
    sizes: dict[str, int] = {}
    for entry in directory:
        name = bytes(entry["name"]).decode()
        column = COLUMN_BY_NAME[name]
        shape = tuple(int(n) for n in entry["shape"][: int(entry["ndim"])])
        count = int(np.prod(shape, dtype=np.int64))
        dtype: Any = np.dtype(bytes(entry["dtype"]).decode())
        array = np.frombuffer(memory, dtype, count, int(entry["offset"])).reshape(shape)
        record = np.dtype(column.dtype)
        if record.fields is not None:
            array = array.view(record)[..., 0] if count else np.zeros(shape[:-1], record)
        for dim, n in zip(column.dims, array.shape, strict=True):
            if isinstance(dim, str):
                sizes[dim] = n
        setattr(new, name, array)
    if not hasattr(new, "sizes"):
        from softib.fabric.columns import Sizes
        from softib.fabric.model import Source

        new.sizes, new.source = Sizes(**sizes), Source("board")
    return new
