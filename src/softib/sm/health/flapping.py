"""Links that fall again and again are taken out for a while: each fall makes a sweep, moves routes,
and loses packets. (Ports that flood the manager with traps are, too:
:mod:`softib.sm.health.babbling`.)

A switch port whose link fell ``flap_threshold`` times within ``flap_window`` seconds gets
PortPhysState Disabled (IBA 14.2.5.6), and Polling when ``flap_pause`` seconds are over. The
manager's own link is never taken out.
"""

from __future__ import annotations

import numpy as np

from softib.iba.constants import PhysState, PortState, SmpAttr
from softib.iba.smp import PortInfo
from softib.mad.smp_requests import RequestQueue
from softib.mad.transactor import NEVER_PS
from softib.sm.database import Database
from softib.sm.managers.link_mgr import unchanged
from softib.sm.options.flap import FlapConfig

__all__ = ["FlappingPorts", "fallen_links"]

Place = tuple[int, int]
"""(NodeGUID, portnum) of a switch port."""


def fallen_links(before: Database, db: Database) -> list[Place]:
    """Switch ports whose link was ACTIVE in the sweep before and is not: one end a cable, by the
    cables of before."""
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
    """``isolated``: location → when it is given back (ps). :meth:`fell` with what each sweep found,
    then :meth:`queue` when :meth:`due_ps` is over."""

    def __init__(self) -> None:
        self.isolated: dict[Place, int] = {}
        self._why: dict[Place, str] = {}
        self._falls: dict[Place, list[int]] = {}
        self._out: list[Place] = []

    def fell(self, locations: list[Place], config: FlapConfig | None, now_ps: int) -> None:
        """These links fell."""
        if config is None or not config.threshold:
            return
        for location in locations:
            if location in self.isolated:
                continue
            falls = [at for at in self._falls.get(location, []) if at > now_ps - config.window_ps] + [now_ps]
            self._falls[location] = falls
            if len(falls) >= config.threshold:
                del self._falls[location]
                self.take_out(location, now_ps + config.pause_ps, "its link fell again and again")

    def take_out(self, location: Place, until_ps: int, why: str) -> None:
        """Isolate this port until then."""
        if location not in self.isolated:
            self.isolated[location], self._why[location] = until_ps, why
            self._out.append(location)

    def due_ps(self) -> int:
        """When :meth:`queue` has something to send (0: now)."""
        return 0 if self._out else min(self.isolated.values(), default=NEVER_PS)

    def queue(self, db: Database, queue: RequestQueue, now_ps: int) -> None:
        """Put a Set(PortInfo) for each port that is taken out, or given back. Tags are ports."""
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
        """What is taken out, for the notes of a sweep."""
        named = [(db.node_of(guid), portnum, why) for (guid, portnum), why in self._why.items()]
        return [f"{db.name(node)}[{portnum}] is isolated: {why}" for node, portnum, why in named if node >= 0]

    def clear(self) -> None:
        """Another manager has the subnet; ports that are taken out stay so until somebody gives
        them back."""
        self.isolated.clear()
        self._why.clear()
        self._falls.clear()
        self._out.clear()
