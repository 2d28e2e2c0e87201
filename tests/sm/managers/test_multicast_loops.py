"""Multicast and unicast together wait in no cycle: what the switches hold is walked packet by packet, and the channels are compared with each other."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import networkx
import numpy as np
import pytest

from softib.fabric.plugging import unplug
from softib.fabric.topologies.registry import generate
from softib.iba.constants import LID_MCAST_MIN
from softib.sm.sa.mcmember_record import broadcast_mgid
from tests.sm.managers.multicast_lab import LEVELS, join, mgid
from tests.sm.sa.asking import Asked, hosts


class Walker:
    """Channels are (port, VL) of switch ports that lead to switches, and of hosts."""

    def __init__(self, a: Asked):
        self.a, self.f = a, a.fabric
        self.waits: defaultdict[str, set] = defaultdict(set)

    def vl(self, out: int, came: int, sl: int) -> int:
        f = self.f
        on_switch = f.is_switch[f.port_node[out]]
        row = int(f.sl2vl_base[out]) + (int(f.port_num[came]) if on_switch else 0)
        pair = int(f.sl2vl[row, sl >> 1])
        return pair >> 4 if sl % 2 == 0 else pair & 15

    def unicast(self, source: int, target: int, sl: int) -> None:
        f, lid = self.f, int(self.f.lid[target])
        path = [(source, self.vl(source, source, sl))]
        at = int(f.port_peer[source])
        while f.is_switch[f.port_node[at]]:
            node = int(f.port_node[at])
            out = int(f.node_base[node]) + int(f.lft[int(f.switch_of_node[node]), lid])
            path.append((out, self.vl(out, at, sl)))
            at = int(f.port_peer[out])
            assert len(path) < 50
        assert at == target
        self.waits["unicast"].update(pairwise(path))

    def multicast(self, source: int, mlid: int, sl: int) -> None:
        f = self.f
        todo = [(source, self.vl(source, source, sl))]
        while todo:
            port, vl = todo.pop()
            at = int(f.port_peer[port])
            node = int(f.port_node[at])
            if not f.is_switch[node]:
                continue
            mask = f.mft[int(f.switch_of_node[node]), mlid - LID_MCAST_MIN]
            for num in range(1, int(f.node_nports[node]) + 1):
                out = int(f.node_base[node]) + num
                if mask[num >> 4] >> (num & 15) & 1 and out != at:
                    after = (out, self.vl(out, at, sl))
                    self.waits["multicast"].add(((port, vl), after))
                    todo.append(after)

    def cycle(self, *kinds: str) -> list | None:
        graph = networkx.DiGraph([edge for kind in kinds for edge in self.waits[kind]])
        try:
            return networkx.find_cycle(graph)
        except networkx.NetworkXNoCycle:
            return None


def walked(fabric, engine: str, groups: int = 12, seed: int = 1, sl: int | None = None) -> Walker:
    """Every pair of hosts, and every member of random groups, has sent."""
    a = Asked(fabric, engine=engine)
    rng = np.random.default_rng(seed)
    ports = hosts(a)
    broadcast = a.sm.sa_manager.groups.groups[broadcast_mgid(0xFFFF)]
    levels = LEVELS | {"sl": broadcast.sl if sl is None else sl}  # as IPoIB does
    for n in range(groups):
        for port in rng.choice(ports, int(rng.integers(2, 7)), replace=False).tolist():
            assert join(a, port, mgid(n), **levels)[0] == 0
    subnet = a.sm.sa_manager.subnet
    graph, routing = subnet.graph, subnet.routing
    assert routing.engine == engine, routing.notes
    w = Walker(a)
    f = a.fabric
    row = {int(lid): i for i, lid in enumerate(graph.end_lid)}
    for s in ports.tolist():
        for d in ports.tolist():
            if s != d:
                end = row[int(f.lid[d])]
                w.unicast(s, d, routing.sl(int(graph.end_switch[row[int(f.lid[s])]]), end))
    for group in a.sm.sa_manager.groups.groups.values():
        for guid in group.members:
            w.multicast(int(np.flatnonzero(f.port_guid == guid)[-1]), group.mlid, group.sl)
    return w


def damaged(seed: int):
    """A three-level tree without a fifth of its cables between switches, in which every host still reaches every other."""
    fabric = generate("fat-tree", radix=8, levels=3, hosts=32)
    rng = np.random.default_rng(seed)
    a, b = fabric.cable_port[:, 0], fabric.cable_port[:, 1]
    inside = np.flatnonzero(fabric.is_switch[fabric.port_node[a]] & fabric.is_switch[fabric.port_node[b]])
    for cable in sorted(rng.choice(inside, len(inside) // 5, replace=False).tolist(), reverse=True):
        unplug(fabric, cable)
    return fabric


CASES = {
    "fat tree by ftree": ("ftree", lambda: generate("fat-tree", radix=8, levels=3, hosts=32)),
    "fat tree by updn": ("updn", lambda: generate("fat-tree", radix=8, levels=3, hosts=32)),
    "damaged tree by updn": ("updn", lambda: damaged(3)),
    "damaged tree by ftree": ("ftree", lambda: damaged(3)),
    "torus by updn": ("updn", lambda: generate("torus", dims=[4, 4], hosts_per_switch=2)),
    "torus by dnup": ("dnup", lambda: generate("torus", dims=[4, 4], hosts_per_switch=2)),
    "torus by dfsssp": ("dfsssp", lambda: generate("torus", dims=[5, 4], hosts_per_switch=1)),
    "torus by lash": ("lash", lambda: generate("torus", dims=[5, 4], hosts_per_switch=1)),
    "torus by nue": ("nue", lambda: generate("torus", dims=[5, 4], hosts_per_switch=1)),
    "mesh by dor": ("dor", lambda: generate("mesh", dims=[4, 4], hosts_per_switch=1)),
    "ring by lash": ("lash", lambda: generate("ring", switches=6, hosts_per_switch=2)),
    "dragonfly by dfsssp": ("dfsssp", lambda: generate("dragonfly", g=5, a=4, p=1, h=1)),
}


@pytest.mark.parametrize("case", CASES)
def test_copies_and_unicast_packets_wait_for_each_other_in_no_cycle(case):
    engine, make = CASES[case]
    w = walked(make(), engine)
    assert w.cycle("unicast") is None, "what the engine promises"
    assert w.cycle("multicast") is None
    assert w.cycle("unicast", "multicast") is None


def test_groups_on_the_sl_of_paths_that_loop_with_every_tree_are_said():
    """On a torus by lash VL 0 carries so many paths that no tree is free beside them, and SL 0 was asked for."""
    w = walked(generate("torus", dims=[6, 6], hosts_per_switch=1), "lash", sl=0)
    assert w.cycle("unicast", "multicast") is not None
    w.a.sweep()
    assert any(note.startswith("multicast: each candidate tree") for note in w.a.sm.report.notes)
