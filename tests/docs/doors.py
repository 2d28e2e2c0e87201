"""Public functions, classes and methods of src that nothing in src uses: what only tests and benches call.

vulture collects the names; an entry of ``__all__`` is no use here, and the names of ``softib`` itself are the public API.
"""

from __future__ import annotations

import ast
from pathlib import Path

import softib

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("function", "class", "method", "property")
DECORATORS = ["@click.*", "@check*", "@rule*", "@*validator*", "@app.*", "@*.get*", "@*.post*", "@kernel*", "@inner*", "@intrinsic*", "@overload*"]  # fmt: skip
"""A decorated function of these is called by what decorates it."""


def without_all(text: str) -> str:
    """The source without its ``__all__``."""
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or node.lineno) - node.lineno + 1)
    return "\n".join(lines)


def unused() -> dict[str, str]:
    """``path name`` → kind of each, by path."""
    from vulture import Vulture

    found = Vulture(ignore_decorators=DECORATORS)
    for path in sorted((ROOT / "src" / "softib").rglob("*.py")):
        found.scan(without_all(path.read_text("utf-8")), filename=path)
    found.used_names.update(softib.__all__)
    rows = [item for item in found.get_unused_code(min_confidence=60) if item.typ in KINDS]
    public = [item for item in rows if not item.name.startswith("_")]
    return {f"{Path(item.filename).relative_to(ROOT / 'src' / 'softib')} {item.name}": item.typ for item in public}


if __name__ == "__main__":
    for place, kind in unused().items():
        print(kind, place)
