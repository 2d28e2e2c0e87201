"""An internal manager on a fabric, stepped by hand, with faults between two of its steps."""

from __future__ import annotations

import numpy as np

from softib.agents.plane import AgentPlane
from softib.fabric.model import Fabric
from softib.fabric.power_cycle import power_on
from softib.iba.constants import NodeType, PortState
from softib.live.internal_sm.manager import InternalManager
from softib.live.mad_router import MadRouter
from softib.sm.config import SmConfig

__all__ = ["LOOK_PS", "STEP_PS", "Room"]

S = 10**12
STEP_PS = 10**9
START_PS = 10**18
"""Beyond the clock by which the router counts when a device may send its next trap."""
LOOK_PS = 10 * S
"""Every ten seconds the manager asks the switches for PortStateChange: a trap may be lost on a link that fell."""


class Room:
    """An internal manager on ``fabric``, stepped by hand: ``faults`` (port, up) happen between two of its steps."""

    def __init__(self, fabric: Fabric, **settings):
        self.f = fabric
        power_on(fabric)
        self.board = MadRouter(AgentPlane(fabric))
        cas = np.flatnonzero(fabric.node_type == NodeType.CA)
        config = SmConfig(sweep_interval_ps=LOOK_PS, **settings)
        self.manager = InternalManager(self.board, int(fabric.node_base[cas[0]]) + 1, config)
        self.now = START_PS

    def step(self) -> bool:
        """One step; False when the manager rests."""
        self.now += STEP_PS
        self.manager.wait_s(self.now)
        self.manager.run(lambda: self.now + 10**15, self.now)
        return not self.manager.sm.settled or bool(self.manager._inbox)

    def rest(self) -> None:
        """Until two looks at PortStateChange found nothing."""
        for _ in range(4):
            steps = 0
            while self.step():
                steps += 1
                assert steps < 5000, "the manager does not come to rest"
            self.now += LOOK_PS

    def set_link(self, port: int, up: bool) -> None:
        self.board.set_link(port, up, self.now)

    def links(self) -> np.ndarray:
        """Ports of switch-to-switch cables, one end each."""
        f = self.f
        port = np.arange(len(f.port_peer))
        switch = f.is_switch[f.port_node]
        return np.flatnonzero((f.port_peer > port) & switch & switch[np.maximum(f.port_peer, 0)])

    def neighbours(self, port: int) -> list[int]:
        """One link more of the switch at each end of ``port``: when they change, both ends' PortStateChange is set."""
        f, links = self.f, self.links()
        ends = {int(f.port_node[p]) for p in (port, f.port_peer[port])}
        near = []
        for node in sorted(ends):
            mine = links[(f.port_node[links] == node) | (f.port_node[f.port_peer[links]] == node)]
            near.append(int(mine[mine != port][0]))
        return near

    def waiting(self) -> list[str]:
        """Ports whose link is up and which are not ACTIVE."""
        f = self.f
        up = (f.port_state > PortState.DOWN) & (f.port_num > 0)
        return [f.port_name(p) for p in np.flatnonzero(up & (f.port_state != PortState.ACTIVE)).tolist()]
