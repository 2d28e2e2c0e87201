"""Running fabrics by name: one directory each, and a lock that its daemon holds while it runs.

The directory is ``$XDG_RUNTIME_DIR/softib/NAME``, or ``/dev/shm/softib-UID/NAME`` without that
variable; only the user who started the fabric has access. ``lock`` is held with flock(2), which the
kernel releases whenever the daemon ends. So the remains of a killed daemon do not prevent another
one from starting.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from softib.errors import InputError, UnknownName, os_reason
from softib.live.admission import user_name

__all__ = ["Instance", "claim", "find", "free", "name_of", "room_advice", "root", "running", "stale", "starting"]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
"""Pattern of a fabric's name: it must be valid as a file name, and short enough for a socket's address (108 bytes)."""
CLAIM_S = 0.5
KEPT = ("lock", "log", "guid2lid", "guid2mkey", "neighbors")
"""Files that stay when a daemon ends. From them, the next internal manager takes the previous LIDs and M_Keys of
ports."""


def name_of(label: str) -> str:
    """Return ``label`` (the name in a fabric.yaml, or a file's name) without the characters that are not allowed in the
    name of a running fabric."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", label)[:40].lstrip("._-") or "fabric"


def root() -> Path:
    """Return the directory of all running fabrics of this user, created if absent.

    Raises :class:`InputError` if it belongs to someone else, or is open to others.
    """
    path = _root_path()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = path.lstat()
    except OSError as error:
        raise InputError(f"{path}: cannot be used for running fabrics: {os_reason(error)}") from None
    if info.st_uid != os.getuid():
        raise InputError(
            f"{path}: belongs to {user_name(info.st_uid)}, but softib runs as {user_name(os.getuid())}; set "
            f"XDG_RUNTIME_DIR to a directory of this user, or run softib as {user_name(info.st_uid)}"
        )
    if not path.is_dir() or path.is_symlink() or info.st_mode & 0o077:
        raise InputError(
            f"{path}: is not a directory, or other users can access it; remove it, or set XDG_RUNTIME_DIR to another "
            f"directory"
        )
    return path


def _root_path() -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    shm = Path("/dev/shm")
    base = shm if shm.is_dir() and os.access(shm, os.W_OK) else Path(tempfile.gettempdir())
    return Path(runtime) / "softib" if runtime else base / f"softib-{os.getuid()}"


def services_path() -> Path:
    """Return the directory for locks of services, which is beside the directory of running fabrics."""
    place = root()
    return place.with_name(f"{place.name}-services")


@dataclass
class Instance:
    """The directory and the lock of a fabric's name. ``lock`` is an open descriptor in the daemon, -1 in other
    processes. ``spare`` is a reserve descriptor, with which :meth:`clear` can open the folder if a start failed for
    lack of descriptors."""

    name: str
    folder: Path
    lock: int = -1
    spare: int = -1

    @property
    def control(self) -> Path:
        """Return the path of the daemon's control socket."""
        return self.folder / "control"

    @property
    def shared_fabric(self) -> Path:
        """Return the path of the file with the fabric's arrays."""
        return self.folder / "shared_fabric"

    @property
    def traffic(self) -> Path:
        """Return the path of the file that counts the traffic of applications."""
        return self.folder / "traffic"

    @property
    def log(self) -> Path:
        """Return the path of the file with the output of a detached daemon."""
        return self.folder / "log"

    def held(self) -> bool:
        """Return whether the daemon still runs."""
        try:
            fd = os.open(self.folder / "lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def octets(self) -> int:
        """Return the bytes that :meth:`clear` would free."""
        parts = [p for p in self.folder.iterdir() if p.name not in KEPT]
        return sum(p.lstat().st_blocks * 512 for part in parts for p in (part, *part.rglob("*")))

    def clear(self) -> None:
        """Remove the files of this daemon, or those of a dead one: all except ``KEPT``."""
        for path in self.folder.iterdir():
            if path.name in KEPT:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def forget(self, folder: bool) -> None:
        """Remove the files of a daemon that did not start, and with ``folder`` the directory too. Does nothing if a
        daemon holds the name."""
        with contextlib.suppress(InputError, OSError):
            claimed = claim(self.name)
            if folder:
                shutil.rmtree(self.folder, ignore_errors=True)
            claimed._close()

    def release(self) -> None:
        """Release the name: remove the files and release the lock. This is the daemon's last action."""
        if self.spare >= 0:
            os.close(self.spare)
            self.spare = -1
        self.clear()
        self._close()

    def _close(self) -> None:
        for fd in (self.spare, self.lock):
            if fd >= 0:
                os.close(fd)
        self.spare = self.lock = -1


def check_name(name: str) -> str:
    """Return ``name``, or :class:`InputError` if it is not allowed."""
    if not NAME.fullmatch(name):
        raise InputError(f"{name!r} cannot be the name of a fabric; use up to 40 letters, digits, '.', '_' and '-'")
    return name


def _taken(name: str) -> InputError:
    return InputError(
        f"a fabric named {name!r} is already running; 'softib down {name}' stops it, --name gives another name"
    )


def free(name: str) -> Instance:
    """Return the instance of ``name``, which no daemon holds at present. Raises :class:`InputError`
    if one does."""
    instance = Instance(check_name(name), root() / name)
    if instance.held():
        raise _taken(name)
    return instance


@contextlib.contextmanager
def starting(name: str) -> Iterator[tuple[Instance, int]]:
    """Hold the directory of ``name`` while a detached daemon starts, so that only one of several
    processes that start it at the same time writes its log. Yield the instance and a descriptor,
    which the daemon inherits and closes when it is ready. Raises :class:`InputError` if another
    process starts the fabric, or a daemon holds the name."""
    instance = Instance(check_name(name), root() / name)
    fd = _hold(instance.folder)
    if fd < 0:
        raise _taken(name)
    try:
        if instance.held():
            raise _taken(name)
        yield instance, fd
    finally:
        os.close(fd)


def _hold(folder: Path) -> int:
    """Return a descriptor of ``folder``, created if absent, that holds its lock; -1 if another process holds it."""
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # a start that failed removed the folder meanwhile
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                return -1
            if _is_at(fd, folder):
                return fd
            os.close(fd)


def _is_at(fd: int, path: Path) -> bool:
    """Return whether ``path`` still names the open file ``fd``."""
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(fd), path.stat())
    return False


