"""Remedies for the busiest ports of a simulated run. A remedy is simulated if that takes little time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from softib.api.simulation.records import Remedy
from softib.api.simulation.what_if import OF_PACKETS
from softib.errors import SoftibError

if TYPE_CHECKING:
    from softib.api.simulation.runs import Run

__all__ = ["CHEAP_ENTRIES", "CHEAP_EVENTS", "CHEAP_PORTS", "remedies"]

CHEAP_ENTRIES, CHEAP_EVENTS, CHEAP_PORTS = 100_000, 300_000, 5_000
"""Limits up to which a remedy is tried, about a second of work: links of all paths (fluid and
static layers), events (packet layer), ports of the fabric."""
BETTER = 0.95
"""Another engine is tried if its busiest link between switches carries at most this share of the load."""


def remedies(run: Run) -> list[Remedy]:
    """Return a remedy for each change that the causes of the busiest ports suggest, in the order of the ports."""
    wanted: dict[str, list[str]] = {}
    for port in run.causes:
        for kind in port.changes:
            change = _change(run, kind)
            if change and change not in run.variants:
                wanted.setdefault(change, []).append(port.place)
    return [_tried(run, change, ports) for change, ports in wanted.items()]


def _change(run: Run, kind: str) -> str:
    if kind != "engine":
        return {"vl": "vl=jobs"}.get(kind, f"{kind}=on")
    best = min(run.other_engines.items(), key=lambda item: item[1], default=("", 1.0))
    return f"engine={best[0]}" if best[1] <= BETTER else ""


def _tried(tried_on: Run, change: str, ports: list[str]) -> Remedy:
    untried = lambda why: Remedy(change, ports, False, why, None, None, None, {})
    key, _, value = change.partition("=")
    why = (
        "only the packet layer supports it: use --layer packet --what-if " + change
        if key in OF_PACKETS and tried_on.settings.layer != "packet"
        else _expensive(tried_on)
    )
    if why:
        return untried(why)
    try:
        other = tried_on.variant({key: value})
    except SoftibError as error:
        return untried(str(error))
    ratio = lambda a, b: a / b if a and b else None
    a, b = other.percentiles_us, tried_on.percentiles_us
    return Remedy(
        change=change,
        ports=ports,
        verified=True,
        why="",
        ratio=ratio(other.simulated_us, tried_on.simulated_us),
        mean_ratio=ratio(a.get("mean"), b.get("mean")),
        p99_ratio=ratio(a.get("p99"), b.get("p99")),
        jobs=_by_job(tried_on, other),
    )


def _by_job(run: Run, other: Run) -> dict[str, float]:
    """Return each job's p99 latency with the change, relative to that of the run."""
    from softib.analysis.simulation.slowdown import job_percentiles_ps

    ratios: dict[str, float] = {}
    for k, name in enumerate(run.details.jobs):
        before, after = job_percentiles_ps(run.details, k), job_percentiles_ps(other.details, k)
        if before and after and before["p99"]:
            ratios[name] = after["p99"] / before["p99"]
    return ratios


def _expensive(of: Run) -> str:
    run = of.details
    entries = len(run.plane.lay(run.messages).channel)
    small = (
        run.outcome.work.get("events", 0) <= CHEAP_EVENTS if of.settings.layer == "packet" else entries <= CHEAP_ENTRIES
    )
    if small and run.fabric.sizes.ports <= CHEAP_PORTS:
        return ""
    return "the run is large: try it with --what-if"
