"""``import softib``: what it offers, that it costs nothing to import, and that its examples are true."""

from __future__ import annotations

import doctest
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import softib
from softib.errors import SoftibError

MODULES = ("softib", *(f"softib.api.{p.stem}" for p in (Path(softib.__file__).parent / "api").glob("[a-z]*.py")))


@pytest.mark.parametrize("name", softib.__all__)
def test_every_name_is_there_and_says_what_it_is(name):
    thing = getattr(softib, name)
    assert name == "__version__" or inspect.getdoc(thing)


def test_importing_loads_no_numpy():
    code = "import sys, softib; print([m for m in ('numpy', 'numba', 'polars', 'click', 'rich') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_no_package_hides_a_function():
    """Importing ``softib.X`` sets the attribute ``X`` of softib: no function may have the name of a package."""
    folder = Path(softib.__file__).parent
    packages = {p.stem for p in folder.iterdir() if p.is_dir() or p.suffix == ".py"}
    assert not packages & set(softib.__all__)


def test_a_wrong_name_suggests_the_near_one():
    with pytest.raises(AttributeError, match="did you mean generate"):
        softib.generat  # noqa: B018  # codespell:ignore generat
    assert set(softib.__all__) <= set(dir(softib))


def test_every_error_of_the_tree_is_public_or_of_a_public_kind():
    """Kinds that one module raises and handles (an HTTP status, a refused command) may stay inside it."""
    known = [SoftibError]
    for error in known:
        known += error.__subclasses__()
    public = {getattr(softib, name) for name in softib.__all__ if isinstance(getattr(softib, name), type)}
    assert not [
        e for e in known if not {e, *e.__mro__[: e.__mro__.index(SoftibError)]} & public and e is not SoftibError
    ]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_are_true(module):
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_public_functions_are_typed():
    for name in softib.__all__:
        thing = getattr(softib, name)
        if inspect.isfunction(thing):
            hints = inspect.signature(thing)
            assert hints.return_annotation is not inspect.Signature.empty, name
            assert all(p.annotation is not p.empty for p in hints.parameters.values()), name
    assert (Path(softib.__file__).parent / "py.typed").is_file()
