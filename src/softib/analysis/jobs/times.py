"""Start and end times of jobs: Slurm's numbers in the formats of all its versions, and the times of
pods."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

__all__ = ["pod_span", "ran_at", "slurm_span"]

Span = tuple[float | None, float | None]
"""Start and end in seconds since 1970; None: unknown, or not yet."""
GOING = frozenset({"RUNNING", "SUSPENDED"})
"""States of Slurm in which ``end_time`` is the time at which the limit will be reached, not the end of the job."""


def ran_at(span: Span, at_s: float) -> bool:
    """Return whether the job ran at this time. A job with an unknown start time counts as running at any time before
    its end."""
    begin, end = span
    return (begin is None or begin <= at_s) and (end is None or at_s < end)


def slurm_span(job: Mapping[str, Any], states: set[str]) -> Span:
    """Return ``start_time`` and ``end_time`` of ``squeue`` and ``scontrol --json``, or those in the
    object ``time`` of ``sacct --json``."""
    times = job.get("time")
    both = (times.get("start"), times.get("end")) if isinstance(times, Mapping) else (None, None)
    begin, end = (
        _slurm_number(job.get(n) if job.get(n) is not None else t)
        for n, t in zip(("start_time", "end_time"), both, strict=True)
    )
    return begin, None if states & GOING else end


def _slurm_number(value: Any) -> float | None:
    """Return seconds since 1970, from a number or (Slurm 23.02 and later) from ``{"set": true, "infinite": false,
    "number": N}``; 0 means that there is no time."""
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set", True) is True and not value.get("infinite") else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        return None
    return float(value)


def pod_span(status: Mapping[str, Any]) -> Span:
    """Return ``startTime`` of a pod, and the time at which the last of its containers ended, if all have ended."""
    begin, containers = _rfc3339(status.get("startTime")), status.get("containerStatuses")
    if status.get("phase") not in ("Succeeded", "Failed") or not isinstance(containers, list):
        return begin, None
    ends = []
    for one in containers:
        state = one.get("state") if isinstance(one, Mapping) else None
        ended = state.get("terminated") if isinstance(state, Mapping) else None
        ends.append(_rfc3339(ended.get("finishedAt")) if isinstance(ended, Mapping) else None)
    stated = [e for e in ends if e is not None]
    return begin, max(stated) if stated and len(stated) == len(ends) else None


def _rfc3339(value: Any) -> float | None:
    try:
        time = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
