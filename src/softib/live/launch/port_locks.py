"""Locks of ports: a program may reserve its ports (``softib run --exclusive``), otherwise programs
share them.

Several programs normally share a port, as on a host. A program that must be alone (a second subnet
manager, a test that counts every packet) takes an exclusive lock on its ports with flock(2), or
fails. All other programs take a shared lock. The kernel releases the locks whenever ``softib run``
ends, so no lock is left behind and the daemon keeps no list.

ibsim's protocol also supports exclusive use: a client that connects as a manager is refused if the port already has one
(:meth:`softib.live.ibsim.server.IbsimServer`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from softib.errors import InputError, os_reason
from softib.live.control import Attached

if TYPE_CHECKING:
    from softib.live.status import Client

__all__ = ["FOLDER", "port_locks"]

FOLDER = "port_locks"

Clients = Callable[[], "list[Client]"]
"""The programs that have devices open, as the daemon reports them."""


@contextlib.contextmanager
def port_locks(folder: Path, attached: Attached, clients: Clients, program: str, alone: bool) -> Iterator[list[int]]:
    """Use the ports of ``attached`` (the daemon's reply to ``attach``) for the duration of the
    block; return the descriptors of their locks.

    ``clients`` is called only to name the other programs. Raises :class:`InputError` in one line if a program has
    reserved a port, or if ``alone`` is true and a port is in use.
    """
    if alone and attached.manager:
        raise InputError(f"{attached.manager} is in use by the subnet manager of 'softib up'; use another --node")
    locks = folder / FOLDER
    held: list[int] = []
    try:
        with contextlib.suppress(OSError):
            locks.mkdir(mode=0o700, exist_ok=True)
        for row, name in attached.ports:
            held.append(_lock(locks / str(row), name, clients, program, alone))
        yield held
    finally:
        for fd in held:
            os.close(fd)


def _lock(path: Path, name: str, clients: Clients, program: str, alone: bool) -> int:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InputError(f"{path}: {os_reason(error)}") from None
    try:
        fcntl.flock(fd, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(fd, 200, 0).decode("utf-8", "replace")
        os.close(fd)
        raise InputError(
            f"{name} is in use: {_who(name, clients, owner)}; use another --node, or end that program"
        ) from None
    os.ftruncate(fd, 0)
    if alone:
        os.pwrite(fd, f"pid {os.getpid()} ({program})".encode()[:200], 0)
    return fd


def _who(name: str, clients: Clients, owner: str) -> str:
    """Return text that names the users of port ``name``: the program that has reserved it, otherwise the programs that
    have devices open there."""
    if owner:
        return f"{owner} uses it exclusively (softib run --exclusive)"
    here = sorted({c.pid for c in clients() if f"{c.node}[{c.portnum}]" == name})
    return f"{'pid ' + ', '.join(map(str, here)) if here else 'another program of softib run'} uses it"
