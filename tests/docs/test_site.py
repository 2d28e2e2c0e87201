"""The built site. Oracles: Sphinx with every warning an error, and Chromium at the width of a phone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.notebooks import NEEDS, NOTEBOOKS, ROOT, cells
from tests.render.browser import CHROMIUM, Browser

PHONE = 390
"""Width of a present-day phone in CSS pixels."""
OVERFLOW = f"""(() => {{
  const scrolls = e => ['auto', 'scroll'].includes(getComputedStyle(e).overflowX)
  const inside = e => {{ for (let p = e.parentElement; p && p.tagName !== 'ARTICLE'; p = p.parentElement) if (scrolls(p)) return true }}
  const wide = [...document.querySelectorAll('article *')].filter(e => e.getBoundingClientRect().right > {PHONE} + 1 && !inside(e))
  return wide.slice(0, 3).map(e => e.tagName + ' ' + Math.round(e.getBoundingClientRect().right) + ' ' + e.textContent.slice(0, 60))
    .concat(document.documentElement.scrollWidth > {PHONE} ? ['page ' + document.documentElement.scrollWidth] : [])
}})()"""
"""What protrudes from the column of a page and does not scroll inside a box of its own."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The whole site, built without a warning."""
    pytest.importorskip("myst_nb")
    folder = tmp_path_factory.mktemp("site") / "site"
    argv = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going", ROOT / "docs", folder]
    built = subprocess.run(list(map(str, argv)), cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder


def test_notebooks_have_their_outputs(site):
    """Outputs below the cells, and no traceback."""
    for notebook in (n for n in NOTEBOOKS if n.stem not in NEEDS):
        page = (site / "notebooks" / f"{notebook.stem}.html").read_text("utf-8")
        assert page.count("cell_output") >= len(cells(notebook)) // 2
        assert "Traceback (most recent call last)" not in page


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_no_page_is_wider_than_a_phone(site, tmp_path):
    """Wide tables and drawings scroll in their own box; the page itself does not."""
    wide = {}
    wider = "document.querySelector('article').append(Object.assign(document.createElement('pre'), {style: 'width: 600px'}))"
    with Browser(tmp_path, width=PHONE, height=844) as browser:
        for page in sorted(site.rglob("*.html")):
            browser.go(page.as_uri())
            if found := browser.run(OVERFLOW):
                wide[str(page.relative_to(site))] = found
        browser.run(f"{{{wider}}}")
        assert browser.run(OVERFLOW), "a box of 600 pixels is not noticed"
    assert wide == {}
