"""docs/draw_serve.py draws every picture that docs/serve.md shows, and something is on each."""

from __future__ import annotations

import importlib.util
import re
import struct
from pathlib import Path

import pytest

from softib.web.app import VENDOR
from tests.render.browser import CHROMIUM

ROOT = Path(__file__).resolve().parents[2]
SHOWN = re.findall(r"\(img/(serve[\w-]*\.png)\)", (ROOT / "docs/serve.md").read_text("utf-8"))


def size_of(picture: bytes) -> tuple[int, int]:
    assert picture.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", picture[16:24])
    return width, height


def test_every_picture_of_the_page_is_there():
    assert len(SHOWN) == 4
    for name in SHOWN:
        assert size_of((ROOT / "docs/img" / name).read_bytes())[1] > 800


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.skipif(not (VENDOR / "sigma.min.js").exists(), reason="the map's libraries are absent: make web (npm)")
def test_the_pictures_are_drawn_by_the_script(tmp_path):
    pytest.importorskip("duckdb", reason="duckdb is not installed (the extra monitor)")
    spec = importlib.util.spec_from_file_location("draw_serve", ROOT / "docs/draw_serve.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    drawn = script.main(tmp_path)
    assert [p.name for p in drawn] == SHOWN
    for path in drawn:
        now, kept = path.read_bytes(), (ROOT / "docs/img" / path.name).read_bytes()
        assert size_of(now) == size_of(kept)
        # An empty map compresses to far less; fonts and time zones differ from machine to machine.
        assert 0.6 < len(now) / len(kept) < 1.6
