"""The hosts and switches of all fabrics on a floor, and the nodes that belong to each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from softib.errors import InputError
from softib.fabric.model import Fabric
from softib.plan.floor import Floor
from softib.plural import counted

__all__ = ["FloorDevices", "devices_of"]


@dataclass(frozen=True)
class FloorDevices:
    """Devices of all fabrics, whose nodes are numbered consecutively.

    ``names``: name of each node; ``switches``: nodes of switches; ``hosts``: host → its adapters, in the order of
    nodes; ``leaf_of``: host → its leaf, -1 if its adapters are on several leaves; ``storage``: hosts without an adapter
    in the first fabric.
    """

    names: list[str]
    switches: list[int]
    hosts: dict[str, list[int]]
    leaf_of: dict[str, int]
    storage: frozenset[str]


def devices_of(fabrics: Sequence[Fabric], floor: Floor, shared: int | None) -> FloorDevices:
    names: list[str] = []
    switches: list[int] = []
    hosts: dict[str, list[int]] = {}
    leaf_of: dict[str, int] = {}
    for fabric in fabrics:
        start = len(names)
        names += fabric.node_names()
        both = {names[n] for n in switches} & {fabric.node_name(int(n)) for n in fabric.switch_node}
        if both:
            raise InputError(
                f"{min(both)} is the name of a switch in two fabrics; rename the switches of one fabric, for example "
                f"with prefix: storage- in its topology"
            )
        switches += (fabric.switch_node + start).tolist()
        adapters = (fabric.cas + start).tolist()
        if not start:
            for name, node in zip(_first_hosts(fabric, floor), adapters, strict=True):
                hosts.setdefault(name, []).append(node)
            leaf_of = _leaf_of(fabric, hosts)
            first = list(hosts)
            most = max(map(len, hosts.values()), default=0)
            whole = [name for name in first if len(hosts[name]) == most]  # without the hosts of UFM
            continue
        theirs = [names[node].split(" ")[0] for node in adapters]
        if shared is None and not hosts.keys() & set(theirs):
            raise InputError(
                f"no host of {fabric.name} has the name of a host of {fabrics[0].name}; use shared: the number of its "
                "adapters in each of them, 0 for none"
            )
        inside = (shared or 0) * len(whole)
        if inside > len(theirs):
            raise InputError(
                f"{fabric.name} has {counted(len(theirs), 'adapter')}, too few for {shared} in each of "
                f"{counted(len(whole), 'host')} of {fabrics[0].name}"
            )
        for i, node in enumerate(adapters):
            name = whole[i // shared] if shared and i < inside else theirs[i]
            hosts.setdefault(name, []).append(node)
    return FloorDevices(names, switches, hosts, leaf_of, frozenset(hosts.keys() - set(first)))


def _first_hosts(fabric: Fabric, floor: Floor) -> list[str]:
    """Return the host of each adapter of the first fabric."""
    if floor.adapters is not None:
        return [f"host {i // floor.adapters + 1}" for i in range(len(fabric.cas))]
    return [fabric.node_name(int(n)).split(" ")[0] for n in fabric.cas]


def _leaf_of(fabric: Fabric, hosts: Mapping[str, list[int]]) -> dict[str, int]:
    leaf_of: dict[str, int] = {}
    for name, nodes in hosts.items():
        peers = {
            int(fabric.port_node[fabric.port_peer[p]])
            for n in nodes
            for p in fabric.ports_of(n)
            if fabric.port_peer[p] >= 0
        }
        leaf_of[name] = peers.pop() if len(peers) == 1 else -1
    return leaf_of
