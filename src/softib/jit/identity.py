"""The identity of a kernel, from which the name of its machine code in the store is made. The
machine code of a kernel is made from its bytecode, the values of the constants that it names, and
the kernels that it calls, in whatever file they are. The identity is a hash of the bytecode and
constants of every kernel that it can reach, and of the :func:`environment`. So edits elsewhere in a
file, of comments, or of kernels that it does not call do not change it. A computed constant (an
offset in a wire structure, or a number from a C header) is hashed by value. For a value of an
unknown type, all sources of the package that it comes from are hashed, so the identity may change
too often, but never too seldom.
"""

from __future__ import annotations

import dis
import enum
import functools
import hashlib
import inspect
import os
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from softib.jit.functions import External, Kernel

__all__ = ["identity", "names_of", "reached", "reached_from", "store_prefix"]

PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
LOAD_GLOBAL = dis.opmap["LOAD_GLOBAL"]
NEUTRAL = {"NUMBA_CACHE_DIR", "NUMBA_DEBUG_CACHE", "NUMBA_NUM_THREADS", "NUMBA_DISABLE_JIT"}
"""Settings of Numba that do not change machine code. All other ``NUMBA_…`` variables are part of
the identity."""


@functools.cache
def names_of(code: types.CodeType) -> frozenset[str]:
    """Return every global that ``code`` (and nested code) reads. Columns of tables are attributes and
    may have the names of kernels."""
    names, extended = set(), 0
    for opcode, low in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        argument = extended | low
        extended = argument << 8 if opcode == dis.EXTENDED_ARG else 0
        if opcode == LOAD_GLOBAL:
            names.add(code.co_names[argument >> 1])  # the lowest bit means that the global is called next
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            names |= names_of(const)
    return frozenset(names)


def frozen_of(k: Kernel) -> dict[str, Any]:
    """Return the globals that ``k`` can read, in the order of their names."""
    function = k.python
    values = function.__globals__
    return {name: values[name] for name in sorted(names_of(function.__code__)) if name in values}


def reached_from(k: Kernel) -> dict[str, Kernel]:
    """Return the kernels that ``k`` reads as globals, by their name in its module, without ``k``
    itself."""
    return {name: value for name, value in frozen_of(k).items() if isinstance(value, Kernel) and value is not k}


def reached(k: Kernel, into: Callable[[Kernel], bool] = lambda _: True) -> list[Kernel]:
    """Return ``k`` and every kernel that it can call, in the order of the search. Only kernels for
    which ``into`` returns True are searched further."""
    reachable, todo = [k], [k]
    while todo:
        for callee in reached_from(todo.pop()).values():
            if callee not in reachable and into(callee):
                reachable.append(callee)
                todo.append(callee)
    return reachable


def identity(k: Kernel) -> str:
    """Return the hex digest of all that the machine code of ``k`` depends on, except the
    types of its arguments and the CPU."""
    digest = hashlib.sha256(environment().encode())
    for part in reached(k):
        digest.update(_frozen_text(part).encode())
    return digest.hexdigest()


def title(k: Kernel) -> str:
    """Return module and name of a kernel."""
    return f"{k.python.__module__}.{k.python.__qualname__}"


@functools.cache
def store_prefix(k: Kernel) -> str:
    """Return the prefix of the names of ``k``'s machine code in the store, for all types of
    its arguments."""
    return f"{title(k).replace('<', '').replace('>', '')}-{identity(k)[:32]}-"


def _frozen_text(k: Kernel) -> str:
    """Return the values of the globals that ``k`` reads as text. Kernels that it calls are
    represented by their identity only."""
    parts = [title(k), repr((sorted(k.options.items()), k.shared)), *_code(k.python.__code__, k.python.__doc__)]
    parts += [_value(v, k) for v in (k.python.__defaults__ or ())]
    parts += [_value(cell.cell_contents, k) for cell in (k.python.__closure__ or ())]
    parts += [f"{name}={_value(value, k)}" for name, value in frozen_of(k).items()]
    return "\n".join(parts) + "\0"


