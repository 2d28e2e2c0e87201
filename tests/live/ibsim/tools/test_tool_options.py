"""Every option of the tools that look: topology, ports, tables, addresses. One row per option, under either preload library; what a
tool prints is compared with the fabric's arrays. Counters are in test_tool_counters.py, what writes in test_tool_writes.py.
"""

from __future__ import annotations

import pytest

from tests.live.ibsim.tools.tool_answers import (
    spelled,
)
from tests.live.ibsim.tools.tool_lab import in_turn
from tests.live.ibsim.tools.tool_rows import ROWS

pytestmark = pytest.mark.stock


@pytest.mark.parametrize(("row", "library"), in_turn(ROWS, lambda row: row.libraries))
def test_an_option_answers_with_right_data(row, library, lab):
    code, said = lab.tool(library, *spelled(lab, row.words).split())
    assert code == row.code, said[-2000:]
    row.check(lab, said)
