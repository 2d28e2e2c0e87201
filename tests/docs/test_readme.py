"""README: what a newcomer looks for is there, in this order, and it reads on a package index, where no relative link leads anywhere."""

from __future__ import annotations

import re

import pytest

from tests.docs.scripts import ROOT, script

README = (ROOT / "README.md").read_text("utf-8")
RELATIVE = re.compile(r"\]\((?!https?:|#)[^)]*\)")


def test_order_of_what_a_newcomer_looks_for():
    """One sentence, a picture, two commands, what it does, what is not real (SuzieQ's and mininet's order, and a table that builds trust)."""
    marks = [
        "**InfiniBand in software**",
        "![",
        "## Two commands",
        "## What it does",
        "## What is not real",
        "## Read on",
    ]
    places = [README.index(mark) for mark in marks]
    assert places == sorted(places)
    assert len(re.findall(r"^make \w+", README.split("## Two commands")[1].split("## ")[0], re.M)) == 2


@pytest.mark.parametrize("address", ["https://forge.example/softib", ""])
def test_an_index_can_follow_every_link(address):
    text = script("package_readme").for_index(README, address, "1.2.3")
    assert not RELATIVE.search(text) and "<!--" not in text
    assert README.count("](docs/") > 10 and text.count(f"]({address}/blob/v1.2.3/docs/" if address else "](docs/") == (
        len(re.findall(r"(?<!!)\[[^\]]*\]\(docs/", README)) if address else 0
    )
    assert ("![" in text) == bool(address)


def test_links_of_the_page_stay_as_they_are():
    make = script("package_readme").for_index
    assert (
        make("[a](https://x.org) [b](#c) [d](e.md)", "https://f", "1")
        == "[a](https://x.org) [b](#c) [d](https://f/blob/v1/e.md)"
    )
    assert make("![a](b.png)\n[d](e.md)", "", "1") == "d"


def test_the_package_uses_it():
    pytest.importorskip("hatchling")
    hook = script("../hatch_build").ReadmeHook(str(ROOT), {})
    metadata = {"version": "0.0"}
    hook.update(metadata)
    assert metadata["readme"]["content-type"] == "text/markdown" and not RELATIVE.search(metadata["readme"]["text"])
