"""Compile kernels with only Numba's documented interface: ``numba.njit(cache=True)``, each function
separately.

This takes several times as long as units (see docs/decisions/0010-kernel-units.md), with the same
results. Numba's own cache only notices edits of the file that contains the kernel. So softib gives
each kernel its own cache folder, named after its :func:`~softib.jit.identity.identity`.
"""

import functools
import os
import shutil
import threading

import numba
from numba.core.caching import NullCache

from softib.jit import interrupts, progress
from softib.jit.identity import identity, reached, reached_from, title
from softib.jit.specialise import clone, declared
from softib.jit.store import FOLDER, STORE, cache_dir, closed, is_trusted

__all__ = ["entry"]

_called = {}
_alone = threading.RLock()
"""Serializes compilation in this process: while one thread waits for a lock that another process
holds, a second thread must not hold Numba's lock."""

interrupts.wait_at_exit(_alone)


def entry(k, keep=True):
    """Return the dispatcher of ``k`` for calls from Python."""
    function = clone(k.python)
    function.__globals__.update(callees(k))
    with _alone:
        folder = _folder(k) if keep else None
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = folder or before
        try:
            dispatcher = compiled(function, {**k.options, "cache": folder is not None}, no_cfunc_wrapper=True)
        finally:
            numba.config.CACHE_DIR = before
    dispatcher.compile = functools.partial(_compile, dispatcher, k, folder)
    return dispatcher


def callees(k):
    """Return the replacements for globals of ``k``: dispatchers for kernels, and declarations for C
    functions."""
    return {name: _callee(callee) for name, callee in reached_from(k).items()} | declared(k)


def _callee(k):
    """Return the dispatcher of ``k`` for calls from kernels."""
    if id(k) not in _called:
        function = clone(k.python)
        function.__globals__.update(callees(k))
        _called[id(k)] = dispatcher = compiled(function, k.options, no_cpython_wrapper=True, no_cfunc_wrapper=True)
        dispatcher.compile = functools.partial(_step, dispatcher, title(k))
    return _called[id(k)]


UNDOCUMENTED = ("_nrt", "no_cpython_wrapper", "no_cfunc_wrapper")
"""Options that only save work: they omit reference counts, and wrappers for Python or C."""


def compiled(function, options, **wrappers):
    """Return ``function`` compiled by ``numba.njit`` with these options. Undocumented options are
    omitted if this Numba does not support them."""
    given = {n: v for n, v in options.items() if n not in UNDOCUMENTED[1:]} | wrappers
    try:
        return numba.njit(**{"nogil": True, **given})(function)
    except (KeyError, TypeError, ValueError):
        public = {n: v for n, v in given.items() if n not in UNDOCUMENTED}
        return numba.njit(**{"nogil": True, **public})(function)


def _folder(k):
    """Return the folder in which Numba stores this kernel; None if nothing can be stored."""
    if STORE.given_up:
        return None
    folder = cache_dir() / f"{title(k).replace('<', '').replace('>', '')}-{identity(k)[:32]}{FOLDER}"
    try:
        STORE.make_folder()
        folder.mkdir(mode=0o755, exist_ok=True)
        if not STORE.trusts(cache_dir()):
            return None
        if not all(is_trusted(closed(path)) for path in (folder, *folder.rglob("*"))):
            raise PermissionError(1, f"{folder.name} belongs to another user, or is writable by others")
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(13, os.strerror(13))
    except OSError as error:
        STORE.give_up(error)
        return None
    return str(folder)


def _compile(dispatcher, k, folder, signature):
    """Load from Numba's cache, or compile and store. Only one process does this at a time, since
    Numba numbers its files without a lock. A process that waited too long for the lock neither
    loads nor stores."""
    load_or_compile = functools.partial(type(dispatcher).compile, dispatcher, signature)
    names = {title(callee) for callee in reached(k)} - {title(k)}
    with (
        _alone,
        STORE.alone(title(k)) as locked,
        interrupts.held(),
        progress.compiling(title(k), names, quiet=True) as announce,
    ):
        if not locked:
            dispatcher._cache, folder = NullCache(), None
        misses = sum(dispatcher.stats.cache_misses.values())
        try:
            code = load_or_compile()
        except numba.core.errors.NumbaError:
            raise
        except OSError as error:  # the kernel was compiled, but could not be stored
            STORE.give_up(error)
            code = load_or_compile()
        except Exception:
            if folder is None or not any(os.scandir(folder)):
                raise
            for path in os.scandir(folder):  # a damaged file of Numba's cache
                shutil.rmtree(path.path, ignore_errors=True)
            code = load_or_compile()
        if folder is None or sum(dispatcher.stats.cache_misses.values()) > misses:
            announce()
        return code


def _step(dispatcher, name, signature):
    interrupts.check()
    code = type(dispatcher).compile(dispatcher, signature)
    progress.step(name)
    return code
