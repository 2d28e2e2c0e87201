"""No function takes more than ten arguments: a longer list is a table (:func:`softib.jit.table`) or a dataclass.

Click's commands in ``cli/`` are left out: their arguments are their options.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[3] / "src" / "softib"
MOST = 10
C_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
C_FUNCTION = re.compile(r"^[A-Za-z_][\w \*]*?\b(\w+)\(((?:[^;{}()]|\([^()]*\))*)\)\s*\{", re.MULTILINE)


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
        if count > MOST and not name.startswith("cli/"):
            too_long[f"{name}: {function}"] = count
    assert not too_long, "give these a table or a dataclass"


def c_longest(source: str) -> tuple[int, str]:
    """The same of a C file."""
    found = [(0, "")]
    for name, listed in C_FUNCTION.findall(C_COMMENT.sub("", source)):
        found.append((len(re.sub(r"\([^()]*\)", "", listed).split(",")), name))
    return max(found)


def test_no_c_function_takes_more_than_ten_arguments() -> None:
    lists = {p.name: c_longest(p.read_text("utf-8")) for p in sorted((PACKAGE / "preload").rglob("*.[ch]"))}
    assert len([n for n, _ in lists.values() if n]) > 100, "else nothing was read"
    assert not {name: found for name, found in lists.items() if found[0] > MOST}, "give these a structure"


def test_every_kind_of_argument_counts() -> None:
    assert longest("def f(a, /, b, *c, d, **e): pass") == (5, "f")
    assert c_longest("int f(int a, /* b, */ int (*g)(int, int))\n{\n}\n") == (2, "f")
    assert longest("class A:\n  def g(self, a): return lambda x, y, z: 0") == (3, "lambda")
