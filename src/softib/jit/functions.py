"""Building blocks of kernel files: the decorator :func:`kernel`, and C functions that kernels
call."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["PACKAGE", "External", "Kernel", "UnitError", "inner", "kernel"]

PACKAGE = Path(__file__).resolve().parent.parent

F = TypeVar("F", bound=Callable[..., Any])


def is_kernel_file(path: str | Path) -> bool:
    """Return whether the file is ``kernels.py``, ``*_kernels.py`` or below a folder ``kernels``."""
    path = Path(path)
    return path.name == "kernels.py" or path.name.endswith("_kernels.py") or "kernels" in path.parent.parts


class UnitError(Exception):
    """Raised if a kernel could not be compiled as a unit; it has not run. The cause is this
    exception's ``__cause__``."""


class Kernel:
    """A function that Numba compiles, together with all kernels that it calls, when Python first
    calls it.

    ``shared``: it is compiled once, and its callers call that machine code instead of containing a
    copy. This is for large kernels with several callers, outside innermost loops, because nothing
    is inlined or optimised across the call. ``steps``: a function that returns the number of
    innermost steps for given arguments, for :mod:`softib.jit.interpreted`. ``rows``: it takes rows
    of arrays. ``python_form``: the function that :meth:`in_python` sets.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        options: dict[str, Any],
        shared: bool = False,
        steps: Callable[..., int] | None = None,
        rows: bool = False,
    ):
        if not is_kernel_file(function.__code__.co_filename):
            raise TypeError(
                f"{function.__qualname__}: kernels must be in kernels.py, *_kernels.py or a folder kernels/"
            )
        self.python = function
        self.options, self.shared, self.steps, self.rows = options, shared, steps, rows
        self._entry: Callable[..., Any] | None = None
        self.python_form: Callable[..., Any] | None = None
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any) -> Any:
        entry = self._entry
        if entry is None:
            if self.steps is not None:
                from softib.jit import interpreted

                if interpreted.is_small(self, args):
                    return interpreted.run(self, args)
            entry = self.dispatcher()
        try:
            return entry(*args)
        except UnitError as error:
            from softib.jit.accelerators import after_failure

            self._entry, result = after_failure(self, error.__cause__ or error, args)
            return result

    def in_python(self, function: F) -> F:
        """Return a decorator for a function that replaces this kernel for small work. The function
        uses NumPy or Python's numbers, gives the same results as the kernel, is faster than the
        kernel run in Python, and calls no kernel."""
        self.python_form = function
        return function

    def dispatcher(self) -> Callable[..., Any]:
        """Return Numba's dispatcher, or a wrapper of it (the plain function when Numba's JIT is
        disabled)."""
        if self._entry is None:
            if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
                self._entry = self.python
            else:
                from softib.jit.accelerators import entry  # loads Numba (0.3 s), so only when a kernel runs

                self._entry = entry(self)
        return self._entry


class External:
    """A C function of this process (libc's, say) that kernels call by its symbol.

    ``result`` and ``arguments`` are names of Numba types; addresses are ``uintp``. Only compiled
    kernels can call it.
    """

    def __init__(self, symbol: str, result: str, *arguments: str):
        self.symbol, self.result, self.arguments = symbol, result, arguments

    def __call__(self, *args: Any) -> Any:
        raise TypeError(f"{self.symbol} can be called from compiled kernels only")

    def declaration(self) -> Any:
        """Return Numba's declaration of it, which replaces the global in a kernel."""
        from numba import types

        signature = getattr(types, self.result)(*(getattr(types, a) for a in self.arguments))
        return types.ExternalFunction(self.symbol, signature)


def kernel(
    function: F | None = None,
    *,
    shared: bool = False,
    steps: Callable[..., int] | None = None,
    rows: bool = False,
    **options: Any,
) -> Any:
    """Return a decorator that makes ``function`` a compiled kernel. ``options`` are passed to
    ``numba.njit``; ``nogil=True`` is the default."""
    if function is None:
        return lambda f: Kernel(f, options, shared, steps, rows)
    return Kernel(function, options, shared, steps, rows)


inner = functools.partial(kernel, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""Decorator of kernels that Python never calls: they have no reference counts, and no wrapper for
Python."""
