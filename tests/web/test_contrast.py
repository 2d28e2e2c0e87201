"""Contrast of the page in the light and in the dark, by WCAG 2.1's formula: text 4.5 to 1 and more (1.4.3), what findings and marks are drawn in 3 to 1 (1.4.11), idle links still seen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

STATIC = Path(__file__).resolve().parents[2] / "src/softib/web/static"
THEMES = ("light", "dark")


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def variables(theme: str) -> dict[str, str]:
    rules = re.findall(r"^:root[^{]*{([^}]*)}", (STATIC / "style.css").read_text(), re.M)
    assert len(rules) == 2
    return dict(re.findall(r"--([\w-]+): (#\w+)", rules[THEMES.index(theme)]))


def ramp(name: str, theme: str) -> list[str]:
    text = (STATIC / "colours.js").read_text()
    body = re.search(rf"const {name} = {{(.*?)}};", text, re.S)[1]
    return re.findall(r"#\w+", re.search(rf"{theme}: (\[.*?\]|\"#\w+\")", body, re.S)[1])


def test_the_formula_is_wcag_s():
    assert contrast("#fff", "#000000") == pytest.approx(21) and contrast("#767676", "#ffffff") == pytest.approx(
        4.54, abs=0.01
    )


@pytest.mark.parametrize("theme", THEMES)
def test_text_can_be_read(theme):
    v = variables(theme)
    for ink in ("ink", "soft", "accent"):
        for ground in ("page", "card"):
            assert contrast(v[ink], v[ground]) >= 4.5, (ink, ground)
    assert contrast(v["on-warning"], v["warning"]) >= 4.5  # the line that says what is wrong
    assert contrast(v["card"], v["accent"]) >= 4.5  # the chosen hit of a search


@pytest.mark.parametrize("theme", THEMES)
def test_what_matters_on_the_map_is_seen(theme):
    page = variables(theme)["page"]
    for name in ("FINDING", "NODE", "MARK", "DOWN"):
        for colour in ramp(name, theme)[1 if name == "FINDING" else 0 :]:
            assert contrast(colour, page) >= 3, (name, colour)
    assert contrast(ramp("LOAD", theme)[-1], page) >= 3 and contrast(ramp("JOB", theme)[-1], page) >= 3
    for name in ("LOAD", "FINDING", "JOB"):
        assert contrast(ramp(name, theme)[0], page) >= (1.5 if theme == "light" else 2.2), name
