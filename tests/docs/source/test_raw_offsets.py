"""Where a field of a MAD lies is declared once, in ``iba``: no other code counts its bytes."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[3] / "src" / "softib"
MADS = {"mad", "mads", "smp", "frame"}
"""What arrays and bytes of MADs are called."""
SUBSCRIPT = re.compile(rf"\b({'|'.join(sorted(MADS))})\[")
"""Only a file that has one is parsed."""


def number(node: ast.expr | None) -> int:
    """The number that stands there, 0 for anything else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else 0


def raw_offsets(source: str) -> list[tuple[int, str]]:
    """(line, text) of each ``mad[3]``, ``batch.mad[:, 8:16]`` and their kin."""
    found = []
    for node in ast.walk(ast.parse(source)) if SUBSCRIPT.search(source) else ():
        if not isinstance(node, ast.Subscript):
            continue
        name = getattr(node.value, "attr", getattr(node.value, "id", ""))
        last = node.slice.elts[-1] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
        counted = [last.lower, last.upper] if isinstance(last, ast.Slice) else [last]
        if name in MADS and any(number(n) > 1 or (number(n) and isinstance(node.slice, ast.Tuple)) for n in counted):
            found.append((node.lineno, ast.unparse(node)))
    return found


def test_no_code_counts_the_bytes_of_a_mad():
    raw = {
        f"{path.relative_to(PACKAGE)}:{line}": text
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] != "iba"
        for line, text in raw_offsets(path.read_text("utf-8"))
    }
    assert not raw, "softib.iba.smp and the structures of softib.iba have these"


@pytest.mark.parametrize("text", ["mad[3]", "m.mad[:, 1] == 2", "mad[i, 8:16].tobytes()", "x = batch.mads[0, 5]"])
def test_what_counts_is_found(text: str):
    assert len(raw_offsets(text)) == 1


@pytest.mark.parametrize(
    "text", ["mad[METHOD_AT]", "batch.mad[0]", "mad[i : i + 1]", "mad[:, DATA_AT : DATA_AT + 64]", "row[5]"]
)
def test_what_names_its_field_is_not(text: str):
    assert not raw_offsets(text)
