"""Pages, changelog and help say things plainly: phrases that readers stumbled over do not come back.

The spelling of single words is codespell's (``make lint``); names in the code are ``test_vocabulary.py``'s.
"""

from __future__ import annotations

import re

import pytest

from softib.cli.main import TOGETHER, VERBS
from tests.docs.scripts import ROOT
from tests.docs.snippets import FENCE

PAGES = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "src" / "softib" / "preload" / "README.md",
    *sorted(p for p in (ROOT / "docs").rglob("*.md") if p.name != "changes.md"),
    *sorted((ROOT / "changelog.d").glob("*.md")),
]  # fmt: skip
PHRASES = {
    r"\bthe own\b": "its own, the same, the local",
    r"\bso long\b(?! as)": "meanwhile, for that time, as long as",
    r"\btells of\b": "reports, says something about",
    r"\b(?:is|are|was|were) told\b": "gets, hears, is reported, is found",
    r"\bby the name of\b": "named",
    r"\btwofold\b|\bthreefold\b": "a factor of two",
    r"\bthe far end's\b": "the peer's",
}
"""What reads oddly → what to say."""


def stumbles(text: str) -> list[str]:
    """Each phrase of the text with its line, and what to say instead."""
    plain = FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)
    found = []
    for phrase, instead in PHRASES.items():
        for hit in re.finditer(phrase, plain, re.IGNORECASE):
            found.append(f"{plain.count(chr(10), 0, hit.start()) + 1}: {hit[0]!r}; say {instead}")
    return found


def test_pages_read_plainly():
    wrong = {str(p.relative_to(ROOT)): found for p in PAGES if (found := stumbles(p.read_text("utf-8")))}
    assert not wrong


@pytest.mark.parametrize("verb", VERBS)
def test_help_reads_plainly(verb):
    source = (ROOT / "src" / "softib" / "cli" / f"{TOGETHER.get(verb, verb)}.py").read_text("utf-8")
    assert not stumbles(source)


def test_phrases_are_found_and_code_is_left_alone():
    assert stumbles("It waits so long.\n```sh\nthe own\n```\nA port is told.\n") == [
        "1: 'so long'; say meanwhile, for that time, as long as",
        "5: 'is told'; say gets, hears, is reported, is found",
    ]
    assert not stumbles("as long as it lives, so long as it lives")


def test_changelog_fragments_link_to_no_file():
    """A release gathers them into a page at another place: a path that is right here would lead nowhere there."""
    fragments = sorted((ROOT / "changelog.d").glob("*.*.md"))
    assert fragments
    assert [f.name for f in fragments if re.search(r"\]\((?!https?://)", f.read_text(encoding="utf-8"))] == []
