"""Compile a kernel and all kernels that it calls as one unit.

By default, Numba optimises each function with everything that it calls, generates machine code,
links the result into each caller, and repeats this there, so the work grows with the depth of
calls. Here, a function that only kernels call is only typed and lowered (:class:`Part`). The
function that Python calls (:class:`Unit`) links all parts, hides them, and is optimised and
compiled to machine code once. The private names of Numba that this needs are all in this file,
:mod:`softib.jit.shortcuts` and :mod:`softib.jit.table_types`; :mod:`softib.jit.accelerators` tests
whether they still work.
"""

import functools
import hashlib
import pickle
from contextlib import contextmanager

import llvmlite.binding as ll
import numba
from numba.core import codegen, compiler, serialize, types
from numba.core.caching import _Cache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import lookup_environment
from numba.core.runtime import rtsys
from numba.core.types import unliteral

from softib.errors import NO_DESCRIPTOR
from softib.jit import interrupts, progress
from softib.jit.functions import UnitError
from softib.jit.identity import reached, reached_from, store_prefix, title
from softib.jit.shortcuts import Flags, taken, unwrapped
from softib.jit.specialise import clone, declared
from softib.jit.store import STORE

__all__ = ["entry"]

INNER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of functions that only kernels call: they need no wrappers."""

_parts = {}
_shared = {}

interrupts.wait_at_exit(global_compiler_lock)


def entry(k, keep=True):
    """Return the dispatcher that Python calls, with machine code from the store, or from a unit
    compiled now."""
    if not k.shared:
        return unit_of(k, keep)
    if id(k) not in _shared:
        _shared[id(k)] = made = unit_of(k, keep)
        made.get_call_template = functools.partial(call_template, made)
    return _shared[id(k)]


def unit_of(k, keep):
    """Return a dispatcher of units of ``k``."""
    options = {"nogil": True, **{n: v for n, v in k.options.items() if n not in INNER}, "no_cfunc_wrapper": True}
    function = clone(k.python)
    function.kernel = k
    dispatcher = numba.njit(pipeline_class=UnitCompiler, **options)(function)
    if keep:
        dispatcher._cache = UnitCache(k, function)
    else:
        function.__globals__.update(callees(k))
    dispatcher.compile = functools.partial(one_at_a_time, dispatcher, title(k))
    return dispatcher


def one_at_a_time(dispatcher, name, signature):
    """Look for a unit in the store; if it is missing, compile and store it. Only one process does
    this at a time, so that processes that start together compile a unit once. Numba's own lock is
    acquired first, to avoid a deadlock of two threads. Raises :class:`UnitError` if the unit could
    not be made, and OSError if no descriptor is left; the kernel has not run then."""
    with global_compiler_lock, STORE.alone(name), interrupts.held():
        try:
            return type(dispatcher).compile(dispatcher, signature)
        except UnitError:  # raised for a kernel that this one calls
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno in NO_DESCRIPTOR:
                raise  # it is no failure of units, and no other method would work
            raise UnitError from error


def part(k):
    """Return the dispatcher of ``k`` for calls from kernels."""
    if k.shared:
        return entry(k)
    if id(k) not in _parts:
        function = clone(k.python)
        function.__globals__.update(callees(k))
        made = numba.njit(pipeline_class=PartCompiler, **{"nogil": True, **k.options, **INNER})(function)
        made.get_call_template = functools.partial(call_template, made)
        _parts[id(k)] = made
    return _parts[id(k)]


def call_template(dispatcher, args, kws):
    """Do the same as Numba's method, but with one function for all constants and all widths of
    signed integers. Numba would type and lower another function for each literal argument, and for
    int32 in addition to int64, although it computes with both as int64."""
    return type(dispatcher).get_call_template(
        dispatcher, [widened(a) for a in args], {name: widened(a) for name, a in kws.items()}
    )


def widened(kind):
    """Return the type that a kernel's parameter gets if another kernel passes it an argument of type ``kind``."""
    kind = unliteral(kind)
    return types.int64 if isinstance(kind, types.Integer) and kind.signed else kind


def callees(k):
    """Return replacements for the globals of ``k``: dispatchers for kernels, declarations for C
    functions."""
    return {name: part(callee) for name, callee in reached_from(k).items()} | declared(k)


