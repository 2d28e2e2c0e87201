"""The notebooks run from top to bottom, and every result shows itself."""

from __future__ import annotations

import ast
import json
import shutil
from contextlib import nullcontext

import pytest

from tests.docs.notebooks import NEEDS, NOTEBOOKS, cells
from tests.docs.well_known_ports import alone
from tests.scratch import scratch

pytest.importorskip("polars")
LONG = ("questions",)
"""Notebooks that run with the slow tests."""


def run_cell(text: str, names: dict) -> object:
    """Run a cell as a notebook does; the value of an expression in its last line."""
    tree = ast.parse(text)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None


@pytest.mark.parametrize(
    "notebook",
    [pytest.param(p, marks=pytest.mark.slow if p.stem in LONG else ()) for p in NOTEBOOKS],
    ids=lambda p: getattr(p, "stem", None),
)
@pytest.mark.timeout(300)
def test_a_notebook_runs(notebook, monkeypatch):
    if shutil.which(NEEDS.get(notebook.stem, "sh")) is None:
        pytest.skip(f"{NEEDS[notebook.stem]} is not installed")
    folder = scratch("sn-")
    folder.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.chdir(notebook.parent)
    names: dict = {}
    try:
        with alone() if notebook.stem in NEEDS else nullcontext():
            for text in cells(notebook):
                shown = run_cell(text, names)
                for form in ("_repr_html_", "_repr_svg_"):
                    if hasattr(shown, form):
                        assert "<" in getattr(shown, form)()
    finally:
        import softib
        from softib.live.instances import running

        for one in running():
            softib.RunningFabric(one.name).down()


def test_there_are_five_without_outputs():
    assert len(NOTEBOOKS) == 5
    for notebook in NOTEBOOKS:
        loaded = json.loads(notebook.read_text())
        assert all(not c.get("outputs") for c in loaded["cells"]), notebook
