"""A mount namespace in which ``/sys/class/infiniband`` belongs to a fabric, for programs that no
preload library can affect.

No directory can be made in sysfs, and a machine without adapters has no ``/sys/class/infiniband``.
So ``/sys/class`` becomes a small separate file system with the machine's directories and, in
addition, the fabric's; the same is done for ``/sys/devices``, ``/sys/bus/pci/devices`` and
``/dev``. The NUMA nodes of a modelled machine replace the machine's. Source of the calls:
namespaces(7), user_namespaces(7), mount(2).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

__all__ = ["entering"]

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = (
    1,
    2,
    4,
    8,
    32,
    4096,
    16384,
    1 << 18,
)
CLASSES = Path("/sys/class")
DEVICES = Path("/sys/devices")
PCI = Path("/sys/bus/pci/devices")
DEV = Path("/dev")
NUMA = DEVICES / "system/node"


def _failing(call: str, result: int) -> None:
    if result:
        error = ctypes.get_errno()
        raise OSError(error, f"{call}: {os.strerror(error)}")


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    args = (
        *(os.fsencode(t) if t else None for t in (source, target, kind)),
        ctypes.c_ulong(flags),
        data.encode() or None,
    )
    _failing(f"mount on {target}", _libc().mount(*args))


def _unshare() -> None:
    """Enter a new mount namespace; if that is not allowed, with a new user namespace."""
    uid, gid = os.getuid(), os.getgid()
    libc = _libc()
    if libc.unshare(CLONE_NEWNS) == 0:
        return
    _failing("unshare", libc.unshare(CLONE_NEWUSER | CLONE_NEWNS))
    Path("/proc/self/setgroups").write_text("deny")  # must be written before a gid_map without privilege
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def _bind(folder: Path, place: Path) -> None:
    """Mount ``folder`` read-only at ``place``."""
    _mount(str(folder), str(place), "", MS_BIND)
    _mount("", str(place), "", MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)


def _join(fabric: Path, place: Path) -> None:
    """Make the machine's folder ``place`` show the entries of ``fabric`` in addition to its own."""
    ours = sorted(p.name for p in fabric.iterdir() if p.name != "system")  # NUMA nodes: one folder of the machine's
    machine = os.open(place, os.O_PATH | os.O_DIRECTORY)
    try:
        theirs = sorted(set(os.listdir(place)) - set(ours))
        links = {name: os.readlink(place / name) for name in theirs if (place / name).is_symlink()}
        folders = {name for name in theirs if name not in links and (place / name).is_dir()}
        _mount("softib", str(place), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0755,size=1m")
        for name in theirs:
            if name in links:
                os.symlink(links[name], place / name)
                continue
            (place / name).mkdir() if name in folders else (place / name).touch()
            _mount(f"/proc/self/fd/{machine}/{name}", str(place / name), "", MS_BIND | MS_REC)
    finally:
        os.close(machine)
    for name in ours:
        target = str(place / name)
        if (fabric / name).is_symlink():
            os.symlink(os.readlink(fabric / name), target)
            continue
        os.mkdir(target)
        _bind(fabric / name, place / name)


def _enter(tree: Path) -> None:
    _unshare()
    _mount("", "/", "", MS_REC | MS_PRIVATE)  # only this program sees mounts made after this call
    for place in (DEVICES, CLASSES, PCI, DEV):  # the entries of classes and buses are links to the devices
        ours = tree / place.relative_to("/")
        if place.is_dir() and ours.is_dir():
            _join(ours, place)
    if (numa := tree / NUMA.relative_to("/")).is_dir() and NUMA.is_dir():
        _bind(numa, NUMA)
    for path in (tree / CLASSES.relative_to("/") / "infiniband").glob("*/node_desc"):  # files that programs may write
        _mount(str(path), os.path.realpath(f"/{path.relative_to(tree)}"), "", MS_BIND)


def entering(tree: Path, error_fd: int) -> Callable[[], None]:
    """Make ``/sys/class`` show ``tree``. Called in a child process before it executes the program. On error, write the
    error's text to the descriptor ``error_fd`` and end the child (with ``OSError``)."""

    def enter() -> None:
        try:
            _enter(tree)
        except OSError as error:
            os.write(error_fd, (error.strerror or str(error)).encode())
            raise

    return enter
