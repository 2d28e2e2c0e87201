"""Engines that use several VLs, from the manager's MADs to the SL2VL tables in the switches."""

import pytest

from softib.fabric.topologies.registry import generate
from softib.routing.verify import verify
from softib.scenario.bring_up import bring_up
from softib.scenario.graph_view import vls_of


@pytest.mark.parametrize("engine", ["dfsssp", "lash"])
def test_what_the_switches_hold_is_free_of_credit_loops(engine):
    """The proof is of the tables as programmed: the VL of every hop is read out of the switches."""
    up = bring_up(generate("torus", dims=[5, 5], hosts_per_switch=2), engine)
    sl2vl, data_vls = vls_of(up.fabric, up.graph)
    lft = up.fabric.lft[:, : up.graph.lft_size]
    assert up.routing.engine == engine and up.routing.vls >= 2
    assert verify(up.graph, lft, up.routing.path_sl, sl2vl, data_vls).ok
    assert verify(up.graph, lft, None, sl2vl, data_vls).credit_loop, "all on one SL they would loop"
