"""Ctrl-C while kernels compile ends the program, at once and cleanly, wherever it comes."""

import signal
import subprocess
import sys
import textwrap

import pytest

from .lab import MAIN, environment, write

WITHIN = {
    "a callback of LLVM": ("numba.core.codegen", "CPUCodeLibrary", "_object_compiled_hook"),
    "a module handed over": ("llvmlite.binding.module", "ModuleRef", "link_in"),
}
PROGRAM = """
    import importlib, os, signal
    name, kind, function = {place}
    import numba
    holder = getattr(importlib.import_module(name), kind)
    real = getattr(holder, function)

    def interrupted(*args, **kwargs):
        result = real(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGINT)
        return result

    setattr(holder, function, interrupted)
    """


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The package of :mod:`tests.jit.lab`."""
    root = tmp_path_factory.mktemp("interrupted")
    write(root)
    return root


@pytest.mark.parametrize(
    ("place", "mode"),
    [("a callback of LLVM", "both"), ("a callback of LLVM", "plain"), ("a module handed over", "both")],
)
def test_an_interrupt_is_neither_lost_nor_a_crash(package, tmp_path, place, mode):
    """The exit code is that of a program that SIGINT ended, and nothing but ``KeyboardInterrupt`` is on stderr."""
    program = textwrap.dedent(PROGRAM.format(place=WITHIN[place])) + textwrap.dedent(MAIN).replace(
        'assert "numba" not in sys.modules', ""
    )
    env = {**environment(package), "SOFTIB_CACHE_DIR": str(tmp_path), "SOFTIB_JIT": mode}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert done.returncode == -signal.SIGINT, done.stderr
    assert done.stderr.rstrip().endswith("KeyboardInterrupt") and "ignored" not in done.stderr and not done.stdout


def test_an_interrupt_before_the_first_table_has_a_type_is_not_lost(package, tmp_path):
    """Numba's C code asks a table for its type and drops whatever rises there: what takes long is loaded before."""
    program = """
        import os, signal, sys

        class Interrupts:
            def find_spec(self, name, path=None, target=None):
                if name == "softib.jit.table_types":
                    sys.meta_path.remove(self)
                    os.kill(os.getpid(), signal.SIGINT)

        sys.meta_path.insert(0, Interrupts())
        """
    env = {**environment(package), "SOFTIB_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program) + textwrap.dedent(MAIN)],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert done.returncode == -signal.SIGINT and not done.stdout


def test_a_program_that_ends_waits_for_a_thread_that_compiles(package, tmp_path):
    """It ends between two kernels; the exit code is the program's."""
    program = """
        import threading, time
        import softib.jit.units as units
        from pkg.kernels import total
        from pkg.layout import tables

        begun = threading.Event()
        real = units.UnitCompiler.compile_extra
        units.UnitCompiler.compile_extra = lambda self, func: (begun.set(), real(self, func))[1]
        threading.Thread(target=lambda: total(tables(), 4), daemon=True).start()
        begun.wait()
        """
    env = {**environment(package), "SOFTIB_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
