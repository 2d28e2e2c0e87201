"""Kernels that run at the same time: they hold no lock of Python's, so threads of one process are enough."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

__all__ = ["cores", "plain_python", "together"]


def plain_python() -> bool:
    """Do kernels run as plain Python (``NUMBA_DISABLE_JIT``)? Then they call no C functions."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


def together(calls: list[Callable[[], None]], give_up: Callable[[], None]) -> None:
    """Run all ``calls``, the first in this thread, the others in threads of their own, and return when all did.

    Where one raises, ``give_up`` has to make the others end; the first error is raised then (Ctrl-C, too).
    """
    errors: list[BaseException] = []

    def guarded(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)
            give_up()

    others = [threading.Thread(target=guarded, args=(call,), daemon=True) for call in calls[1:]]
    for thread in others:
        thread.start()
    guarded(calls[0])
    for thread in others:
        thread.join()
    if errors:
        raise errors[0]
