"""Where programs and managers sit by default: one rule, whoever asks."""

from __future__ import annotations

import pytest

from softib.errors import InputError
from softib.fabric.builder import FabricBuilder
from softib.fabric.node_finder import NodeFinder, default_port, port_on
from softib.iba.constants import NodeType
from softib.scenario.bring_up import bring_up


def fabric(cabled_host: bool = True):
    """A switch whose aggregation node comes first, as real dumps have it, and an adapter without a cable before the host."""
    b = FabricBuilder("sharp")
    switch = b.nodes(1, NodeType.SWITCH, 40, desc=["leaf"])
    sharp = b.nodes(1, NodeType.CA, 1, desc=["Mellanox Technologies Aggregation Node"])
    b.nodes(1, NodeType.CA, 2, desc=["dark"])
    host = b.nodes(1, NodeType.CA, 2, desc=["host"])
    b.links(switch, 39, sharp, 1)
    if cabled_host:
        b.links(switch, 1, host, 2)
    return b.build()


def test_nobody_sits_on_an_aggregation_node_while_there_is_a_host():
    f = fabric()
    assert f.port_name(default_port(f)) == "host[2]"
    assert NodeFinder(f).port("") == default_port(f), "softib run without --node"
    assert bring_up(f).port == default_port(f), "the manager of report, check and route"
    alone = fabric(cabled_host=False)
    assert alone.port_name(default_port(alone)) == "leaf[0]"


def test_without_adapters_it_is_a_switch():
    b = FabricBuilder("switches")
    switches = b.nodes(3, NodeType.SWITCH, 4, desc=["dark", "a", "b"])
    b.nodes(1, NodeType.CA, 1, desc=["no cable"])
    b.links(switches[1], 1, switches[2], 1)
    f = b.build()
    assert default_port(f) == int(f.node_base[1])
    assert bring_up(f).report.switches == 2


def test_what_nobody_can_sit_on_is_refused_in_one_line():
    with pytest.raises(InputError, match="no node"):
        default_port(FabricBuilder("empty").build())
    f = fabric()
    for node, portnum, why in ((99, None, "node 99 does not exist"), (0, 1, "port 0"), (3, 3, "no port 3")):
        with pytest.raises(InputError, match=why):
            port_on(f, node, portnum)
