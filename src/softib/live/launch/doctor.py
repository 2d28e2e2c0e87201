"""The checks of ``softib doctor``: each feature of this machine, and how to install a missing one.
It makes no changes and does not need root."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from softib.extras import install_command
from softib.result import Result

__all__ = ["Check", "checks"]

STOCK = {
    "OpenSM": (("opensm",), "opensm"),
    "infiniband-diags": (
        ("ibnetdiscover", "iblinkinfo", "ibstat", "perfquery", "smpquery", "saquery"),
        "infiniband-diags",
    ),
    "ibdiagnet": (("ibdiagnet",), "ibutils"),
    "ibsim": (("ibsim",), "ibsim-utils"),
    "verbs tools": (("ibv_devinfo", "ibv_rc_pingpong"), "ibverbs-utils"),
    "perftest": (("ib_write_bw", "ib_send_lat"), "perftest"),
    "rdma_cm tools": (("rping", "ucmatose"), "rdmacm-utils"),
    "UCX": (("ucx_info", "ucx_perftest"), "ucx-utils"),
    "libfabric": (("fi_info",), "libfabric-bin"),
    "MPI": (("mpirun", "mpicc"), "openmpi-bin libopenmpi-dev"),
    "tshark": (("tshark",), "tshark"),
}
"""Stock programs by purpose: the names of the programs, and the Debian package that contains them."""
SYSTEM_LIBRARIES = {
    "libibumad.so.3": "libibumad3",
    "libibmad.so.5": "libibmad5",
    "libibverbs.so.1": "libibverbs1",
    "librdmacm.so.1": "librdmacm1",
}
"""The libraries that stock programs are linked against."""
LIBRARIES = {"polars": "tables", "networkx": "notebook", "torch": "torch"}
"""Optional Python libraries, and the extra that installs each."""
ROOM = 256 << 20
"""Free bytes that /dev/shm needs for the programs of a running fabric with some hundred hosts."""
FILES = 1024
HUGE = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")


@dataclass(frozen=True)
class Check(Result):
    """A feature that the machine needs for some part of softib."""

    name: str
    state: Literal["ok", "absent", "missing"]
    """``missing``: softib does not work; ``absent``: one feature is not available."""
    what: str
    """The purpose of the feature."""
    mend: str = ""
    """The package that installs the feature."""


@dataclass(frozen=True)
class Machine(Result):
    """The available and the missing features of a machine."""

    checks: list[Check]


def checks() -> Iterator[Check]:
    """Yield every check, first the checks of features that softib requires."""
    for one in (
        _libraries,
        _kernels,
        _runtime,
        _shared_memory,
        _files,
        _namespaces,
        _huge_pages,
        _system_libraries,
        _stock,
        _optional,
    ):
        yield from one()


def _made(name: str, good: bool, state: str, fix: str, *, needed: bool = False) -> Check:
    return Check(name, "ok" if good else "missing" if needed else "absent", state, "" if good else fix)


def _libraries() -> Iterator[Check]:
    from softib.preload import build

    umad = build.LIBRARY.is_file()
    cc = build.compiler()
    how = f"install {build.INSTALL}, then run 'python -m softib.preload.build'"
    yield _made("umad library", umad, "stock OpenSM and infiniband-diags on a running fabric", how, needed=True)
    yield _made("verbs library", build.VERBS_LIBRARY.is_file(), "RDMA programs: perftest, UCX, MPI", how, needed=True)
    for path in (p for p in (build.LIBRARY, build.VERBS_LIBRARY) if p.is_file()):
        fault = _loads(path)
        if fault:
            yield Check(path.name, "missing", f"does not load: {fault}", "python -m softib.preload.build")
    yield _made(
        "C compiler", cc is not None, "compiling them again after an edit", f"install {build.INSTALL.split()[0]}"
    )


def _loads(path: Path) -> str:
    """Return the reason why the library does not load; empty if it loads. It is loaded in a separate process, because
    it replaces functions of libc."""
    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1] if done.returncode else ""


def _kernels() -> Iterator[Check]:
    from softib.jit.store import cache_dir

    place = cache_dir()
    some = place.is_dir() and any(place.iterdir())
    yield _made(
        "compiled kernels", some, "the first report or 'softib up' need not compile for half a minute", "softib compile"
    )


def _runtime() -> Iterator[Check]:
    from softib.errors import InputError
    from softib.live.instances import root

    try:
        place, fault = str(root()), ""
    except InputError as error:
        place, fault = "", str(error)
    yield _made(
        "runtime directory",
        not fault,
        place or fault,
        "set XDG_RUNTIME_DIR to one of your own directories",
        needed=True,
    )


def _shared_memory() -> Iterator[Check]:
    shm = Path("/dev/shm")
    good = shm.is_dir() and os.access(shm, os.W_OK)
    free = shutil.disk_usage(shm).free if good else 0
    yield _made(
        "/dev/shm",
        good and free >= ROOM,
        f"{free >> 20} MiB free for running fabrics and registered memory",
        f"give it {ROOM >> 20} MiB or more (docker run --shm-size=1g; mount -o remount,size=1g /dev/shm)",
    )


def _files() -> Iterator[Check]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield _made("open files", soft >= FILES, f"{soft} a process (at most {hard})", f"ulimit -n {FILES}")


def _namespaces() -> Iterator[Check]:
    unshare = shutil.which("unshare")
    done = unshare and subprocess.run([unshare, "-Urm", "true"], capture_output=True).returncode == 0
    yield _made(
        "user namespaces",
        bool(done),
        "softib run --ns: static and Go programs such as node_exporter",
        "sysctl kernel.unprivileged_userns_clone=1 (or user.max_user_namespaces > 0), or run as root",
    )


def _huge_pages() -> Iterator[Check]:
    try:
        count = int(HUGE.read_text())
    except (OSError, ValueError):
        count = 0
    yield _made(
        "huge pages",
        count > 0,
        f"{count} of 2 MiB, for programs that set MLX_QP_ALLOC_TYPE=HUGE and similar",
        "sysctl vm.nr_hugepages=256",
    )


def _system_libraries() -> Iterator[Check]:
    for name, package in SYSTEM_LIBRARIES.items():
        try:
            ctypes.CDLL(name)
            good = True
        except OSError:
            good = False
        yield _made(name, good, "the libraries that stock programs are linked against", f"apt install {package}")


def _stock() -> Iterator[Check]:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    find: Callable[[str], str | None] = lambda program: shutil.which(program, path=path)
    for name, (programs, packages) in STOCK.items():
        lacking = [p for p in programs if find(p) is None]
        yield _made(name, not lacking, ", ".join(lacking or programs), f"apt install {packages}")


def _optional() -> Iterator[Check]:
    for name, extra in LIBRARIES.items():
        yield _made(name, find_spec(name) is not None, "an optional Python library", install_command(extra))
