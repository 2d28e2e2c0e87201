"""Ports: the PortInfo that each should have, and the change from INIT to ARMED and ACTIVE (IBA
7.2.7, 14.4.3).

First, end ports (with their LIDs) and switch ports are configured. Then every link becomes ARMED at
both ends, and then ACTIVE. This order is needed because an ACTIVE port may send packets, and they
need forwarding tables and ports that receive them.
"""

from __future__ import annotations

import numpy as np

from softib.iba.constants import CapMask, PortState, SmpAttr
from softib.iba.smp import PortInfo, SwitchInfo
from softib.iba.virtual_lanes import DATA_VLS
from softib.mad.smp_requests import RequestQueue
from softib.sm.config import SmConfig
from softib.sm.database import Database

__all__ = [
    "changed",
    "enforce",
    "fewest_data_vls",
    "linked",
    "queue_config",
    "queue_reread",
    "queue_state",
    "restarted",
    "unchanged",
    "wanted_port_info",
]

P = PortInfo
NO_CHANGE_FIELDS = (
    P.port_state,
    P.port_phys_state,
    P.link_down_default_state,
    P.link_width_enabled,
    P.link_speed_enabled,
    P.link_speed_ext_enabled,
    P.link_speed_ext2_enabled,
)
"""Components for which a Set of 0 means no change (IBA 14.2.5.6)."""


def linked(db: Database) -> np.ndarray:
    """Return ports with a confirmed cable and a trained link (ascending)."""
    up = db.port_state() >= PortState.INIT
    rows = np.flatnonzero((db.port_peer >= 0) & up & (db.port_num > 0))
    return rows[up[db.port_peer[rows]]]


def restarted(db: Database) -> np.ndarray:
    """Return the switches whose links are all in INIT: they lost power, and with it all values
    written to them. (LinearFDBTop does not show a restart that occurs between the Get of SwitchInfo
    and the Set that clears PortStateChange, because this Set writes the value that was read
    before.)"""
    rows = linked(db)
    rows = rows[db.are_external(rows)]
    armed = db.port_state(rows) >= PortState.ARMED
    return np.setdiff1d(db.port_node[rows], db.port_node[rows[armed]])


def between(db: Database, reset: np.ndarray) -> np.ndarray:
    """Return the ports of links between two switches that already forward packets. Switches in
    ``reset`` do not."""
    rows = linked(db)
    forwards = db.is_switch.copy()
    forwards[reset] = False
    both: np.ndarray = forwards[db.port_node[rows]] & forwards[db.port_node[db.port_peer[rows]]]
    return rows[both]


def changed(db: Database, switches: np.ndarray) -> np.ndarray:
    """Return bool[switches]: whether PortStateChange was set when last read."""
    return SwitchInfo.port_state_change.get(db.switch_info[switches]) > 0


def queue_reread(db: Database, queue: RequestQueue, switches: np.ndarray) -> None:
    """Queue a Get(PortInfo) for the ports of ``switches`` whose changes since they were last read
    cause no event. Tags are ports.

    All others cause one: a link in INIT becomes ARMED, whatever happened before, and after that, a
    change raises a trap.
    """
    reread = np.zeros(db.n_nodes, bool)
    reread[switches] = True
    ask = reread[db.port_node] & db.external & db.has_port_info
    rows = linked(db)
    ask[rows[db.port_state(rows) == PortState.INIT]] = False
    rows = np.flatnonzero(ask)
    queue.get(SmpAttr.PORT_INFO, db.port_route[rows], rows, db.port_modifier(rows))


def wanted_port_info(db: Database, config: SmConfig, reregister: np.ndarray | bool = False) -> np.ndarray:
    """Return uint8[ports, 64]: the PortInfo that every port should have. Rows of ports that are not
    configured equal ``db.port_info``.

    ``reregister`` (bool, or bool[ports]): capable CA ports whose clients must register their
    subscriptions and groups again (IBA 14.4.1, 14.2.5.6). A link's MTU and VLs are the smaller of
    the two ends' capabilities.
    """
    wanted = db.port_info.copy()
    P.client_reregister.set(wanted, 0)  # a device may still have the value 1 from an earlier master
    ends = db.end_ports()
    _set_end_ports(wanted, db, ends, config)
    flagged = np.broadcast_to(np.asarray(reregister), (db.n_ports,))
    if flagged.any():
        able = (P.cap_mask.get(wanted[ends]) & CapMask.CLIENT_REREGISTER > 0) & (db.port_num[ends] > 0)
        can = ends[able & flagged[ends]]
        P.client_reregister.set(wanted, 1, can)
    rows = linked(db)
    peer = db.port_peer[rows]
    info, peer_info = db.port_info[rows], db.port_info[peer]
    new = wanted[rows]
    P.neighbor_mtu.set(new, np.minimum(P.mtu_cap.get(info), P.mtu_cap.get(peer_info)))
    P.operational_vls.set(new, _operational_vls(info, peer_info, config.max_op_vls))
    P.local_phy_errors.set(new, config.local_phy_errors)
    P.overrun_errors.set(new, config.overrun_errors)
    external = db.are_external(rows)
    leaf = external & ~db.is_switch[db.port_node[peer]]
    hoq = np.where(leaf, config.leaf_hoq_life, config.hoq_life)
    stall = np.where(leaf, config.leaf_vl_stall_count, config.vl_stall_count)
    P.hoq_life.set(new, np.where(external, hoq, P.hoq_life.get(new)))
    P.vl_stall_count.set(new, np.where(external, stall, P.vl_stall_count.get(new)))
    wanted[rows] = new
    return wanted


