"""Small work runs in Python with the bytes of machine code, only while it is small, and makes a first report short."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import softib
from softib.jit import ALWAYS_COMPILE, Kernel, interpreted, small_work_in_python
from softib.jit.functions import is_kernel_file
from softib.jit.identity import title
from softib.jit.store import Store
from softib.jit.table import Table
from softib.routing.bfs_kernels import rank_from

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "softib"
EXAMPLE = ROOT / "examples" / "superpod-127-faults.yaml"
FABRICS = {
    "tree": "topology: {kind: fat-tree, levels: 2, radix: 8, hosts: 16}\n",
    "torus": "topology: {kind: torus, dims: [4, 3], hosts_per_switch: 2, parallel: 2}\n",
    "rails": "topology: {kind: rail-optimized, nodes: 24, rails: 4, radix: 8}\n"
    'faults: [{kind: remove-cable, cable: "leaf-3[5]"}]\n',
    "more hosts than links": "topology: {kind: mesh, dims: [3, 2], hosts_per_switch: 9}\n"
    'faults: [{kind: remove-cable, cable: "switch-0-0[1]"}]\n',
}


def copied(value, made):
    """``value`` with other memory in its arrays; arrays that shared memory share it again."""
    if isinstance(value, Table):
        return type(value)(**{name: copied(getattr(value, name), made) for name in value._fields})
    if isinstance(value, tuple):
        return tuple(copied(item, made) for item in value)
    if not isinstance(value, np.ndarray):
        return value
    if not value.flags.c_contiguous:
        return value.copy()
    key = value.ctypes.data, value.nbytes
    if key not in made:
        made[key] = value.copy()
    return made[key].view(value.dtype).reshape(value.shape)


def octets(value):
    """Everything in ``value``, as octets."""
    if isinstance(value, Table):
        return [octets(getattr(value, name)) for name in value._fields]
    if isinstance(value, tuple):
        return [octets(item) for item in value]
    return value.tobytes() if isinstance(value, np.ndarray) else value


def kernels_with_estimate():
    """Names of all kernels of softib that may run in Python."""
    files = [p for p in SOURCES.rglob("*.py") if is_kernel_file(p)]
    modules = [import_module(".".join(p.relative_to(SOURCES.parent).with_suffix("").parts)) for p in files]
    return {k.python.__name__ for m in modules for k in vars(m).values() if isinstance(k, Kernel) and k.steps}


@pytest.fixture
def both(monkeypatch):
    """Kernels that may run in Python run both ways; names of those that did."""
    seen = set()
    machine_code = Kernel.__call__
    monkeypatch.setenv(ALWAYS_COMPILE, "always")

    def call(self, *args):
        if self.steps is None:
            return machine_code(self, *args)
        again = copied(args, {})
        expected = machine_code(self, *args)
        found = interpreted.run(self, again)
        assert octets(found) == octets(expected), title(self)
        assert octets(again) == octets(args), title(self)
        seen.add(self.python.__name__)
        return expected

    monkeypatch.setattr(Kernel, "__call__", call)
    return seen


def test_python_and_machine_code_leave_the_same_bytes(tmp_path, both):
    for name, text in FABRICS.items():
        (tmp_path / name).write_text(text)
        softib.report(str(tmp_path / name))
    assert both == kernels_with_estimate()


@pytest.mark.slow
def test_python_and_machine_code_leave_the_same_bytes_on_the_example(both):
    softib.report(str(EXAMPLE))


@pytest.fixture
def rank(monkeypatch, tmp_path):
    """Makes a kernel whose estimate is N for the argument N; the cache is empty."""
    monkeypatch.setenv("SOFTIB_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(interpreted, "STORE", Store())
    return lambda: Kernel(rank_from.python, {}, steps=lambda n: n)


def test_work_up_to_a_share_of_compiling_is_small_in_each_process(rank):
    k = rank()
    assert not interpreted.is_small(k, (1,))  # outside of a command that asks for it
    with small_work_in_python():
        assert interpreted.is_small(k, (0.6 * interpreted.bound(k),))
        assert interpreted.is_small(k, (0.3 * interpreted.bound(k),))
        assert not interpreted.is_small(k, (0.3 * interpreted.bound(k),))
        assert not interpreted.is_small(rank(), (2 * interpreted.bound(k),))
        assert not interpreted.is_small(Kernel(rank_from.python, {}), ())  # no estimate
    assert not list(Path(os.environ["SOFTIB_CACHE_DIR"]).rglob("*"))


def test_each_call_of_repeated_work_is_judged_alone(rank):
    """A daemon makes the same small call for days, so a sum would make it pause to compile; a longer call compiles at once."""
    k = rank()
    most = interpreted.bound(k) * interpreted.CALL_SHARE / interpreted.SHARE
    with small_work_in_python(repeated=True):
        assert all(interpreted.is_small(k, (0.9 * most,)) for _ in range(1000))
        assert not interpreted.is_small(k, (1.1 * most,))
        with small_work_in_python():
            assert interpreted.is_small(k, (1.1 * most,)), "a command inside counts its own calls"


def test_machine_code_that_is_there_is_used(rank):
    arguments = np.array([0, 1, 2]), np.array([1, 0], np.int32), np.array([0]), np.zeros(2, np.int32)
    Kernel(rank_from.python, {})(*arguments)
    with small_work_in_python():
        assert not interpreted.is_small(rank(), (1,))
    with small_work_in_python(repeated=True):
        assert not interpreted.is_small(rank(), (1,))


def test_softib_compile_compiles_small_work(rank, monkeypatch):
    with small_work_in_python():
        assert interpreted.is_small(rank(), (1,))
        monkeypatch.setenv(ALWAYS_COMPILE, "always")
        assert not interpreted.is_small(rank(), (1,))


@pytest.mark.slow
def test_a_first_report_compiles_few_kernels_and_none_of_the_agents(tmp_path):
    """Of the README's example: 8 units, 40 and three to four times the processor time where all are compiled."""
    env = {**os.environ, "SOFTIB_CACHE_DIR": str(tmp_path)}
    env.pop(ALWAYS_COMPILE, None)
    subprocess.run(
        [sys.executable, "-m", "softib", "report", str(EXAMPLE)], env=env, check=True, capture_output=True, timeout=300
    )
    units = {p.name for p in (tmp_path / "kernels").glob("softib.*.code")}
    assert len(units) <= 9, sorted(units)
    assert not [name for name in units if name.startswith("softib.agents.")]
