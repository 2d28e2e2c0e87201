"""The subnet managers that program partitions for the service: softib's manager in a running fabric, or OpenSM. Each
reads a partitions.conf on request.
"""

from __future__ import annotations

import logging
import os
import shlex
import subprocess
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any, Protocol

from softib.errors import InputError, PeerError, os_reason
from softib.foreign_text import shown
from softib.iba.constants import PKEY_BLOCK
from softib.input_files import read_text
from softib.live.control import ask
from softib.live.instances import Instance
from softib.live.status import status_of
from softib.tenants.model import DEFAULT_BASE, Partition
from softib.tenants.partitions_file import HEAD, conf_of, from_conf, line_of, to_conf
from softib.tenants.state import State
from softib.whole_files import write_text

__all__ = ["FileManager", "InternalManager", "Manager"]

SWEEP_S, LOOK_S = 60.0, 0.01
COMMAND_S = 30.0
MOST_LINES = 5
"""Maximum number of lines of a command's output in an error."""
PASSIVE = ("STANDBY", "NOT_ACTIVE")
"""States of a manager (IBA 14.4.1) while another one is the master."""
FILE, CHANGED = "partitions.conf", "changed-partitions.conf"
BEFORE = ".before-softib"
"""Suffix of the copy that the service makes of another manager's file before it first writes the file."""
LOG = logging.getLogger("softib.tenants")


class Manager(Protocol):
    """Programs the partitions of the service. ``settles_s``: time for which the manager may still write tables after
    :meth:`program` has returned.
    """

    settles_s: float
    port: int
    """PortGUID of the master, 0 if it is not on a host. At index 0, the table of this port always has the default
    P_Key.
    """
    title: str
    """Name of the manager in messages. ``advice``: what to do if another manager is the master."""
    advice: str
    is_behind: bool
    """Whether the manager's file lacks changes that are already programmed."""

    def program(self, state: State, pkeys: set[int] | None = None) -> None:
        """Make the manager program the partitions of ``state``. ``pkeys``: P_Keys of the partitions that changed since
        the last call (None: any may have changed). Raises :class:`~softib.errors.SoftibError` if the manager cannot.
        """

    def is_master(self, master: int) -> bool:
        """Return whether this manager, and no other, programs the subnet. ``master``: PortGUID of
        the master according to the ports of the subnet, 0 if it is not on a host."""

    def leaf_room(self, entries: int) -> int:
        """Return the number of P_Keys that the manager can program into the table of a switch port with this number of
        entries, and still enable its check."""

    def keep(self, state: State) -> None:
        """Write the manager's file if it lacks changes."""

    def stated(self) -> list[Partition]:
        """Return the partitions of the manager's file before the service writes it."""


class InternalManager:
    """softib's manager inside the running fabric ``instance``. If only a few partitions changed, it programs their
    ports immediately; a complete file is programmed by the next sweep.
    """

    settles_s = 2.0
    port = 0
    title = "softib's manager"
    advice = "stop the other one, and set an M_Key and a priority that keep it out"

    def __init__(self, instance: Instance, folder: Path):
        folder = folder.resolve()
        self.instance, self.file, self.changed_file = instance, folder / FILE, folder / CHANGED
        self._lines: dict[int, str] | None = None
        """P_Key → the partition's line in the file; None if the lines are not known."""
        self._lines_port = 0
        """The manager's port in these lines."""
        self.is_behind = False

    def program(self, state: State, pkeys: set[int] | None = None) -> None:
        """Pass the changed partitions to the manager, or write the complete file and wait for a sweep that has read
        it.
        """
        if pkeys is not None and DEFAULT_BASE not in pkeys:
            changed = [state.partitions.get(k) or Partition(k) for k in sorted(pkeys)]
            self._hand_over(to_conf(changed, whole=False, manager=self.port))
            self._keep_lines(changed)
            if ask(self.instance, "partitions", file=str(self.changed_file))["programmed"]:
                self.is_behind = True
                return
        if not self.is_master(0):
            raise PeerError(
                f"{self.title} in {self.instance.name!r} is not the master, so partitions are not programmed"
            )
        self._write(state)
        before = ask(self.instance, "sweep", partitions=str(self.file))["sweeps"]
        until = time.monotonic() + SWEEP_S
        while True:
            manager = status_of(self.instance).sm
            if (manager.sweeps or 0) > before and not manager.phase:
                return
            if time.monotonic() > until:
                raise PeerError(
                    f"the manager of {self.instance.name!r} has not finished its sweep after {SWEEP_S:.0f} s"
                )
            time.sleep(LOOK_S)

    def is_master(self, master: int) -> bool:
        """Return whether the manager reports that it is the master."""
        return status_of(self.instance).sm.state not in PASSIVE

    def leaf_room(self, entries: int) -> int:
        """Return all entries."""
        return entries

    def tree(self, hosts: list[str]) -> dict[str, Any]:
        """Return an aggregation tree for a job on ``hosts``. Raises :class:`~softib.errors.InputError` if no tree is
        possible.
        """
        return ask(self.instance, "job", hosts=hosts)

    def _hand_over(self, text: str) -> None:
        try:
            self.changed_file.write_text(text)
        except OSError as error:
            raise PeerError(f"{self.changed_file}: cannot write: {os_reason(error)}") from None

    def stated(self) -> list[Partition]:
        """Return no partitions, because the file belongs to the service."""
        return []

    def keep(self, state: State) -> None:
        """Write the file, which ``softib sm reload`` reads."""
        self._write(state, self._lines)

    def _keep_lines(self, changed: list[Partition]) -> None:
        if self._lines is None:
            return
        for partition in changed:
            self._lines.pop(partition.pkey, None)
            if partition.members:
                self._lines[partition.pkey] = line_of(partition, self.port)

    def _write(self, state: State, lines: dict[int, str] | None = None) -> None:
        """Write the file. If ``lines`` are known, they are used, because formatting all partitions takes a second."""
        if lines is None or self._lines_port != self.port:
            partitions, self._lines_port = list(state.partitions.values()), self.port
            self._lines = lines = {p.pkey: line_of(p, self.port) for p in partitions if p.members or p.everyone}
        write_text(self.file, conf_of(lines))
        self.is_behind = False


