"""Agent planes that misbehave or take notes, and the fabrics that only a test would build."""

from __future__ import annotations

import hashlib

import numpy as np

from softib.agents.plane import AgentPlane
from softib.fabric.builder import FabricBuilder
from softib.fabric.model import Fabric
from softib.iba.constants import NodeType
from softib.iba.smp import MadHeader, Smp
from softib.mad.batch import MadBatch


def nodes_on_path(fabric: Fabric, port: int, mad: np.ndarray) -> list[int]:
    """Nodes that a directed-route SMP passes, by plain walking; the last one is its destination."""
    at, seen = port, [int(fabric.port_node[port])]
    path = Smp.initial_path.get(mad)
    for hop in range(1, int(MadHeader.hop_count.get(mad)) + 1):
        egress = int(fabric.node_base[seen[-1]]) + int(path[hop])
        at = int(fabric.port_peer[egress])
        if at < 0:
            break
        seen.append(int(fabric.port_node[at]))
    return seen


class MutePlane(AgentPlane):
    """Nodes of ``mute`` neither answer nor pass anything on; ``deaf`` (node, attribute) pairs are not answered."""

    def __init__(self, fabric: Fabric, mute: set[int] = frozenset(), deaf: set[tuple[int, int]] = frozenset()):  # type: ignore[assignment]
        super().__init__(fabric)
        self.mute, self.deaf = mute, deaf

    def send(self, batch: MadBatch, port: int, now_ps: int = 0) -> MadBatch:
        keep = np.ones(len(batch), bool)
        attrs = MadHeader.attr_id.get(batch.mad)
        for i in range(len(batch)):
            nodes = nodes_on_path(self.fabric, port, batch.mad[i])
            keep[i] = not (set(nodes) & self.mute) and (nodes[-1], int(attrs[i])) not in self.deaf
        return super().send(batch[keep], port, now_ps)


class NotingPlane(AgentPlane):
    """Hashes every request and every answer, in order."""

    def __init__(self, fabric: Fabric):
        super().__init__(fabric)
        self.hash = hashlib.sha256()
        self.batches: list[MadBatch] = []

    def send(self, batch: MadBatch, port: int, now_ps: int = 0) -> MadBatch:
        self.hash.update(batch.mad.tobytes())
        answers = super().send(batch, port, now_ps)
        self.hash.update(answers.mad.tobytes())
        return answers


class LossyPlane(AgentPlane):
    """Loses every MAD or its answer with probability ``loss``, and hands answers back in random order."""

    def __init__(self, fabric: Fabric, loss: float, seed: int):
        super().__init__(fabric)
        self.loss, self.rng = loss, np.random.default_rng(seed)

    def send(self, batch: MadBatch, port: int, now_ps: int = 0) -> MadBatch:
        arrived = super().send(batch[self.rng.random(len(batch)) >= self.loss], port, now_ps)
        return arrived[self.rng.permutation(np.flatnonzero(self.rng.random(len(arrived)) >= self.loss))]


def odd_fabric(*, duplicate: str = "") -> Fabric:
    """Three switches in a line, CAs of one and two ports, a CA cabled to one switch twice, loops of both kinds.

    ``duplicate``: "ca" or "switch" gives another device the GUID of one that is nearer; "switch-apart" uses other ports.
    """
    b = FabricBuilder("odd", lft_cap=256)
    guid = 0x1000 + np.arange(3)
    if duplicate.startswith("switch"):
        guid[2] = guid[0]
    sw = b.nodes(3, NodeType.SWITCH, 12, desc=["s0", "s1", "s2"], node_guid=guid)
    ca_guid = 0x2000 + 0x10 * np.arange(5)
    if duplicate == "ca":
        ca_guid[3] = ca_guid[1]
    ca = b.nodes(5, NodeType.CA, np.array([1, 1, 2, 1, 2]), desc=[f"h{i}" for i in range(5)], node_guid=ca_guid)
    b.links(sw[[0, 1]], [1, 2], sw[[1, 2]], [1, 5 if duplicate == "switch-apart" else 1])
    b.links(sw[0], 3, ca[0], 1)
    b.links(sw[0], 4, ca[1], 1)
    b.links(sw[0], 6, ca[2], 1)
    b.links(sw[1], 6, ca[2], 2)  # dual-port, two switches
    b.links(sw[2], 7, ca[3], 1)
    b.links(sw[1], [7, 8], ca[[4, 4]], [1, 2])  # dual-port, one switch
    b.links(sw[1], 9, sw[1], 10)  # a loop over two ports
    b.links(sw[1], 11, sw[1], 11)  # a loop-back plug
    return b.build()
