"""Small work in Python itself: a kernel that runs once on a small fabric costs more to compile than to interpret.

A kernel with an estimate (``kernel(steps=...)``) runs as the Python function that it is, within :func:`small_work_in_python`, until all its runs
together have cost about what compiling it would: then it is compiled. So no first run waits for a compiler that it hardly uses, none pays twice, and what
runs often or on large fabrics is compiled as ever. What it has cost is kept beside the machine code (:mod:`softib.jit.store`).

Both ways give the same: what Numba types as int64 is Python's int here, since NumPy's narrow numbers would wrap around (arrays are handed over as
memoryviews, but for uint64, which wraps around in both, and for kernels that take rows of arrays: ``rows=True``). ``tests/jit/test_interpreted.py`` runs both.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from softib.jit.callees import clone
from softib.jit.identity import identity, reached, reached_from, title
from softib.jit.store import STORE

if TYPE_CHECKING:
    import numpy as np

    from softib.jit.functions import Kernel

__all__ = ["affordable", "compiled", "run", "small_work_in_python"]

STEPS_AN_OCTET = 500
"""Compiling an octet of bytecode takes as long as this many steps in Python (of half a microsecond), measured over the kernels of a report."""
NARROW = "bool_ int8 uint8 int16 uint16 int32 uint32 float64 inf"
ALLOCATORS = "empty zeros ones full arange"

_wanted: list[bool] = []
_functions: dict[Kernel, types.FunctionType] = {}
_spent: dict[Kernel, float] = {}


@contextlib.contextmanager
def small_work_in_python() -> Iterator[None]:
    """Within this, kernels run in Python while that costs less than compiling them. For commands that end soon."""
    _wanted.append(True)
    try:
        yield
    finally:
        _wanted.pop()


def affordable(k: Kernel, args: tuple[Any, ...]) -> bool:
    """Should ``k`` run in Python with these arguments? Counts it where it should; where not, it is compiled from now on."""
    if not _wanted or k.steps is None:
        return False
    spent = _so_far(k) + k.steps(*args)
    if spent > price(k):
        compiled(k)
        return False
    _spent[k] = spent
    _keep(k)
    return True


def compiled(k: Kernel) -> None:
    """There is machine code of ``k``, or will be at once: nothing is saved by Python any more."""
    if k.steps is not None and _so_far(k) < float("inf"):
        _spent[k] = float("inf")
        _keep(k)


@functools.cache
def price(k: Kernel) -> int:
    """What compiling costs, in steps."""
    return STEPS_AN_OCTET * sum(len(part.python.__code__.co_code) for part in reached(k))


@functools.cache
def _name(k: Kernel) -> str:
    return f"{title(k)}-in-python-{identity(k)[:32]}"


def _so_far(k: Kernel) -> float:
    if k not in _spent:
        try:
            _spent[k] = float(STORE.read(_name(k)) or b"0")
        except ValueError:
            _spent[k] = float("inf")
    return _spent[k]


def _keep(k: Kernel) -> None:
    STORE.write(_name(k), repr(_spent[k]).encode())


def run(k: Kernel, args: tuple[Any, ...]) -> Any:
    """``k`` in Python."""
    import numpy as np

    with np.errstate(over="ignore"):  # of uint64, as in machine code
        return python_of(k)(*(args if k.rows else [_viewed(a) for a in args]))


def python_of(k: Kernel) -> types.FunctionType:
    """The function of ``k`` that calls the functions of other kernels, and counts in Python's numbers."""
    if k not in _functions:
        _functions[k] = function = clone(k.python)
        for name, callee in reached_from(k).items():
            function.__globals__[name] = python_of(callee)
        function.__globals__[k.python.__name__] = function
        if "np" in function.__globals__:
            function.__globals__["np"] = _numbers(not k.rows)
    return _functions[k]


def _numbers(views: bool) -> Any:
    """NumPy as kernels see it: int64 is Python's int, and what is made is a memoryview where arguments are."""
    import numpy as np

    def made(allocate: Callable[..., np.ndarray]) -> Callable[..., Any]:
        def make(*args: Any) -> Any:
            array = allocate(*(np.int64 if a is int else a for a in args))
            return _viewed(array) if views else array

        return make

    named = {name: getattr(np, name) for name in [*NARROW.split(), "uint64"]}
    return types.SimpleNamespace(int64=int, **named, **{name: made(getattr(np, name)) for name in ALLOCATORS.split()})


def _viewed(value: Any) -> Any:
    """``value`` with memoryviews for its arrays."""
    import numpy as np

    from softib.jit.table import Table

    if isinstance(value, np.ndarray):
        return value if value.dtype == np.uint64 else memoryview(value)  # type: ignore[arg-type]
    if isinstance(value, Table):
        return types.SimpleNamespace(**{name: _viewed(getattr(value, name)) for name in value._fields})
    if isinstance(value, tuple):
        return tuple(_viewed(item) for item in value)
    return value