class Part(codegen.JITCodeLibrary):
    """LLVM code of one function, which is linked into units. It is compiled to machine code only if
    an address in it is requested (this happens for helpers of Numba that other code uses)."""

    def __init__(self, generator, name):
        super().__init__(generator, name)
        self._made, self._environments = False, {}

    def finalize(self):
        self._raise_if_finalized()
        self._finalized = True

    def _optimize_functions(self, module):
        module.data_layout = self._codegen._data_layout  # the unit optimises this code later

    def below(self, libraries):
        """Add this library and all that it needs to ``libraries``."""
        if self not in libraries:
            libraries[self] = None
            for library in self._linking_libraries:
                self._reload_init.update(library._reload_init)
                if isinstance(library, Part) and not library._made:
                    library.below(libraries)
                else:
                    libraries[library] = None
        return libraries

    def _make(self):
        if not self._made:
            self._made = True
            for library in list(self.below({}))[1:]:
                self._final_module.link_in(_linkable(library), preserve=True)
            self._optimize_final_module()
            self._final_module.verify()
            self._finalize_final_module()
            for name, env in self._environments.items():
                self._codegen.set_env(name, env)

    def _get_module_for_linking(self):
        """Return the whole module of libraries that are not units."""
        self._make()
        return super()._get_module_for_linking()

    def get_pointer_to_function(self, name):
        if not self._made:
            if not any(f.name == name and not f.is_declaration for f in self._final_module.functions):
                return 0
            self._make()
        return super().get_pointer_to_function(name)

    @property
    def codegen(self):
        return self._codegen if self._made else _NoEnvironment(self._codegen, self._environments)


class _NoEnvironment:
    """Replaces the code generator for a library without machine code, in which environments have no
    address yet."""

    def __init__(self, real, kept):
        self._real, self._kept = real, kept

    def __getattr__(self, name):
        return getattr(self._real, name)

    def set_env(self, name, env):
        """Keep the environment until there is machine code."""
        self._kept[name] = env


class Unit(codegen.JITCodeLibrary):
    """Machine code of a kernel that is called by Python, or by units that do not contain it
    (``shared``). Such units call it by ``symbol``, which is the same in every process, unlike
    Numba's name of the ``function``. ``needs`` are the shared kernels that it calls: for each, the
    title, the types of its arguments, and the symbol by which this machine code calls it.
    """

    symbol, function = "", ""
    _optimize_functions = Part._optimize_functions

    def __init__(self, generator, name):
        super().__init__(generator, name)
        self.needs = []

    def share(self, k, symbol, result):
        """Make the function of ``result`` available to other units as ``symbol``."""
        self.kernel, self.symbol, self.function, self.signature = (
            k,
            symbol,
            result.fndesc.llvm_func_name,
            result.signature,
        )
        ll.add_symbol(symbol, self.get_pointer_to_function(self.function))

    def finalize(self):
        self._raise_if_finalized()
        defined = {f.name for f in self._final_module.functions if not f.is_declaration}
        libraries = {}
        for library in self._linking_libraries:
            if isinstance(library, Part) and not library._made:
                library.below(libraries)
            else:
                libraries[library] = None
        shared = [library for library in libraries if isinstance(library, Unit)]
        for library in libraries:
            self._reload_init.update(library._reload_init)
            if library not in shared:
                self._final_module.link_in(_linkable(library), preserve=True)
        for library in shared:
            self._final_module.get_function(library.function).name = library.symbol
            self.needs.append((title(library.kernel), library.signature.args, library.symbol))
        for function in self._final_module.functions:
            if not function.is_declaration and function.name not in defined:
                function.linkage = "internal"
        self._optimize_final_module()
        self._final_module.verify()
        self._finalize_final_module()
        for variable in self._final_module.global_variables:
            env = lookup_environment(variable.name) if variable.name.startswith("_ZN08NumbaEnv") else None
            if env is not None:
                self._codegen.set_env(variable.name, env)


def _linkable(library):
    """Return the LLVM module to link: for a part, only its own code; for any other library, also
    the code that it calls."""
    if not isinstance(library, Part) or library._made:
        return library._get_module_for_linking()
    return library._final_module


