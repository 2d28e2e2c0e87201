"""Every file of this project that a page names in code is there: a page that outlived a move is found."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.docs.snippets import LINKED_PAGES, ROOT

NAMED = re.compile(r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|c|h|svg|ipynb))(?:: ?[\w.]+|::\w+)?`")
"""Names of sources, pictures and notebooks; files of data are what users have, too."""
PLACEHOLDER = re.compile(r"(?:^|/)[A-Z_]+\.")
"""``NAME.py``, ``VERB.py``: what a reader puts there."""
ELSEWHERE = {
    "ib_types.h": "OpenSM",
    "osm_torus.c": "OpenSM",
    "osm_ucast_dfsssp.c": "OpenSM",
    "osm_ucast_lash.c": "OpenSM",
    "osm_ucast_nue.c": "OpenSM",
    "link_rates.h": "written by preload/build.py",
    "management.h": "written by preload/build.py",
}


@cache
def files() -> tuple[str, ...]:
    """Paths of this project's files, from its root."""
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout")
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    return tuple(listed.stdout.split())


def absent(text: str) -> list[str]:
    """Files that ``text`` names and that nothing in the project is called."""
    ends = {end for path in files() for end in tails(path)}
    named = {n for n in NAMED.findall(text) if not PLACEHOLDER.search(n)}
    return sorted(n for n in named - ends if n.rpartition("/")[2] not in ELSEWHERE)


def tails(path: str) -> list[str]:
    """``a/b/c.py`` as ``c.py``, ``b/c.py`` and ``a/b/c.py``: pages name files from where they speak of."""
    parts = path.split("/")
    return ["/".join(parts[i:]) for i in range(len(parts))]


PRELOAD = ROOT / "src" / "softib" / "preload" / "README.md"


@pytest.mark.parametrize("page", [*LINKED_PAGES, PRELOAD], ids=lambda p: str(p.relative_to(ROOT)))
def test_files_that_a_page_names_are_there(page: Path) -> None:
    assert not absent(page.read_text("utf-8"))


def test_what_is_gone_is_found() -> None:
    assert absent("`live/verbs_door.py` and `verbs_memory.py: Heap`") == ["live/verbs_door.py", "verbs_memory.py"]
    assert not absent("`routing/engines/minhop.py`, `minhop.py::route`, `src/softib/routing/NAME.py`")