class FileManager:
    """A separate manager, usually OpenSM: ``file`` is its partitions.conf, and ``reload`` the command that makes it
    reread the file (``kill -HUP 4711``). It does not report when it has programmed the partitions.
    """

    settles_s = 30.0
    port = 0
    is_behind = False

    def __init__(self, file: Path, reload: str, managers: Collection[int] = ()):
        """``managers``: PortGUIDs of the managers that read the file, of which one is the master and the others are
        standbys. If it is empty, the only such manager is the master at the first check.
        """
        self.file, self.reload, self.managers = file, shlex.split(reload), frozenset(managers)
        self.title = f"the one that reads {file}"
        self.advice = f"stop the other one, or name it in --managers if it reads {file}"

    def lock_path(self) -> Path:
        """Return the path of a lock that prevents a second service from using the file. Raises
        :class:`InputError` if its directory cannot be written."""
        folder = self.file.parent
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise InputError(f"{folder}: cannot be written; use a partitions.conf in a directory of this user")
        return folder / f".{self.file.name}.softib-lock"

    def is_master(self, master: int) -> bool:
        """Return whether the master is one of the managers that read the file."""
        if not self.managers:
            self.managers = frozenset({master})
        return master in self.managers

    def leaf_room(self, entries: int) -> int:
        """Return all entries, or one fewer if they are whole blocks: OpenSM 3.3.23 disables the check of a switch port
        when the P_Keys of its host fill the last block of the table (``osm_pkey_mgr.c``, pkey_mgr_update_peer_port).
        """
        return entries - (entries % PKEY_BLOCK == 0)

    def stated(self) -> list[Partition]:
        """Return the partitions in the file, and copy the file (suffix :data:`BEFORE`). Definitions that the service
        does not support are logged. A missing file counts as an empty one.
        """
        if not self.file.exists():
            return []
        text = read_text(str(self.file), "partitions.conf")
        if not text.strip() or text.startswith(HEAD):
            return []
        write_text(self.file.with_name(self.file.name + BEFORE), text)
        try:
            partitions, notes = from_conf(text, str(self.file))
        except InputError as error:
            partitions, notes = [], [f"{error}; its partitions are taken from the ports' tables alone"]
        for note in notes:
            LOG.warning("%s", note)
        return partitions

    def keep(self, state: State) -> None:
        """Do nothing: :meth:`program` always writes the complete file."""

    def program(self, state: State, pkeys: set[int] | None = None) -> None:
        """Write the file and run the command."""
        write_text(self.file, to_conf(list(state.partitions.values()), manager=self.port))
        try:
            done = subprocess.run(
                self.reload, capture_output=True, text=True, timeout=COMMAND_S, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            raise PeerError(
                f"{shlex.join(self.reload)} did not finish within {COMMAND_S:.0f} s; check the manager"
            ) from None
        except OSError as error:
            raise PeerError(f"{self.reload[0]}: the manager could not be reloaded: {error}") from None
        if done.returncode:
            why = _output(done.stderr.strip() or done.stdout)
            raise PeerError(f"{shlex.join(self.reload)} ended with {done.returncode}: {why or 'it printed nothing'}")


def _output(text: str) -> str:
    """Return a command's output as one line of text. If it is long, return its first lines, which often state the
    cause, and its last line.
    """
    lines = [shown(line.strip()) for line in text.splitlines() if line.strip()]
    return " | ".join(lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], "…", lines[-1]])
