"""Machine code on disk, in one folder. There is one file for each unit, types of its arguments, and
CPU.

A file is ``magic, SHA-256, payload``. If it is truncated or damaged, the unit is compiled again and
the file is replaced. A file is written with a temporary name and then renamed, so that no process
reads a partial file. If several processes need the same unit at the same time, the first compiles
it, and the others wait and load it. They wait for at most :data:`PATIENCE_S`, because a stopped
process would block them forever. Files that were not used for :data:`KEEP_DAYS` days are deleted,
and so are the oldest if there are more than :data:`KEEP_FILES`. A process reads a file once as a
whole, so deletion does not affect running processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import glob
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from softib.errors import NO_DESCRIPTOR
from softib.jit.interrupts import check
from softib.jit.progress import waiting

__all__ = ["STORE", "Store", "cache_dir"]

MAGIC = b"softib kernel 1\n"
KEEP_DAYS, KEEP_FILES = 60, 2000
YOUNG_S = 3600.0
"""Minimum age in seconds of files that are deleted. A younger file may belong to a running
program."""
DAY_S = 86400.0
PAUSE_S = 0.02
"""Interval in seconds between checks whether another process has finished compiling."""
PATIENCE_S = 120.0
"""Maximum time in seconds for which a process waits for another one that compiles a unit. The
largest unit takes a fraction of it."""
SUFFIX, PART, LOCK = ".code", ".part", ".lock"
WRITABLE = 0o022
"""Permission bits that let the group or others write."""
FOLDER = ".numba"
"""Files that Numba itself stores for one kernel compiled the plain way."""


def cache_dir() -> Path:
    """Return the folder for machine code of kernels: in ``$SOFTIB_CACHE_DIR`` if it is set, otherwise in the user's
    cache. If that cache is not writable, it is a folder of the user in the directory for temporary files."""
    usual = _usual()
    if os.environ.get("SOFTIB_CACHE_DIR") or (usual is not None and _writable(usual)):
        assert usual is not None
        return usual
    try:
        temporary = Path(tempfile.gettempdir())
    except FileNotFoundError:  # this process can write nowhere
        return usual or Path("/tmp", f"softib-{os.geteuid()}", "kernels")
    return temporary / f"softib-{os.geteuid()}" / "kernels"


def _usual() -> Path | None:
    """Return the folder that the environment selects; None if this user has no home directory."""
    base, cache = os.environ.get("SOFTIB_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME")
    try:
        root = Path(base) if base else Path(cache or Path.home() / ".cache") / "softib"
    except RuntimeError:  # no HOME, and no entry in the table of users
        return None
    return root / "kernels"


def _folders() -> list[Path]:
    """Return the folders that are read."""
    return list(dict.fromkeys(folder for folder in (_usual(), cache_dir()) if folder is not None))


@functools.cache
def _writable(folder: Path) -> bool:
    """Return whether files can be created in ``folder``, or in the parent in which it would be
    created."""
    there = next(p for p in (folder, *folder.parents) if p.exists())
    return os.access(there, os.W_OK | os.X_OK)


def is_trusted(about: os.stat_result) -> bool:
    """Return whether the file or folder belongs to this user or root, and no other user can write
    to it."""
    return about.st_uid in (os.geteuid(), 0) and not about.st_mode & WRITABLE


def closed(path: Path) -> os.stat_result:
    """Return the status of ``path`` after its owner has removed write access for the group, which an
    umask of 002 grants. Raises OSError."""
    about = path.stat()
    if about.st_uid == os.geteuid() and about.st_mode & WRITABLE:
        path.chmod(about.st_mode & 0o777 & ~WRITABLE)
        about = path.stat()
    return about


class Store:
    """The cache of this process. If it cannot be used, one line is written to stderr."""

    def __init__(self) -> None:
        self.given_up = self._pruned = self._impatient = False

    def read(self, name: str) -> bytes | None:
        """Return the data that was passed to :meth:`write`; None if it does not exist, is
        incomplete, or belongs to another user. A read-only cache, for example in an image, is read
        too. Raises OSError if this process has no descriptor left."""
        return next((data for f in _folders() if (data := self._read(f, name)) is not None), None)

    def holds(self, prefix: str) -> bool:
        """Return whether the cache has a file with this prefix."""
        return any(next(folder.glob(f"{glob.escape(prefix)}*{SUFFIX}"), None) is not None for folder in _folders())

    def _read(self, folder: Path, name: str) -> bytes | None:
        path = folder / (name + SUFFIX)
        try:
            with path.open("rb") as file:
                if not self.trusts(folder) or not is_trusted(os.fstat(file.fileno())):
                    return None
                data = file.read()
        except OSError as error:
            if error.errno in NO_DESCRIPTOR:  # the code may be there: to compile it would take minutes
                raise
            return None
        with contextlib.suppress(OSError):  # a read-only cache is usable
            if time.time() - path.stat().st_mtime > DAY_S:
                os.utime(path)
        head = len(MAGIC) + 32
        payload = data[head:]
        whole = data[:head] == MAGIC + hashlib.sha256(payload).digest()
        return payload if whole else None

    def trusts(self, folder: Path) -> bool:
        """Return whether no other user could put code into ``folder``, because it would run as this
        user. If one could, warn once."""
        try:
            about = closed(folder)
        except OSError:
            return True  # nothing is there
        if is_trusted(about):
            return True
        whose = (
            f"belongs to uid {about.st_uid}" if about.st_uid not in (os.geteuid(), 0) else "is writable by other users"
        )
        self.give_up(OSError(f"it {whose}, and compiled code there would run as uid {os.geteuid()}"))
        return False

    def make_folder(self) -> Path:
        """Create the folder of the cache, writable only by this user. Raises OSError."""
        folder = cache_dir()
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        return folder

    @contextlib.contextmanager
    def alone(self, name: str) -> Iterator[bool]:
        """Hold the lock ``name`` of the cache. Yields False if another process held it for
        :data:`PATIENCE_S`; after that, this process waits for no lock."""
        with contextlib.ExitStack() as held:
            alone = True
            with contextlib.suppress(OSError):  # without a lock if none can be created
                file = held.enter_context((self.make_folder() / (name + LOCK)).open("ab"))
                alone = _lock(file, name, 0.0 if self._impatient else PATIENCE_S)
            if not alone and not self._impatient:
                self._impatient = True
                print(
                    f"softib: another process has been compiling {name} for {PATIENCE_S:g} s; compiling it in this "
                    f"process (locks: {cache_dir()}/*{LOCK}; fuser names the process)",
                    file=sys.stderr,
                )
            yield alone

    def write(self, name: str, payload: bytes) -> None:
        """Store ``payload``. If that fails, report it once and store nothing more."""
        if self.given_up or not self.trusts(cache_dir()):
            return
        folder = cache_dir()
        temporary = folder / f".{os.getpid()}-{time.monotonic_ns()}{PART}"
        try:
            self.make_folder()
            try:
                temporary.touch(0o644)
                temporary.write_bytes(MAGIC + hashlib.sha256(payload).digest() + payload)
                os.replace(temporary, folder / (name + SUFFIX))
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as error:
            self.give_up(error)
            return
        if not self._pruned:
            self._pruned = True
            prune(folder, time.time())

    def give_up(self, error: OSError) -> None:
        """Store nothing more, and report this once."""
        if self.given_up:
            return
        self.given_up = True
        print(
            f"softib: {cache_dir()}: compiled kernels cannot be stored there ({error.strerror or error}), so each run "
            f"compiles them again; set SOFTIB_CACHE_DIR to another folder",
            file=sys.stderr,
        )


def _lock(file: IO[bytes], name: str, patience_s: float) -> bool:
    """Wait up to ``patience_s`` for the lock of ``file``, and report that another process compiles
    the unit ``name``. Ctrl-C ends the wait, even while it is deferred. Return whether the lock is
    held."""
    end = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            check()
            if time.monotonic() >= end:
                return False
            waiting(name)
            time.sleep(PAUSE_S)


def prune(folder: Path, now: float) -> None:
    """Delete files that were not used for :data:`KEEP_DAYS` days, and the oldest ones if there are
    more than :data:`KEEP_FILES`."""
    entries = []
    for path in folder.iterdir():
        try:
            entries.append((_last_use(path), path))
        except OSError:
            continue  # another process deleted it
    old = {path for used, path in entries if now - used > KEEP_DAYS * DAY_S or path.suffix == PART}
    kept = sorted((used, path) for used, path in entries if path not in old)
    old |= {path for _, path in kept[: max(0, len(kept) - KEEP_FILES)]}
    for used, path in entries:
        if path not in old or now - used <= YOUNG_S:
            continue
        if path.is_dir():
            shutil.rmtree(
                path, ignore_errors=True
            )  # a folder of Numba, or of a softib version that kept one folder per version
        else:
            path.unlink(missing_ok=True)


def _last_use(path: Path) -> float:
    """Return seconds since the epoch of the last write of a file, or the last use of a folder."""
    stat = path.stat()
    if not path.is_dir():
        return stat.st_mtime
    inside = [child.stat() for child in path.rglob("*")]
    return max([stat.st_mtime, *(max(s.st_mtime, s.st_atime) for s in inside)])


STORE = Store()
