"""Each folder here is a story: ``fabric.yaml`` (a fabric with faults) and ``expected.yaml`` (what the check must see).

``findings`` is the whole list: nothing may be missing and nothing more may be shown. ``where`` is a set of places.
``structure`` holds those fields of the summary that the story is about.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from softib.diags.check import check
from softib.diags.structure.recognise import recognise, summary
from softib.fabric.topologies.spec import load_fabric_yaml

HERE = Path(__file__).resolve().parent
STORIES = sorted(p.parent for p in HERE.glob("*/fabric.yaml"))


@pytest.mark.parametrize("story", STORIES, ids=lambda p: p.name)
def test_story(story: Path) -> None:
    result = load_fabric_yaml(story / "fabric.yaml")
    expected = yaml.safe_load((story / "expected.yaml").read_text())
    structure = recognise(result.fabric)
    found = check(result.fabric, problems=result.problems, structure=structure)
    shown = sorted((f.code, sorted(map(str, f.where))) for f in found)
    wanted = sorted((f["code"], sorted(f["where"])) for f in expected["findings"])
    assert shown == wanted, "\n".join(f.message for f in found)
    told = summary(result.fabric, structure)
    wanted_structure = expected.get("structure", {})
    assert {k: getattr(told, k) for k in wanted_structure} == wanted_structure


def test_every_story_has_an_end() -> None:
    assert len(STORIES) >= 8
    assert all((s / "expected.yaml").is_file() for s in STORIES)
