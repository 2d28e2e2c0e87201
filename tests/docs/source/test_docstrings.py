"""Docstrings are paragraphs: no line that a wrapper broke off, no item of a list whose next line lost its indentation."""

from __future__ import annotations

import ast
import re

from tests.docs.scripts import ROOT

ITEM = re.compile(r"(\*|-|\d+\.) ")
NO_TEXT = re.compile(r"\\b|>>>|softib |\w+ = |\w+: \w+$|[A-Z]\w+$")
"""First words of lines that are code, output or a tree, which end where they end."""


def indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def broken(lines: list[str]) -> list[int]:
    """Rows of ``lines``, those of a docstring, that end early in a sentence, or leave the list item that they belong to."""
    rows, item = [], None
    for row, line in enumerate(lines[1:], 1):
        text, following = line.strip(), lines[row + 1] if row + 1 < len(lines) else ""
        if not text:
            item = None
        elif ITEM.match(text):
            item = indent(line)
        elif item is not None and indent(line) <= item and text != '"""':
            rows.append(row)
        if (
            len(text) < 30
            and indent(line) == indent(following)
            and len(following.strip()) > 70
            and not text.endswith((":", "."))
            and text
            and not NO_TEXT.match(text)
            and not re.match(r"(\*|-|\d+\.|``|>>>|\.\.\.)", following.strip())
        ):
            rows.append(row)
    return rows


def test_the_rule_sees_both_kinds():
    long = "a line that is long enough to be the continuation of a sentence which begins above it"
    assert broken(['"""Text', "of", long, '"""']) == [1]
    assert broken(['"""Text.', "", "* an item that goes on", "without its indentation", '"""']) == [3]
    assert broken(['"""Text.', "", "* an item that goes on", "  with its indentation", '"""']) == []


def test_docstrings_are_paragraphs():
    found = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        source = path.read_text("utf-8")
        lines = source.split("\n")
        for node in ast.walk(ast.parse(source)):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                first, last = node.value.lineno, node.value.end_lineno or 0
                found += [f"{path.relative_to(ROOT)}:{first + row}" for row in broken(lines[first - 1 : last])]
    assert found == []
