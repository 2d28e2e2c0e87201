"""The rows of COUNTS.tsv, as parameters of tests. Empty where the folder of real files is absent."""

from __future__ import annotations

import csv

from tests.conftest import find_shared_data

COLUMNS = ("switches", "cas", "sharp_nodes", "links", "listed_both_ends", "self_loops", "dangling")


def rows(format: str) -> list[dict[str, str]]:
    """Rows of this format, as the table has them."""
    data = find_shared_data()
    if data is None:
        return []
    with (data / "COUNTS.tsv").open() as file:
        return [r for r in csv.DictReader(file, delimiter="\t") if r["format"] == format]


def names(format: str) -> list[str]:
    """Paths of these rows below the folder."""
    return [r["file"] for r in rows(format)]
