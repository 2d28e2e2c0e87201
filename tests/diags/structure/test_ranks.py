"""Ranks of switches that stand beside the tree: management switches, line chips below which nobody is plugged in."""

from __future__ import annotations

import numpy as np

from softib.diags.structure.recognise import recognise
from softib.fabric.builder import FabricBuilder
from softib.fabric.faults.inject import remove_cable
from softib.fabric.model import Fabric
from softib.iba.constants import NodeType
from tests.fabric.formats.cabling.director import director_fabric


class Net:
    """A fabric by names: ``links`` are pairs of them, ports are taken in order."""

    def __init__(self) -> None:
        self.switches: list[str] = []
        self.hosts: list[str] = []
        self.links: list[tuple[str, str]] = []

    def switch(self, name: str, *below: str, hosts: int = 0) -> str:
        self.switches.append(name)
        self.links += [(name, other) for other in below]
        for h in range(hosts):
            self.hosts.append(f"{name}-host-{h + 1}")
            self.links.append((name, self.hosts[-1]))
        return name

    def build(self) -> Fabric:
        b = FabricBuilder("net")
        b.nodes(len(self.switches), NodeType.SWITCH, 40, desc=self.switches, speed="HDR")
        b.nodes(len(self.hosts), NodeType.CA, 1, desc=self.hosts, speed="HDR")
        row = {name: i for i, name in enumerate(self.switches + self.hosts)}
        used = np.zeros(len(row), int)
        for pair in self.links:
            ends = [row[name] for name in pair]
            used[ends] += 1
            b.links(ends[0], used[ends[0]], ends[1], used[ends[1]])
        return b.build()


def tree(pods: int = 3, cores: int = 4) -> Net:
    """Three tiers: a pod of 3 leaves of 8 hosts and 2 spines; each spine on every core."""
    net = Net()
    spines = []
    for p in range(pods):
        leaves = [net.switch(f"leaf-{3 * p + i + 1:02d}", hosts=8) for i in range(3)]
        spines += [net.switch(f"spine-{2 * p + i + 1:02d}", *leaves) for i in range(2)]
    for c in range(cores):
        net.switch(f"core-{c + 1:02d}", *spines)
    return net


def ranks(net: Net) -> dict[str, int]:
    fabric = net.build()
    return {name: int(recognise(fabric).rank[i]) for i, name in enumerate(net.switches)}


def without_odd(found: dict[str, int]) -> dict[str, int]:
    return {name: r for name, r in found.items() if name.startswith(("leaf", "spine", "core"))}


def test_a_management_switch_on_the_spines_is_a_leaf() -> None:
    net = Net()
    leaves = [net.switch(f"leaf-{i + 1}", hosts=12) for i in range(6)]
    spines = [net.switch(f"spine-{i + 1}", *leaves, *leaves) for i in range(4)]
    before = ranks(net)
    net.switch("mgmt", *spines[:2], hosts=3)
    found = ranks(net)
    assert without_odd(found) == before and found["mgmt"] == 1
    structure = recognise(net.build())
    assert structure.levels == 2
    assert structure.oversubscription.max() == 12 / 8  # twelve hosts on two cables to each of four spines; mgmt: 3 to 2


def test_a_chain_of_management_switches_on_a_core_gets_lower_and_lower() -> None:
    net = tree()
    before = ranks(net)
    net.switch("mgmt-1", "core-01")
    net.switch("mgmt-2", "mgmt-1", hosts=2)
    found = ranks(net)
    assert without_odd(found) == before and (found["mgmt-1"], found["mgmt-2"]) == (2, 1)
    assert recognise(net.build()).levels == 3


def test_cores_with_a_host_each_stay_cores() -> None:
    """They alone join the pods, so they are the top of the tree whatever hangs on them."""
    net = tree(cores=2)
    net.links += [("core-01", "store-1"), ("core-02", "store-2")]
    net.hosts += ["store-1", "store-2"]
    assert {n: r for n, r in ranks(net).items() if n.startswith("core")} == {"core-01": 3, "core-02": 3}


def test_line_chips_of_a_director_without_cables_below_stay_in_the_tier_of_their_kind() -> None:
    made = director_fabric()
    before = recognise(made.fabric)
    chips = sorted(made.chip)
    empty = [chips[1], chips[4], chips[-1]]
    for leaf, chip in made.uplinks:
        if chip[0] in empty:
            remove_cable(made.fabric, int(made.fabric.port(*leaf)))
    after = recognise(made.fabric)
    assert after.levels == before.levels == 3
    assert (after.rank == before.rank).all() and (after.rank[chips] == 2).all()
