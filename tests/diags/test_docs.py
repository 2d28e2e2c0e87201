"""Every finding code is documented, and nothing else is."""

from __future__ import annotations

import re
from pathlib import Path

from softib.diags.check import CODES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "findings.md"


def test_every_code_is_documented_with_its_severity() -> None:
    rows = dict(re.findall(r"^\| `([a-z0-9-]+)` \| (\w+) \|", PAGE.read_text(), re.MULTILINE))
    assert rows == {c.name: c.severity.name.lower() for c in CODES.values()}


def test_codes_are_kebab_and_tell_what_to_do() -> None:
    for c in CODES.values():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", c.name)
        assert c.meaning and c.advice
