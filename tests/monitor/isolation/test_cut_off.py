"""No cable is disabled without which the manager or this host loses the subnet."""

from __future__ import annotations

import pytest

from softib.fabric.topologies.registry import generate
from softib.iba.constants import Method, PhysState
from softib.monitor.isolation.ports import cut_off, switched
from softib.scenario.bring_up import bring_up
from softib.sm.config import SmConfig
from tests.live.lab import Plane


@pytest.fixture(scope="module")
def fabric():
    made = generate("fat-tree", radix=4, levels=2)
    bring_up(made, config=SmConfig())
    return made


def cables(fabric, node: int, switches: bool = True, hosts: bool = True):
    """The ends of the cables of a node to other switches, and to hosts."""
    end = lambda row: (int(fabric.node_guid[fabric.port_node[row]]), int(fabric.port_num[row]))
    rows = [r for r in fabric.ports_of(node) if fabric.port_peer[r] >= 0]
    wanted = lambda r: switches if fabric.is_switch[fabric.port_node[fabric.port_peer[r]]] else hosts
    return [[end(r), end(int(fabric.port_peer[r]))] for r in rows if wanted(r)]


def test_the_managers_port_leaf_and_uplinks_stay(fabric):
    wire = Plane(fabric)
    ours = next(c for c in range(fabric.sizes.nodes) if fabric.is_host[c])
    leaf_of = lambda host: int(
        fabric.port_node[fabric.port_peer[next(r for r in fabric.ports_of(host) if fabric.port_peer[r] >= 0)]]
    )
    leaf = leaf_of(ours)
    for lost in (cables(fabric, ours), cables(fabric, leaf), cables(fabric, leaf, hosts=False)):
        why = cut_off(wire, lost)
        assert fabric.node_name(ours) in why and "\n" not in why
    uplinks = cables(fabric, leaf, hosts=False)
    assert cut_off(wire, uplinks[1:]) == "", "one uplink is left"
    others = [h for h in range(fabric.sizes.nodes) if fabric.is_host[h] and leaf_of(h) != leaf]
    assert [cut_off(wire, cables(fabric, one)) for one in (others[0], leaf_of(others[0]))] == ["", ""]
    spines = [s for s in range(fabric.sizes.nodes) if fabric.is_switch[s] and not cables(fabric, s, switches=False)]
    assert cut_off(wire, cables(fabric, spines[0])) == ""


@pytest.mark.parametrize("deaf", [False, True])
def test_a_device_is_cut_off_when_its_ports_confirmed_it(deaf):
    """A Set without an answer is no state that was read, even if the device is out of reach afterwards."""
    made = generate("fat-tree", radix=4, levels=2)
    bring_up(made, config=SmConfig())
    wire = Plane(made)
    last = next(h for h in reversed(range(made.sizes.nodes)) if made.is_host[h])
    leaf = int(made.port_node[made.port_peer[next(r for r in made.ports_of(last) if made.port_peer[r] >= 0)]])
    exchange = wire.exchange

    def without_answers(outbox=None):
        inbox = exchange(outbox)
        if inbox is None or not deaf:
            return inbox
        inbox = inbox[inbox.mad[:, 3] != Method.GET_RESP] if (outbox.mad[:, 3] == Method.SET).any() else inbox
        return inbox if len(inbox) else None

    wire.exchange = without_answers
    results = switched(wire, cables(made, leaf), PhysState.DISABLED, frozenset({int(made.node_guid[leaf])}))
    assert all(why == "" for _, why in results) != deaf
