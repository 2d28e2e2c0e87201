"""README: what a newcomer looks for is there, in this order. (How it reads on a package index: ``test_packages.py``.)"""

from __future__ import annotations

import re

from tests.docs.scripts import ROOT

README = (ROOT / "README.md").read_text("utf-8")


def test_order_of_what_a_newcomer_looks_for():
    """One sentence, a picture, two commands, five questions with answers, what it does by reader, what is not real (SuzieQ's and mininet's order, and a table that builds trust)."""
    marks = [
        "**InfiniBand in software**",
        "![",
        "## Two commands",
        "## Five questions",
        "## What it does, by reader",
        "## What is not real",
        "## Read on",
    ]
    places = [README.index(mark) for mark in marks]
    assert places == sorted(places)
    assert len(re.findall(r"^make \w+", README.split("## Two commands")[1].split("## ")[0], re.M)) == 2
