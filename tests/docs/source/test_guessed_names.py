"""A mechanism is found by guessing its file's name.

``mechanisms.toml`` was written by an expert who had not seen the tree, before files were renamed for it. Each mechanism has the
stems that they would type into ``find``. A stem finds a file when its words stand in the name of the file or of its folder.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.docs.scripts import ROOT

HITS = 95  # the number only rises
SOURCE_FILES = {".py", ".c", ".h", ".js", ".toml"}


def file_names() -> set[str]:
    """Names of source files and of their folders, with ``_`` at both ends, so that ``_ack_`` is a whole word."""
    files = [p for p in (ROOT / "src/softib").rglob("*") if p.suffix in SOURCE_FILES and "vendor" not in p.parts]
    return {f"_{name}_" for p in files for name in (p.stem, p.parent.name)}


def finds(stem: str, names: set[str]) -> bool:
    """A stem of up to four letters is a whole word (``ack`` is not ``packet``), also in the plural; a longer one is any part of a
    name, with or without its underscores (``rdmacm`` finds ``rdma_cm``)."""
    if len(stem) <= 4:
        return any(re.search(f"_{stem}(s|es)?_", name) for name in names)
    return any(stem.replace("_", "") in name.replace("_", "") for name in names)


def test_mechanisms_are_found_by_the_names_that_an_expert_guesses() -> None:
    mechanisms = tomllib.loads((Path(__file__).parent / "mechanisms.toml").read_text("utf-8"))["mechanism"]
    names = file_names()
    missed = [m["name"] for m in mechanisms if not any(finds(stem, names) for stem in m["stems"])]
    assert len(mechanisms) == 100
    assert len(mechanisms) - len(missed) >= HITS, "\n".join(missed)
