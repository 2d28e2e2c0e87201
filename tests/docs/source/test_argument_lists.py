"""No function takes more than ten arguments: a longer list is a table (:func:`softib.jit.table`) or a dataclass. No
call passes more than eight by position.

Click's commands in ``cli/`` are left out: their arguments are their options.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[3] / "src" / "softib"
MOST = 10
MOST_BY_POSITION = 8
COMPILED = re.compile(r"\b(kernel|inner|in_python)\b")
"""Decorators of compiled functions. They keep long lists: each call would pay for a NamedTuple or for keywords."""
BY_POSITION = {
    "Rows": "declares the columns of a packet table, any number, in order",
    "Gpu": "a table of data sheets, one GPU a line, whose columns the class declares just above",
    "pack": "struct.Struct: the format gives the order",
    "add_port": "appends one value to each column, for every record of a large file (Records.port_adder)",
}
"""Callables with long positional calls, and why."""
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


def compiled(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether Numba compiles ``function``."""
    return any(COMPILED.search(ast.unparse(d)) for d in function.decorator_list)


def called(call: ast.Call) -> str:
    """Name of the function that ``call`` calls."""
    return getattr(call.func, "id", getattr(call.func, "attr", "?"))


def by_position(source: str, kernels: frozenset[str] = frozenset()) -> list[tuple[str, int, int]]:
    """(name, line, count) of definitions that allow and of calls that pass more than eight arguments by position,
    outside compiled functions and calls of ``kernels``."""
    long = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if compiled(node):
                return
            named = [*node.args.posonlyargs, *node.args.args]
            count = len(named) - bool(named and named[0].arg in ("self", "cls"))
            if count > MOST_BY_POSITION:
                long.append((node.name, node.lineno, count))
        elif isinstance(node, ast.Call) and len(node.args) > MOST_BY_POSITION and called(node) not in kernels:
            long.append((called(node), node.lineno, len(node.args)))
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(source))
    return long


def test_no_call_passes_more_than_eight_arguments_by_position() -> None:
    sources = {p.relative_to(PACKAGE).as_posix(): p.read_text("utf-8") for p in sorted(PACKAGE.rglob("*.py"))}
    kernels = frozenset(
        node.name
        for source in sources.values()
        if COMPILED.search(source)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and compiled(node)
    )
    assert len(kernels) > 300, "else the decorators were not recognised"
    long = [
        (name, *hit)
        for name, source in sources.items()
        if not name.startswith("cli/")
        for hit in by_position(source, kernels)
    ]
    assert not [hit for hit in long if hit[1] not in BY_POSITION], "name the arguments"
    assert {hit[1] for hit in long} == set(BY_POSITION), "remove the names that are no longer needed"


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
    nine = ", ".join("abcdefghi")
    assert by_position(f"def f({nine}): pass") == [("f", 1, 9)] and not by_position(f"def f(a, *, {nine[3:]}): pass")
    assert by_position(f"x.y({nine})") == [("y", 1, 9)] and not by_position(f"y({nine})", frozenset({"y"}))
    assert not by_position(f"@kernel(_nrt=False)\ndef f({nine}): pass")
    assert c_longest("int f(int a, /* b, */ int (*g)(int, int))\n{\n}\n") == (2, "f")
    assert longest("class A:\n  def g(self, a): return lambda x, y, z: 0") == (3, "lambda")
