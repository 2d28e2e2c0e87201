"""Tables and units are accelerators: whatever of Numba's private names is missing or changed, results stay the same."""

import builtins
import importlib
import os
import sys

import numpy as np
import pytest

from softib.errors import InputError
from softib.jit import Kernel, accelerators, probe_kernels
from softib.jit.store import Store

slow = pytest.mark.slow

IMPORTED = [
    ("units", "codegen"),
    pytest.param("units", "serialize", marks=slow),
    pytest.param("units", "_Cache", marks=slow),
    pytest.param("units", "global_compiler_lock", marks=slow),
    pytest.param("units", "lookup_environment", marks=slow),
    pytest.param("shortcuts", "ConfigStack", marks=slow),
    pytest.param("units", "unliteral", marks=slow),
    ("shortcuts", "BaseFunction"),
    pytest.param("shortcuts", "cpu", marks=slow),
    pytest.param("shortcuts", "Inst", marks=slow),
    pytest.param("units", "rtsys", marks=slow),
    pytest.param("table_types", "impl_ret_borrowed", marks=slow),
    pytest.param("table_types", "lower_getattr_generic", marks=slow),
    pytest.param("table_types", "AttributeTemplate", marks=slow),
    ("table_types", "populate_array"),
]
"""(module of ``softib.jit``, name that it takes from Numba)."""

INHERITED = [
    pytest.param("Part", "_raise_if_finalized", marks=slow),
    ("Part", "_linking_libraries"),
    pytest.param("Part", "_final_module", marks=slow),
    pytest.param("Unit", "_reload_init", marks=slow),
    pytest.param("Unit", "_optimize_final_module", marks=slow),
    ("Unit", "_finalize_final_module"),
    ("Flags", "_values"),
]
"""(class in :mod:`softib.jit.units`, attribute of its base in Numba)."""


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """No verdict yet, in an empty cache; the accelerators' modules are imported anew."""
    monkeypatch.setenv("SOFTIB_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("SOFTIB_JIT", raising=False)
    monkeypatch.setattr(accelerators, "_chosen", [])
    store = Store()
    for module in ("accelerators", "units", "plain"):
        importlib.import_module(f"softib.jit.{module}")
        monkeypatch.setattr(f"softib.jit.{module}.STORE", store)
    monkeypatch.setattr("softib.jit.plain._called", {})
    monkeypatch.setattr(probe_kernels.Probe, "_types", {})
    for name in ("softib.jit.units", "softib.jit.shortcuts", "softib.jit.table_types"):
        importlib.import_module(name)
        monkeypatch.delitem(sys.modules, name)


def hide(monkeypatch, module, name):
    """As if Numba had no ``name``, for ``module`` of softib alone."""
    real = builtins.__import__

    def importing(wanted, globals=None, locals=None, fromlist=(), level=0):
        if (globals or {}).get("__name__") == f"softib.jit.{module}" and name in (fromlist or ()):
            raise ImportError(f"cannot import name {name!r} from {wanted!r}")
        return real(wanted, globals, locals, fromlist, level)

    monkeypatch.setattr(builtins, "__import__", importing)


def answer():
    """The trial kernel's result on its table, by the kernel as users call it, and the expected one."""
    table, expected = probe_kernels.example()
    return Kernel(probe_kernels.total.python, {})(table, 3), expected


def test_both_are_in_use_here_and_nothing_is_said(fresh, capsys):
    result, expected = answer()
    assert result == expected
    assert str(accelerators.accelerators()) == "both"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("module", "name"), IMPORTED)
def test_without_a_name_of_numba_results_stay(fresh, monkeypatch, capsys, module, name):
    hide(monkeypatch, module, name)
    result, expected = answer()
    assert result == expected
    found = accelerators.accelerators()
    assert found.name == ("units" if module == "table_types" else "tables") and name in found.reason
    output = capsys.readouterr().err
    assert output.count("\n") == 1 and "same results" in output and name in output


@pytest.mark.parametrize(("owner", "name"), INHERITED)
def test_without_an_attribute_of_a_class_of_numba_results_stay(fresh, monkeypatch, capsys, owner, name):
    def missing(self):
        raise AttributeError(f"no {name}")

    units = importlib.import_module("softib.jit.units")
    monkeypatch.setattr(units, "STORE", accelerators.STORE)
    monkeypatch.setattr(getattr(units, owner), name, property(missing, lambda self, value: None), raising=False)
    result, expected = answer()
    assert result == expected
    assert accelerators.accelerators().name == "tables"
    assert "same results" in capsys.readouterr().err


