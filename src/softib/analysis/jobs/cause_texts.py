"""Texts for the ranked causes of a failed job: hops, evidence, the next command."""

from __future__ import annotations

from datetime import datetime

from softib.analysis.jobs.why import SHOWN_LOCATIONS, CauseLocation, HopReading, RankedCause
from softib.diags.finding import few
from softib.diags.job_causes.paths import PathSet
from softib.diags.job_causes.ranking import Facts, Hypothesis
from softib.diags.job_causes.readings import Readings
from softib.diags.job_causes.site import Site
from softib.job_logs.events import SYMPTOMS, Event

__all__ = ["clock_text", "hop_readings", "ranked_causes"]

LEAST = 0.01
"""Causes with a lower probability than this are not listed."""


def hop_readings(site: Site, readings: Readings, paths: PathSet) -> list[HopReading]:
    """Return the readings of the cables on the first pair's path according to the forwarding tables. Without tables,
    return those of the cables that all shortest paths have in common. Each cable is listed once, even if the path
    crosses it in both directions (as when a log names only one end)."""
    sure = paths.by_tables or [c for c, w in paths.weight.items() if w > 0.999][:8]
    return [_hop(site, readings, port) for port in {int(site.cable[p]): p for p in reversed(sure)}.values()][::-1]


_STATES = {-1: "not known", 0: "ok", 1: "down", 2: "went down and came back"}


def _hop(site: Site, readings: Readings, port: int) -> HopReading:
    both = [port, *([int(site.peer[port])] if site.peer[port] >= 0 else [])]

    def most(values: list[float]) -> int | None:
        numbers = [v for v in values if v == v]
        return int(max(numbers)) if numbers else None

    waits = max(int(readings.waits[p]) for p in both)
    return HopReading(
        site.link(port),
        _STATES[max(int(readings.link[p]) for p in both)],
        most([float(readings.falls[p]) for p in both]),
        most([float(readings.errors[p]) for p in both]),
        None if waits < 0 else bool(waits),
    )


def ranked_causes(
    hypotheses: list[Hypothesis],
    site: Site | None,
    readings: Readings | None,
    facts: Facts,
    events: list[Event],
    source: str,
) -> list[RankedCause]:
    """Return the causes, one per code, the most probable first, each with its locations, evidence and next command."""
    by_code: dict[str, list[Hypothesis]] = {}
    for h in hypotheses:
        by_code.setdefault(h.cause.code, []).append(h)
    causes = []
    for several in by_code.values():
        total = min(1.0, sum(h.probability for h in several))
        if total < LEAST:
            continue
        best = several[0]
        locations = [
            CauseLocation(_where(site, h), round(h.probability, 4))
            for h in several[:SHOWN_LOCATIONS]
            if h.port >= 0 or h.node >= 0
        ]
        evidence = _evidence(best, site, readings, facts, events)
        causes.append(
            RankedCause(
                best.cause.code,
                round(total, 4),
                best.cause.meaning,
                locations,
                evidence,
                _command(best, site, source, facts),
                best.cause.reason,
            )
        )
    return sorted(causes, key=lambda c: (-c.probability, c.code))


def _where(site: Site | None, h: Hypothesis) -> str:
    if site is None:
        return ""
    return site.link(h.port) if h.port >= 0 else site.fabric.node_name(h.node)


