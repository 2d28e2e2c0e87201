"""Processor time that programs spend on messages. TCP: the kernel's stack as the packet layer
counted it; verbs: a cost for each work request and completion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from softib.sim.messages import Opcode

if TYPE_CHECKING:
    from softib.analysis.simulation.result import RunResult

__all__ = ["ASSUMED", "processor_share"]

ASSUMED = (
    "CPU share: time of a host's processors for its messages over the time of the run (1: one core). TCP: "
    "the kernel's stack; RDMA: "
    "{post:g} ns for a work request with its completion (hosts: post_ns); busy polling is not counted."
)


def processor_share(run: RunResult) -> dict[str, float]:
    """Return ``cpu_share`` (mean of the hosts that send or receive), ``cpu_share_most`` (the
    busiest host) and ``cpu_us`` (of all hosts). Computations of the workload do not count."""
    m, hosts = run.messages, len(run.plane.ends)
    sent = np.flatnonzero(~m.computes & (run.outcome.began_ps >= 0))
    taking_part = np.union1d(m.src[sent], m.dst[sent])
    if run.outcome.network == "tcp":
        figures = run.outcome.port_figures
        ps = (figures["cpu_send_ps"] + figures["cpu_receive_ps"])[run.plane.ends].astype(np.float64)
    else:
        each = run.hosts.profile.post_ns * 1000
        received = sent[m.opcode[sent] == Opcode.SEND]
        ps = each * (np.bincount(m.src[sent], minlength=hosts) + np.bincount(m.dst[received], minlength=hosts))
    share = ps[taking_part] / max(run.outcome.end_ps, 1)
    return (
        {"cpu_share": float(share.mean()), "cpu_share_most": float(share.max()), "cpu_us": float(ps.sum() / 1e6)}
        if len(share)
        else {}
    )
