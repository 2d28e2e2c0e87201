"""The C library's calls for a umad device, under the symbols that C programs use.

CPython's own ``os.open`` calls ``open64``, which stock ``libumad2sim.so`` does not intercept, and
its ``select.poll`` does not support this library's synthetic descriptors. Symbols that are looked
up in the whole process resolve to the preload library if there is one, otherwise to the C library.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Sequence
from functools import cache

__all__ = [
    "call_ioctl",
    "close",
    "is_stock_simulator",
    "names_in",
    "open_device",
    "poll_any",
    "poll_in",
    "read_into",
    "read_text",
    "write",
]

LONGEST_TEXT = 4096
POLLIN = 1


class _PollFd(ctypes.Structure):
    _fields_ = [("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short)]


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.open.argtypes = [ctypes.c_char_p, ctypes.c_int]
    libc.close.argtypes = [ctypes.c_int]
    libc.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p]
    libc.read.argtypes = libc.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
    libc.read.restype = libc.write.restype = ctypes.c_ssize_t
    libc.poll.argtypes = [ctypes.POINTER(_PollFd), ctypes.c_ulong, ctypes.c_int]
    return libc


def _checked(result: int, name: str) -> int:
    if result < 0:
        # libumad2sim returns some errors as -errno without setting errno
        number = ctypes.get_errno() or (-result if result < -1 else errno.EIO)
        raise OSError(number, os.strerror(number), name)
    return result


def open_device(path: str, flags: int) -> int:
    """Call open(2). Raises :class:`OSError`."""
    ctypes.set_errno(0)
    return _checked(_libc().open(os.fsencode(path), flags), path)


def close(fd: int) -> None:
    """Call close(2)."""
    _libc().close(fd)


def call_ioctl(fd: int, request: int, argument: bytearray | None = None) -> None:
    """Call ioctl(2), which may write into ``argument``. Raises :class:`OSError`."""
    ctypes.set_errno(0)
    buffer = None if argument is None else (ctypes.c_char * len(argument)).from_buffer(argument)
    _checked(_libc().ioctl(fd, request, buffer), f"ioctl {request:#x}")


def write(fd: int, address: int, size: int) -> int:
    """Call write(2) with ``size`` bytes at ``address``. Raises :class:`OSError`."""
    ctypes.set_errno(0)
    return _checked(_libc().write(fd, address, size), "write")


def read_into(fd: int, address: int, size: int) -> int:
    """Call read(2) for at most ``size`` bytes to ``address``. Raises :class:`OSError`."""
    ctypes.set_errno(0)
    return _checked(_libc().read(fd, address, size), "read")


def poll_in(fd: int, timeout_s: float) -> bool:
    """Return whether there is data to read (or an error). Waits for ``timeout_s`` at most; a signal
    ends the wait."""
    wait = _PollFd(fd, POLLIN, 0)
    return bool(_libc().poll(ctypes.byref(wait), 1, max(0, round(timeout_s * 1000))) > 0)


def poll_any(fds: Sequence[int], timeout_s: float) -> list[bool]:
    """Return for each descriptor whether there is data to read (or an error). Wait for ``timeout_s`` at most; a signal
    ends the wait."""
    waits = (_PollFd * len(fds))(*(_PollFd(fd, POLLIN, 0) for fd in fds))
    _libc().poll(waits, len(fds), max(0, round(timeout_s * 1000)))
    return [w.revents != 0 for w in waits]


def read_text(path: str) -> str:
    """Return the text of a small file of sysfs, stripped; "" if it cannot be read."""
    try:
        fd = open_device(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(fd, LONGEST_TEXT).decode("utf-8", "replace").strip("\0\n ")
    except OSError:
        return ""
    finally:
        close(fd)


def names_in(path: str) -> list[str]:
    """Return the names in a directory, sorted; empty if there is no such directory."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


@cache
def is_stock_simulator() -> bool:
    """Return whether this process runs under ibsim's ``libumad2sim.so``. That library
    expects messages in libibumad's current layout (``umad_size``), which is the old layout until a port is
    opened through libibumad."""
    return hasattr(_libc(), "sim_client_init")
