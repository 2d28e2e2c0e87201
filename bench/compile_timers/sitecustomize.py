"""On the path of a measured process: where the time of compiling goes, written to ``$COMPILE_TIMERS`` when it ends.

A line for each process: CPU seconds of the process, seconds in Numba's compiler, of them in LLVM (optimising, machine
code), and how many functions were compiled.
"""

import atexit
import functools
import importlib.util
import os
import sys
import time

SPENT = {"compile": 0.0, "optimise": 0.0, "machine code": 0.0}
COUNT = {"functions": 0}
DEPTH = dict.fromkeys(SPENT, 0)


def timed(kind, function):
    """``function`` with its outermost calls timed as ``kind``."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        if kind == "compile":
            COUNT["functions"] += 1
        DEPTH[kind] += 1
        begin = time.thread_time()
        try:
            return function(*args, **kwargs)
        finally:
            DEPTH[kind] -= 1
            if not DEPTH[kind]:
                SPENT[kind] += time.thread_time() - begin

    return wrapper


class Watch:
    """Finder that patches Numba's modules as they are loaded."""

    names = ("numba.core.codegen", "numba.core.compiler")

    def find_spec(self, name, path=None, target=None):
        if name not in self.names:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            if name.endswith("compiler"):
                module.compile_extra = timed("compile", module.compile_extra)
                return
            library = module.CPUCodeLibrary
            library._optimize_functions = timed("optimise", library._optimize_functions)
            library._optimize_final_module = timed("optimise", library._optimize_final_module)
            module.JitEngine.finalize_object = timed("machine code", module.JitEngine.finalize_object)

        spec.loader.exec_module = exec_module
        return spec


@atexit.register
def tell():
    """Write the line."""
    if "numba" in sys.modules and os.environ.get("COMPILE_TIMERS"):
        llvm = SPENT["optimise"] + SPENT["machine code"]
        with open(os.environ["COMPILE_TIMERS"], "a") as f:
            f.write(
                f"{os.getpid()} cpu {time.process_time():.2f} compile {SPENT['compile']:.2f} typing "
                f"{SPENT['compile'] - llvm:.2f} optimise {SPENT['optimise']:.2f} machine {SPENT['machine code']:.2f} "
                f"functions {COUNT['functions']}\n"
            )


if os.environ.get("COMPILE_TIMERS"):
    sys.meta_path.insert(0, Watch())
