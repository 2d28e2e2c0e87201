"""docs/concepts.md and docs/figures.md are true: their pictures are drawn from the code, their symbols exist, no term is forgotten."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tests.docs.glossary import c_identifiers, resolve, rows
from tests.docs.scripts import ROOT, script

PAGE = (ROOT / "docs" / "concepts.md").read_text("utf-8")


@pytest.fixture(scope="module")
def drawing():
    return script("draw_concepts")


def test_the_pictures_show_the_code(drawing):
    made = drawing.pictures()
    assert set(made) == {p.name for p in drawing.PICTURES.glob("*.svg")}
    other = [name for name, text in made.items() if (drawing.PICTURES / name).read_text("utf-8") != text]
    assert not other, "run python docs/draw_concepts.py"
    for name, text in made.items():
        ElementTree.fromstring(text)
        assert f"](img/concepts/{name})" in PAGE


def test_the_chart_shows_the_table():
    figures = script("draw_figures")
    assert len(figures.rows()) >= 5
    assert figures.PICTURE.read_text("utf-8") == figures.draw(), "run python docs/draw_figures.py"


@pytest.mark.parametrize("symbol", sorted(set(re.findall(r"`(softib\.[\w.]+)`", PAGE))))
def test_every_symbol_exists(symbol):
    resolve(symbol)


def test_every_c_identifier_exists():
    named = set(re.findall(r"`((?:softib|va|ve)_\w+)`", PAGE))
    assert named and named <= c_identifiers()


def test_every_section_has_symbols_and_a_command():
    """Each section names where the code holds its subject, and something to try."""
    for section in PAGE.split("\n## ")[1:]:
        title = section.partition("\n")[0]
        assert "```sh" in section and "In the code" in section, title


def test_every_term_of_the_field_is_explained():
    """All of the glossary but softib's own words: the course says what an engineer meets."""
    words = PAGE.lower()
    absent = [
        row.term
        for row in rows(own_words=False)
        if not any(re.search(rf"\b{re.escape(w.lower())}", words) for w in row.term.split(", "))
    ]
    assert not absent, "explain these in docs/concepts.md"