def claim(name: str) -> Instance:
    """Take the lock of ``name`` for this daemon, and remove the files of a dead daemon. Raises :class:`InputError` if a
    daemon has this name."""
    instance = Instance(check_name(name), root() / name)
    until = time.monotonic() + CLAIM_S  # a process that only checks the lock holds it for a moment
    while True:
        instance.folder.mkdir(mode=0o700, exist_ok=True)
        fd = os.open(instance.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(fd, instance.folder / "lock"):  # otherwise the lock file was removed with its directory
                break
        except BlockingIOError:
            if time.monotonic() > until:
                os.close(fd)
                raise _taken(name) from None
            time.sleep(0.02)
        os.close(fd)
    instance.lock = fd
    instance.clear()
    try:
        instance.spare = os.dup(fd)
    except OSError:
        instance.release()
        raise
    return instance


def running() -> list[Instance]:
    """Return every running fabric of this user, by name. Creates no directory."""
    instances: list[Instance] = []
    if not _root_path().exists():
        return instances
    with contextlib.suppress(OSError):
        instances = [Instance(p.name, p) for p in sorted(root().iterdir()) if NAME.fullmatch(p.name)]
    return [s for s in instances if s.held()]


def _killed() -> list[Instance]:
    folders = sorted(_root_path().iterdir()) if _root_path().exists() and root() else []
    dead = [Instance(p.name, p) for p in folders if NAME.fullmatch(p.name) and (p / "lock").exists()]
    return [s for s in dead if not s.held() and any(p.name not in KEPT for p in s.folder.iterdir())]


def stale(prune: bool = False) -> list[tuple[str, int]]:
    """Return this user's fabrics whose daemon was killed, by name, and the bytes that each has
    left; with ``prune``, these are freed, except files that the next ``softib up`` with this name uses (its LIDs, the
    log)."""
    left = []
    for instance in _killed():
        octets = instance.octets()
        with contextlib.suppress(InputError):  # the fabric has just been started
            if prune:
                claim(instance.name).release()
            left.append((instance.name, octets))
    return left


def find(name: str | None) -> Instance:
    """Return the running fabric ``name``; without a name, the only one. Raises :class:`InputError`,
    :class:`UnknownName`."""
    here = running()
    killed = [s.name for s in _killed()]
    if name in killed:
        raise InputError(
            f"the daemon of fabric {name!r} was killed; 'softib status --prune' removes its files, 'softib up SOURCE "
            f"--name {name}' starts the fabric again"
        )
    if not here:
        absent = f"no fabric named {name!r} is running" if name is not None else "no fabric is running"
        left = f" (killed: {', '.join(killed[:5])}; see 'softib status')" if killed else ""
        raise InputError(f"{absent}; start one with 'softib up SOURCE'{left}")
    names = [s.name for s in here]
    if name is None:
        if len(here) > 1:
            raise InputError(
                f"{len(here)} fabrics are running ({', '.join(names[:20])}); name one of them, as in 'softib status "
                f"{names[0]}' or 'softib run --fabric {names[0]}'"
            )
        return here[0]
    if name not in names:
        raise UnknownName("running fabric", name, names)
    return here[names.index(name)]


def room_advice(error: OSError) -> str:
    """Return advice for the user if ``error`` means that the file system of the fabric's folder is full; otherwise an
    empty string."""
    full = error.errno == errno.ENOSPC
    advice = "enlarge that file system, or set XDG_RUNTIME_DIR to a folder of another"
    return f"{error.strerror}; {advice}" if full else ""
