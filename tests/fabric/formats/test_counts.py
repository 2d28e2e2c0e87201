"""Every real dump reads with the numbers that were counted by hand (COUNTS.tsv)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from softib.fabric.formats import registry
from tests.fabric.formats.real import COLUMNS, rows

MISCOUNTED = {("ibutils-clusters/subnet.lst", "links"): 172}
"""The table says 171: it leaves out the SM's own cable, whose two lines (11 and 223) say ``CA-SM`` and not ``CA``."""


@pytest.mark.parametrize("row", rows("ibnetdiscover") + rows("lst"), ids=lambda r: r["file"])
def test_counts(row: dict[str, str], shared_data: Path) -> None:
    result = registry.read(shared_data / row["file"])
    told = {c: int(row[c]) for c in COLUMNS if row[c]}
    told |= {c: n for (file, c), n in MISCOUNTED.items() if file == row["file"]}
    assert {c: result.counts[c] for c in told} == told
    assert result.fabric.sizes.cables == told["links"]
    if row["format"] == "ibnetdiscover":
        assert result.fabric.sizes.switches == told["switches"]


def test_subnet_lst_holds_172_links(shared_data: Path) -> None:
    """Two lines a link, counted without our reader."""
    text = (shared_data / "ibutils-clusters/subnet.lst").read_text()
    ends = [re.findall(r"NodeGUID:(\w+).*?PN:(\w+)", line) for line in text.splitlines()]
    assert len({frozenset(e) for e in ends if len(e) == 2}) == 172
    assert len({frozenset(e) for e, line in zip(ends, text.splitlines(), strict=True) if "CA-SM" not in line}) == 171


def test_problems_name_what_is_wrong_in_real_files(shared_data: Path) -> None:
    def problems(name: str) -> list[tuple[int, str]]:
        return [(p.line, p.reason) for p in registry.read(shared_data / name).problems]

    clean = ("fdr10-stage/topo", "ufm-selene-storage/selene.storage.txt", "psmn-x5/X5.topofile", "jabl-tests/1.topo")
    assert [problems(n) for n in clean] == [[]] * len(clean)
    (dangling,) = problems("superbench-logs/ib_traffic_topo_aware_ibnetdiscover.txt")
    assert "has no record" in dangling[1]
    first, *loops = problems("jabl-tests/3.topo")
    assert first[0] == 1 and "query_smp.c" in first[1]
    assert len(loops) == 3 and all("same node" in reason for _, reason in loops)
    assert problems("hk-examples/Topo.6_CS8500.txt") == []  # 120 chips of two directors, in ibdiagnet's form
