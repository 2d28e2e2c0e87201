"""The phases of a sweep in their order, and the interface for extensions that add phases."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from softib.iba.constants import MgmtClass

if TYPE_CHECKING:
    from softib.sm.sweep.sweep import Sweep

__all__ = ["GMP_PHASES", "PHASES", "READING_PHASES", "SweepExtension"]

SENT = {
    "discover": "Gets of every node and port",
    "managers": "Get(SMInfo) to other subnet managers",
    "vports": "Gets that find virtual ports",
    "vport_clear": "VPortStateChange cleared, before states are read",
    "vport_states": "Gets of virtual ports' states",
    "vport_infos": "Gets of virtual ports themselves",
    "policy": "widths and speeds enabled for training; Gets for FDR10 and FEC",
    "lids": "the configuration of end ports; Sets of FDR10 and FEC",
    "route": "nothing: paths are computed",
    "held": "Gets of tables that another manager wrote",
    "qos": "SLtoVL and VL arbitration tables",
    "links": "the configuration of new links between switches that already forward, before tables use them",
    "links_arm": "ARMED to these links",
    "links_active": "ACTIVE to these links",
    "tables": "forwarding tables of switches, in rounds",
    "tops": "SwitchInfo: the used part of the tables",
    "reread": "Gets of the ports of switches whose PortStateChange was cleared only in this sweep",
    "pkeys": "Gets of P_Key tables",
    "partitions": "P_Key tables",
    "ar_info": "Gets that find capable switches for adaptive routing",
    "ar_groups": "their groups of ports",
    "ar_lids": "the group of each LID",
    "ar_on": "adaptive routing switched on",
    "multicast": "the trees of multicast groups",
    "multicast_tops": "the used part of multicast tables",
    "ports": "the configuration of switch ports; ARMED to their links",
    "arm": "ARMED to ports that are not armed yet",
    "activate": "ACTIVE to all links",
    "vport_pkeys": "Gets of virtual ports' P_Key tables",
    "vport_setup": "LIDs and P_Keys of virtual ports",
    "vport_arm": "ARMED to virtual ports",
    "vport_activate": "ACTIVE to virtual ports",
    "routers": "Gets of routers' capabilities",
    "router_tables": "Gets of the subnets behind routers",
    "congestion": "settings of congestion control, by LID",
    "sharp_info": "Gets of aggregation nodes' capabilities",
    "sharp_qps": "their queue pairs",
    "sharp_edges": "the edges of their trees",
    "sharp_trees": "their trees",
    "retrain": "DOWN to links with another policy, so that they train again",
}
"""Phase → the function that sends its requests."""
PHASES = tuple(SENT)
READING_PHASES = frozenset(
    (
        "discover",
        "managers",
        "vports",
        "vport_states",
        "vport_infos",
        "held",
        "reread",
        "pkeys",
        "ar_info",
        "vport_pkeys",
        "sharp_info",
    )
)
"""Phases that send only Gets."""
GMP_PHASES = {
    "congestion": MgmtClass.CONG_CTRL,
    "sharp_info": MgmtClass.SHARP,
    "sharp_qps": MgmtClass.SHARP,
    "sharp_edges": MgmtClass.SHARP,
    "sharp_trees": MgmtClass.SHARP,
}
"""Phases whose requests belong to another class than subnet management, with the class."""


class SweepExtension:
    """Base class of an extension, which adds phases to a sweep for protocols that only softib's
    devices have.

    The classes are listed in :data:`softib.sm.sweep.sweep.EXTENSIONS`; the other code of a sweep
    refers to them nowhere else. ``enter`` maps each phase to the function that queues its requests.
    """

    def __init__(self, sweep: Sweep):
        self.sweep = sweep
        self.db, self.queue, self.config, self.report = sweep.database, sweep.queue, sweep.config, sweep.report
        self.enter: dict[str, Callable[[], None]] = {}

    @property
    def idle(self) -> bool:
        """Return whether its phases have no work and can be skipped."""
        return False

    def lids_given(self) -> None:
        """Continue after ports have got their LIDs."""

    def heard(self, phase: str, attr: int, tags: np.ndarray, data: np.ndarray) -> None:
        """Handle answers to requests of its phases: ``tags`` as queued, ``data`` uint8[n, 64]."""

    def lost(self, phase: str, attr: int, tags: np.ndarray, why: str) -> None:
        """Handle requests of its phases without a good answer."""
