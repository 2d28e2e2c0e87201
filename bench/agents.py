"""How fast the agents answer: the MADs of a bring-up of an 11,664-host fat tree, and single MADs.

PYTHONPATH=src python bench/agents.py
"""

from __future__ import annotations

import time

import numpy as np

from softib.agents.plane import AgentPlane
from softib.fabric.builder import FabricBuilder
from softib.fabric.model import Fabric
from softib.iba.constants import NodeType
from softib.mad.batch import MadBatch

BATCH = 8192


def fat_tree(k: int) -> Fabric:
    """The three-level tree of k-port switches with k^3/4 hosts."""
    b, h = FabricBuilder("tree"), k // 2
    host = b.nodes(k * h * h, NodeType.CA, 1)
    edge, agg, core = (
        b.nodes(k * h, NodeType.SWITCH, k),
        b.nodes(k * h, NodeType.SWITCH, k),
        b.nodes(h * h, NodeType.SWITCH, k),
    )
    n = np.arange(len(host))
    b.links(edge[n // h], n % h + 1, host, 1)
    e, a = np.divmod(np.arange(k * h * h), h)
    b.links(edge[e], a + h + 1, agg[e // h * h + a], e % h + 1)
    b.links(agg[e], a + h + 1, core[e % h * h + a], e // h + 1)
    return b.build()


def paths(f: Fabric, sender: int) -> tuple[np.ndarray, np.ndarray]:
    """Directed routes (uint8[nodes, 64], hop counts) to every node, by breadth-first search over cables."""
    nodes = f.sizes.nodes
    path, hops = np.zeros((nodes, 64), np.uint8), np.full(nodes, -1)
    start = int(f.port_node[sender])
    hops[start] = 0
    frontier = [start]
    while frontier:
        nearer: list[int] = []
        for node in frontier:
            if f.node_type[node] != NodeType.SWITCH and node != start:
                continue
            for port in f.ports_of(node):
                far = int(f.port_peer[port])
                if far < 0 or hops[f.port_node[far]] >= 0:
                    continue
                other = int(f.port_node[far])
                path[other], hops[other] = path[node], hops[node] + 1
                path[other, hops[other]] = f.port_num[port]
                nearer.append(other)
        frontier = nearer
    return path, hops


def smps(node: np.ndarray, path: np.ndarray, hops: np.ndarray, method: int, attr: int, mod: np.ndarray) -> MadBatch:
    """Directed requests to nodes."""
    batch = MadBatch.zeros(len(node))
    m = batch.mad
    m[:, 0], m[:, 1], m[:, 2], m[:, 3] = 1, 0x81, 1, method
    m[:, 7], m[:, 16], m[:, 17], m[:, 32:36] = hops[node], attr >> 8, attr & 255, 255
    m[:, 20:24] = mod.astype(">u4").view(np.uint8).reshape(-1, 4)
    m[:, 128:192] = path[node]
    return batch


def stream(plane: AgentPlane, sender: int, batch: MadBatch, name: str) -> float:
    """Send in batches of ``BATCH``; returns seconds."""
    parts = [batch[i : i + BATCH] for i in range(0, len(batch), BATCH)]
    began, answered = time.perf_counter(), 0
    for part in parts:
        answers = plane.send(part, sender)
        answered += len(answers)
        assert not answers.mad[:, 5].any()
    took = time.perf_counter() - began
    assert answered == len(batch)
    print(f"{name:34} {len(batch):8} MADs {took:7.3f} s {len(batch) / took / 1e6:6.2f} M/s")
    return took


def main() -> None:
    """Print the figures."""
    f = fat_tree(36)
    sender = int(f.port(0, 1))
    plane = AgentPlane(f)
    path, hops = paths(f, sender)
    switch = np.flatnonzero(f.is_switch)
    began = time.perf_counter()
    plane.send(smps(switch[:1], path, hops, 1, 0x11, np.zeros(1, int)), sender)
    print(
        f"{'first MAD (compile or load)':34} {time.perf_counter() - began:22.3f} s; mean hops {hops[switch].mean():.2f}"
    )
    everyone, total = np.arange(f.sizes.nodes), 0.0
    total += stream(plane, sender, smps(everyone, path, hops, 1, 0x11, everyone * 0), "Get NodeInfo")
    total += stream(plane, sender, smps(everyone, path, hops, 1, 0x10, everyone * 0), "Get NodeDescription")
    rows = np.flatnonzero(f.linked)
    ports = smps(f.port_node[rows], path, hops, 1, 0x15, f.port_num[rows].astype(int))
    total += stream(plane, sender, ports, "Get PortInfo")
    blocks = (f.sizes.nodes + 64) // 64
    node, block = np.repeat(switch, blocks), np.tile(np.arange(blocks), len(switch))
    total += stream(plane, sender, smps(node, path, hops, 2, 0x19, block), "Set LinearForwardingTable")
    for state in (0, 3, 4):
        ports.mad[:, 3] = 2
        ports.mad[:, 64:128] = f.port_info[rows]
        ports.mad[:, 96] = ports.mad[:, 96] & 0xF0 | state
        ports.mad[:, 97] &= 0x0F
        total += stream(plane, sender, ports, f"Set PortInfo, state {state}")
    assert (f.port_state[rows] == 4).all()
    print(f"{'together':34} {total:22.3f} s")
    one = smps(switch[:1], path, hops, 1, 0x15, np.ones(1, int))
    began = time.perf_counter()
    for _ in range(20000):
        plane.send(one, sender)
    print(f"{'single MAD':34} {(time.perf_counter() - began) / 20000 * 1e6:20.1f} us")


if __name__ == "__main__":
    main()
