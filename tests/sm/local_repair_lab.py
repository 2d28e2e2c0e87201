"""A managed tree, and a walk in plain Python over its columns by the rule of ARInfo.fr_enabled."""

from __future__ import annotations

from softib.agents.plane import AgentPlane
from softib.fabric.topologies.registry import generate
from softib.iba.constants import LFT_NO_ROUTE, PortState
from softib.iba.vendor import ar
from softib.sm.config import config_of
from softib.sm.options.file import read_options
from softib.sm.subnet_manager import SubnetManager
from tests.sm.wire import settle

__all__ = ["fate", "managed", "reaches"]


def managed(text, **spec):
    f = generate("fat-tree", **{"radix": 8, "levels": 2, "generation": "HDR", **spec})
    sm, plane = SubnetManager(config_of(read_options(f"routing_engine updn\n{text}").options)), AgentPlane(f)
    port = int(f.port(f.cas[0], 1))
    settle(sm, plane, port)
    return f, sm, plane, port


def up(f, port) -> bool:
    return (
        f.port_state[port] == PortState.ACTIVE
        and f.port_peer[port] >= 0
        and f.port_state[f.port_peer[port]] == PortState.ACTIVE
    )


def reaches(f, source, lid, target, repairs) -> bool:
    """Does a packet from a host's port get to ``target``'s?"""
    return fate(f, source, lid, target, repairs) == "arrives"


def fate(f, source, lid, target, repairs) -> str:
    """``arrives``, ``lost``, or ``loops`` of a packet from a host's port to ``target``'s."""
    at = int(f.port_peer[source])
    for _ in range(2 * f.sizes.switches + 2):
        node = int(f.port_node[at])
        if at == target or not f.is_switch[node]:
            return "arrives" if at == target else "lost"
        switch = int(f.switch_of_node[node])
        out = int(f.lft[switch, lid])
        if out == LFT_NO_ROUTE:
            return "lost"
        port = int(f.node_base[node]) + out
        if not up(f, port) and repairs:
            words = f.ar_group[switch, int(f.ar_lft[switch, lid]) & ar.GROUP_MASK]
            others = [
                p for p in range(1, 65) if int(words[p // 64]) >> p % 64 & 1 and up(f, int(f.node_base[node]) + p)
            ]
            port = int(f.node_base[node]) + others[0] if others else port
        if not up(f, port):
            return "lost"
        at = int(f.port_peer[port])
    return "loops"
