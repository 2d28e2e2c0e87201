"""Pages, changelog, help and source say things plainly: phrases that readers stumbled over do not come back.

The spelling of single words is codespell's (``make lint``); names in the code are ``test_vocabulary.py``'s.
"""

from __future__ import annotations

import re

import pytest

from softib.cli.main import MODULES
from tests.docs.scripts import ROOT
from tests.docs.snippets import FENCE

PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "src" / "softib" / "preload" / "README.md",
    *sorted(p for p in (ROOT / "docs").rglob("*.md") if p.name != "messages.md"),
    *sorted((ROOT / "changelog.d").glob("*.md")),
]
SOURCES = sorted(
    p
    for p in (ROOT / "src" / "softib").rglob("*")
    if p.suffix in {".py", ".c", ".h", ".js", ".yaml", ".toml"} and "vendor" not in p.parts
)
PHRASES = {
    r"the own\b": "its own, the same, the local",
    r"so long\b(?! as)": "meanwhile, for that time, as long as",
    r"so many\b(?! (?:of|more|that))": "N, that many",
    r"by the name of\b": "named",
    r"twofold\b": "a factor of two",
    r"threefold\b": "a factor of three",
    r"the far end's\b": "the peer's",
    r"what was asked\b": "the request",
    r"what was found\b": "the findings, the match",
}
"""What reads oddly in a page or a help text → what to say instead."""
EVERYWHERE = {
    r"nobody\b": "no one, unowned, unassigned, does not exist",
    r"anew\b": "again",
    r"once more\b": "again",
    r"our own\b": "softib's, or leave out",
    r"of ours\b": "softib's, or leave out",
    r"our subnet manager\b": "softib's subnet manager",
    r"our manager\b": "softib's manager",
    r"in each other's places?\b": "exchanged",
    r"would come to life\b": "would be allocated, would start",
    r"there is none of\b": "does not exist",
    r"is none of (?!these\b|those\b|them\b)": "is not one of, cannot be part of",
    r"by turns\b": "alternately",
    r"c[ao]mes? in by\b": "entered through",
    r"on (?:its|their) way\b": "in transit",
    r"for people\b": "leave out, or as text",
    r"looked at\b": "checked, read",
    r"what became of\b": "the outcome",
    r"by hand\b": "manually",
    r"mend(?<![\w.`{\"]mend)(?:s|ed|ing)?\b(?![\w`=(:\"])": "fix, repair, correct",
    r"its kin\b": "and others, related, similar",
    r"the like of\b": "and others, related, similar",
    r"write such as\b": "use for example",
    r"whoever\b": "the noun: the sender, the process, the reader",
    r"is told\b": "gets, receives, is reported, is known",
    r"are told\b": "gets, receives, is reported, is known",
    r"was told\b": "got, received, was reported, was known",
    r"told apart\b": "distinguished",
    r"tells of\b": "reports",
    r"can be told\b": "is known",
    r"cannot be told\b": "is unknown",
    r"doings\b": "state, activity",
    r"says? issm\b": "sets IsSM, has IsSM set",
    r"gives? up\b": "abandons, stops, fails",
    r"given up\b": "abandoned, released",
    r"hung up\b": "closed its connection",
    r"lets? go of\b": "releases",
    r"no word\b": "no message, printed nothing",
    r"no one answers\b": "there is no answer",
    r"were asked\b": "were queried, received the request",
    r"knows none\b": "has none",
    r"whatever it is\b": "of any kind, or leave out",
    r"what there is\b": "all that exists, or the noun",
    r"sits there\b": "uses it, runs there",
    r"is there already\b": "exists already",
    r"go(?:es)? before\b": "overrides, goes first",
    r"gives back\b": "returns, releases",
    r"in vain\b": "without success",
    r"now and then\b": "from time to time",
    r"the other way round\b": "in reverse, vice versa",
    r"scribbles?\b": "writes over",
}
"""The same, in the source too: docstrings, comments and messages."""


def stumbles(text: str, phrases: dict[str, str] = PHRASES | EVERYWHERE) -> list[str]:
    """Each phrase of the text with its line, and what to say instead. A phrase may go over two lines, also of a comment.

    Patterns begin with letters and texts are in small ones: that is several times as fast."""
    plain = FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text).lower()
    found = []
    for phrase, instead in phrases.items():
        for hit in re.finditer(phrase.replace(" ", r"\s+(?:[*#]\s+)?"), plain):
            if not plain[hit.start() - 1 : hit.start()].isalpha():
                found.append(f"{plain.count(chr(10), 0, hit.start()) + 1}: {hit[0]!r}; say {instead}")
    return found


def test_pages_read_plainly():
    wrong = {str(p.relative_to(ROOT)): found for p in PAGES if (found := stumbles(p.read_text("utf-8")))}
    assert not wrong


@pytest.mark.parametrize("verb", MODULES)
def test_help_reads_plainly(verb):
    source = (ROOT / "src" / f"{MODULES[verb].replace('.', '/')}.py").read_text("utf-8")
    assert not stumbles(source)


def test_the_source_reads_plainly():
    wrong = {str(p.relative_to(ROOT)): found for p in SOURCES if (found := stumbles(p.read_text("utf-8"), EVERYWHERE))}
    assert not wrong


def test_phrases_are_found_and_code_is_left_alone():
    assert stumbles("It waits so long.\n```sh\nthe own\n```\nA port is told.\n") == [
        "1: 'so long'; say meanwhile, for that time, as long as",
        "5: 'is told'; say gets, receives, is reported, is known",
    ]
    assert not stumbles("as long as it lives, so long as it lives")
    assert stumbles("/* This is\n * told. */", EVERYWHERE) and not stumbles("one.mend", EVERYWHERE)


def test_the_changelog_links_to_no_file():
    """A release gathers them into a page at another place: a path that is right here would lead nowhere there."""
    pages = [ROOT / "CHANGELOG.md", *sorted((ROOT / "changelog.d").glob("*.*.md"))]
    assert [f.name for f in pages if re.search(r"\]\((?!https?://)", f.read_text(encoding="utf-8"))] == []
