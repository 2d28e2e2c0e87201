# mypy: ignore-errors
"""How long a stream waits after a packet: its static rate (IBA chapter 9, static rate), and what congestion control adds (:mod:`~.congestion`)."""

import numpy as np

from softib.jit import inner
from softib.sim.packet.tables import BACK_PS_PACKET, CC, F_DELAY, F_ROW, PS_PACKET


@inner
def waits_until(n, s, stream, start, end):
    """When ``stream``, whose packet is on the wire from ``start`` to ``end``, may send again; 0 where nothing slows it. A response's
    packets are slowed at their own sender, by what was noticed of the stream of responses."""
    gap = s.qp[stream >> 1, BACK_PS_PACKET if stream & 1 else PS_PACKET]
    t = start + (end - start) * gap // 1000 if gap else np.int64(0)
    if n.opt[CC]:
        delay = s.throttle[s.flow[stream, F_ROW], F_DELAY]
        if delay:
            t = max(t, end + (end - start) * delay // 1000)
    return t
