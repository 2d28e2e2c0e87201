"""Node records that share one name: the same node listed twice, or two nodes with one GUID."""

from __future__ import annotations

from softib.fabric.formats.base import REPEATED, Problems
from softib.fabric.formats.records import Records
from softib.fabric.formats.text import shown

__all__ = ["NodeIndex", "merge_repeated_nodes"]


class NodeIndex:
    """Finds the node that a record calls ``key``; where several bear the name, the one that
    answers."""

    def __init__(self, first: dict[str, int], others: dict[str, list[int]], dropped: set[int]):
        self.first, self.others, self.dropped = first, others, dropped
        self.claims: dict[tuple[int, int], tuple[str, int]] = {}

    def prepare(self, r: Records) -> None:
        """Note what the ports of nodes with a shared name say."""
        shared = {i for nodes in self.others.values() for i in nodes}
        if shared:
            for node, num, peer, peer_num in zip(r.port_node, r.portnum, r.peer, r.peer_portnum, strict=True):
                if node in shared:
                    self.claims[node, num] = (peer, peer_num)

    def find(self, key: str, portnum: int, asker: tuple[str, int]) -> int:
        """Node called ``key`` whose port ``portnum`` names the ``asker``, else the first of the
        name, else -1."""
        for node in self.others.get(key, ()):
            if self.claims.get((node, portnum)) == asker:
                return node
        return self.first.get(key, -1)


def merge_repeated_nodes(r: Records, problems: Problems) -> NodeIndex:
    """Drop node records that only repeat an earlier one; keep, as nodes of one GUID, those that
    differ.

    Both become problems. A log that holds the same dump twice reads as one fabric.
    """
    nodes_of: dict[str, list[int]] = {}
    for i, key in enumerate(r.key):
        nodes_of.setdefault(key, []).append(i)
    shared = {key: nodes for key, nodes in nodes_of.items() if len(nodes) > 1}
    dropped: set[int] = set()
    if shared:
        ports = _ports_of(r, {i for nodes in shared.values() for i in nodes})
        for key, nodes in shared.items():
            kept: list[int] = []
            for i in nodes:
                same = next((k for k in kept if _describes_the_same(r, ports, k, i)), None)
                if same is None:
                    if kept:
                        problems.add(
                            r.node_line[i],
                            f"{shown(key)} is also the name of the node in line "
                            f"{r.node_line[kept[0]]}; both are kept, with one GUID",
                        )
                    kept.append(i)
                else:
                    problems.add(r.node_line[i], f"{REPEATED} {shown(key)} in line {r.node_line[same]}")
                    dropped.add(i)
            shared[key] = kept
    index = NodeIndex(
        {key: nodes[0] for key, nodes in nodes_of.items()},
        {key: kept for key, kept in shared.items() if len(kept) > 1},
        dropped,
    )
    if dropped:
        _compact(r, index)
    index.prepare(r)
    return index


def _ports_of(r: Records, nodes: set[int]) -> dict[int, dict[int, tuple[str, int]]]:
    ports: dict[int, dict[int, tuple[str, int]]] = {i: {} for i in nodes}
    for node, num, peer, peer_num in zip(r.port_node, r.portnum, r.peer, r.peer_portnum, strict=True):
        if node in nodes:
            ports[node][num] = (peer, peer_num)
    return ports


def _describes_the_same(r: Records, ports: dict[int, dict[int, tuple[str, int]]], a: int, b: int) -> bool:
    return (
        r.desc[a] == r.desc[b]
        and r.node_type[a] == r.node_type[b]
        and (r.both_ends_in_one_line or ports[a] == ports[b])
    )


def _compact(r: Records, index: NodeIndex) -> None:
    """Take the dropped nodes and their port records out of the columns and renumber the rest."""
    new: dict[int, int] = {}
    for i in range(len(r.key)):
        if i not in index.dropped:
            new[i] = len(new)
    for name in (
        "key",
        "node_type",
        "nports",
        "desc",
        "node_guid",
        "sys_guid",
        "vendor_id",
        "device_id",
        "revision",
        "pkey_cap",
        "external_pkey_cap",
        "guid_cap",
        "lid0",
        "lmc0",
        "enhanced_port0",
        "node_line",
    ):
        column = getattr(r, name)
        setattr(r, name, [v for i, v in enumerate(column) if i in new])
    keep = [node in new for node in r.port_node]
    for name in (
        "portnum",
        "peer",
        "peer_portnum",
        "port_line",
        "speed",
        "lanes",
        "lid",
        "lmc",
        "port_guid",
        "peer_lid",
        "peer_guid",
        "state",
    ):
        setattr(r, name, [v for v, k in zip(getattr(r, name), keep, strict=True) if k])
    r.port_node = [new[i] for i in r.port_node if i in new]
    r.label = {(new[i], p): text for (i, p), text in r.label.items() if i in new}
    index.first = {key: new[i] for key, i in index.first.items()}
    index.others = {key: [new[i] for i in nodes] for key, nodes in index.others.items()}
