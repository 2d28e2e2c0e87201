"""Each job of a run without the others, and its latencies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from softib.analysis.simulation.result import RunResult

__all__ = ["PERCENTILES", "job_percentiles_ps", "jobs_alone", "request_figures"]

PERCENTILES = {"p50": 50, "p99": 99, "p99.9": 99.9}


def job_percentiles_ps(run: RunResult, job: int) -> dict[str, float]:
    """Return p50, p99 and p99.9 of the latencies of a job's messages in ps; empty without arrivals."""
    took = run.took_ps[(run.messages.job == job) & (run.took_ps >= 0)]
    if not len(took):
        return {}
    return dict(zip(PERCENTILES, np.percentile(took, list(PERCENTILES.values())).tolist(), strict=True))


def request_figures(run: RunResult, job: int) -> dict[str, float]:
    """Return figures of a job of requests and responses; empty for other jobs. ``requests``: number
    that ended; ``per_s``: rate from the first to the last; percentiles of their times in µs, from
    the begin of the command to the arrival of the response."""
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
    """Return for each job ``took_us`` alone, ``slowdown`` (its time in the run over that) and the
    slowdown of each percentile of its latencies; NaN where it did not complete. Messages that wait
    for another job's begin at their own time."""
    found: dict[str, dict[str, float]] = {}
    together = run.job_times()
    for k, name in enumerate(run.jobs):
        by_itself = alone(run, k)
        one, both = by_itself.job_times()[k], together[k]
        took = one.ended_ps - one.began_ps if one.ended_ps >= 0 else float("nan")
        took_both = both.ended_ps - both.began_ps if both.ended_ps >= 0 else float("nan")
        ours, theirs = job_percentiles_ps(run, k), job_percentiles_ps(by_itself, k)
        ratios = {f"{q}_slowdown": ours[q] / theirs[q] for q in PERCENTILES if ours.get(q) and theirs.get(q)}
        found[name] = {"took_us": took / 1e6, "slowdown": took_both / took if took else float("nan"), **ratios}
    return found
