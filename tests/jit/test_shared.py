"""Shared kernels: machine code of their own, which the units that call them neither contain nor compile again."""

import pytest

from .lab import cached, edit, run, write

NAMES = ["pkg.kernels.alone", "pkg.kernels.total", "pkg.low_kernels.scale"]


@pytest.fixture
def package(tmp_path):
    """The package of :mod:`tests.jit.lab`, in which both units call ``scale``, and ``scale`` is shared."""
    write(tmp_path)
    edit(tmp_path, "kernels.py", "+ Direction.OUT", "+ 3")  # an enum counts with its whole package
    edit(tmp_path, "low_kernels.py", "@kernel\ndef scale", "@kernel(shared=True)\ndef scale")
    edit(tmp_path, "kernels.py", "return n + 1", "return scale(n)")
    return tmp_path


@pytest.fixture
def full(package):
    """The same with a full cache."""
    assert run(package) == ["81", "2", *NAMES]
    return package


def of_scale(root):
    """The one file of the shared kernel's machine code."""
    (found,) = [path for path in cached(root) if path.name.startswith("pkg.low_kernels.scale")]
    return found


def test_it_is_compiled_once_and_loaded_before_those_that_call_it(full):
    assert len(cached(full)) == 3
    assert run(full) == ["81", "2"]


def test_an_edit_of_it_is_seen_by_those_that_call_it(full):
    edit(full, "low_kernels.py", "x * 2", "x * 3")
    assert run(full) == ["87", "3", *NAMES]


def test_an_edit_of_one_that_calls_it_leaves_it_alone(full):
    edit(full, "kernels.py", "return scale(n)", "return scale(n) + 1")
    assert run(full) == ["81", "3", "pkg.kernels.alone"]


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(path.read_bytes()[:-9])])
def test_where_its_file_is_gone_or_damaged_it_alone_is_compiled(full, damage):
    damage(of_scale(full))
    assert run(full) == ["81", "2", "pkg.low_kernels.scale"]
    assert run(full) == ["81", "2"]


def test_each_kind_of_arguments_has_its_own(package):
    edit(package, "kernels.py", "return scale(n)", "return int(scale(n + 0.5) + scale(n))")
    assert run(package) == ["81", "5", *NAMES]
    assert len(cached(package)) == 4
    assert run(package) == ["81", "5"]


def test_python_calls_the_same_machine_code_and_what_it_raises_arrives(package):
    edit(
        package, "low_kernels.py", "return x * 2", "if x > 50:\n        raise ValueError('too much')\n    return x * 2"
    )
    before = """
        import atexit

        def more():
            from pkg.kernels import alone
            from pkg.low_kernels import scale

            print(scale(21))
            try:
                alone(51)
            except ValueError as error:
                print(error)

        atexit.register(more)
        """
    assert run(package, before=before)[-3:] == ["42", "too", "much"]
    assert len(cached(package)) == 3
    assert run(package, before=before) == ["81", "2", "42", "too", "much"]  # loaded


def test_compiled_the_plain_way_results_stay(package):
    assert run(package, SOFTIB_JIT="plain")[:2] == ["81", "2"]


AFTER = """
    from pkg import kernels, low_kernels
    print(low_kernels.scale(5))
    low_kernels.FACTOR = 3
    print(kernels.alone(1))
    """
"""A program in which a frozen value changes between the first calls of two kernels."""


@pytest.fixture
def with_factor(package):
    """The same, with a constant in place of the number by which ``scale`` multiplies."""
    edit(package, "low_kernels.py", "from softib.jit import kernel", "from softib.jit import kernel\n\nFACTOR = 2")
    edit(package, "low_kernels.py", "x * 2", "x * FACTOR")
    return package


def test_stored_code_that_calls_it_by_another_symbol_is_compiled_again(with_factor):
    """A value that changes between two first calls names the caller otherwise than the shared kernel: stored
    code of that caller calls a symbol that this process does not have."""
    changed = "from pkg import low_kernels\nlow_kernels.FACTOR = 3"
    assert run(with_factor, before=changed) == ["87", "3", *NAMES]
    assert run(with_factor, main=AFTER) == ["10", "2"], "its callee is compiled already"
    assert run(with_factor, before=changed)[:2] == ["87", "3"]


def test_a_profiler_changes_no_name(package):
    """Numba clears a flag in the code of a function that it calls while a profiler runs (up to Python 3.13)."""
    profiled = """
        import cProfile

        from pkg.low_kernels import scale
        from softib.jit import identity

        before = identity.identity(scale)
        cProfile.run("scale(5)")
        print(identity.identity(scale) == before)
        """
    assert run(package, main=profiled)[-1] == "True"