def test_an_accelerator_that_computes_something_else_is_not_used(fresh, monkeypatch, capsys):
    """A table whose arrays were looked up at other offsets would compile, and be wrong."""
    types = importlib.import_module("softib.jit.table_types")
    right = types.TableType.__init__
    monkeypatch.setattr(
        types.TableType, "__init__", lambda self, name, columns: right(self, name, tuple(shifted(columns)))
    )

    def shifted(columns):
        first, second, third = columns
        return [(first[0], *second[1:]), (second[0], *first[1:]), third]

    result, expected = answer()
    assert result == expected
    assert accelerators.accelerators().name == "units"
    assert f"not {expected}" in capsys.readouterr().err


def test_the_verdict_is_kept_and_said_once(fresh, monkeypatch, capsys):
    hide(monkeypatch, "units", "codegen")
    first = accelerators.accelerators()
    assert capsys.readouterr().err
    monkeypatch.setattr(accelerators, "_chosen", [])
    monkeypatch.setattr(accelerators, "_try", lambda use: pytest.fail("tried again"))
    assert accelerators.accelerators() == first and first.name == "tables"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("how", ["os.kill(os.getpid(), 9)", "os._exit(3)"])
def test_a_trial_that_crashes_crashes_nothing_else(fresh, monkeypatch, how):
    monkeypatch.setattr(accelerators, "_try", lambda use: exec(how, {"os": os}))
    assert accelerators.accelerators() == accelerators.Accelerators(False, False, "the trial crashed")


@pytest.mark.parametrize("error", [MemoryError(), OSError(24, "Too many open files")])
def test_a_trial_for_which_the_machine_had_no_room_is_repeated_in_the_next_process(fresh, monkeypatch, capsys, error):
    with monkeypatch.context() as short:
        short.setattr(accelerators, "_try", lambda use: (_ for _ in ()).throw(error))
        assert accelerators.accelerators().name == "plain"
    assert f"same results ({type(error).__name__}" in capsys.readouterr().err
    monkeypatch.setattr(accelerators, "_chosen", [])
    assert accelerators.accelerators().name == "both"


def test_a_unit_that_fails_after_the_trial_is_compiled_plainly_and_runs_once(fresh, monkeypatch, capsys):
    monkeypatch.setenv("SOFTIB_JIT", "both")
    units = importlib.import_module("softib.jit.units")
    monkeypatch.setattr(units.Unit, "finalize", lambda self: (_ for _ in ()).throw(RuntimeError("a changed LLVM")))
    table, expected = probe_kernels.example()
    rows = table.rows.copy()
    assert Kernel(probe_kernels.total.python, {})(table, 3) == expected
    assert np.array_equal(table.rows, rows + 1)
    found = accelerators.accelerators()
    assert found.name == "tables" and "a changed LLVM" in found.reason
    assert "a changed LLVM" in capsys.readouterr().err


def test_a_kernel_that_numba_cannot_type_is_its_own_fault(fresh):
    """Numba's message comes, and later kernels lose no accelerator."""
    from numba.core.errors import TypingError

    with pytest.raises(TypingError, match="No implementation"):
        Kernel(probe_kernels.weight.python, {})("a text", b"bytes")
    assert accelerators.accelerators().name == "both"


@pytest.mark.parametrize("setting", ["plain", "tables", "units", "both"])
def test_a_setting_decides(fresh, monkeypatch, capsys, setting):
    monkeypatch.setenv("SOFTIB_JIT", setting)
    monkeypatch.setattr(accelerators, "_try", lambda use: pytest.fail("a trial"))
    result, expected = answer()
    assert result == expected and str(accelerators.accelerators()) == setting
    assert capsys.readouterr().err == ""


def test_a_setting_of_no_meaning_is_refused(fresh, monkeypatch):
    monkeypatch.setenv("SOFTIB_JIT", "fast")
    with pytest.raises(InputError, match="plain, tables, units, both"):
        accelerators.accelerators()
