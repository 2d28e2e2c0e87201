"""Numbers of things are English: one function makes every plural of a message."""

from __future__ import annotations

import ast
import re

import pytest

from softib.plural import counted, plural
from tests.docs.scripts import ROOT

ENGLISH = {
    "switch": "switches",
    "entry": "entries",
    "key": "keys",
    "cable": "cables",
    "pass": "passes",
    "box": "boxes",
    "port": "ports",
    "channel adapter": "channel adapters",
    "day": "days",
    "LID": "LIDs",
    "query": "queries",
    "mesh": "meshes",
}


@pytest.mark.parametrize("noun", ENGLISH)
def test_plurals_are_those_of_the_dictionary(noun: str) -> None:
    assert [counted(n, noun) for n in (0, 1, 2, 1020)] == [
        f"0 {ENGLISH[noun]}",
        f"1 {noun}",
        f"2 {ENGLISH[noun]}",
        f"1,020 {ENGLISH[noun]}",
    ]


def test_words_without_a_rule_are_given() -> None:
    assert [plural(n, "is", "are") for n in (0, 1, 2)] == ["are", "is", "are"] and counted(
        2, "leaf", "leaves"
    ) == "2 leaves"


def other_ways(tree: ast.AST) -> list[int]:
    """Lines of f-strings that make a plural themselves: ``{n} port(s)``, ``port{'s' if …}``."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr):
            continue
        for part in node.values:
            if isinstance(part, ast.Constant) and re.search(r"^ [A-Za-z ]+\((?:e?s)\)", str(part.value)):
                found.append(node.lineno)
            if isinstance(part, ast.FormattedValue) and any(
                isinstance(x, ast.Constant) and x.value in ("s", "es") for x in ast.walk(part.value)
            ):
                chosen = [x for x in ast.walk(part.value) if isinstance(x, ast.IfExp | ast.BinOp)]
                found += [node.lineno] if chosen else []
    return found


def test_no_message_makes_a_plural_of_its_own() -> None:
    files = sorted((ROOT / "src").rglob("*.py"))
    found = {
        f"{path.relative_to(ROOT)}:{line}" for path in files for line in other_ways(ast.parse(path.read_text("utf-8")))
    }
    assert not found
    assert other_ways(ast.parse("f'{n} switch(es)'")) and other_ways(ast.parse("f\"{n} port{'s' * (n != 1)}\""))


def test_no_page_makes_a_plural_of_its_own() -> None:
    """Scripts of pages have a ``counted`` of their own: no template says ``${n} cables``."""
    own = re.compile(r"\$\{[^{}]*\} (?:switches|hosts|cables|links|ports|nodes|errors|jobs|findings|files|rows)\b")
    files = sorted((ROOT / "src/softib").rglob("*.js"))
    found = [
        f"{path.name}: {hit[0]}"
        for path in files
        if "vendor" not in path.parts
        for hit in own.finditer(path.read_text("utf-8"))
    ]
    assert files and not found
    assert own.search("`${f.cables.toLocaleString()} cables`")
