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


def returns(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it is declared to return a value, or a statement of its own returns or yields one (kernels declare nothing)."""
    if function.returns is not None:
        return ast.unparse(function.returns) != "None"
    inner = list(function.body)
    while inner:
        node = inner.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom) or (isinstance(node, ast.Return) and node.value is not None):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            inner += ast.iter_child_nodes(node)
    return False


def test_a_docstring_begins_with_return_where_something_is_returned():
    """And a truth value is "whether", or follows the verb of what the function does."""
    wrong = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            text = ast.get_docstring(node) or ""
            truth = node.returns is not None and ast.unparse(node.returns) == "bool"
            if text.startswith("Return ") and ((truth and not text.startswith("Return whether")) or not returns(node)):
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {text.splitlines()[0]}")
    assert not wrong, wrong


def test_every_c_file_begins_with_what_it_is():
    """A comment that is no licence and no #include: its first sentence ends within 300 characters."""
    silent = []
    for path in sorted((ROOT / "src" / "softib" / "preload").rglob("*.[ch]")):
        comment = re.match(r"/\*(.*?)\*/", path.read_text("utf-8"), re.DOTALL)
        words = "" if comment is None else " ".join(re.sub(r"^\s*\*", "", comment[1], flags=re.MULTILINE).split())
        if not re.match(r"\S.{8,300}?[.:;]( |$)", words):
            silent.append(f"{path.relative_to(ROOT)}: {words[:80]!r}")
    assert not silent, "\n".join(silent)
