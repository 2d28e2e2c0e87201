"""Engines that use several VLs, from the manager's MADs to the SL2VL tables in the switches."""

import pytest

from softib.fabric.topologies.registry import generate
from softib.routing.engine import RouteOptions
from softib.routing.proof.verify import verify
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


def test_torus_2qos_through_the_manager():
    """torus-2QoS.conf names the links of one switch; the SLs and VLs that the manager programs leave no credit loop."""
    fabric = generate("torus", dims=[4, 5], hosts_per_switch=1)
    guid = [f"{int(fabric.node_guid[n]):#x}" for n in fabric.switch_node.tolist()]
    x, y = 5, 1  # rows are in the order of (x, y)
    links = {"xp": x, "xm": 3 * x, "yp": y, "ym": 4 * y}
    text = "torus 4T 5T 1\n" + "".join(f"{name}_link {guid[0]} {guid[at]}\n" for name, at in links.items())
    up = bring_up(fabric, "torus-2QoS", options=RouteOptions(torus_config=text))
    assert up.routing.engine == "torus-2QoS", up.report.notes
    sl2vl, data_vls = vls_of(up.fabric, up.graph)
    lft = up.fabric.lft[:, : up.graph.lft_size]
    assert verify(up.graph, lft, up.routing.path_sl, sl2vl, data_vls).ok
    assert not up.report.problems and not up.sweep().sets
