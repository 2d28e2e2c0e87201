"""The phases of a sweep, in their order, and what each sends."""

from __future__ import annotations

__all__ = ["PHASES", "READING_PHASES"]

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
    "retrain": "DOWN to links whose policy is another, so that they train anew",
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
