"""Which port of a fabric a program or a subnet manager sits on where nobody says, and which port of
a named node.

One rule for all verbs: what ``softib report`` brings a fabric up from, what ``softib up``'s manager
runs on, and where ``softib run`` puts a program.
"""

from __future__ import annotations

import numpy as np

from softib.errors import InputError
from softib.fabric.model import Fabric

__all__ = ["default_port", "port_on"]


def default_port(fabric: Fabric) -> int:
    """Row of the port that is taken where no node is named: the first cabled port of a host.

    Where no host has a cable it is port 0 of the first cabled switch, then the first cabled port,
    then the first adapter or node. Raises :class:`InputError` on a fabric without nodes.
    """
    if not fabric.sizes.nodes:
        raise InputError("the fabric has no node that a program or a subnet manager could sit on")
    owner = fabric.port_node
    cabled = np.flatnonzero(fabric.linked)
    hosts = cabled[fabric.is_host[owner[cabled]]]
    if len(hosts):
        return int(hosts[0])
    if len(cabled):
        switches = cabled[fabric.is_switch[owner[cabled]]]
        return port_on(fabric, int(owner[(switches if len(switches) else cabled)[0]]))
    return port_on(fabric, int(fabric.cas[0]) if len(fabric.cas) else 0)


def port_on(fabric: Fabric, node: int, portnum: int | None = None) -> int:
    """Row of the port of ``node`` that has a QP0: port 0 of a switch, ``portnum`` of a CA (None:
    its first cabled one).

    Raises :class:`InputError` for a node or port that there is none of.
    """
    if not 0 <= node < fabric.sizes.nodes:
        raise InputError(f"no node {node}; this fabric has nodes 0 to {fabric.sizes.nodes - 1}")
    name, last = fabric.node_name(node), int(fabric.node_nports[node])
    if fabric.is_switch[node]:
        if portnum:
            raise InputError(f"{name}[{portnum}]: programs on a switch sit on port 0, its management port")
        return int(fabric.node_base[node])
    if portnum is None:
        ports = np.array(fabric.ports_of(node))
        cabled = ports[fabric.linked[ports]]
        return int(cabled[0] if len(cabled) else ports[0])
    if not 1 <= portnum <= last:
        raise InputError(f"{name} has no port {portnum}; it has ports 1 to {last}")
    return int(fabric.node_base[node]) + portnum
