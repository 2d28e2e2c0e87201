"""The two hosts of a running fabric that take part in a rehearsal of attacks: the attacker and the victim."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np

from softib.api.running.running import RunningFabric
from softib.errors import InputError
from softib.iba.constants import MgmtClass
from softib.live.instances import find
from softib.live.umad_client.abi import ASKS
from softib.live.umad_client.fabric_port import FabricPort
from softib.tenants.rehearsal import Stage

__all__ = ["staged"]

CLASSES = {**ASKS, int(MgmtClass.SUBN_ADM): 0}


@contextmanager
def staged(fabric: RunningFabric, mkey: int) -> Iterator[Stage]:
    """Return the hosts for a rehearsal on ``fabric``, whose manager has ``mkey``. The victim is the
    last host, and the attacker is the last host on another switch; neither is the manager's host.
    Raises :class:`InputError` if there are fewer than three hosts on two switches."""
    instance, f = find(fabric.name), fabric.snapshot().arrays
    end = np.flatnonzero(f.is_host[f.port_node] & (f.port_peer >= 0) & (f.lid > 0))
    end = end[f.is_switch[f.port_node[f.port_peer[end]]]]
    manager = (fabric.status().sm.node or "").partition("[")[0]
    end = end[[f.node_name(node) != manager for node in f.port_node[end].tolist()]]
    leaf = f.port_node[f.port_peer[end]]
    others = end[leaf != leaf[-1]] if len(end) else end
    if not len(others):
        raise InputError(
            f"{fabric.name}: rehearse needs two hosts, on different switches, besides the manager's host; use a larger "
            f"fabric"
        )
    attacker, victim = int(others[-1]), int(end[-1])
    cast = {f.node_name(int(f.port_node[port])): port for port in (attacker, victim)}

    def gate(port: int) -> tuple[int, int]:
        peer = f.port_peer[port]
        return int(f.lid[f.port(f.port_node[peer], 0)]), int(f.port_num[peer])

    def run(node: str, command: list[str]) -> subprocess.Popen[str]:
        return fabric.start(node, command, stderr=subprocess.STDOUT)

    with ExitStack() as open_ports:

        def wire(node: str) -> FabricPort:
            port = FabricPort(instance, node, CLASSES)
            open_ports.callback(port.close)
            return port

        attacking, attacked = cast
        yield Stage(
            attacker=attacking,
            victim=attacked,
            wires={node: wire(node) for node in cast},
            lids={node: int(f.lid[port]) for node, port in cast.items()},
            guids={node: int(f.port_guid[port]) for node, port in cast.items()},
            trusted=wire(manager),
            mkey=mkey,
            leaf=int(f.lid[f.port(leaf[-1], 0)]),
            gates=[
                (int(f.lid[f.port(f.port_node[peer], 0)]), int(f.port_num[peer]))
                for peer in f.port_peer[list(cast.values())]
            ],
            run=run,
            sweeps=lambda: fabric.status().sm.sweeps or 0,
        )
