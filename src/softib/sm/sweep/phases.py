"""The phases of a sweep, in their order, and the interface of extensions that add some."""

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
    "policy": "which widths and speeds ports may train to; Gets for FDR10 and FEC",
    "lids": "the configuration of end ports; Sets of FDR10 and FEC",
    "route": "nothing: paths are computed",
    "held": "Gets of tables that another manager wrote",
    "qos": "SLtoVL and VL arbitration tables",
    "links": "the configuration of new links between switches that forward already, before tables lead over them",
    "links_arm": "ARMED to these links",
    "links_active": "ACTIVE to these links",
    "tables": "forwarding tables of switches, in rounds",
    "tops": "SwitchInfo: how far switches look into them",
    "reread": "Gets of the ports of switches whose PortStateChange was cleared only now",
    "pkeys": "Gets of P_Key tables",
    "partitions": "P_Key tables",
    "ar_info": "Gets that find switches which can route adaptively",
    "ar_groups": "their groups of ports",
    "ar_lids": "which group each LID has",
    "ar_on": "adaptive routing switched on",
    "multicast": "the trees of multicast groups",
    "multicast_tops": "how far switches look into them",
    "ports": "the configuration of switch ports; ARMED to their links",
    "arm": "ARMED to what was not armed yet",
    "activate": "ACTIVE to all links",
    "vport_pkeys": "Gets of virtual ports' P_Key tables",
    "vport_setup": "LIDs and P_Keys of virtual ports",
    "vport_arm": "ARMED to virtual ports",
    "vport_activate": "ACTIVE to virtual ports",
    "routers": "Gets of what routers are",
    "router_tables": "Gets of the subnets that lie behind them",
    "congestion": "settings of congestion control, by LID",
    "sharp_info": "Gets of what aggregation nodes can",
    "sharp_qps": "their queue pairs",
    "sharp_edges": "the edges of their trees",
    "sharp_trees": "their trees",
    "retrain": "DOWN to links whose policy is another, so that they train again",
}
"""Phase → what it sends."""
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
"""Phases that send Gets alone."""
GMP_PHASES = {
    "congestion": MgmtClass.CONG_CTRL,
    "sharp_info": MgmtClass.SHARP,
    "sharp_qps": MgmtClass.SHARP,
    "sharp_edges": MgmtClass.SHARP,
    "sharp_trees": MgmtClass.SHARP,
}
"""Phases whose requests are of another class than subnet management."""


class SweepExtension:
    """Base of an extension: phases of a sweep for devices that only softib speaks to.

    The classes are listed in :data:`softib.sm.sweep.sweep.EXTENSIONS`; nothing else in the core of
    a sweep names them. ``enter``: phase → the function that queues its requests.
    """

    def __init__(self, sweep: Sweep):
        self.sweep = sweep
        self.db, self.queue, self.config, self.report = sweep.database, sweep.queue, sweep.config, sweep.report
        self.enter: dict[str, Callable[[], None]] = {}

    @property
    def idle(self) -> bool:
        """Is there nothing to do in its phases, so that they need not be entered?"""
        return False

    def lids_given(self) -> None:
        """Ports have their LIDs."""

    def heard(self, phase: str, attr: int, tags: np.ndarray, data: np.ndarray) -> None:
        """Answers to requests of its phases: ``tags`` as queued, ``data`` uint8[n, 64]."""

    def lost(self, phase: str, attr: int, tags: np.ndarray, why: str) -> None:
        """Requests of its phases that got no answer, or a bad one."""
