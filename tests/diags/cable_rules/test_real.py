"""What the rules say of a real NDR cluster (ibdiagnet of 2025, 271 cables): the two readings a second apart, and the totals."""

from __future__ import annotations

from pathlib import Path

import pytest

from softib.diags.cable_rules.judge import judge
from tests.conftest import find_shared_data
from tests.diags.cable_rules.real import dump

DUMP = (find_shared_data() or Path("absent")) / "sequoia-ndr-ibdiagnet/data__ibdiagnet2__ibdiagnet2.db_csv"
pytestmark = [
    pytest.mark.skipif(not DUMP.exists(), reason="the real files are not here"),
    pytest.mark.filterwarnings("ignore:.*sections that softib does not read"),
]


def test_a_second_says_nothing_but_that_it_is_too_short() -> None:
    assert [f.code for f in judge(dump(DUMP, "PM_DELTA", 1.0))] == ["observed-too-short"]


def test_totals_name_the_cables_with_errors_at_any_assumed_time() -> None:
    """Fourteen ports count symbol errors, eight packet errors, some too few to tell; one cable fell 55 times as both ends count. A 33-fold fall that the switch alone
    counts is a host that was started, and the packets without a destination that follow (DLID mapping) are nobody's cable."""
    for days in (1, 30):
        found = [f for f in judge(dump(DUMP, "PM_INFO", days * 86400.0)) if f.severity > 0]
        assert {f.code for f in found} <= {"link-flaps", "link-bit-errors", "link-packet-errors"}
        assert 9 <= len(found) <= 10
        assert [str(f.where[0]) for f in found if f.code == "link-flaps"] == ["is-north-7-compute-27 mlx5_11[1]"]
        assert all("mlx5" in w.node or "Quantum" in w.node for f in found for w in f.where)
