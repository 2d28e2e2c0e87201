"""Work of Numba's compiler that is omitted, or done only once, while a unit compiles, which saves a
third
of the time. * The type of an operation is inferred once per combination of types: a unit has 7,000
operations of 1,000 kinds. * The size of a type is queried once; each query
creates an LLVM module. * Functions that only kernels call get no
wrappers for Python and C. * Settings are
compared only where they were set. * Python does not search for reference cycles in a million objects.
"""

import gc
from contextlib import ExitStack, contextmanager

from llvmlite import ir
from numba.core import compiler, cpu
from numba.core.targetconfig import ConfigStack
from numba.core.types.functions import BaseFunction

__all__ = ["Flags", "taken", "unwrapped"]

NAMES_OF_FLAGS = hash(compiler.Flags())
"""Numba hashes the names of the settings, not their values: the same for all."""


@contextmanager
def taken(*others):
    """Context in which Numba takes these shortcuts, and ``others``: (object, name of an attribute,
    temporary value)."""
    collecting = gc.isenabled()
    gc.disable()
    with ExitStack() as undo:
        if collecting:
            undo.callback(gc.enable)
        for owner, name, value in (
            (BaseFunction, "get_call_type", _inferred_once(BaseFunction.get_call_type)),
            (ir.Type, "get_abi_size", _measured_once(ir.Type.get_abi_size)),
            *others,
        ):
            undo.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)
        yield


def unwrapped(kind):
    """Return the shortcuts with which libraries of the class ``kind`` get no wrappers."""
    names = "create_cpython_wrapper", "create_cfunc_wrapper"
    return [(cpu.CPUContext, name, _not_of(kind, getattr(cpu.CPUContext, name))) for name in names]


def _inferred_once(infer):
    known = {}

    def inferred(self, context, args, kws):
        key = self, tuple(args), tuple(sorted(kws.items())), ConfigStack.top_or_none()
        if key not in known:
            known[key] = infer(self, context, args, kws)
        return known[key]

    return inferred


def _measured_once(measure):
    known = {}

    def measured(self, target_data, context=None):
        if isinstance(self, ir.IdentifiedStructType):  # its text is a name alone
            return measure(self, target_data, context)
        key = str(self)
        if key not in known:
            known[key] = measure(self, target_data, context)
        return known[key]

    return measured


def _not_of(kind, wrap):
    def wrapped(self, library, *args, **options):
        if not isinstance(library, kind):
            wrap(self, library, *args, **options)

    return wrapped


class Flags(compiler.Flags):
    """Numba's settings, compared only where they were set: Numba collects two dozen of them for
    each of 30,000 comparisons, a seventh of the compile time."""

    __slots__ = ()

    def __eq__(self, other):
        if isinstance(other, Flags):
            return self._values == other._values
        return super().__eq__(other)

    def __hash__(self):
        return NAMES_OF_FLAGS
