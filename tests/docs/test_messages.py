"""The index of messages has what users see: errors that wrong input really makes are found in it, each code of a finding too."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import softib
from softib.errors import InputError
from tests.docs.scripts import ROOT


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> str:
    target = tmp_path_factory.mktemp("messages") / "messages.md"
    subprocess.run([sys.executable, str(ROOT / "docs" / "make_messages.py"), str(target)], check=True)
    return target.read_text("utf-8")


def wrong(case: str, folder) -> str:
    """The message of an error that a user makes."""
    with pytest.raises(InputError) as error:
        if case == "no hosts":
            softib.Demand(hosts=0)
        elif case == "too little":
            softib.Demand(hosts=4, oversubscription=0.5)
        elif case == "not a path":
            softib.load(3)
        else:
            (folder / "empty.txt").write_text("\n")
            softib.load(folder / "empty.txt")
    return str(error.value)


@pytest.mark.parametrize("case", ["no hosts", "too little", "not a path", "nothing in it"])
def test_a_message_is_in_the_index(page, tmp_path, case):
    seen = wrong(case, tmp_path)
    entries = [re.sub(r"\\([\\`*_<>\[\]|{}])", r"\1", line[2:]) for line in page.splitlines() if line.startswith("* ")]
    forms = [".*".join(map(re.escape, entry.split("…"))) for entry in entries if len(entry.replace("…", "")) > 12]
    assert any(re.fullmatch(form, seen) for form in forms), seen


def test_each_finding_is_in_the_index_with_its_advice(page):
    codes = set(re.findall(r"^\| `([a-z0-9-]+)` \|", (ROOT / "docs" / "findings.md").read_text("utf-8"), re.MULTILINE))
    rows = dict(re.findall(r"^\| `([a-z0-9-]+)` \| [^|]+ \| ([^|]+) \|$", page, re.MULTILINE))
    assert len(codes) > 100 and codes <= set(rows) and all(rows.values())