def _evidence(
    h: Hypothesis, site: Site | None, readings: Readings | None, facts: Facts, events: list[Event]
) -> list[str]:
    out = []
    if facts.symptom == "completed" and h.cause.code == "nothing":
        out.append("the logs have the line with which a program ends normally")
    if events and (p := h.cause.symptoms.get(facts.symptom)):
        out.append(f"{SYMPTOMS[facts.symptom]}: {p:.0%} of such faults show it")
    out += [
        f"{_FEATURES[n][0] if there else _FEATURES[n][1]}"
        for n, there in facts.features.items()
        if n in h.cause.features and n in _FEATURES
    ]
    if site is None or readings is None:
        return out
    ports = (
        [h.port]
        if h.port >= 0
        else [p for p in site.fabric.ports_of(h.node) if site.peer[p] >= 0][:8]
        if h.node >= 0
        else []
    )
    if others := facts.other_ends.get(h.port):
        out.append(f"{site.name(h.port)}: its other end was one of {few(map(site.name, others))}")
    if h.node in facts.isolated:
        out.append(f"{site.fabric.node_name(h.node)}: none of its ports has a link")
    for port in ports:
        for end in (port, int(site.peer[port])):
            if end >= 0 and (line := _reading(site, readings, end)):
                out.append(line)
    return out[:8]


_FEATURES = {
    "idle": ("the job's ports sent almost nothing in that time", "the job's ports sent data in that time"),
    "pkeys-apart": (
        "the P_Keys of the ports have no partition with a full member in common",
        "the ports share a partition, one as a full member",
    ),
    "first-pkeys-apart": (
        "the P_Keys at index 0, which programs use by default, prevent communication of the ports",
        "the P_Keys at index 0 allow communication of the ports",
    ),
    "subnets-apart": ("no cables join the two ports", "cables join the two ports"),
    "lids-moved": ("LIDs of the ends changed in that time", "no LID changed in that time"),
    "link-reported": ("a log reports a link that went down, and names no port of the fabric", ""),
    "refused": ("ports dropped packets for their P_Key", "no port dropped a packet for its P_Key"),
}


def _reading(site: Site, readings: Readings, port: int) -> str:
    parts = []
    if report := readings.reported.get(port):
        parts.append(f"a log reports {'that its link went down' if report == 'link-down' else 'errors'}")
    if readings.falls[port] > 0:
        when = readings.when(port, "link_downed_counter")
        parts.append(
            f"its link fell {_times(readings.falls[port])}" + (f", first before {clock_text(when)}" if when else "")
        )
    if readings.down[port] == 1:
        parts.append("no link at the end")
    if readings.recoveries[port] > 0:
        parts.append(f"its link recovered {_times(readings.recoveries[port])}")
    if readings.errors[port] > 0:
        parts.append(f"{int(readings.errors[port]):,} damaged packets or symbols received")
    if readings.waits[port] == 1:
        parts.append("packets waited for credits or were dropped while waiting")
    if readings.silent[port] == 1:
        parts.append("stopped answering")
    if not parts and readings.ever and (total := readings.ever["falls"][port] + readings.ever["errors"][port]) > 0:
        parts.append(f"{int(total)} link failures and errors since the counters were cleared")
    return f"{site.name(port)}: {', '.join(parts)}" if parts else ""


def _times(count: float) -> str:
    return "once" if count == 1 else f"{int(count)} times"


def _command(h: Hypothesis, site: Site | None, source: str, facts: Facts) -> str:
    text = h.cause.command
    if h.cause.scope != "job" and h.port < 0 and h.node < 0:
        return "add --fabric and --history to identify the part"
    a = b = node = ""
    if site is not None:
        ends = list(facts.hosts[:2])
        if h.port >= 0:
            ends = [p for p in (h.port, int(site.peer[h.port])) if p >= 0]
        elif h.node >= 0 and h.cause.scope == "host":
            ports = [p for p in site.fabric.ports_of(h.node) if site.peer[p] >= 0][:1]
            ends = [p for port in ports for p in (port, int(site.peer[port]))]
        names = [site.name(p) for p in ends] + ["", ""]
        a, b = names[0], names[1]
        node = site.fabric.node_name(h.node) if h.node >= 0 else a.partition("[")[0]
    return text.format(a=a or "A", b=b or ("its other end" if h.port >= 0 else "B"), node=node or "HOST", fabric=source)


def clock_text(seconds: float) -> str:
    """Return the time in this machine's time zone."""
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")
