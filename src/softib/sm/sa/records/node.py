"""NodeRecord (IBA 15.2.5.2): one for each end port."""

from __future__ import annotations

import numpy as np

from softib.iba.constants import NodeType
from softib.iba.sa import NodeRecord as R
from softib.sm.sa.subnet import Subnet

__all__ = ["table"]


def table(subnet: Subnet) -> np.ndarray:
    """uint8[ends, 112], ascending by LID. PortGUID and LocalPortNum are those of the end port."""
    db = subnet.db
    ends = slice(subnet.physical)
    nodes = subnet.end_node[ends]
    out = R.zeros(len(nodes))
    info = db.node_info[nodes]
    at = R.fields["base_version"].byte
    out[:, at : at + 40] = info[:, :40]
    R.fields["lid"].set(out, subnet.end_lid[ends])
    R.fields["port_guid"].set(out, subnet.end_guid[ends])
    switch = db.node_type[nodes] == NodeType.SWITCH
    R.fields["local_port_num"].set(out, np.where(switch, 0, db.port_num[subnet.end_port[ends]]))
    R.fields["node_description"].set(out, db.node_desc[nodes])
    return out
