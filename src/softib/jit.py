"""Compiled kernels: the only door to Numba.

Rules, kept by :func:`kernel`:

* Kernels live in files named ``kernels.py`` or ``*_kernels.py``. Importing such a file loads no Numba; the
  first *call* of a kernel does.
* Kernels take numbers and arrays (outputs and RNG state too) and call only other kernels and builtins.
* Compiled code is cached below :func:`cache_dir`, whose name is a hash of **all** kernel sources, because
  Numba's own cache looks only at the file of the function it compiles and does not notice an edited callee
  in another file.
* A kernel file starts with ``# mypy: ignore-errors``: Numba types it from the arguments, not from annotations.

Processes that need the same kernel at once compile it once: the others wait for the first and load what it kept (numbers
of Numba's data files are given without a lock, so two that write at once could get each other's code).

A cache that cannot be used (no room, no permission, a damaged file) costs compile time and one line on stderr, never the
run. Numba's own next choice, beside the sources, is not taken: it would not notice an edited callee.

``NUMBA_DISABLE_JIT=1`` runs every kernel as plain Python (for coverage and debuggers).
``SOFTIB_CACHE_DIR`` moves the cache (default ``$XDG_CACHE_HOME/softib`` or ``~/.cache/softib``).
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["External", "Kernel", "cache_dir", "kernel", "sources_hash"]

F = TypeVar("F", bound=Callable[..., Any])

PACKAGE_DIR = Path(__file__).resolve().parent


def is_kernel_file(name: str) -> bool:
    """True for ``kernels.py`` and ``*_kernels.py``."""
    return name == "kernels.py" or name.endswith("_kernels.py")


@functools.cache
def sources_hash(root: Path = PACKAGE_DIR) -> str:
    """Hash over every file that a kernel's machine code can depend on (hex, 16 digits).

    That is each kernel file and, because kernels read constants of them (field offsets, enums), every module
    of ``iba`` and every ``layout.py``/``columns.py``.
    """
    digest = hashlib.sha256(f"{sys.version_info[:3]}".encode())
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        if is_kernel_file(path.name) or relative.parts[0] == "iba" or path.name in ("layout.py", "columns.py"):
            digest.update(str(relative).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def cache_dir() -> Path:
    """Directory of the compiled kernels of exactly these sources."""
    base = os.environ.get("SOFTIB_CACHE_DIR")
    root = Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "softib"
    return root / "kernels" / sources_hash()


class _Cache:
    """The state of the cache on disk: used, emptied once because of damage, or given up."""

    def __init__(self) -> None:
        self.kernels: weakref.WeakSet[Kernel] = weakref.WeakSet()
        self.given_up = self.emptied = False

    def usable(self) -> bool:
        """True when compiled code can be kept; says so where it cannot."""
        if not self.given_up:
            folder = cache_dir()
            try:
                folder.mkdir(parents=True, exist_ok=True)
                if not os.access(folder, os.W_OK):
                    raise PermissionError("not writable")
            except OSError as error:
                self._give_up(error.strerror or str(error))
        return not self.given_up

    def mend(self, reason: str) -> None:
        """What Numba wrote or found there is no good: empty it, and where that does not help do without."""
        if self.emptied:
            self._give_up(reason)
        else:
            shutil.rmtree(cache_dir(), ignore_errors=True)
        self.emptied = True
        for k in self.kernels:
            k._dispatcher = None

    def _give_up(self, reason: str) -> None:
        self.given_up = True
        print(
            f"softib: {cache_dir()}: cannot keep compiled kernels there ({reason}); each run compiles anew",
            file=sys.stderr,
        )


_CACHE = _Cache()


def _from_cache(error: Exception) -> bool:
    """True when ``error`` was raised while Numba read or wrote its cache, not by a kernel."""
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename.endswith(os.path.join("numba", "core", "caching.py")):
            return True
        step = step.tb_next
    return False


class Kernel:
    """A function compiled by Numba at its first call. Calls of other kernels inside it are resolved then."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]):
        if not is_kernel_file(Path(function.__code__.co_filename).name):
            raise TypeError(f"{function.__qualname__}: kernels live in kernels.py or *_kernels.py")
        self.python = function
        self.options = options
        self._dispatcher: Callable[..., Any] | None = None
        _CACHE.kernels.add(self)
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any) -> Any:
        dispatcher = self._dispatcher
        if dispatcher is None:
            dispatcher = self.dispatcher()
        try:
            return dispatcher(*args)
        except Exception as error:
            if not _from_cache(error):
                raise
            reason = f"{type(error).__name__}: {error}"
        _CACHE.mend(reason)
        return self(*args)

    def dispatcher(self) -> Callable[..., Any]:
        """The Numba dispatcher (made at the first call; the plain function when Numba's JIT is disabled)."""
        if self._dispatcher is None:
            if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
                self._dispatcher = self.python
            else:
                self._dispatcher = _compile(self)
        return self._dispatcher


