"""Execution of programs under a preload library (softib's or the stock one): finding the library, building the
environment, and removing files that programs leave."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from softib.errors import InputError, os_reason
from softib.live import instances
from softib.live.launch.child_watchdog import PASSED_ON, StaleDirs, adopt_orphans, end_with_parent, pass_on, wait_with
from softib.live.launch.executable import look_at
from softib.live.launch.mount_namespace import entering
from softib.preload.build import LIBRARY, MPI_LIBRARY, OPENED_AS, WAIT, why_no_umad, why_no_verbs

__all__ = [
    "PRELOADS",
    "LaunchOptions",
    "built_libraries",
    "find_program",
    "run_attached",
    "stock_library",
    "umad_library",
]

PRELOADS = (LIBRARY, LIBRARY.with_name("libsoftib-verbs.so"))
"""The libraries with which a program is started, in this order. Each library reads its variables
from the environment and is inactive without them. The first must exist; others are omitted if they
were not built."""

PATTERNS = (
    "/usr/lib/*/umad2sim/libumad2sim.so*",
    "/usr/lib64/umad2sim/libumad2sim.so*",
    "/usr/lib/umad2sim/libumad2sim.so*",
    "/usr/local/lib*/umad2sim/libumad2sim.so*",
)
LOOK_S = 0.25
"""Interval at which the directories of programs under the stock library are recorded."""


def stock_library() -> Path:
    """Return Debian's ``libumad2sim.so``. Raises :class:`InputError` if it is not installed."""
    for pattern in PATTERNS:
        for library in sorted(glob.glob(pattern)):
            return Path(library)
    raise InputError("libumad2sim.so is not installed; on Debian and Ubuntu it is in the package ibsim-utils")


def umad_library() -> Path:
    """Return ``libsoftib-umad.so``, compiled when the package was installed. Raises
    :class:`InputError` if it was not."""
    if LIBRARY.is_file():
        return LIBRARY
    raise InputError(f"{why_no_umad()}, or use --stock-preload")


def built_libraries() -> list[Path]:
    """Return every library of :data:`PRELOADS` that is built. Raises :class:`InputError` if :func:`umad_library`
    does."""
    others: tuple[Path, ...] = PRELOADS[1:]
    return [umad_library(), *(library for library in others if library.is_file())]


@dataclass(frozen=True)
class LaunchOptions:
    """Settings for a program. ``stock``: use the stock library instead of softib's. ``namespace``:
    run in a mount namespace whose /sys/class is the view's. ``enter`` is called in the child first, to enter other
    namespaces. ``refresh`` is called every ``every_s`` seconds while it runs (None: never). ``alive`` returns whether
    the fabric is up: programs that outlive it are ended. ``fabric``: its directory and the inode of its control socket,
    with which ``softib-wait`` also checks whether the fabric is up (None: programs are not ended). ``held``:
    descriptors to be closed after the program. If nothing else remains to be done after the program, this process may
    become ``softib-wait``, which needs a thirtieth of the memory. ``network``: descriptor of the process that provides
    the node's network; the process ends when it is closed. ``failed``: the end of the line that ``softib-wait`` prints
    if the program fails."""

    stock: bool = False
    namespace: bool = False
    enter: Callable[[], None] | None = None
    every_s: float | None = None
    refresh: Callable[[], None] = lambda: None
    alive: Callable[[], bool] = lambda: True
    fabric: tuple[Path, int] | None = None
    held: Sequence[int] | None = None
    network: int | None = None
    failed: str = ""


PLAIN = LaunchOptions()


SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Directories where distributions install opensm and infiniband-diags. On a running fabric any user may run these
programs, but the PATH of an ordinary user lacks the directories."""


def search_path() -> str:
    """Return PATH, followed by the directories of :data:`SBIN` that it lacks."""
    path = os.environ.get("PATH", os.defpath)
    return os.pathsep.join([path, *(d for d in SBIN if d not in path.split(os.pathsep))])


def find_program(name: str) -> str:
    """Return the path of the program ``name``. Raises :class:`InputError` if there is none."""
    path = shutil.which(name, path=search_path())
    if path is None:
        fabrics = {i.name for i in instances.running()} if "/" not in name else set()
        hint = f", but a running fabric; use softib run --fabric {name} -- PROGRAM" if name in fabrics else ""
        raise InputError(f"{name}: no such program{hint}")
    return path


def run_attached(program: str, command: Sequence[str], env: dict[str, str], options: LaunchOptions = PLAIN) -> int:
    """Run ``program`` with the arguments ``command`` in this directory with ``env`` and softib's libraries, or the
    stock one; return its exit code (128 + N if signal N ended it).

    The stock library makes ``./sys-<pid>`` in the current directory of each program and removes it
    at exit. Folders that killed programs left are removed here, and programs under it that wait for
    a dead daemon are ended. Raises :class:`InputError` if the program does not exist, is of another
    architecture than the library, or if namespaces are not permitted.
    """
    if options.stock and not os.access(".", os.W_OK):
        raise InputError(
            f"{os.getcwd()}: cannot write there, but the stock library keeps its files in the current directory; "
            f"change to a writable one"
        )
    preload = _preload(Path(program), options, "SOFTIB_RECORD" in {**os.environ, **env})
    stale = StaleDirs() if options.stock else None
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal also sends it to the program
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # blocked until they can be passed on
    try:
        around = {**os.environ, "PATH": search_path(), **env, **preload, **_without_verbs(Path(program), options)}
        if options.held is not None:
            adopt_orphans()
        child = _start(program, command, around, options)
        if options.held is not None:
            _become_waiter(child.pid, command, options.held, options)
        passing = pass_on(child.send_signal)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        try:
            code = _wait(child, options, stale)
        finally:
            for number, handler in passing.items():
                signal.signal(number, handler)
    except OSError as error:
        raise InputError(f"{program}: {os_reason(error)}") from None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGINT, before)
        if stale is not None:
            stale.sweep()
    return code if code >= 0 else 128 - code


def _preload(program: Path, options: LaunchOptions, recorded: bool) -> dict[str, str]:
    """Return LD_PRELOAD for ``program``, and LD_LIBRARY_PATH for programs that open
    ``libibverbs.so`` under this name. A namespace also works for programs of another architecture, for which the loader
    would only report that it ignores the library. In a program that is ``recorded``, the collectives of MPI are
    recorded too."""
    libraries = [stock_library()] if options.stock else built_libraries()
    if recorded and not options.stock and MPI_LIBRARY.is_file():
        libraries.append(MPI_LIBRARY)
    there, here = look_at(program), look_at(libraries[0])
    if there is not None and here is not None:
        if (there.bits, there.machine) != (here.bits, here.machine):
            if options.namespace:
                return {}
            raise InputError(
                f"{program} is built for {there.kind}, but {libraries[0].name} for {here.kind}, so the library cannot "
                f"be preloaded; run a {here.kind} build, or use --ns if the program only reads /sys/class/infiniband"
            )
        if there.deaf and not options.namespace:
            print(
                f"softib: {program} {there.deaf}, so it does not see the fabric; use --ns to show it "
                f"/sys/class/infiniband",
                file=sys.stderr,
            )
    env = {"LD_PRELOAD": " ".join(filter(None, (*map(str, libraries), os.environ.get("LD_PRELOAD", ""))))}
    if not options.stock and OPENED_AS.is_file():
        folders = [f for f in os.environ.get("LD_LIBRARY_PATH", "").split(":") if f and f != str(OPENED_AS.parent)]
        env["LD_LIBRARY_PATH"] = ":".join([str(OPENED_AS.parent), *folders])
    return env


def _without_verbs(program: Path, options: LaunchOptions) -> dict[str, str]:
    """Handle a missing ``libsoftib-verbs.so``, without which libibverbs finds no devices; return variables for the
    program. If the program is linked to libibverbs, the reason is printed here; otherwise ``libsoftib-umad.so`` prints
    it when something loads libibverbs."""
    why = "" if options.stock or options.namespace else why_no_verbs()
    if not why:
        return {}
    with contextlib.suppress(OSError):
        if b"libibverbs.so" in program.read_bytes():
            print(f"softib: no InfiniBand devices for this program: {why}", file=sys.stderr)
            return {}
    return {"SOFTIB_NO_VERBS": why}


def _start(
    program: str, command: Sequence[str], env: dict[str, str], options: LaunchOptions
) -> subprocess.Popen[bytes]:
    error_out, error_in = os.pipe()
    enter = entering(Path(env["SOFTIB_VIEW"]), error_in) if options.namespace else None

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        if options.enter is not None:
            options.enter()
        if enter is not None:
            enter()
        end_with_parent()  # the kernel clears it when credentials change, as in a namespace

    try:
        # The child inherits this process's descriptors, as with any other command: MPICH's ranks communicate with their
        # launcher over one of them.
        return subprocess.Popen([program, *command[1:]], env=env, preexec_fn=prepare, close_fds=False)
    except subprocess.SubprocessError:
        reason = os.read(error_out, 1024).decode(errors="replace") if enter else "its start failed"
        raise InputError(
            f"this machine does not permit mount namespaces ({reason}); run as root, enable unprivileged user "
            f"namespaces, or point programs to the path $SOFTIB_VIEW/sys (softib run --sysfs)"
        ) from None
    finally:
        os.close(error_out)
        os.close(error_in)


def _become_waiter(child: int, command: Sequence[str], held: Sequence[int], options: LaunchOptions) -> None:
    """Continue as ``softib-wait``, if it is built. It gets a separate environment, because the
    preloaded libraries are only for the program."""
    if not os.access(WAIT, os.X_OK):
        return
    sys.stdout.flush()
    sys.stderr.flush()
    for fd in held:
        os.set_inheritable(fd, True)
    with contextlib.suppress(OSError):
        variables = {} if options.network is None else {"SOFTIB_NETWORK": str(options.network)}
        variables |= {"SOFTIB_FAILED": options.failed} if options.failed else {}
        if options.fabric is not None:
            folder, control = options.fabric
            variables |= {"SOFTIB_FABRIC": str(folder), "SOFTIB_CONTROL": str(control), "SOFTIB_ENDING": sys.executable}
        os.execve(WAIT, ["softib run", str(child), *command], variables)


def _wait(child: subprocess.Popen[bytes], options: LaunchOptions, stale: StaleDirs | None) -> int:
    """Return the exit code of ``child``; while it runs, refresh the view and record the folders of stock programs."""
    if stale is not None:
        return wait_with(child, options.alive, stale.look, LOOK_S)
    if options.every_s is not None:
        return wait_with(child, options.alive, options.refresh, options.every_s)
    return wait_with(child, options.alive)
