"""What tests of this package share."""

from __future__ import annotations

import numpy as np

from softib.fabric.formats.topo.ibnl import SPEED_OF_G
from softib.fabric.model import Fabric
from softib.fabric.power_up import active_speed_codes
from softib.iba.constants import NodeType
from softib.iba.rates import LANES_BY_BIT, SPEED_BY_CODE
from softib.iba.smp import PortInfo
from tests.fabric.formats.cabling.ibdm import IbdmFabric

G_OF_SPEED = {name: g for g, name in SPEED_OF_G.items()}


def as_ibdm(f: Fabric) -> IbdmFabric:
    """Our fabric in the form of the oracle."""
    names = f.node_names()
    nodes = {
        n: (1 if t == NodeType.SWITCH else 2, int(p)) for n, t, p in zip(names, f.node_type, f.node_nports, strict=True)
    }
    codes = active_speed_codes(f.port_info, f.port_mlnx_speed)
    width = PortInfo.link_width_active.get(f.port_info)
    links = {}
    for port in np.flatnonzero(f.linked):
        peer = int(f.port_peer[port])
        links[names[f.port_node[port]], int(f.port_num[port])] = (
            names[f.port_node[peer]],
            int(f.port_num[peer]),
            f"{LANES_BY_BIT[int(width[port])]}x",
            G_OF_SPEED[SPEED_BY_CODE[int(codes[port])].name],
            f.port_label.get(int(port), "-"),
        )
    return IbdmFabric(True, nodes, links)
