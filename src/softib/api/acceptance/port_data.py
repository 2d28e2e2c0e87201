"""The data counters of a fabric's ports, one entry per port in the fabric's order."""

from __future__ import annotations

import numpy as np

from softib.fabric.model import Fabric
from softib.monitor.opening import Opened
from softib.monitor.perfmgr import Poller

__all__ = ["PortData"]

ALONE = frozenset({"details", "fec", "modules", "manager"})


class PortData:
    """Read PortXmitData of every port of ``fabric`` from the subnet of ``opened``."""

    def __init__(self, opened: Opened, fabric: Fabric):
        self.poller = Poller(opened.wire)
        self.poller.left_out = ALONE
        self.ports = fabric.sizes.ports
        self.row = {
            (int(fabric.node_guid[n]), int(p)): i
            for i, (n, p) in enumerate(zip(fabric.port_node.tolist(), fabric.port_num.tolist(), strict=True))
        }

    def read(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (time of reading in ns, PortXmitData in units of 4 bytes) for each port,
        float64[ports]; NaN if it was not read."""
        when, data = np.full(self.ports, np.nan), np.full(self.ports, np.nan)
        reading = self.poller.round().reading
        if "port_xmit_data" not in reading.value:
            return when, data
        rows = np.array(
            [self.row.get(key, -1) for key in zip(reading.guid.tolist(), reading.portnum.tolist(), strict=True)]
        )
        good = (rows >= 0) & reading.have["port_xmit_data"] & ~reading.stuck["port_xmit_data"]
        when[rows[good]] = reading.time_ns[good]
        data[rows[good]] = reading.value["port_xmit_data"][good]
        return when, data
