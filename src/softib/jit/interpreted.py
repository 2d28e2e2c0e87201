"""Run small work in Python: a kernel that is called once on a small fabric takes longer to compile
than to interpret.

Within :func:`small_work_in_python`, a kernel that can estimate its steps (``kernel(steps=...)``)
runs as a Python function if the cache has no machine code for it, and if the estimated time of its
calls in this process is less than :data:`SHARE` of the time to compile it. A process that repeats
its work until it is stopped compares each call separately, with :data:`CALL_SHARE`. No state is
kept between processes, so equal runs take equal time; ``softib compile``, or any command that
compiles the kernel, makes them faster. Both ways give the same result. In Python, Numba's int64 is
Python's int, since NumPy's fixed-width numbers would wrap around. Arrays are passed as memoryviews,
except arrays of uint64, which wrap around in both ways, and arrays of kernels that take rows
(``rows=True``). A kernel whose loops are slow in Python may have a second form for Python
(``Kernel.in_python``). ``tests/jit/test_interpreted.py`` runs every kernel with an estimate in both
ways.
"""

from __future__ import annotations

import contextlib
import functools
import os
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from softib.jit.identity import reached, reached_from, store_prefix
from softib.jit.specialise import clone
from softib.jit.store import STORE

if TYPE_CHECKING:
    import numpy as np

    from softib.jit.functions import Kernel


__all__ = ["ALWAYS_COMPILE", "is_small", "run", "small_work_in_python"]

ALWAYS_COMPILE = "SOFTIB_COMPILE"
"""Environment variable: ``always`` compiles every kernel at its first call, as ``softib compile``
does."""
STEPS_A_UNIT, STEPS_A_BYTE = 50_000, 650
"""Time to compile a unit, and to compile one byte of its bytecode, expressed as steps in Python
(half a microsecond each). The values were fitted to the kernels of a report."""
SHARE = 1 / 2
"""Maximum time of calls in Python, as a share of the compile time. A larger share would make the
first report a little faster, and every later one much slower."""
CALL_SHARE = 1 / 200
"""Maximum time of each call of a repeated kernel, as a share of the compile time. With this value,
a daemon on a small fabric need not compile the kernel, and never pauses to compile it later."""
NARROW = "bool_ int8 uint8 int16 uint16 int32 uint32 float64 inf"
ALLOCATORS = "empty zeros ones full arange"

_wanted: list[bool] = []
"""For each active context, the innermost last: whether its work is repeated."""
_functions: dict[tuple[Kernel, bool], types.FunctionType] = {}
_steps: dict[Kernel, float] = {}


@contextlib.contextmanager
def small_work_in_python(*, repeated: bool = False) -> Iterator[None]:
    """Context in which kernels with small work run in Python, for short commands. ``repeated``: for
    processes that repeat the work."""
    _wanted.append(repeated)
    try:
        yield
    finally:
        _wanted.pop()


def is_small(k: Kernel, args: tuple[Any, ...]) -> bool:
    """Return whether ``k`` should run in Python with these arguments, and count their steps if so."""
    if not _wanted or k.steps is None or os.environ.get(ALWAYS_COMPILE) == "always":
        return False
    repeated, before = _wanted[-1], _steps.get(k, 0.0)
    steps = k.steps(*args)
    if (steps * SHARE > bound(k) * CALL_SHARE if repeated else before + steps > bound(k)) or _is_kept(k):
        return False
    _steps[k] = before if repeated else before + steps
    return True


@functools.cache
def bound(k: Kernel) -> float:
    """Return the maximum number of steps for which ``k`` runs in Python."""
    size = sum(len(part.python.__code__.co_code) for part in reached(k))
    return SHARE * (STEPS_A_UNIT + STEPS_A_BYTE * size)


def _is_kept(k: Kernel) -> bool:
    return k not in _steps and STORE.holds(store_prefix(k))


def run(k: Kernel, args: tuple[Any, ...]) -> Any:
    """Run ``k`` in Python."""
    import numpy as np

    with np.errstate(over="ignore"):  # overflow of uint64 is allowed, as in machine code
        return python_of(k)(*(args if k.rows else [_viewed(a) for a in args]))


def python_of(k: Kernel) -> Callable[..., Any]:
    """Return the Python function of ``k``. It calls the Python functions of other kernels, and uses
    Python's numbers."""
    return _python_of(k, k.rows)


def _python_of(k: Kernel, rows: bool) -> Callable[..., Any]:
    if k.python_form is not None:
        return k.python_form
    if (k, rows) not in _functions:
        _functions[k, rows] = function = clone(k.python)
        for name, callee in reached_from(k).items():
            function.__globals__[name] = _python_of(callee, rows)
        function.__globals__[k.python.__name__] = function
        if "np" in function.__globals__:
            function.__globals__["np"] = _numbers(not rows)
    return _functions[k, rows]


@functools.cache
def _numbers(views: bool) -> Any:
    """Return a replacement of NumPy for kernels in Python. Its int64 is Python's int, and if
    ``views`` is set, new arrays are memoryviews."""
    import numpy as np

    def allocator(allocate: Callable[..., np.ndarray]) -> Callable[..., Any]:
        def new(*args: Any) -> Any:
            array = allocate(*(np.int64 if a is int else a for a in args))
            return _viewed(array) if views else array

        return new

    named = {name: getattr(np, name) for name in [*NARROW.split(), "uint64", "argsort"]}
    return types.SimpleNamespace(
        int64=int, **named, **{name: allocator(getattr(np, name)) for name in ALLOCATORS.split()}
    )


def _viewed(value: Any) -> Any:
    """Return ``value`` with memoryviews instead of arrays."""
    import numpy as np

    from softib.jit.table import Table

    if isinstance(value, np.ndarray):
        return value if value.dtype == np.uint64 else memoryview(value)  # type: ignore[arg-type]
    if isinstance(value, Table):
        return types.SimpleNamespace(**{name: _viewed(getattr(value, name)) for name in value._fields})
    if isinstance(value, tuple):
        return tuple(_viewed(item) for item in value)
    return value
