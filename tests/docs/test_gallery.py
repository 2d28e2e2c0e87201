"""The gallery is true: its pictures are drawn from its fabrics, and each fault is found at its place, alone, and is mended."""

from __future__ import annotations

import pytest
import yaml

import softib
from tests.docs.scripts import ROOT, script

FABRICS = sorted((ROOT / "examples" / "gallery").glob("*.yaml"))
PAGE = (ROOT / "docs" / "gallery.md").read_text("utf-8")
FOUND = {
    "slow-link": "link-slow",
    "swap-cables": "swapped-cables",
    "crossed-rails": "crossed-rails",
    "dead-switch": "isolated-part",
    "remove-cable": "missing-cable",
    "unlink-hca": "unlinked-hca-port",
    "ber": "link-bit-errors",
}
"""Kind of a planted fault → code of the finding."""


@pytest.mark.parametrize("path", FABRICS, ids=lambda p: p.stem)
def test_a_fault_is_found_and_mended(path, tmp_path):
    known = yaml.safe_load(path.read_text())
    bad = softib.check(path).at_least("warning")
    if not known.get("faults"):  # the torus: its engine is the fault
        assert [f.code for f in bad] == ["credit-loop"]
        assert softib.route(path, "updn").deadlock_free
        return
    (fault,) = known.pop("faults")
    assert [f.code for f in bad] == [FOUND[fault["kind"]]]
    places = {str(w) for f in bad for w in f.where}
    named = fault.get("ports") or [v for k, v in fault.items() if k in ("cable", "switch", "port")]
    assert all(any(n in p for p in places) for n in named), (named, places)
    mended = tmp_path / path.name
    mended.write_text(yaml.safe_dump(known))
    assert not softib.check(mended).at_least("warning")


@pytest.mark.parametrize("path", FABRICS, ids=lambda p: p.stem)
def test_every_fabric_is_on_the_page(path):
    assert f"](img/gallery/{path.stem}.svg)" in PAGE and f"examples/gallery/{path.name}" in PAGE


def test_the_pictures_show_the_fabrics():
    drawing = script("draw_gallery")
    made = drawing.pictures()
    assert set(made) == {p.name for p in drawing.PICTURES.glob("*.svg")}
    other = [name for name, text in made.items() if (drawing.PICTURES / name).read_text("utf-8") != text]
    assert not other, "run python docs/draw_gallery.py"


def test_the_site_is_as_the_script_makes_it():
    files = script("make_examples")
    for name, text in files.texts().items():
        assert (files.FOLDER / name).read_text("utf-8") == text, "run python docs/make_examples.py"


def test_four_things_are_wrong_at_the_site():
    """Each of the planted faults of ``as_found`` is a finding against the plan; a fifth one would be somebody's mistake."""
    folder = ROOT / "examples" / "site"
    found = softib.check(folder / "as-found.ibnetdiscover", plan=str(folder / "cabling-plan.csv"))
    codes = sorted(f.code for f in found if f.code.startswith("plan-"))
    assert codes == ["plan-missing-cable", "plan-swapped-cables", "plan-swapped-cables", "plan-wrong-speed"]
