"""Figures of a run's jobs: their latencies, their slowdown compared with a run of each job alone, and the processor
time that programs spend on messages. For TCP, the processor time is that of the kernel's stack in the packet layer; for
verbs, it is a fixed time for each work request with its completion."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from softib.analysis.simulation.result import RunResult
from typing import TYPE_CHECKING

from softib.sim.messages import Opcode

if TYPE_CHECKING:
    from softib.analysis.simulation.result import RunResult

__all__ = ["ASSUMED", "PERCENTILES", "job_percentiles_ps", "jobs_alone", "processor_share", "request_figures"]


ASSUMED = (
    "CPU share: time of a host's processors for its messages over the time of the run (1: one core). TCP: "
    "the kernel's stack; RDMA: "
    "{post:g} ns for a work request with its completion (hosts: post_ns); busy polling is not counted."
)


def processor_share(run: RunResult) -> dict[str, float]:
    """Return ``cpu_share`` (mean over the hosts that send or receive), ``cpu_share_most`` (the
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


PERCENTILES = {"p50": 50, "p99": 99, "p99.9": 99.9}


def job_percentiles_ps(run: RunResult, job: int) -> dict[str, float]:
    """Return p50, p99 and p99.9 of the latencies of a job's messages in ps; empty without arrivals."""
    took = run.took_ps[(run.messages.job == job) & (run.took_ps >= 0)]
    if not len(took):
        return {}
    return dict(zip(PERCENTILES, np.percentile(took, list(PERCENTILES.values())).tolist(), strict=True))


def request_figures(run: RunResult, job: int) -> dict[str, float]:
    """Return the figures of a job with requests and responses; {} for other jobs. ``requests``: number of requests that
    ended; ``per_s``: requests per second between the first and the last. The percentiles are those of the time in µs
    from the start of the command to the arrival of the response."""
    m, o = run.messages, run.outcome
    asks, ends = m.requests[m.job[m.requests[:, 0]] == job].T
    done = (o.began_ps[asks] >= 0) & (o.arrived_ps[ends] >= 0)
    if not done.any():
        return {}
    began, ended = o.began_ps[asks[done]], o.arrived_ps[ends[done]]
    values = np.percentile(ended - began, list(PERCENTILES.values())) / 1e6
    span = int(ended.max() - began.min())
    per_s = {"per_s": int(done.sum()) * 1e12 / span} if span else {}
    return {
        "requests": int(done.sum()),
        **per_s,
        **{f"{q}_us": float(v) for q, v in zip(PERCENTILES, values, strict=True)},
    }


def jobs_alone(run: RunResult, alone: Callable[[RunResult, int], RunResult]) -> dict[str, dict[str, float]]:
    """Return for each job: ``took_us``, its time alone; ``slowdown``, its time in the run divided by ``took_us``; and
    the slowdown of each percentile of its latencies. NaN if the job did not complete. A message that waits for a
    message of another job starts at its start time when its job runs alone."""
    by_job: dict[str, dict[str, float]] = {}
    together = run.job_times()
    for k, name in enumerate(run.jobs):
        by_itself = alone(run, k)
        one, both = by_itself.job_times()[k], together[k]
        took = one.ended_ps - one.began_ps if one.ended_ps >= 0 else float("nan")
        took_both = both.ended_ps - both.began_ps if both.ended_ps >= 0 else float("nan")
        ours, theirs = job_percentiles_ps(run, k), job_percentiles_ps(by_itself, k)
        ratios = {f"{q}_slowdown": ours[q] / theirs[q] for q in PERCENTILES if ours.get(q) and theirs.get(q)}
        by_job[name] = {"took_us": took / 1e6, "slowdown": took_both / took if took else float("nan"), **ratios}
    return by_job
