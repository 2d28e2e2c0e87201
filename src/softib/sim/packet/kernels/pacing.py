# mypy: ignore-errors
"""How long a stream waits after a packet: its static rate (IBA chapter 9, static rate), and what congestion control adds (:mod:`~.congestion`)."""

import numpy as np

from softib.jit import inner


@inner
def static_rate(s, stream):
    """Time from the begin of a packet of ``stream`` to the next, in thousandths of the packet's own; 0: no limit."""
    return s.qp[stream >> 1].back_ps_packet if stream & 1 else s.qp[stream >> 1].ps_packet


@inner
def waits_until(n, s, stream, start, end):
    """When ``stream``, whose packet is on the wire from ``start`` to ``end``, may send again; 0 where nothing slows it. A response's
    packets are slowed at their own sender, by what was noticed of the stream of responses."""
    gap = static_rate(s, stream)
    t = start + (end - start) * gap // 1000 if gap else np.int64(0)
    if n.opt.cc:
        delay = s.throttle[s.flow[stream]].delay
        if delay:
            t = max(t, end + (end - start) * delay // 1000)
    return t
