"""Programs under a preload library, ours or the stock one: where it is, what it needs, and what it leaves."""

from __future__ import annotations

import glob
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from softib.errors import InputError
from softib.live.bereaved import wait_with
from softib.preload.build import LIBRARY

__all__ = ["PRELOADS", "own_libraries", "own_library", "run_attached", "stock_library"]

PRELOADS = (LIBRARY,)
"""What a program is started with, in this order. Each looks for its own variables in the environment and keeps still
without them. The first must have been built; another that was not is left out."""

PATTERNS = (
    "/usr/lib/*/umad2sim/libumad2sim.so*", "/usr/lib64/umad2sim/libumad2sim.so*", "/usr/lib/umad2sim/libumad2sim.so*",
    "/usr/local/lib*/umad2sim/libumad2sim.so*",
)  # fmt: skip
ELF_MAGIC = b"\x7fELF"


def stock_library() -> Path:
    """Debian's ``libumad2sim.so``. Raises :class:`InputError` where it is not installed."""
    for pattern in PATTERNS:
        for found in sorted(glob.glob(pattern)):
            return Path(found)
    raise InputError("libumad2sim.so is not installed; on Debian and Ubuntu it is in the package ibsim-utils")


def own_library() -> Path:
    """``libsoftib-umad.so``, compiled when the package was installed. Raises :class:`InputError` where it was not."""
    if LIBRARY.is_file():
        return LIBRARY
    raise InputError(
        f"{LIBRARY.name} is not built (no C compiler when softib was installed?); run 'python -m softib.preload.build', "
        "or use --stock-preload"
    )


def own_libraries() -> list[Path]:
    """Every library of :data:`PRELOADS` that is built. Raises :class:`InputError` as :func:`own_library`."""
    more: tuple[Path, ...] = PRELOADS[1:]
    return [own_library(), *(library for library in more if library.is_file())]


def machine_of(path: Path) -> tuple[int, int] | None:
    """(word size, machine) of an ELF file; None for a script."""
    try:
        with path.open("rb") as file:
            head = file.read(20)
    except OSError:
        return None
    if len(head) < 20 or head[:4] != ELF_MAGIC:
        return None
    return head[4], int.from_bytes(head[18:20], "little" if head[5] == 1 else "big")


def run_attached(
    command: Sequence[str], env: dict[str, str], stock: bool = False, alive: Callable[[], bool] = lambda: True
) -> int:
    """Run ``command`` in this directory with ``env`` and our libraries, or the stock one; returns its exit code (128 +
    signal).

    The stock library makes ``./sys-<pid>`` in the current directory and removes it at exit; one that a crash left is removed
    here, and programs that wait under it when ``alive`` turns false are ended (under ours they read an error). Raises
    :class:`InputError` where the program does not exist, or is of another architecture than the library.
    """
    libraries = [stock_library()] if stock else own_libraries()
    program = shutil.which(command[0])
    if program is None:
        raise InputError(f"{command[0]}: no such program")
    there, here = machine_of(Path(program)), machine_of(libraries[0])
    if there is not None and there != here:
        raise InputError(f"{program} is of another architecture than {libraries[0]}; the library cannot be loaded into it")
    preload = " ".join(filter(None, (*map(str, libraries), os.environ.get("LD_PRELOAD", ""))))
    if stock and not os.access(".", os.W_OK):
        raise InputError(
            f"{os.getcwd()}: cannot be written; the stock library keeps its files in the current directory"
        )
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the program too
    try:
        child = subprocess.Popen([program, *command[1:]], env={**os.environ, **env, "LD_PRELOAD": preload},
                                 preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # fmt: skip
        terminated = signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        try:
            code = wait_with(child, alive) if stock else child.wait()
        finally:
            signal.signal(signal.SIGTERM, terminated)
    except OSError as error:
        raise InputError(f"{program}: {error.strerror or error}") from None
    finally:
        signal.signal(signal.SIGINT, before)
    if stock:
        shutil.rmtree(f"sys-{child.pid}", ignore_errors=True)
    return code if code >= 0 else 128 - code
