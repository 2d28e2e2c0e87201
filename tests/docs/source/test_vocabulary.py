"""Names say what they hold: no retired word (``vocabulary.py``) in a file name or in a name that softib's code defines."""

from __future__ import annotations

from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

from tests.docs.scripts import ROOT
from tests.docs.source.names import SOURCES, Name, c_names, counts, files, python_names, retired_in
from tests.docs.source.vocabulary import ALLOWED, COINAGES, RETIRED


def allowed(relative: str, name: str) -> list[str]:
    """The keys of ``ALLOWED`` that excuse the name in that file."""
    return [k for k in ALLOWED if k == name or fnmatch(f"{relative}:{name}", k)]


@cache
def names_in(path: Path) -> list[Name]:
    return sorted(set((python_names if path.suffix == ".py" else c_names)(path.read_text("utf-8"))))


def complaints(root: Path) -> list[str]:
    """``file:line: name: say …`` of each name with a retired word."""
    found = []
    for path, relative in files(root):
        for line, name in [*((0, part) for part in Path(relative).with_suffix("").parts), *names_in(path)]:
            if not allowed(relative, name):
                found += [f"{relative}:{line}: {name}: not {w!r}; say {RETIRED[w]}" for w in retired_in(name)]
    return found


MOST_EMPTY = 60
"""Names that may contain one of ``EMPTY_WORDS``, each; ``python -m tests.docs.source.names`` prints the counts."""


def test_few_names_say_nothing_of_their_content(tmp_path):
    assert not {word: n for word, n in counts(SOURCES).items() if n > MOST_EMPTY}, "name the content: links, lids"
    (tmp_path / "a.py").write_text("found = what_if = 1\ndef f(known, *, more): known = more\n")
    assert counts(tmp_path) == {"found": 1, "known": 2, "what": 0, "made": 0, "mine": 0, "more": 1}


def test_no_name_has_a_retired_word():
    found = complaints(SOURCES)
    assert not found, "\n" + "\n".join(found)


def coined() -> list[tuple[str, str]]:
    """(file, name) of each name outside ``src`` with a word that named a part of softib."""
    return [
        (f"{folder}/{relative}", name)
        for folder in ("tests", "bench", "docs")
        for path, relative in files(ROOT / folder)
        for name in [Path(relative).stem, *(n for _, n in names_in(path))]
        if COINAGES.intersection(retired_in(name))
    ]


def test_no_test_calls_a_part_of_softib_by_its_old_name():
    assert set(RETIRED) >= COINAGES
    assert not [f"{file}: {name}" for file, name in coined() if not allowed(file, name)]


def test_every_allowed_name_is_used_and_has_a_retired_word():
    """The list of exceptions does not outlive what it excuses."""
    used = {key for path, relative in files(SOURCES) for _, name in names_in(path) for key in allowed(relative, name)}
    used |= {key for file, name in coined() for key in allowed(file, name)}
    for name, reason in ALLOWED.items():
        assert name in used, f"{name} is nowhere"
        assert retired_in(name.rpartition(":")[2]), f"{name} needs no excuse"
        assert reason


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        ("a.py", "def f(x, told):\n    pass\n", 1),
        ("a.py", "\nclass OwnCopy:\n    pass\n", 2),
        ("a.py", "x.far_end = 1\n", 1),
        ("a.py", "for x in ():\n    seatsTaken, b = x\n", 2),
        ("a.py", "if (way := 3):\n    pass\n", 1),
        ("a.py", "import os as door\n", 1),
        ("a.c", "/* told */\nstatic int told_count; // way\n", 2),
        ("a.h", 'const char *s = "far"; struct desk { int x; };\n', 1),
        ("sub/words.py", "", 0),
        ("errands/a.py", "", 0),
    ],
)
def test_planted_names_are_found_with_file_and_line(tmp_path: Path, file: str, text: str, line: int):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    found = complaints(tmp_path)
    assert len(found) == 1 and found[0].startswith(f"{file}:{line}: "), found


def test_text_and_uses_are_no_names(tmp_path: Path):
    (tmp_path / "a.py").write_text('"""told"""\nprint(module.told, "far", key="way")  # gone\n')
    (tmp_path / "b.c").write_text("/* told\nfar */ int x; // gone\n")
    assert complaints(tmp_path) == []
