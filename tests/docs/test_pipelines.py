"""The pipelines of examples/ci are YAML that their servers read, and run what the page of CI runs, which a test runs."""

from __future__ import annotations

import pytest
import yaml

from tests.docs.scripts import ROOT
from tests.docs.snippets import blocks_of

PIPELINES = sorted((ROOT / "examples" / "ci").glob("*.yml"))
PAGE = ROOT / "docs" / "guides" / "ci.md"
RUN = "\n".join(b.text for b in blocks_of(PAGE) if b.language == "sh")


def commands(path) -> list[str]:
    """The shell lines of a pipeline."""
    (job,) = [
        j for j in (lambda d: d.get("jobs", d))(yaml.safe_load(path.read_text("utf-8"))).values() if isinstance(j, dict)
    ]
    return job["script"] if "script" in job else [s["run"] for s in job["steps"] if "run" in s]


@pytest.mark.parametrize("path", PIPELINES, ids=lambda p: p.stem)
def test_a_pipeline_runs_what_the_page_runs(path):
    lines = [c for c in commands(path) if c.startswith("softib")]
    assert lines and all(line in RUN for line in lines)
    assert any("pip install" in c for c in commands(path))


def test_pages_show_them_all():
    pages = "".join(p.read_text("utf-8") for p in (PAGE, ROOT / "docs" / "ci.md"))
    assert len(PIPELINES) == 4 and all(f"examples/ci/{p.name}" in pages for p in PIPELINES)
