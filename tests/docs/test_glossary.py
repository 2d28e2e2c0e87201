"""docs/glossary.md is true: its symbols exist in Python and C, and its sentences are those of the HTML report."""

from __future__ import annotations

import re

import pytest

from softib.render.glossary import GLOSSARY
from tests.docs.glossary import c_identifiers, resolve, rows
from tests.docs.source.names import retired_in


@pytest.mark.parametrize("symbol", sorted({s for row in rows() for s in row.python}))
def test_every_python_symbol_exists(symbol: str):
    assert symbol.startswith("softib.")
    resolve(symbol)


def test_every_c_identifier_exists():
    absent = {(row.term, name) for row in rows() for name in row.c if name not in c_identifiers()}
    assert not absent


def test_every_row_has_a_sentence_and_a_symbol():
    terms = [row.term for row in rows()]
    assert len(terms) > 90 and len(set(terms)) == len(terms)
    for row in rows():
        assert row.sentence[-1:] == "." and len(row.sentence) > 15, row.term
        assert row.python or row.c, row.term


def test_the_sentences_are_the_reports():
    """One sentence a term: the page has every term of the report's glossary, in its words."""
    sentences = {row.term: row.sentence for row in rows()}
    for term, sentence in GLOSSARY.items():
        assert sentences.get(term) == sentence, term


def test_no_retired_word_is_a_term():
    assert not [
        row.term
        for row in rows()
        if retired_in(re.sub(r"\W+", "_", row.term)) and row.term != "lane" and not row.term.startswith("virtual")
    ]


@pytest.mark.parametrize(
    "symbol", ["softib.iba.smp.PortInfo.lidd", "softib.sm.ucast_mgrr", "softib.fabric.model.Fabric.lftt"]
)
def test_a_symbol_that_does_not_exist_is_found(symbol: str):
    with pytest.raises(AttributeError):
        resolve(symbol)
