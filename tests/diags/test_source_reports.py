"""What ibdiagnet complained of in its own file is told, by kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from softib.diags.check import check
from softib.diags.finding import Severity
from softib.fabric.formats.registry import read

SEQUOIA = "sequoia-ndr-ibdiagnet/data__ibdiagnet2__ibdiagnet2.db_csv"


def test_sections_of_warnings_are_told_by_kind(shared_data: Path) -> None:
    """The rows below each heading of the file are the oracle."""
    text = (shared_data / SEQUOIA).read_text().splitlines()
    rows = 0
    for start in (i for i, line in enumerate(text) if line.startswith(("START_WARNINGS", "START_ERRORS"))):
        rows += next(i for i, line in enumerate(text[start:]) if line.startswith("END_")) - 2
    fabric = read(shared_data / SEQUOIA).fabric
    told = [f for f in check(fabric) if f.code == "source-reported"]
    assert rows == sum(f.evidence["times"] for f in told) > 0
    assert all(f.severity == Severity.INFO and f.evidence["event"] in f.message for f in told)
    assert any(f.where for f in told), "places are named"
    fabric.source.reported = [replace(r, severity="error") for r in fabric.source.reported]
    assert {f.severity for f in check(fabric) if f.code == "source-reported"} == {Severity.WARNING}
