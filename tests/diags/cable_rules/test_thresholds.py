"""Thresholds: each with its source, a user's file overrides, and a wrong one is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from softib.diags.cable_rules.thresholds import load_thresholds, shipped
from softib.errors import InputError, UnknownName, UnreadableFile


def test_each_says_unit_and_source() -> None:
    limits = shipped()
    assert all(len(limits.of(n).source) > 5 and limits.of(n).unit for n in limits.names)


def test_a_file_overrides_some(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("ber_floor: 1e-14\ntemperature: {value: 65, source: our room}\n")
    limits = load_thresholds(mine)
    assert limits["ber_floor"] == 1e-14
    assert (limits["temperature"], limits.of("temperature").source) == (65, "our room")
    assert limits["wait_share"] == shipped()["wait_share"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("ber_flor: 1e-14", UnknownName),
        ("ber_floor: much", InputError),
        ("ber_floor: -1", InputError),
        ("- 1", UnreadableFile),
        ("a: [", UnreadableFile),
        ("ber_floor: true", InputError),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, text: str, error: type[Exception]) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(text)
    with pytest.raises(error) as caught:
        load_thresholds(mine)
    assert "\n" not in str(caught.value) and "mine.yaml" in str(caught.value)
