"""A specialised kernel: other callees, other constants, the original as it was."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from softib.jit.identity import identity, reached, title
from softib.jit.specialise import specialised
from softib.sim.packet.kernels.engine import loop
from softib.sim.packet.kernels.ethernet import pfc
from softib.sim.packet.kernels.hca import acks, hca
from softib.sim.packet.kernels.link import credits

PACKAGE = """
    from softib.jit import kernel
    from softib.jit.specialise import specialised

    SIZE = 10

    @kernel
    def one(x):
        return x + SIZE

    @kernel
    def other(x):
        return 100 * x + SIZE

    @kernel
    def untouched(x):
        return x * 2

    @kernel
    def middle(x):
        return one(x) + untouched(x)

    @kernel
    def top(x):
        return middle(x) + 1
    """
PROGRAM = """
    from pkg.kernels import one, other, specialised, top

    changed = specialised(top, "other", {one: other}, {"SIZE": 20})
    print(top(3), changed(3), top(3))
    """


@pytest.mark.parametrize("mode", [{}, {"SOFTIB_JIT": "plain"}, {"NUMBA_DISABLE_JIT": "1"}])
def test_a_callee_and_a_constant_are_replaced_wherever_they_are(tmp_path, mode):
    """13 + 6 + 1 with the original; 320 + 6 + 1 with the other callee and constant; in each way of compiling, and again from the cache."""
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "kernels.py").write_text(textwrap.dedent(PACKAGE))
    environment = {
        "PYTHONPATH": f"{tmp_path}:{':'.join(sys.path)}",
        "SOFTIB_CACHE_DIR": str(tmp_path / "cache"),
        **mode,
    }
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(PROGRAM)], env=environment, capture_output=True, text=True
        )
        assert done.stdout.split() == ["20", "327", "20"], done.stderr


def test_what_calls_nothing_that_differs_is_shared_and_the_original_is_as_it_was():
    before = identity(loop.run)
    made = specialised(loop.run, "test", {credits.has_credit: pfc.not_paused})
    assert identity(loop.run) == before != identity(made)
    assert credits.has_credit in reached(loop.run) and credits.has_credit not in reached(made)
    assert credits.put_on_wire in reached(made), "shared"
    assert {title(k) for k in reached(made)} >= {"softib.sim.packet.kernels.link.output.look.test"}


def test_something_that_is_not_used_cannot_be_replaced():
    """Who renames a kernel or a constant hears of it."""
    with pytest.raises(ValueError, match="posted"):
        specialised(hca.activate, "test", {loop.posted: loop.posted})
    with pytest.raises(ValueError, match="NO_SUCH"):
        specialised(acks.control, "test", {}, {"NO_SUCH": 1})


def test_infiniband_compiles_nothing_of_ethernet():
    """The unit of a run over InfiniBand reaches no kernel of another network."""
    others = {"ethernet", "dcqcn", "ecn"}
    names = [title(k) for k in reached(loop.run)]
    assert len(names) > 100 and not [n for n in names if others & set(n.split("."))]