def _operational_vls(info: np.ndarray, peer_info: np.ndarray, most: int) -> np.ndarray:
    """Return the OperationalVLs codes that both ends of a link support, at most ``most``."""
    return np.minimum(np.maximum(np.minimum(P.vl_cap.get(info), P.vl_cap.get(peer_info)), 1), most)


def fewest_data_vls(db: Database, most: int) -> int:
    """Return the number of data VLs that every link between switches will operate after
    configuration, limited by code ``most`` (OpenSM's min_data_vls)."""
    rows = linked(db)
    peer = db.port_peer[rows]
    between = db.are_external(rows) & db.are_external(peer) & db.has_port_info[rows] & db.has_port_info[peer]
    codes = _operational_vls(db.port_info[rows[between]], db.port_info[peer[between]], most)
    return int(DATA_VLS[codes & 7].min(initial=int(DATA_VLS[most & 7])))


def _set_end_ports(wanted: np.ndarray, db: Database, ends: np.ndarray, config: SmConfig) -> None:
    new = wanted[ends]
    P.lid.set(new, db.port_lid[ends])
    P.lmc.set(new, db.port_lmc[ends])
    P.master_sm_lid.set(new, int(db.port_lid[db.sm_port]))
    P.master_sm_sl.set(new, 0)
    P.subnet_timeout.set(new, config.subnet_timeout)
    P.mkey.set(new, np.full(len(ends), config.mkey, np.uint64))
    P.mkey_lease_period.set(new, config.mkey_lease)
    P.mkey_protect.set(new, config.mkey_protect)
    P.gid_prefix.set(new, np.full(len(ends), config.subnet_prefix, np.uint64))
    port0 = db.port_num[ends] == 0
    # Port 0 has no link, so its own capability counts for both ends.
    P.neighbor_mtu.set(new, np.where(port0, P.mtu_cap.get(new), P.neighbor_mtu.get(new)))
    wanted[ends] = new


def enforce(wanted: np.ndarray, ports: np.ndarray, inbound: bool, outbound: bool) -> None:
    """Set whether switch ports ``ports`` check the P_Keys of incoming and of outgoing packets."""
    P.partition_enforcement_inbound.set(wanted, int(inbound), ports)
    P.partition_enforcement_outbound.set(wanted, int(outbound), ports)


def queue_config(db: Database, queue: RequestQueue, wanted: np.ndarray, ports: np.ndarray, arm: bool = False) -> None:
    """Queue a Set(PortInfo) for each of ``ports`` that differs from ``wanted``. Tags are ports.
    ``arm``: ports in INIT become ARMED with the same Set (IBA 14.2.5.6 allows both at once)."""
    held = db.port_info[ports]
    P.client_reregister.set(held, 0)
    raised = (P.port_state.get(held) == PortState.INIT) & arm
    change = (wanted[ports] != held).any(axis=1) | raised
    rows = ports[change]
    state = np.where(raised[change], int(PortState.ARMED), int(PortState.NO_CHANGE))
    _queue(db, queue, rows, wanted[rows], state)


def queue_state(db: Database, queue: RequestQueue, ports: np.ndarray, state: PortState) -> None:
    """Queue a Set(PortInfo) that moves ``ports`` from the preceding state to ``state``. Tags are
    ports."""
    rows = ports[PortInfo.port_state.get(db.port_info[ports]) == state - 1]
    image = db.port_info[rows]
    P.client_reregister.set(image, 0)
    _queue(db, queue, rows, image, int(state))


def unchanged(image: np.ndarray) -> np.ndarray:
    """Return ``image`` (uint8[n, 64]) in a form in which a Set changes nothing."""
    for f in NO_CHANGE_FIELDS:
        f.set(image, 0)
    P.port_state.set(image, int(PortState.NO_CHANGE))
    P.client_reregister.set(image, 0)
    return image


def _queue(db: Database, queue: RequestQueue, rows: np.ndarray, image: np.ndarray, state: int | np.ndarray) -> None:
    for f in NO_CHANGE_FIELDS:
        f.set(image, 0)
    P.port_state.set(image, state)
    queue.set(SmpAttr.PORT_INFO, db.port_route[rows], rows, db.port_modifier(rows), image)
