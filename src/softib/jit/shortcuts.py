"""Parts of Numba's compiler that are omitted, or executed only once, while a unit is compiled. This
saves a third of the time.

* The type of an operation is inferred once per combination of types. A unit has 7,000 operations of
  1,000 kinds.
* The size of a type is queried once, because each query creates an LLVM module.
* Functions that only kernels call get no wrappers for Python and C.
* Settings are compared only if they were set.
* Each type is hashed once, because the type of an array in a table is a tuple of tuples.
* Numba's imports for the lowering of a call are executed once, not before each call.
* The variables of an instruction are listed without five checks of each value's class.
* Python does not search for reference cycles in a million objects.
"""

import gc
from contextlib import ExitStack, contextmanager

from llvmlite import ir
from numba.core import compiler, cpu, types, typing
from numba.core.ir import Inst, Var
from numba.core.targetconfig import ConfigStack
from numba.core.types.functions import BaseFunction

__all__ = ["Flags", "taken", "unwrapped"]

CONTEXTS = cpu.CPUContext, typing.Context
"""Before each function that is compiled, these ask their modules which types and operations they
support."""
NAMES_OF_FLAGS = hash(compiler.Flags())
"""Numba hashes the names of the settings, not their values, so the hash is always the same."""


@contextmanager
def taken(*others):
    """Context in which Numba takes these shortcuts. ``others`` are further temporary changes:
    (object, name of an attribute, value)."""
    collecting = gc.isenabled()
    gc.disable()
    with ExitStack() as undo:
        if collecting:
            undo.callback(gc.enable)
        for owner, name, value in (
            (BaseFunction, "get_call_type", _inferred_once(BaseFunction.get_call_type)),
            (ir.Type, "get_abi_size", _measured_once(ir.Type.get_abi_size)),
            (types.Type, "__hash__", _hashed_once(types.Type.__hash__)),
            (Inst, "_rec_list_vars", _list_vars),
            *((c, "load_additional_registries", _loaded_once(c.load_additional_registries)) for c in CONTEXTS),
            *others,
        ):
            undo.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)
        yield


def unwrapped(kind):
    """Return the shortcuts by which libraries of class ``kind`` get no wrappers."""
    names = "create_cpython_wrapper", "create_cfunc_wrapper"
    return [(cpu.CPUContext, name, _not_of(kind, getattr(cpu.CPUContext, name))) for name in names]


def _inferred_once(infer):
    signatures = {}

    def inferred(self, context, args, kws):
        key = self, tuple(args), tuple(sorted(kws.items())), ConfigStack.top_or_none()
        if key not in signatures:
            signatures[key] = infer(self, context, args, kws)
        return signatures[key]

    return inferred


def _hashed_once(hash_of):
    hashes = {}  # by address; the type is stored too, so that its address is not used again

    def hashed(self):
        entry = hashes.get(id(self))
        if entry is None:
            hashes[id(self)] = entry = hash_of(self), self
        return entry[0]

    return hashed


def _loaded_once(load):
    libraries = []

    def loaded(self):
        if self not in libraries:
            load(self)
            libraries.append(self)

    return loaded


class _Kinds(dict):
    """Function by class of a value in Numba's IR that finds the value's variables (0: it has
    none)."""

    VAR, INST, SEQUENCE, MAPPING = 1, 2, 3, 4

    def __missing__(self, kind):
        handlers = (Var, self.VAR), (Inst, self.INST), ((list, tuple), self.SEQUENCE), (dict, self.MAPPING)
        self[kind] = number = next((number for of, number in handlers if issubclass(kind, of)), 0)
        return number


KINDS = _Kinds()


def _list_vars(self, value):
    """Return the variables in ``value`` in their order, as Numba's own function lists them."""
    variables = []
    _add_vars(value, variables)
    return variables


def _add_vars(value, variables):
    kind = KINDS[type(value)]
    if kind == KINDS.VAR:
        variables.append(value)
    elif kind == KINDS.INST:
        variables += value.list_vars()
    elif kind:
        for item in value.values() if kind == KINDS.MAPPING else value:
            if KINDS[type(item)]:
                _add_vars(item, variables)


def _measured_once(measure):
    sizes = {}

    def measured(self, target_data, context=None):
        if isinstance(self, ir.IdentifiedStructType):  # the text of this type is only its name
            return measure(self, target_data, context)
        key = str(self)
        if key not in sizes:
            sizes[key] = measure(self, target_data, context)
        return sizes[key]

    return measured


def _not_of(kind, wrap):
    def wrapped(self, library, *args, **options):
        if not isinstance(library, kind):
            wrap(self, library, *args, **options)

    return wrapped


class Flags(compiler.Flags):
    """Numba's settings, which are compared only if they were set. Numba itself collects two dozen
    of them for each of 30,000 comparisons, which takes a seventh of the compile time."""

    __slots__ = ()

    def __eq__(self, other):
        if isinstance(other, Flags):
            return self._values == other._values
        return super().__eq__(other)

    def __hash__(self):
        return NAMES_OF_FLAGS
