"""docs/fast-paths.md and docs/fast-paths-verbs.md are true: every file, function and test that a row names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "fast-paths.md").read_text("utf-8")
ROWS = [line.strip("|").split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]
SOURCE = re.compile(r"`([a-z_/]+\.py): ([\w.]+)`")
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def test_there_are_rows() -> None:
    assert len(ROWS) > 5 and all(len(row) == 6 for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: SOURCE.search(row[0])[1])
def test_what_a_row_names_is_there(row: list[str]) -> None:
    named = SOURCE.findall(row[0]) + SOURCE.findall(row[1])
    assert named
    for file, name in named:
        text = (ROOT / "src" / "softib" / file).read_text("utf-8")
        assert re.search(rf"(def|class) {name.partition('.')[0]}\b", text), (file, name)
    tests = TEST.findall(row[3])
    assert tests or row[3].strip() == "the same"
    for file, name in tests:
        assert f"def {name}" in (ROOT / file).read_text("utf-8") if name else (ROOT / file).exists(), (file, name)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: SOURCE.search(row[0])[1])
def test_a_copy_gains_twice_or_goes(row: list[str]) -> None:
    least = re.match(r"[\d.]+", row[5].strip(" |"))  # of "8 to 12×" the 8
    assert least is not None and float(least[0]) >= 2


VERBS_PAGE = (ROOT / "docs" / "fast-paths-verbs.md").read_text("utf-8")
VERBS_ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in VERBS_PAGE.partition("Choices within")[0].splitlines()
    if line.startswith("|") and "---" not in line and "bound by" not in line
]
C_SOURCE, C_TEST = re.compile(r"`((?:\w+/)*\w+\.[ch])`"), re.compile(r"`(test_\w+\.py)(?:::(\w+))?`")
C_SOURCES = {"/".join(p.parts[-n:]) for p in (ROOT / "src/softib/preload/verbs").rglob("*.[ch]") for n in (1, 2, 3)}


@pytest.mark.parametrize("row", VERBS_ROWS, ids=lambda row: C_SOURCE.search(row[0])[1])
def test_a_row_of_the_verbs_library_names_what_is_there(row: list[str]) -> None:
    assert len(row) == 4
    assert set(C_SOURCE.findall(row[0] + row[1])) <= C_SOURCES
    assert C_TEST.findall(row[2]), "no test binds the two"
    for file, name in C_TEST.findall(row[2]):
        (test,) = (ROOT / "tests" / "preload" / "verbs").rglob(file)
        text = test.read_text("utf-8")
        assert not name or f"def {name}" in text, (file, name)
    gain = re.search(r"\*\*([\d.]+)(?: to [\d.]+)?×\*\*", row[3])
    assert gain is not None and float(gain[1]) >= 2
