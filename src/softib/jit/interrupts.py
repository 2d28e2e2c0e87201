"""Ctrl-C, and the end of the program, while a kernel compiles: between two kernels, not within
Numba and LLVM.

Where ``KeyboardInterrupt`` rises between two lines of Numba, modules of LLVM are half handed over,
and freeing them crashes; where it rises in a callback of LLVM, Python drops it, and the program
goes on. Either was seen once in 30 interrupts of a first ``softib exporter``. A thread that
compiles while the program ends crashes as well.
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
    """Within, Ctrl-C is noted where it would raise; :func:`check`, or the end of the block, raises
    :class:`KeyboardInterrupt` for it.

    Handlers that programs have installed stay: ours only ask for an end.
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
    """Raise what was held back, where nothing is half done: :class:`KeyboardInterrupt`, or
    :class:`SystemExit` in a thread of a program that ends."""
    if threading.current_thread() is not threading.main_thread():
        if _ending.is_set():
            raise SystemExit
    elif _noted:
        _noted.clear()
        raise KeyboardInterrupt


def wait_at_exit(lock: AbstractContextManager[Any]) -> None:
    """The program ends after the thread that holds the compiler's ``lock`` has reached a
    :func:`check`."""

    def end() -> None:
        _ending.set()
        lock.__enter__()  # for good: no one compiles any more

    atexit.register(end)
