"""The names that softib's code defines, in Python and in C."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.source.vocabulary import RETIRED

SOURCES = Path(__file__).resolve().parents[3] / "src" / "softib"


C_TOKEN = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[A-Za-z_]\w*|\n", re.DOTALL)


STORE = ast.Store()


Name = tuple[int, str]


def words_of(name: str) -> list[str]:
    """``ConfirmRoute`` and ``confirm_route`` alike: confirm, route."""
    return [w.lower() for w in re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).split("_") if w]


NAMED = {
    ast.FunctionDef: "name",
    ast.AsyncFunctionDef: "name",
    ast.ClassDef: "name",
    ast.ExceptHandler: "name",
    ast.arg: "arg",
    ast.Name: "id",
    ast.Attribute: "attr",
    ast.alias: "asname",
}


def python_names(text: str) -> Iterator[Name]:
    """Every name that the code defines: functions, classes, parameters, variables, attributes, imported names."""
    for node in ast.walk(ast.parse(text)):
        field = NAMED.get(type(node))
        if field is not None and isinstance(getattr(node, "ctx", STORE), ast.Store):
            name = getattr(node, field)
            if name is not None:
                yield node.lineno, name


def c_names(text: str) -> Iterator[Name]:
    """The first use of every identifier; comments and strings are none."""
    line, seen = 1, set[str]()
    for match in C_TOKEN.finditer(text):
        token = match[0]
        if (token[0].isalpha() or token[0] == "_") and token not in seen:
            seen.add(token)
            yield line, token
        line += token.count("\n")


def files(root: Path) -> Iterator[tuple[Path, str]]:
    """Sources below ``root`` and their paths from there."""
    for path in sorted(root.rglob("*")):
        if path.suffix in (".py", ".c", ".h") and path.is_file():
            yield path, path.relative_to(root).as_posix()


def retired_in(name: str) -> list[str]:
    return [w for w in words_of(name) if w in RETIRED]


EMPTY_WORDS = ("found", "known", "what", "made", "mine", "more")
"""Words that name a value without saying what it is."""
NOUNS = {"what": "what_if", "known": "well_known"}
"""Terms of the field that contain such a word."""


def counts(root: Path) -> dict[str, int]:
    """How many names of the sources below ``root`` contain each of :data:`EMPTY_WORDS`."""
    count = dict.fromkeys(EMPTY_WORDS, 0)
    for path, _ in files(root):
        for _, name in (python_names if path.suffix == ".py" else c_names)(path.read_text("utf-8")):
            words = words_of(name)
            for word in {w for w in words if w in count}:
                count[word] += NOUNS.get(word, "?") not in "_".join(words)
    return count


if __name__ == "__main__":
    for word, number in counts(SOURCES).items():
        print(f"{word:6} {number}")