class External:
    """A C function of this process (libc's, say) that kernels call by its symbol.

    ``result`` and ``arguments`` are names of Numba types; addresses are ``uintp``. Only compiled kernels can call it.
    """

    def __init__(self, symbol: str, result: str, *arguments: str):
        self.symbol, self.result, self.arguments = symbol, result, arguments

    def __call__(self, *args: Any) -> Any:
        raise TypeError(f"{self.symbol} can be called from compiled kernels only")

    def declaration(self) -> Any:
        """Numba's declaration of it (what a kernel's global is replaced by)."""
        from numba import types

        signature = getattr(types, self.result)(*(getattr(types, a) for a in self.arguments))
        return types.ExternalFunction(self.symbol, signature)


def kernel(function: F | None = None, **options: Any) -> Any:
    """Decorator: make ``function`` a compiled kernel. ``options`` go to ``numba.njit``.

    Defaults: ``cache=True, nogil=True``; ``parallel=True`` and ``inline='always'`` are the usual extras.
    """
    if function is None:
        return lambda f: Kernel(f, options)
    return Kernel(function, options)


def _compile(k: Kernel) -> Callable[..., Any]:
    import numba  # 0.3 s: only where a kernel runs

    numba.config.CACHE_DIR = str(cache_dir())  # type: ignore[attr-defined]
    options = {"cache": _CACHE.usable(), "nogil": True, **k.options}
    function = k.python
    names = set(_all_names(function.__code__))
    replaced = {
        name: value.dispatcher()
        for name, value in function.__globals__.items()
        if name in names and isinstance(value, Kernel) and value is not k
    }
    replaced |= {
        name: value.declaration()
        for name, value in function.__globals__.items()
        if name in names and isinstance(value, External)
    }
    if replaced:
        clone = types.FunctionType(
            function.__code__, {**function.__globals__, **replaced}, function.__name__, function.__defaults__
        )
        clone.__qualname__, clone.__module__, clone.__doc__ = (
            function.__qualname__,
            function.__module__,
            function.__doc__,
        )
        function = clone
    dispatcher = numba.njit(**options)(function)
    if options["cache"]:
        _one_at_a_time(dispatcher, f"{function.__module__}.{function.__qualname__}.lock")
    return dispatcher


def _one_at_a_time(dispatcher: Any, name: str) -> None:
    """Let one process at a time look into the cache for this kernel, and compile and keep it where it is not there.

    Kernels call each other in no circle, so neither do the locks; Numba's own lock comes first, or two threads could wait
    for each other.
    """
    from numba.core.compiler_lock import global_compiler_lock

    compiles, depth = dispatcher.compile, 0

    def locked(signature: Any) -> Any:
        nonlocal depth
        with global_compiler_lock, _alone(name) if depth == 0 else contextlib.nullcontext():
            depth += 1
            try:
                return compiles(signature)
            finally:
                depth -= 1

    dispatcher.compile = locked


@contextlib.contextmanager
def _alone(name: str) -> Iterator[None]:
    """Hold the lock ``name`` of the cache; without one where the file system has none."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            file = held.enter_context((cache_dir() / name).open("ab"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _all_names(code: types.CodeType) -> list[str]:
    names = list(code.co_names)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            names += _all_names(const)
    return names
