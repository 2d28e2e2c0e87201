"""Every link of README, docs and the root's pages leads to a file or heading that exists. Links into the web: ``make linkcheck``."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.snippets import FENCE, LINKED_PAGES, ROOT

LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+(?:\([^()]*\))?)\)")
WEB = re.compile(r"(?:https?|mailto):")


def text_of(page: Path) -> str:
    """A page without its code: neither fences nor `code` hold links."""
    return re.sub(r"`[^`\n]*`", "code", FENCE.sub("", page.read_text("utf-8")))


def slug(heading: str) -> str:
    """The anchor of a heading as GitHub and MyST make it."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page; the second heading of one text ends in -1."""
    found: set[str] = set()
    text = FENCE.sub("", page.read_text("utf-8"))
    for name in re.findall(r"^```\{include\} (\S+)", page.read_text("utf-8"), re.M):
        found |= anchors((page.parent / name).resolve())
    for heading in re.findall(r"^#{1,6} +(.+?)\s*$", text, re.M):
        base = slug(heading)
        found.add(
            base if base not in found else next(f"{base}-{i}" for i in range(1, 99) if f"{base}-{i}" not in found)
        )
    return found | set(re.findall(r"^\(([\w-]+)\)=", text, re.M))


def dead(page: Path) -> list[str]:
    """Links of ``page`` to nowhere."""
    wrong = []
    for target in LINK.findall(text_of(page)):
        if WEB.match(target):
            continue
        file, _, anchor = target.partition("#")
        at = (page.parent / file).resolve() if file else page
        if not at.exists() or (anchor and at.suffix == ".md" and anchor not in anchors(at)):
            wrong.append(target)
    return wrong


@pytest.mark.parametrize("page", LINKED_PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert dead(page) == []


def test_every_example_is_in_the_list():
    """The names in code of examples/README.md are the files and folders that there are."""
    listed = set(re.findall(r"`([\w.-]+)/?`", (ROOT / "examples" / "README.md").read_text("utf-8")))
    assert listed == {p.name for p in (ROOT / "examples").iterdir()} - {"README.md"}


def test_pictures_have_a_text():
    """Who cannot see a picture reads what it shows."""
    bare = [p.name for p in LINKED_PAGES if re.search(r"!\[\s*\]\(", text_of(p))]
    assert not bare


def test_dead_links_are_found(tmp_path):
    page, other = tmp_path / "a.md", tmp_path / "b.md"
    other.write_text("# One `two`, three\n\n## One\n")
    page.write_text(
        "[a](b.md) [b](b.md#one-two-three) [c](#self) ![d](x.png) [e](b.md#no) [f](https://x.org)\n# Self\n`[g](y)`\n"
    )
    assert dead(page) == ["x.png", "b.md#no"]
