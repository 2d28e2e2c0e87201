"""Small fabrics that the packet layer's oracles run on."""

from __future__ import annotations

import copy
from functools import cache

import numpy as np

from softib.fabric.builder import FabricBuilder
from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from softib.iba.constants import NodeType
from softib.iba.smp import PortInfo, SwitchInfo
from softib.scenario.bring_up import bring_up


def chain(switches: int, hosts: int = 1, speed: str = "EDR", length_m: float = 2.0) -> Fabric:
    """Switches in a line, each with ``hosts``; host h of switch s is row ``s * hosts + h`` of the end ports."""
    b = FabricBuilder("chain")
    sw = b.nodes(switches, NodeType.SWITCH, hosts + 2, desc=[f"switch-{i}" for i in range(switches)], speed=speed)
    n = switches * hosts
    host = b.nodes(n, NodeType.CA, 1, desc=[f"host-{i:04}" for i in range(n)], speed=speed)
    at = np.arange(n)
    b.links(sw[at // hosts], 1 + at % hosts, host, 1, length_m=length_m)
    if switches > 1:
        b.links(sw[:-1], hosts + 1, sw[1:], hosts + 2, length_m=length_m)
    return up(b.build())


def star(hosts: int, speed: str = "EDR", length_m: float = 2.0) -> Fabric:
    """One switch."""
    return chain(1, hosts, speed, length_m)


@cache
def tree(radix: int, levels: int, speed: str = "NDR") -> Fabric:
    """A fat tree that is up (shared: do not change it)."""
    return up(generate("fat-tree", radix=radix, levels=levels, generation=speed))


def up(fabric: Fabric, engine: str = "minhop") -> Fabric:
    """``fabric`` after a subnet manager brought it up. LIDs are in the order of hosts."""
    cas = np.flatnonzero(~fabric.is_switch)
    ports = fabric.node_base[cas] + 1
    PortInfo.lid.set(fabric.port_info, _lids(fabric, ports))
    bring_up(fabric, engine)
    return fabric


def _lids(fabric: Fabric, ports: np.ndarray) -> np.ndarray:
    lid = np.zeros(fabric.sizes.ports, np.int64)
    lid[ports] = 1 + np.arange(len(ports))
    return lid


def no_lifetimes(fabric: Fabric) -> Fabric:
    """HOQLife and the switches' lifetime are infinite."""
    PortInfo.hoq_life.set(fabric.port_info, 20)
    SwitchInfo.life_time_value.set(fabric.switch_info, 20)
    return fabric


def fabric_copy(fabric: Fabric) -> Fabric:
    """A copy that may be changed."""
    return copy.deepcopy(fabric)
