"""Progress of compilation for the user: the number of compiled kernels of the current unit, and
the total."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["compiling", "on_compiling", "step", "waiting"]

TRIAL = "softib.jit."
"""Prefix of units that are not reported: those of the accelerators' trial."""
Listener = Callable[[str, int, int], None]

_listeners: list[Listener] = []
_unit: list[str] = []
_known: set[str] = set()
_done: set[str] = set()


def on_compiling(listener: Listener) -> None:
    """Call ``listener(unit, done, of)`` while the ``of`` kernels of ``unit`` are compiled. ``of``
    is -1 while another process compiles the unit."""
    _listeners.append(listener)


@contextmanager
def compiling(unit: str, kernels: set[str], quiet: bool = False) -> Iterator[Callable[[], None]]:
    """Context in which a unit of these kernels is compiled. ``quiet``: the unit may be loaded
    instead; it is reported only after the first :func:`step`, or a call of the yielded function.
    Units can be nested."""
    before = list(_unit), set(_known), set(_done)
    _set([unit], kernels, set())
    if not quiet:
        _report()
    try:
        yield _report
    finally:
        _set(*before)


def _set(unit: list[str], all_kernels: set[str], done: set[str]) -> None:
    _unit[:] = unit
    for names, now in ((_known, all_kernels), (_done, done)):
        names.clear()
        names.update(now)


def step(name: str) -> None:
    """Report that the types of kernel ``name`` of the current unit are inferred, and its LLVM code
    is made."""
    if _unit and name in _known and name not in _done:
        _done.add(name)
        _report()


def waiting(unit: str) -> None:
    """Report that another process compiles ``unit``, and that this process waits for it."""
    _notify(unit, 0, -1)


def _report() -> None:
    if _unit:
        _notify(_unit[0], len(_done), len(_known))


def _notify(unit: str, done: int, of: int) -> None:
    for listener in [] if unit.startswith(TRIAL) else list(_listeners):
        listener(unit, done, of)
