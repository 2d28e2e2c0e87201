"""Locks that prevent a second service from using the same database, subnet or manager's file. A lock ends with its
process.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack, suppress
from pathlib import Path

from softib.errors import InputError, os_reason
from softib.foreign_text import shown
from softib.live.instances import services_path

__all__ = ["lock", "lock_subnet"]

MOST = 4096


def lock(path: Path, what: str, folder: Path) -> ExitStack:
    """Lock the file ``path`` and return the lock. The file names this process and its ``folder``, and is removed when
    the lock is closed. Raises :class:`InputError` if another process holds the lock; the message contains ``what`` (the
    object that the other process serves), its process ID and its folder.
    """
    while True:
        held = ExitStack()
        file = held.enter_context(open(path, "a+b", buffering=0))  # noqa: SIM115  # held by the caller
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            owner = shown(file.read(MOST).decode(errors="replace").strip()) or "another process"
            held.close()
            raise InputError(f"{owner} already serves {what}; stop that process first") from None
        if _is_at(file.fileno(), path):
            break
        held.close()  # the former owner has just removed the file
    file.truncate(0)
    file.write(f"process {os.getpid()} with the tenants in {folder.resolve()}\n".encode())
    held.callback(path.unlink, missing_ok=True)
    return held


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def lock_subnet(name: str, folder: Path) -> ExitStack:
    """Lock the subnet ``name`` for a service whose database is in ``folder``, and return the lock. Two services would
    undo each other's changes. The lock detects only services of this user on this machine.
    """
    place = services_path()
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = ExitStack()
        held.callback(_remove_if_empty, place)
        held.enter_context(lock(place / f"{name.replace('/', '-')}.lock", f"the tenants of {name}", folder))
        return held
    except OSError as error:
        raise InputError(f"{place}: cannot be used for locks: {os_reason(error)}") from None


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()