@contextmanager
def parts_only(generator):
    """Context in which Numba makes new libraries as parts, without wrappers for Python or C, and
    with the shortcuts of :mod:`softib.jit.shortcuts`. The caller must hold Numba's compiler
    lock."""
    with taken((generator, "_library_class", Part), *unwrapped(Part)):
        yield


class UnitCompiler(compiler.Compiler):
    """Numba's compiler for functions that Python calls."""

    def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
        if library is None:
            library = Unit(targetctx.codegen(), "softib.unit")
            library.enable_object_caching()
        super().__init__(typingctx, targetctx, library, args, return_type, Flags(flags), locals)

    def compile_extra(self, func):
        names = {title(k) for k in reached(func.kernel, lambda k: not k.shared)} - {title(func.kernel)}
        with parts_only(self.state.targetctx.codegen()), progress.compiling(title(func.kernel), names):
            return super().compile_extra(func)


class PartCompiler(compiler.Compiler):
    """Numba's compiler for functions that kernels call."""

    def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
        super().__init__(typingctx, targetctx, library, args, return_type, Flags(flags), locals)

    def compile_extra(self, func):
        interrupts.check()
        result = super().compile_extra(func)
        progress.step(f"{func.__module__}.{func.__qualname__}")
        return result


class UnitCache(_Cache):
    """Implements Numba's cache interface for one kernel, on :mod:`softib.jit.store`."""

    def __init__(self, k, function):
        self.kernel, self.function, self.prefix = k, function, store_prefix(k)

    def _name(self, sig, generator):
        return self.prefix + hashlib_of(str(sig), repr(generator.magic_tuple()))[:32]

    def load_overload(self, sig, target_context):
        """Load from the store; if it has none, prepare compilation."""
        rtsys.initialize(target_context)  # stored code needs only this; Numba's compiler initialises the rest itself
        name = self._name(sig, target_context.codegen())
        data = STORE.read(name)
        if data is not None:
            kept, needs, payload = pickle.loads(data)
            if kept == sig and self._linkable(needs):
                return self._shared(name, _rebuilt(target_context, payload))
        self.function.__globals__.update(callees(self.kernel))
        return None

    def _linkable(self, needs):
        """Compile the shared kernels that stored machine code calls. Return False if this process
        gives one of them another symbol, because the value of a constant has changed. The stored
        code would then call an address that does not exist."""
        below = {title(k): k for k in reached(self.kernel) if k.shared} if needs else {}
        for called, args, symbol in needs:
            dispatcher = entry(below[called])
            dispatcher.compile(args)
            if dispatcher.overloads[args].library.symbol != symbol:
                return False
        return True

    def _shared(self, name, result):
        if self.kernel.shared:
            result.library.share(self.kernel, f"softib.{name}", result)
        return result

    def save_overload(self, sig, data):
        """Save to the store."""
        self._shared(self._name(sig, data.library.codegen), data)
        if STORE.given_up or data.library.has_dynamic_globals:
            return
        name, kind, (code, _) = data.library.serialize_using_object_code()
        payload = list(data._replace(type_annotation="")._reduce())
        payload[0] = name, kind, (code, _names_only(data.library))
        STORE.write(self._name(sig, data.library.codegen), serialize.dumps((sig, data.library.needs, tuple(payload))))

    cache_path = None

    def enable(self):
        """Do nothing: the cache is always enabled."""

    def disable(self):
        """Do nothing: the cache cannot be disabled."""

    def flush(self):
        """Do nothing: nothing is buffered."""


def _rebuilt(target_context, payload):
    """Return Numba's compile result from the stored data; its library is a :class:`Unit`, even
    during the compilation of a unit that calls it."""
    generator = target_context.codegen()
    before, generator._library_class = generator._library_class, Unit
    try:
        return compiler.CompileResult._rebuild(target_context, *payload)
    finally:
        generator._library_class = before


def _names_only(library):
    """Return bitcode that only defines the same names. This is enough to look up addresses, because
    units are never linked."""
    lines = [f'define void @"{f.name}"() {{ ret void }}' for f in library.get_defined_functions()]
    return ll.parse_assembly("\n".join(lines)).as_bitcode()


def hashlib_of(*parts):
    """Return the hexadecimal SHA-256 of texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
