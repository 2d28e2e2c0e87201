"""Functions, classes and methods of src that nothing in src or in the scripts of docs uses: what only tests and benches call.

vulture collects the names. An entry of ``__all__`` is no use here. The names of ``softib`` itself are the public API, and a subclass of
``Structure`` is used by being declared, as is a document's class in ``DOCUMENTS``.
"""

from __future__ import annotations

import ast
from pathlib import Path

import softib
from softib.cli.documents import DOCUMENTS

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src" / "softib"
KINDS = ("function", "class", "method", "property")
DECORATORS = [
    "@click.*",
    "@check*",
    "@rule*",
    "@*validator*",
    "@app.*",
    "@*.get*",
    "@*.post*",
    "@kernel*",
    "@inner*",
    "@intrinsic*",
    "@overload*",
    "@also*",
    "@*.in_python",
]
"""A decorated function of these is called by what decorates it."""


def without_all(text: str, tree: ast.Module) -> str:
    """The source without its ``__all__``."""
    lines = text.splitlines()
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or node.lineno) - node.lineno + 1)
    return "\n".join(lines)


def unused() -> dict[str, str]:
    """``path name`` → kind of each, by path."""
    from vulture import Vulture

    found = Vulture(ignore_decorators=DECORATORS)
    for path in [*sorted(SOURCE.rglob("*.py")), *sorted((ROOT / "docs").glob("*.py"))]:
        text = path.read_text("utf-8")
        tree = ast.parse(text)
        found.scan(without_all(text, tree), filename=path)
        found.used_names.update(structures(tree))
    found.used_names.update(softib.__all__)
    found.used_names.update(place.partition(":")[2] for places in DOCUMENTS.values() for place in places.split())
    rows = [item for item in found.get_unused_code(min_confidence=60) if item.typ in KINDS]
    ours = [i for i in rows if not i.name.startswith("__") and Path(i.filename).is_relative_to(SOURCE)]
    return {f"{Path(item.filename).relative_to(SOURCE)} {item.name}": item.typ for item in ours}


def structures(tree: ast.Module) -> set[str]:
    """Classes that derive from ``Structure``, which codec, documentation and tests find among its subclasses."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return {c.name for c in classes if any(isinstance(b, ast.Name) and b.id == "Structure" for b in c.bases)}


if __name__ == "__main__":
    for place, kind in unused().items():
        print(kind, place)
