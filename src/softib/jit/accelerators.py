"""How kernels are compiled: with both accelerators, with one, or plain (:mod:`softib.jit.plain`).

Two techniques make compiling and calling several times faster: **tables**
(:mod:`softib.jit.table_types`: one pointer for many arrays) and **units** (:mod:`softib.jit.units`:
one optimisation of a kernel together with all kernels that it calls). Both use private names of
Numba, which another version may lack or change. So softib tries them out instead of comparing
versions: it compiles a small kernel (:mod:`softib.jit.probe_kernels`) with them and checks the
result. This trial runs in a separate process, because a failure can crash Numba or leave it in an
inconsistent state. If the trial fails, softib compiles without them, with the same results but more
slowly. The trial takes a second, and its result is stored with the machine code, by environment.
``SOFTIB_JIT`` = ``plain``, ``tables``, ``units`` or ``both`` selects the techniques without a
trial.
"""

from __future__ import annotations

import hashlib
import os
import select
import signal
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from softib.jit.functions import Kernel
from softib.jit.store import STORE
from softib.jit.table import Table

__all__ = ["Accelerators", "accelerators", "after_failure", "entry", "in_use"]

SETTING = "SOFTIB_JIT"
PATIENCE_S = 300.0
"""Time limit of a trial in seconds. It normally takes one second, but may take much longer on an
overloaded machine."""
NAMES = {"plain": (False, False), "tables": (True, False), "units": (False, True), "both": (True, True)}
"""Values of :data:`SETTING`: (tables, units)."""
OF_THE_MACHINE = "machine: "
"""Prefix of an error that comes from the machine (for example no memory), and not from Numba."""


@dataclass(frozen=True)
class Accelerators:
    """The accelerators in use, and the reason why the others are not in use (empty: no reason)."""

    tables: bool
    units: bool
    reason: str = ""

    @property
    def name(self) -> str:
        """Return the value of :data:`SETTING` for these accelerators."""
        return next(name for name, pair in NAMES.items() if pair == (self.tables, self.units))

    @property
    def missing(self) -> str:
        """Return the accelerators not in use, as text."""
        return " and ".join(name for name in ("tables", "units") if not getattr(self, name))

    def __str__(self) -> str:
        return self.name + (f" ({self.reason})" if self.reason else "")


_chosen: list[Accelerators] = []


def accelerators() -> Accelerators:
    """Return the accelerators of this process. Loads Numba if a trial is needed."""
    if not _chosen:
        _chosen.append(_setting() or _kept() or _tried())
    return _chosen[0]


def in_use() -> str:
    """Return as text how kernels of this process have been compiled; empty if none was. Loads
    nothing."""
    return str(_chosen[0]) if _chosen else ""


def entry(k: Kernel) -> Callable[..., Any]:
    """Return the function that Python calls for ``k``."""
    return _entry(k, accelerators())


def after_failure(k: Kernel, error: BaseException, args: tuple[Any, ...]) -> tuple[Callable[..., Any], Any]:
    """Return the plain entry of a kernel that could not be compiled as a unit, and its result.
    Kernels that are compiled later then use no units either. If the kernel itself is wrong, raises
    Numba's error from the plain compilation.
    """
    without = replace(accelerators(), units=False, reason=_text(error))
    plain = _entry(k, without)
    result = plain(*args)
    if accelerators().units:
        _chosen[:] = [without]
        _report(without)
    return plain, result


def _entry(k: Kernel, use: Accelerators, keep: bool = True) -> Callable[..., Any]:
    if use.units:
        from softib.jit.units import entry as compiled
    else:
        from softib.jit.plain import entry as compiled
    dispatcher: Callable[..., Any] = compiled(k, keep)
    if use.tables:
        # Loaded now, because Numba's C code, which asks for a table's type, would drop Ctrl-C.
        import softib.jit.table_types  # noqa: F401

        return dispatcher
    return lambda *args: dispatcher(*[a.as_named_tuple() if isinstance(a, Table) else a for a in args])


def _setting() -> Accelerators | None:
    value = os.environ.get(SETTING, "")
    if not value:
        return None
    if value not in NAMES:
        from softib.errors import InputError

        raise InputError(f"{SETTING}={value}: use one of {', '.join(NAMES)}")
    return Accelerators(*NAMES[value])


def _kept_name() -> str:
    from softib.jit.identity import environment

    return f"accelerators-{hashlib.sha256(environment().encode()).hexdigest()[:32]}"


def _kept() -> Accelerators | None:
    kept = (STORE.read(_kept_name()) or b"").decode("utf-8", "replace").partition(" ")
    return Accelerators(*NAMES[kept[0]], kept[2]) if kept[0] in NAMES else None


def _tried() -> Accelerators:
    """Return the best accelerators that work, after a trial of each combination. If any is missing,
    this is reported. The result is stored, unless the machine had too little memory or too few file
    descriptors for a trial."""
    verdict, failures = Accelerators(False, False), []
    for tables, units in ((True, True), (True, False), (False, True)):
        failure = _trial(Accelerators(tables, units))
        if not failure:
            verdict = Accelerators(tables, units)
            break
        failures.append(failure)
    reason = failures[0].removeprefix(OF_THE_MACHINE) if failures else ""
    verdict = replace(verdict, reason=reason)
    if not any(failure.startswith(OF_THE_MACHINE) for failure in failures):
        STORE.write(_kept_name(), f"{verdict.name} {reason}".encode())
    if reason:
        _report(verdict)
    return verdict


def _trial(use: Accelerators) -> str:
    """Return the error of :func:`_try` in a forked copy of this process; empty on success."""
    import numba

    numba.njit(lambda: None)()  # prepares Numba once here, instead of in each forked process
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # fork() warns if there are other threads; the forked process ends soon
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        text = "the trial did not end"
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal is no failure of the trial
        try:
            _try(use)
            text = "works"
        except BaseException as error:  # a changed Numba may raise any exception
            cause = error.__cause__ or error
            text = (OF_THE_MACHINE if isinstance(cause, OSError | MemoryError) else "") + _text(cause)
        finally:
            os.write(writer, text.encode())
            os._exit(0)
    os.close(writer)
    text = ""
    with os.fdopen(reader, "rb") as pipe:
        if select.select([pipe], [], [], PATIENCE_S)[0]:
            text = pipe.read(4096).decode("utf-8", "replace")
        else:
            os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "" if text == "works" else text or "the trial crashed"


def _try(use: Accelerators) -> None:
    """Raise if the trial kernel compiled with ``use`` does not give the right result."""
    from softib.jit import probe_kernels

    table, expected = probe_kernels.example()
    result = _entry(Kernel(probe_kernels.total.python, {}), use, keep=False)(table, 3)
    if result != expected:
        raise ValueError(f"the trial kernel returned {result}, not {expected}")


def _text(error: BaseException) -> str:
    """Return one line that states the missing feature or the error."""
    text = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _report(verdict: Accelerators) -> None:
    import numba

    print(
        f"softib: Numba {numba.__version__}: kernels are compiled without {verdict.missing}, so they are slower, with "
        f"the same results ({verdict.reason})",
        file=sys.stderr,
    )
