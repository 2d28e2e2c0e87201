"""Defer Ctrl-C and the end of the program during compilation. They take effect between two kernels,
not inside Numba and LLVM. If ``KeyboardInterrupt`` is raised between two lines of Numba, the
ownership of LLVM modules is undefined, and freeing them crashes. If it is raised in a callback of
LLVM, Python drops it, and the program continues. Each was seen once in 30 interrupts of a first
``softib exporter``. A thread that compiles while the program exits also crashes.
"""

from __future__ import annotations

import atexit
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any

__all__ = ["check", "held", "wait_at_exit"]

_noted: list[int] = []
_ending = threading.Event()


@contextmanager
def held() -> Iterator[None]:
    """Context in which Ctrl-C is recorded instead of raised. :func:`check`, or the end of the
    block, then raises :class:`KeyboardInterrupt`. Other installed handlers are kept, because
    softib's handlers only request an end.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        check()


def _note(number: int, frame: FrameType | None) -> None:
    _noted.append(number)


def check() -> None:
    """Raise a deferred interrupt at a consistent point: :class:`KeyboardInterrupt`, or
    :class:`SystemExit` in a thread of a program that ends."""
    if threading.current_thread() is not threading.main_thread():
        if _ending.is_set():
            raise SystemExit
    elif _noted:
        _noted.clear()
        raise KeyboardInterrupt


def wait_at_exit(lock: AbstractContextManager[Any]) -> None:
    """Delay the end of the program until the thread that holds the compiler's ``lock`` has
    reached a :func:`check`."""

    def end() -> None:
        _ending.set()
        lock.__enter__()  # never released, because no thread may compile from here on

    atexit.register(end)
