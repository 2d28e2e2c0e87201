"""What ports, queue pairs and hosts of an Ethernet run counted, beside InfiniBand's counters."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.sim.packet import ethernet_tables as e
from softib.sim.packet import tables as t

__all__ = ["port_figures", "totals"]

FIGURES = {
    "pause_frames_sent": e.PAUSES_SENT, "pause_frames_received": e.PAUSES_RECEIVED, "paused_ps": e.PAUSED_PS, "tail_drops": e.TAIL_DROPS,
    "headroom_drops": e.HEADROOM_DROPS, "ecn_marked": e.ECN_MARKED,
}  # fmt: skip
"""Summed over the priorities of a port."""


def port_figures(net: Any, s: Any, end_ps: int) -> dict[str, np.ndarray]:
    """Figures by port (int64[ports]) of a run that ended at ``end_ps``: ``pause_frames_sent`` and ``_received``, ``paused_ps`` (of all priorities, pauses that last included),
    ``tail_drops``, ``headroom_drops``, ``ecn_marked``, ``peak_queue`` (the longest egress queue of a priority, octets), ``mean_queue`` (over the
    run), ``gbps`` of the link (float64), ``cpu_send_ps`` and ``cpu_receive_ps`` of the host behind the port."""
    vls = int(net.opt[t.OPT_VLS])
    q = s.queue.reshape(-1, vls, e.Q_ETHERNET)
    found = {name: q[:, :, column].sum(axis=1) for name, column in FIGURES.items()}
    now = max(end_ps, 1)
    since = q[:, :, e.PAUSED]
    found["paused_ps"] = found["paused_ps"] + np.where(since > 0, np.maximum(now + 1 - since, 0), 0).sum(axis=1)
    found["peak_queue"] = q[:, :, e.PEAK_EGRESS].max(axis=1)
    still = (q[:, :, e.EGRESS] * np.maximum(now - q[:, :, e.QUEUE_SINCE], 0)) >> 10
    queued = np.where(q[:, :, e.PEAK_EGRESS] > 0, q[:, :, e.QUEUE_AREA] + still, 0)
    found["mean_queue"] = (queued.sum(axis=1).astype(np.float64) * 1024 / now).round().astype(np.int64)
    found["gbps"] = net.buffer[:, e.LINE_KBPS] / 1e6
    found["cpu_send_ps"], found["cpu_receive_ps"] = (
        s.processor[:, e.CPU_SEND].copy(),
        s.processor[:, e.CPU_RECEIVE].copy(),
    )
    return found


def totals(figures: dict[str, np.ndarray], s: Any, network: str) -> dict[str, int]:
    """Sums for :attr:`softib.sim.outcome.Outcome.work`."""
    found = {
        "pause frames": int(figures["pause_frames_sent"].sum()),
        "frames marked": int(figures["ecn_marked"].sum()),
        "frames dropped": int(figures["tail_drops"].sum() + figures["headroom_drops"].sum()),
    }
    if network == "roce":
        found["CNPs"] = int(s.connection[:, e.CNPS].sum())
    else:
        found["segments sent again"] = int(s.connection[:, e.RETRANSMITS].sum())
        found["timeouts"] = int(s.connection[:, e.TIMEOUTS].sum())
        found["CPU us to send"] = int(figures["cpu_send_ps"].sum() // 1_000_000)
        found["CPU us to receive"] = int(figures["cpu_receive_ps"].sum() // 1_000_000)
    return found
