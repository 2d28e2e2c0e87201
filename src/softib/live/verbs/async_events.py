"""Unaffiliated asynchronous events (IBA 11.6.3.3, 11.6.3.4): changes of the ports of nodes that programs use.

MADs and faults change the arrays; this module compares the few watched ports with their previous state.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from softib.agents.plane import AgentPlane
from softib.iba.constants import PortState
from softib.iba.smp import PortInfo

__all__ = ["PortEvents"]


@dataclass(frozen=True)
class _Look:
    """The attributes of a port that cause events when they change."""

    active: bool
    lid: tuple[int, int]
    sm: tuple[int, int]
    pkeys: bytes
    gids: bytes
    reregisters: int


class PortEvents:
    """Detects changes of the ports of the watched nodes in ``plane``'s fabric."""

    def __init__(self, plane: AgentPlane):
        self.plane, self.fabric = plane, plane.fabric
        self._watched: Counter[int] = Counter()
        self._seen: dict[int, list[tuple[int, _Look]]] = {}
        self._epoch = -1

    def watch(self, node: int) -> None:
        """Add a watcher of ``node``: its changes are reported from now on."""
        self._watched[node] += 1
        if self._watched[node] == 1:
            self._seen[node] = self._looks(node)

    def unwatch(self, node: int) -> None:
        """Remove one watcher of ``node``."""
        self._watched[node] -= 1
        if self._watched[node] <= 0:
            del self._watched[node], self._seen[node]

    def take(self, epoch: int) -> list[tuple[int, int, str]]:
        """Return (node, portnum, event of ``server.h``) for each change since the last call. The call is cheap if
        ``epoch`` is unchanged."""
        if epoch == self._epoch or not self._seen:
            return []
        self._epoch = epoch
        happened = []
        for node, old in self._seen.items():
            new = self._looks(node)
            for (portnum, before), (_, now) in zip(old, new, strict=True):
                happened += [(node, portnum, kind) for kind in _differences(before, now)]
            self._seen[node] = new
        return happened

    def _looks(self, node: int) -> list[tuple[int, _Look]]:
        f = self.fabric
        ports = [int(f.node_base[node])] if f.is_switch[node] else list(f.ports_of(node))
        return [(int(f.port_num[port]), self._look(port)) for port in ports]

    def _look(self, port: int) -> _Look:
        f = self.fabric
        info = f.port_info[port]
        first, cap = int(f.pkey_base[port]), int(f.pkey_cap[port])
        gid, gids = int(f.guid_base[port]), max(int(PortInfo.guid_cap.get(info)), 1)
        prefix = int(PortInfo.gid_prefix.get(info)).to_bytes(8, "big")
        return _Look(
            active=int(PortInfo.port_state.get(info)) == PortState.ACTIVE,
            lid=(int(PortInfo.lid.get(info)), int(PortInfo.lmc.get(info))),
            sm=(int(PortInfo.master_sm_lid.get(info)), int(PortInfo.master_sm_sl.get(info))),
            pkeys=np.ascontiguousarray(f.pkeys[first : first + cap]).tobytes(),
            gids=prefix + np.ascontiguousarray(f.guids[gid : gid + gids]).tobytes(),
            reregisters=int(self.plane.tables.reregisters[port]),
        )


def _differences(before: _Look, now: _Look) -> list[str]:
    """Return the events of one port in the order in which programs should receive them."""
    events = []
    if before.active and not now.active:
        events.append("PORT_ERR")
    for name, kind in (("lid", "LID_CHANGE"), ("gids", "GID_CHANGE"), ("pkeys", "PKEY_CHANGE"), ("sm", "SM_CHANGE")):
        if getattr(before, name) != getattr(now, name):
            events.append(kind)
    if now.active and not before.active:
        events.append("PORT_ACTIVE")
    if now.reregisters != before.reregisters:
        events.append("CLIENT_REREGISTER")
    return events
