"""Values, places, errors and order as mlx5's provider has them. The programs are in ``programs/``."""

from __future__ import annotations

import pytest

from tests.preload.verbs.applications import A
from tests.preload.verbs.c_programs import program, run


@pytest.mark.parametrize("scene", ("attributes", "places", "posting", "overrun"))
def test_as_mlx5_has_it(apps, scene):
    """Oracle: the sources of rdma-core and Linux that the table of docs/verbs.md names."""
    assert run(apps, A, program("provider"), scene) == "ok\n"


@pytest.mark.parametrize("transport", ("rc", "ud"))
def test_an_answer_comes_after_the_completion_of_its_message(apps, transport):
    """On no wire does it overtake the ACK; tgtd takes an iSER command that does for a PDU of the login."""
    assert run(apps, A, program("reply_order"), transport, "5000", limit_s=60) == "ok\n"
