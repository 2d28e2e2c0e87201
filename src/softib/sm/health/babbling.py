"""Ports that flood the manager with traps: they are taken out, as flapping links are, and given
back.

OpenSM's ``babbling_port_policy`` counts equal notices of a port and takes it out at 250
(``opensm/osm_trap_rcv.c``); it never gives one back. Here all traps of a port within
``flap_window`` count, and it is given back after ``flap_pause`` (:mod:`softib.sm.health.flapping`).
Traps 129 to 131 name a port; others are the issuer's own. Where that is a CA's port the switch port
in front of it is taken out. A switch's own traps (128) take nothing out: its ports would all go.
The manager's own link never is.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from softib.iba.notice import Notice, TrapPortThreshold
from softib.sm.database import Database
from softib.sm.health.flapping import FlappingPorts, Place
from softib.sm.options.flap import FlapConfig

__all__ = ["BabblingPorts"]

OF_PORT = (129, 130, 131)
WHY = "it floods the manager with traps"


class BabblingPorts:
    """:meth:`heard` with notices as they come. ``isolated`` takes ports out and gives them back."""

    def __init__(self, isolated: FlappingPorts):
        self.isolated = isolated
        self._times: dict[tuple[int, int], deque[int]] = {}

    def heard(self, notices: np.ndarray, db: Database, config: FlapConfig | None, now_ps: int) -> None:
        """Notices (uint8[n, 64]) of traps; ``db`` knows the devices."""
        if config is None or not config.babble_threshold or not len(notices):
            return
        lids = Notice.issuer_lid.get(notices).astype(np.int64)
        traps = np.where(Notice.is_generic.get(notices) > 0, Notice.trap_number.get(notices), 0)
        details = notices[:, Notice.data_details.byte :]
        portnums = np.where(np.isin(traps, OF_PORT), TrapPortThreshold.portnum.get(details), 0)
        for lid, portnum in zip(lids.tolist(), portnums.tolist(), strict=True):
            times = self._times.setdefault((lid, portnum), deque(maxlen=config.babble_threshold))
            times.append(now_ps)
            if len(times) < config.babble_threshold or times[0] <= now_ps - config.window_ps:
                continue
            times.clear()
            if (place := _switch_port(db, lid, portnum)) is not None:
                self.isolated.take_out(place, now_ps + config.pause_ps, WHY)

    def clear(self) -> None:
        """Another manager has the subnet."""
        self._times.clear()


def _switch_port(db: Database, lid: int, portnum: int) -> Place | None:
    """The switch port to take out for port ``portnum`` (0: its own) of the device with ``lid``; of
    the two ends of a cable the nearer one."""
    ends = np.flatnonzero((db.port_lid == lid) & (lid > 0))
    if not len(ends):
        return None
    port = int(ends[0])
    node = int(db.port_node[port])
    if db.is_switch[node] and not 0 < portnum <= int(db.node_nports[node]):
        return None
    port = int(db.node_base[node]) + portnum if db.is_switch[node] else port
    peer = int(db.port_peer[port])
    if db.sm_port in (port, peer) or peer < 0:
        return None
    hops = lambda p: int(db.routes.hops[db.port_route[p]])
    choices = sorted((p for p in (port, peer) if db.external[p]), key=hops)
    if not choices:
        return None
    return int(db.node_guid[db.port_node[choices[0]]]), int(db.port_num[choices[0]])
