"""A manager and a fabric's agents with nothing between them: the shortest way to run one without ``scenario``."""

from __future__ import annotations

from softib.agents.plane import AgentPlane
from softib.fabric.model import Fabric
from softib.mad.batch import MadBatch
from softib.sm.subnet_manager import SubnetManager


def settle(sm: SubnetManager, plane: AgentPlane, port: int, now_ps: int = 0, inbox: MadBatch | None = None) -> int:
    """Carry MADs until the manager rests; returns the time."""
    while True:
        outbox, deadline_ps = sm.step(now_ps, inbox)
        if len(outbox):
            inbox = plane.send(outbox, port, now_ps)
        elif sm.settled:
            return now_ps
        else:
            inbox, now_ps = None, max(now_ps, deadline_ps)


def line_of(switches: int) -> Fabric:
    """A CA, then ``switches`` switches in a line, then a CA."""
    import numpy as np

    from softib.fabric.builder import FabricBuilder
    from softib.iba.constants import NodeType

    b = FabricBuilder("line", lft_cap=256)
    sw = b.nodes(switches, NodeType.SWITCH, 4, desc=[f"s{i}" for i in range(switches)])
    ca = b.nodes(2, NodeType.CA, 1, desc=["first", "last"])
    b.links(sw[:-1], 2, sw[1:], 1)
    b.links(np.array([sw[0], sw[-1]]), 3, ca, 1)
    return b.build()
