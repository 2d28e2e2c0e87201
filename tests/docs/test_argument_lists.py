"""No function takes more than ten arguments: a longer list is a table (:func:`softib.jit.table`) or a dataclass.

Click's commands in ``cli/`` are left out: their arguments are their options.
"""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "softib"
MOST = 10
ALLOWED = {
    # What these lists carry changes with the MAD router's own shape of a MAD and with the builder; no new ones come here.
    "agents/kernels/serve.py": 16,
    "live/umad/kernels.py": 21,
    "mad/kernels.py": 12,
    "fabric/builder.py": 15,
    "fabric/formats/records.py": 17,
}
"""Most arguments of a function in these files."""


def longest(source: str) -> tuple[int, str]:
    """Arguments and name of the function that takes most."""
    found = [(0, "")]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            a = node.args
            named = [*a.posonlyargs, *a.args, *a.kwonlyargs]
            count = len(named) + (a.vararg is not None) + (a.kwarg is not None)
            if named and named[0].arg in ("self", "cls"):
                count -= 1
            found.append((count, getattr(node, "name", "lambda")))
    return max(found)


def test_no_function_takes_more_than_ten_arguments() -> None:
    too_long = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        count, function = longest(path.read_text("utf-8"))
        if count > ALLOWED.get(name, MOST) and not name.startswith("cli/"):
            too_long[f"{name}: {function}"] = count
    assert not too_long, "give these a table or a dataclass"


def test_what_is_allowed_is_still_needed() -> None:
    """A file whose lists became short leaves the list of exceptions."""
    for name in ALLOWED:
        path = PACKAGE / name
        assert path.exists(), f"{name} is no more; take it out of ALLOWED"


def test_every_kind_of_argument_counts() -> None:
    assert longest("def f(a, /, b, *c, d, **e): pass") == (5, "f")
    assert longest("class A:\n  def g(self, a): return lambda x, y, z: 0") == (3, "lambda")
