"""Small work in Python gives what machine code gives, is given up when it has cost what compiling would, and makes a first report short."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import softib
from softib.agents.kernels.serve import serve
from softib.jit import Kernel, interpreted, small_work_in_python
from softib.jit.identity import title
from softib.jit.store import Store
from softib.jit.table import Table
from softib.routing.bfs_kernels import rank_from

ROOT = Path(__file__).parents[2]
FABRICS = {
    "tree": "topology: {kind: fat-tree, levels: 2, radix: 8, hosts: 16}\n",
    "torus": "topology: {kind: torus, dims: [4, 3], hosts_per_switch: 2, parallel: 2}\n",
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


@pytest.fixture
def both(monkeypatch):
    """Kernels that may run in Python run both ways; names of those that did."""
    seen = set()
    machine_code = Kernel.__call__

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


@pytest.mark.parametrize(
    "source",
    [
        *FABRICS,
        pytest.param("superpod-127-faults.yaml", marks=pytest.mark.slow),
    ],
)
def test_python_and_machine_code_leave_the_same_octets(source, tmp_path, both):
    path = ROOT / "examples" / source
    if source in FABRICS:
        path = tmp_path / "fabric.yaml"
        path.write_text(FABRICS[source])
    softib.report(str(path))
    assert {"serve", "all_hops", "legal_hops", "first_fit", "route_part", "least_loaded"} <= both


@pytest.fixture
def store(monkeypatch, tmp_path):
    """An empty cache, in which nothing was spent."""
    monkeypatch.setenv("SOFTIB_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(interpreted, "STORE", Store())
    monkeypatch.setattr(interpreted, "_spent", {})


def test_python_runs_until_compiling_would_have_cost_as_much_also_in_later_processes(store, monkeypatch):
    price = interpreted.price(rank_from)
    k = Kernel(rank_from.python, {}, steps=lambda n: 0.4 * price * n)
    assert not interpreted.affordable(k, (1,))  # nobody asked
    with small_work_in_python():
        assert interpreted.affordable(k, (1,))
        monkeypatch.setattr(interpreted, "_spent", {})  # another process
        assert interpreted.affordable(k, (1,))
        assert not interpreted.affordable(k, (1,))
        monkeypatch.setattr(interpreted, "_spent", {})
        assert not interpreted.affordable(k, (0,))  # there is machine code now
        assert not interpreted.affordable(Kernel(rank_from.python, {}), ())  # no estimate


def test_large_work_is_compiled_at_once(store):
    k = Kernel(rank_from.python, {}, steps=lambda n: n)
    with small_work_in_python():
        assert not interpreted.affordable(k, (interpreted.price(k) + 1,))
        assert not interpreted.affordable(k, (0,))


def test_answers_of_agents_to_noise_are_the_same_in_python(monkeypatch):
    from tests.agents.test_hostile import answers_digest

    expected = answers_digest()
    monkeypatch.setattr("softib.agents.plane.serve", lambda *args: interpreted.run(serve, args))
    assert answers_digest() == expected


@pytest.mark.slow
def test_a_first_report_compiles_few_kernels_and_none_of_the_agents(tmp_path):
    """46.6 s of CPU and 36 units before, 13.2 s now, in turn on a busy machine."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "softib", "report", "examples/superpod-127-faults.yaml"],
        env={**os.environ, "SOFTIB_CACHE_DIR": str(tmp_path)}, cwd=ROOT, check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    compiled = {p.name for p in (tmp_path / "kernels").glob("softib.*.code") if "-in-python-" not in p.name}
    assert len(compiled) <= 14, sorted(compiled)
    assert not [name for name in compiled if name.startswith("softib.agents.")]
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 20
