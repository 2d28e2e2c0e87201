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
    out = R.zeros(len(subnet))
    info = db.node_info[subnet.end_node]
    at = R.fields["base_version"].byte
    out[:, at : at + 40] = info[:, :40]
    R.fields["lid"].set(out, subnet.end_lid)
    R.fields["port_guid"].set(out, subnet.end_guid)
    switch = db.node_type[subnet.end_node] == NodeType.SWITCH
    R.fields["local_port_num"].set(out, np.where(switch, 0, db.port_num[subnet.end_port]))
    R.fields["node_description"].set(out, db.node_desc[subnet.end_node])
    return out
