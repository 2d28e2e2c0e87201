"""Progress of long operations: named steps, their durations, and the kernels that are being compiled."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeAlias

__all__ = ["Notice", "Steps", "Timed", "on_compiling", "silent", "unwatched"]

Steps: TypeAlias = Callable[[str], AbstractContextManager[None]]
"""Function that is called with the name of a step and returns a context manager, in which the step runs."""
Notice: TypeAlias = Callable[[str], None]
"""Function that is called with a line of information for the user."""


def unwatched(step: str) -> AbstractContextManager[None]:
    """Return a context for a step that prints no progress."""
    return nullcontext()


def silent(line: str) -> None:
    """Ignore a line: a :data:`Notice` that prints nothing."""


class Timed:
    """A :data:`Steps` that stores the wall time of each step in ``seconds`` and forwards the step
    to another one."""

    def __init__(self, steps: Steps | None = None):
        self.seconds: dict[str, float] = {}
        self._steps = steps or unwatched

    @contextmanager
    def __call__(self, step: str) -> Iterator[None]:
        """Return the context of a step: ``with timed("bring-up"): …``"""
        began = time.perf_counter()
        with self._steps(step):
            yield
        self.seconds[step] = self.seconds.get(step, 0.0) + time.perf_counter() - began


def on_compiling(listener: Callable[[str, int, int], None]) -> None:
    """Call ``listener`` for each unit of kernels that is compiled, with its name, the number of
    units done, and the number of all units (-1 while another process compiles).

    Kernels are compiled once per machine, which takes seconds (``softib compile`` does it in advance).
    """
    from softib.jit import on_compiling as listen

    listen(listener)
