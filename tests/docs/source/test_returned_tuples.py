"""A function that another package imports, and a public method of ``api``, names the parts of its result.

A tuple with a fixed number of unlike members is read by position; a NamedTuple or a dataclass says what each one is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).resolve().parents[3] / "src" / "softib"
REASONS: dict[str, str] = {}
"""``module function`` → why its tuple has no names."""


class Function(NamedTuple):
    """A public function or method of a public module."""

    module: str
    owner: str
    """The name that others import: its own, or that of its class."""
    name: str
    returns: ast.expr


def package_of(module: str) -> str:
    """``softib.sim`` of ``softib.sim.packet.engine``."""
    return ".".join(module.split(".")[:2])


def unlike(annotation: ast.expr) -> bool:
    """Whether ``annotation`` is a tuple of a fixed number of members of several types, or that or None."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    if isinstance(annotation, ast.BinOp):
        return unlike(annotation.left) or unlike(annotation.right)
    if not isinstance(annotation, ast.Subscript) or ast.unparse(annotation.value) != "tuple":
        return False
    members = [ast.unparse(e) for e in getattr(annotation.slice, "elts", [annotation.slice])]
    return "..." not in members and len(set(members)) > 1


def functions(module: str, tree: ast.Module) -> Iterator[Function]:
    """Public functions, and methods of public classes, whose result is annotated."""
    for node in tree.body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        for f in inside:
            if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef) and f.returns is not None:
                owner = node.name if isinstance(node, ast.ClassDef) else f.name
                if not owner.startswith("_") and not f.name.startswith("_"):
                    yield Function(module, owner, f.name, f.returns)


def bare_tuples(trees: dict[str, ast.Module]) -> set[str]:
    """``module function`` of those that return one to another package."""
    users: dict[tuple[str, str], set[str]] = {}
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in node.names:
                    users.setdefault((node.module, name.name), set()).add(package_of(module))
    return {
        f"{f.module} {f.name}"
        for module, tree in trees.items()
        for f in functions(module, tree)
        if unlike(f.returns)
        and (
            module.startswith("softib.api.")
            or (f.owner == f.name and users.get((module, f.name), set()) - {package_of(module)})
        )
    }


def test_results_that_cross_packages_have_named_parts() -> None:
    paths = sorted(PACKAGE.rglob("*.py"))
    trees = {
        ".".join(("softib", *p.relative_to(PACKAGE).with_suffix("").parts)): ast.parse(p.read_text("utf-8"))
        for p in paths
    }
    found = bare_tuples(trees)
    assert found == set(REASONS), "give each a NamedTuple, and remove reasons that are no longer needed"


def test_only_a_fixed_tuple_of_unlike_members_counts() -> None:
    def bare(returns: str, user: str = "from softib.a.b import f") -> set[str]:
        return bare_tuples({"softib.a.b": ast.parse(f"def f() -> {returns}: ..."), "softib.c.d": ast.parse(user)})

    assert bare("tuple[int, str]") == bare("tuple[int, str] | None") == bare("'tuple[int, str]'") == {"softib.a.b f"}
    assert not bare("tuple[int, int]") and not bare("tuple[int, ...]") and not bare("list[tuple[int, str]]")
    assert not bare("tuple[int, str]", "from softib.a.b import g"), "of its own package alone"
    method = ast.parse("class C:\n def f(self) -> tuple[int, str]: ...\n def _g(self) -> tuple[int, str]: ...")
    assert bare_tuples({"softib.api.x": method}) == {"softib.api.x f"} and not bare_tuples({"softib.a.x": method})