def _code(code: types.CodeType, doc: str | None = None) -> Iterator[str]:
    """Return the bytecode without line numbers and docstring."""
    flags = code.co_flags & ~inspect.CO_OPTIMIZED  # Numba clears the flag in a function that runs under a profiler
    yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_freevars} {code.co_cellvars} {flags}"
    yield f"{code.co_argcount} {code.co_kwonlyargcount} {code.co_exceptiontable.hex()}"
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _code(const)
        elif doc is None or const != doc:
            yield _value(const, None)


def _value(value: Any, k: Kernel | None) -> str:
    """Return one frozen value as text, distinct for distinct values."""
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, Kernel):
        return f"kernel {title(value)}"
    if isinstance(value, External):
        return f"external {value.symbol} {value.result} {value.arguments}"
    if isinstance(value, enum.Enum):
        return f"{name}.{value.name} {value.value!r}"
    if kind in PLAIN:
        return f"{name} {value.hex() if isinstance(value, float) else repr(value)}"
    if isinstance(value, np.ndarray):
        data = value.tobytes() if value.dtype.kind != "O" else b"objects" + _package(value, k).encode()
        return f"{name} {value.dtype.descr} {value.shape} {value.flags.c_contiguous} {hashlib.sha256(data).hexdigest()}"
    if isinstance(value, np.generic):
        return f"{name} {value.dtype.descr} {value.tobytes().hex()}"
    if isinstance(value, tuple | list | frozenset):
        items = sorted(value, key=repr) if isinstance(value, frozenset) else value
        fields = getattr(value, "_fields", "")
        return f"{name} {fields} [{', '.join(_value(item, k) for item in items)}]"
    if is_foreign(value):
        return (
            f"{name} {getattr(value, '__module__', '')} "
            f"{getattr(value, '__qualname__', getattr(value, '__name__', ''))}"
        )
    return f"{name} {_package(value, k)}"


def is_foreign(value: Any) -> bool:
    """Return whether ``value`` is a module, type or function of NumPy, Numba or the standard
    library. The environment contains their versions."""
    if isinstance(value, types.ModuleType):
        module = value.__name__
    elif isinstance(value, type | types.BuiltinFunctionType | np.ufunc) or hasattr(value, "__wrapped__"):
        module = getattr(value, "__module__", None) or "numpy"
    else:
        return False
    return module.partition(".")[0] in ("numpy", "numba", "llvmlite", "math", "builtins", "operator", "cmath")


def is_coarse(value: Any) -> bool:
    """Return whether the type of ``value`` is unknown, so that whole packages are hashed
    instead."""
    if isinstance(value, tuple | list | frozenset):
        return any(is_coarse(item) for item in value)
    comparable = (
        isinstance(value, (Kernel, External, enum.Enum, np.generic)) or type(value) in PLAIN or is_foreign(value)
    )
    return not comparable and not (isinstance(value, np.ndarray) and value.dtype.kind != "O")


def _package(value: Any, k: Kernel | None) -> str:
    """Return a hash of all sources of the packages that ``value``, its type and the kernel that
    names it come from."""
    owners = {getattr(value, "__module__", None), type(value).__module__, k.python.__module__ if k else None}
    if isinstance(value, types.ModuleType):
        owners.add(value.__name__)
    roots = sorted({str(owner).partition(".")[0] for owner in owners if owner} - {"builtins"})
    return " ".join(f"{root}:{_sources(root)}" for root in roots)


@functools.cache
def _sources(package: str) -> str:
    """Return a hash over every Python file of a top-level package or module."""
    file = getattr(sys.modules.get(package), "__file__", None)
    if not file:
        return "built in"
    path = Path(file)
    files = sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
    digest = hashlib.sha256()
    for source in files:
        digest.update(str(source.relative_to(path.parent)).encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()


@functools.cache
def environment() -> str:
    """Return a text that contains everything on which all kernels depend: Python, Numba, LLVM,
    NumPy, the sources of this package, and settings of Numba."""
    import llvmlite
    import numba

    sources = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        sources.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    settings = {n: v for n, v in sorted(os.environ.items()) if n.startswith("NUMBA_") and n not in NEUTRAL}
    return (
        f"python {sys.version} {sys.implementation.cache_tag} numba {numba.__version__} llvmlite "
        f"{llvmlite.__version__} "
        f"numpy {np.__version__} softib.jit {sources.hexdigest()} {settings}"
    )
