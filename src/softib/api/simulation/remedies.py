"""Remedies for the busiest ports of a simulated run, tried where that is cheap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from softib.api.simulation.what_if import OF_PACKETS
from softib.errors import SoftibError

if TYPE_CHECKING:
    from softib.api.simulation.runs import Run

__all__ = ["CHEAP_ENTRIES", "CHEAP_EVENTS", "CHEAP_PORTS", "remedies"]

CHEAP_ENTRIES, CHEAP_EVENTS, CHEAP_PORTS = 100_000, 300_000, 5_000
"""Limits up to which a remedy is tried, about a second of work: links of all paths (fluid and
static layers), events (packet layer), ports of the fabric."""
BETTER = 0.95
"""An engine is worth a try if its busiest link between switches carries at most this share."""


def remedies(found: Run) -> list[dict[str, Any]]:
    """Return a remedy for each change that the causes of the busiest ports propose, in their order.
    ``change``; ``ports``: that it is for; ``verified``: was it tried? With it the ratios to the
    run: ``ratio`` (time), ``mean_ratio`` and ``p99_ratio`` (latency), ``jobs`` (each job's p99).
    ``why``: the reason why it was not tried."""
    wanted: dict[str, list[str]] = {}
    for port in found.causes:
        for kind in port.changes:
            change = _change(found, kind)
            if change and change not in found.variants:
                wanted.setdefault(change, []).append(port.place)
    return [_tried(found, change, ports) for change, ports in wanted.items()]


def _change(found: Run, kind: str) -> str:
    if kind != "engine":
        return {"vl": "vl=jobs"}.get(kind, f"{kind}=on")
    best = min(found.other_engines.items(), key=lambda item: item[1], default=("", 1.0))
    return f"engine={best[0]}" if best[1] <= BETTER else ""


def _tried(found: Run, change: str, ports: list[str]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "change": change,
        "ports": ports,
        "verified": False,
        "why": "",
        "ratio": None,
        "mean_ratio": None,
        "p99_ratio": None,
        "jobs": {},
    }
    key, _, value = change.partition("=")
    why = (
        "only packets know it: try --layer packet --what-if " + change
        if key in OF_PACKETS and found.settings.layer != "packet"
        else _expensive(found)
    )
    if why:
        return made | {"why": why}
    try:
        other = found.variant({key: value})
    except SoftibError as error:
        return made | {"why": str(error)}
    ratio = lambda a, b: a / b if a and b else None
    a, b = other.percentiles_us, found.percentiles_us
    return made | {
        "verified": True,
        "ratio": ratio(other.simulated_us, found.simulated_us),
        "mean_ratio": ratio(a.get("mean"), b.get("mean")),
        "p99_ratio": ratio(a.get("p99"), b.get("p99")),
        "jobs": _by_job(found, other),
    }


def _by_job(found: Run, other: Run) -> dict[str, float]:
    """Return the p99 latency of each job with the change, over that of the run."""
    from softib.analysis.simulation.slowdown import job_percentiles_ps

    made: dict[str, float] = {}
    for k, name in enumerate(found.details.jobs):
        before, after = job_percentiles_ps(found.details, k), job_percentiles_ps(other.details, k)
        if before and after and before["p99"]:
            made[name] = after["p99"] / before["p99"]
    return made


def _expensive(found: Run) -> str:
    run = found.details
    entries = len(run.plane.lay(run.messages).channel)
    small = (
        run.outcome.work.get("events", 0) <= CHEAP_EVENTS
        if found.settings.layer == "packet"
        else entries <= CHEAP_ENTRIES
    )
    if small and run.fabric.sizes.ports <= CHEAP_PORTS:
        return ""
    return "the run is large: try it with --what-if"
