"""What ports, queue pairs and hosts of an Ethernet run counted, beside InfiniBand's counters."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["port_figures", "totals"]

FIGURES = ("pause_frames_sent", "pause_frames_received", "paused_ps", "tail_drops", "headroom_drops", "ecn_marked")
"""Figures that are summed over the priorities of a port."""

COLUMNS = {"pause_frames_sent": "pauses_sent", "pause_frames_received": "pauses_received"}
"""Columns of ``State.queue`` that have another name."""


def port_figures(net: Any, s: Any, end_ps: int) -> dict[str, np.ndarray]:
    """Figures by port (int64[ports]) of a run that ended at ``end_ps``: ``pause_frames_sent`` and ``_received``, ``paused_ps`` (of all priorities, pauses that last included),
    ``tail_drops``, ``headroom_drops``, ``ecn_marked``, ``peak_queue`` (the longest egress queue of a priority, octets), ``mean_queue`` (over the
    run), ``gbps`` of the link (float64), ``cpu_send_ps`` and ``cpu_receive_ps`` of the host behind the port."""
    vls = int(net.opt.vls)
    q = s.queue.reshape(-1, vls)
    found = {name: q[COLUMNS.get(name, name)].sum(axis=1) for name in FIGURES}
    now = max(end_ps, 1)
    since = q["paused"]
    found["paused_ps"] = found["paused_ps"] + np.where(since > 0, np.maximum(now + 1 - since, 0), 0).sum(axis=1)
    found["peak_queue"] = q["peak_egress"].max(axis=1)
    still = (q["egress"] * np.maximum(now - q["queue_since"], 0)) >> 10
    queued = np.where(q["peak_egress"] > 0, q["queue_area"] + still, 0)
    found["mean_queue"] = (queued.sum(axis=1).astype(np.float64) * 1024 / now).round().astype(np.int64)
    found["gbps"] = net.buffer["line_kbps"] / 1e6
    found["cpu_send_ps"], found["cpu_receive_ps"] = (
        s.processor["send_ps"].copy(),
        s.processor["receive_ps"].copy(),
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
        found["CNPs"] = int(s.dcqcn["cnps"].sum())
    else:
        found["segments sent again"] = int(s.tcp["retransmits"].sum())
        found["timeouts"] = int(s.tcp["timeouts"].sum())
        found["CPU us to send"] = int(figures["cpu_send_ps"].sum() // 1_000_000)
        found["CPU us to receive"] = int(figures["cpu_receive_ps"].sum() // 1_000_000)
    return found
