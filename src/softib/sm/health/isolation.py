"""Isolation of ports: a port is disabled for some time if its link fails repeatedly, or if it sends
too many traps to the manager.

Each link failure starts a sweep, changes routes and loses packets. A switch port whose link failed
``flap_threshold`` times within ``flap_window`` seconds gets PortPhysState Disabled (IBA 14.2.5.6),
and Polling after ``flap_pause`` seconds. The manager's own link is never disabled.

OpenSM's ``babbling_port_policy`` counts equal notices of a port and disables the port after 250 of
them (``opensm/osm_trap_rcv.c``); it never enables the port again. softib counts all traps of a port
within ``flap_window`` seconds, and enables the port after ``flap_pause`` seconds. Traps 129 to 131
name the port concerned; other traps concern the port that sent them. To isolate a CA, the manager
disables the switch port at the other end of its cable. Trap 128, which concerns a whole switch,
disables no port.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from softib.iba.constants import PhysState, PortState, SmpAttr
from softib.iba.notice import Notice, TrapPortThreshold
from softib.iba.smp import PortInfo
from softib.mad.smp_requests import RequestQueue
from softib.mad.transactor import NEVER_PS
from softib.sm.database import Database, Location
from softib.sm.managers.link_mgr import unchanged
from softib.sm.options.softib_options import FlapConfig

__all__ = ["BabblingPorts", "FlappingPorts", "fallen_links"]


def fallen_links(before: Database, db: Database) -> list[Location]:
    """Return the switch ports whose link was ACTIVE in the previous sweep and is not ACTIVE now.
    One end per cable is returned, with the cables of the previous sweep."""
    was = np.flatnonzero((before.port_state() == PortState.ACTIVE) & before.external & (before.port_peer >= 0))
    peer = before.port_peer[was]
    one_end = ~before.external[peer] | (was < peer)
    was = was[one_end & (peer != before.sm_port)]
    guid, portnum = before.node_guid[before.port_node[was]], before.port_num[was]
    node = db.nodes_of(guid)
    fell = np.flatnonzero(node >= 0)
    fell = fell[db.port_state()[db.node_base[node[fell]] + portnum[fell]] != PortState.ACTIVE]
    return list(zip(guid[fell].tolist(), portnum[fell].tolist(), strict=True))


class FlappingPorts:
    """``isolated``: location → time in ps at which its isolation ends. Call :meth:`fell` with the
    result of each sweep, and :meth:`queue` at the time :meth:`due_ps`."""

    def __init__(self) -> None:
        self.isolated: dict[Location, int] = {}
        self._why: dict[Location, str] = {}
        self._falls: dict[Location, list[int]] = {}
        self._out: list[Location] = []

    def fell(self, locations: list[Location], config: FlapConfig | None, now_ps: int) -> None:
        """Record that the links at ``locations`` failed."""
        if config is None or not config.threshold:
            return
        for location in locations:
            if location in self.isolated:
                continue
            falls = [at for at in self._falls.get(location, []) if at > now_ps - config.window_ps] + [now_ps]
            self._falls[location] = falls
            if len(falls) >= config.threshold:
                del self._falls[location]
                self.take_out(location, now_ps + config.pause_ps, "its link fails repeatedly")

    def take_out(self, location: Location, until_ps: int, why: str) -> None:
        """Isolate the port until ``until_ps``."""
        if location not in self.isolated:
            self.isolated[location], self._why[location] = until_ps, why
            self._out.append(location)

    def due_ps(self) -> int:
        """Return the time at which :meth:`queue` has a Set to send (0: now)."""
        return 0 if self._out else min(self.isolated.values(), default=NEVER_PS)

    def queue(self, db: Database, queue: RequestQueue, now_ps: int) -> None:
        """Queue a Set(PortInfo) for each port that must be disabled or enabled. Tags are ports."""
        out, self._out = self._out, []
        back = [location for location, until_ps in self.isolated.items() if until_ps <= now_ps]
        for location in back:
            del self.isolated[location], self._why[location]
        for locations, state in ((out, PhysState.DISABLED), (back, PhysState.POLLING)):
            nodes = [(db.node_of(guid), portnum) for guid, portnum in locations]
            rows = np.array([int(db.node_base[node]) + portnum for node, portnum in nodes if node >= 0], np.int64)
            image = unchanged(db.port_info[rows])
            PortInfo.port_phys_state.set(image, int(state))
            queue.set(SmpAttr.PORT_INFO, db.port_route[rows], rows, db.port_modifier(rows), image)

    def lines(self, db: Database) -> list[str]:
        """Return a note on each isolated port."""
        named = [(db.node_of(guid), portnum, why) for (guid, portnum), why in self._why.items()]
        return [f"{db.name(node)}[{portnum}] is isolated: {why}" for node, portnum, why in named if node >= 0]

    def clear(self) -> None:
        """Clear all state, because another manager manages the subnet. Disabled ports stay disabled
        until someone enables them."""
        self.isolated.clear()
        self._why.clear()
        self._falls.clear()
        self._out.clear()


OF_PORT = (129, 130, 131)
WHY = "it floods the manager with traps"


class BabblingPorts:
    """Call :meth:`heard` with notices as they arrive. ``isolated`` disables the ports, and enables
    them again."""

    def __init__(self, isolated: FlappingPorts):
        self.isolated = isolated
        self._times: dict[tuple[int, int], deque[int]] = {}

    def heard(self, notices: np.ndarray, db: Database, config: FlapConfig | None, now_ps: int) -> None:
        """Count the notices (uint8[n, 64]) of traps; ``db`` is the database of the devices."""
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
        """Clear all state, because another manager has the subnet."""
        self._times.clear()


def _switch_port(db: Database, lid: int, portnum: int) -> Location | None:
    """Return the switch port that must be disabled to isolate port ``portnum`` (0: the switch's
    port 0) of the device with ``lid``. It is the end of the cable that is nearer to the manager."""
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
    return db.location(choices[0])
