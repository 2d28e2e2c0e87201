"""The command line uses nothing that a Python user has not: names of ``softib.__all__``, errors, what prints, and the door to files."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import softib

CLI = Path(softib.__file__).parent / "cli"
COMMON = {
    "softib.result",
    "softib.render.problems",
    "softib.foreign_text",
    "softib.plural",
    "softib.input_files",
}
"""What prints, how names of strangers and numbers of things are shown, and the door to files: of all layers alike."""


def used(source: str) -> tuple[set[str], set[str]]:
    """Modules of softib that a module imports, and names that it takes of ``softib`` itself."""
    modules: set[str] = set()
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "softib":
            names |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "softib":
            names.add(node.attr)
    return {m for m in modules if m.partition(".")[0] == "softib"}, names


@pytest.mark.parametrize("path", sorted(CLI.rglob("*.py")), ids=lambda p: p.stem)
def test_a_verb_stands_on_the_public_library(path):
    modules, names = used(path.read_text("utf-8"))
    lower = {m for m in modules if not m.startswith("softib.cli")} - {"softib", "softib.errors"} - COMMON
    assert not lower, f"{path.name} reaches below the library"
    assert names <= set(softib.__all__), f"{path.name} uses what is not public"


def test_the_oracle_sees_both_forms():
    text = "import softib\nfrom softib import load\nfrom softib.live.daemon import Daemon\nsoftib.check(1)\n"
    assert used(text) == ({"softib", "softib.live.daemon"}, {"load", "check"})
