"""Explanation of a failed job from its logs, the fabric, and the history of the fabric's counters
(:func:`explain_failure`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from softib.analysis.jobs.cause_texts import clock_text, hop_readings, ranked_causes
from softib.analysis.jobs.why import Why
from softib.analysis.path_obstacles import partitions_apart, pkeys_of
from softib.diags.finding import few
from softib.diags.job_causes.paths import PathSet, paths_between
from softib.diags.job_causes.ranking import Facts, rank
from softib.diags.job_causes.readings import Readings, Window
from softib.diags.job_causes.site import Site, is_ethernet
from softib.fabric.model import Fabric
from softib.job_logs.events import End, Event, JobLog
from softib.plural import counted, plural

__all__ = ["explain_failure", "window_of"]

BEFORE_S = 180.0
AFTER_S = 60.0
UNTIMED_S = 900.0
"""Seconds that are analysed before the first error and after the last one, so that clocks may differ by a minute. If a
log has no times, this span before its end is analysed."""
WAITED_S = 2000.0
"""Seconds that are analysed before a symptom that a time limit causes: PyTorch's limit is 10 or 30 minutes."""
DEFERRED = ("collective-timeout", "collective-stuck", "rank-behind", "receive-timeout", "time-limit")
IDLE_BYTES = 2e6
"""A port that sent fewer bytes than this in the window did not carry the job's data."""
REPORTS = {
    "link-down": "link-down",
    "node-left": "link-down",
    "link-errors": "link-errors",
    "manager-changed": "",
    "partition-violation": "",
}
"""Symptoms that kernels and managers report (not the job) → state of the port that they name."""
SECONDARY = ("process-died", "tcp-used", "no-result")
ABORTS = ("6", "SIGABRT", "Aborted", "134", "15", "SIGTERM", "143")
NETWORK = ("retry-exceeded", "receiver-not-ready", "remote-access", "invalid-request", "connect-failed", "flushed")
NAMING = ("node-failed", "device-fatal")
"""Symptoms whose line names the host that failed."""
ALIVE = (*NETWORK, "peer-lost", "collective-timeout", "aborted", "receive-timeout")
"""Symptoms that a program itself prints; they show that its host was running."""


def window_of(log: JobLog, at_s: float | None = None) -> Window | None:
    """Return the time span that is analysed; None if the log gives no time."""
    if at_s is not None:
        return Window(at_s - BEFORE_S, at_s + AFTER_S, "given", failed_s=at_s)
    times = [t for e in log.events for t in (e.first_s, e.last_s) if t is not None]
    before = WAITED_S if any(e.symptom in DEFERRED for e in log.events) else BEFORE_S
    if times:
        return Window(min(times) - before, max(times) + AFTER_S, "by the times in the log", failed_s=min(times))
    if log.written_s is None:
        return None
    if log.events and all(e.symptom == "no-result" for e in log.events):
        return Window(
            log.written_s - BEFORE_S,
            log.written_s + WAITED_S,
            "the log has no times and no error: from its last write on",
            failed_s=log.written_s,
        )
    return Window(
        log.written_s - max(before, UNTIMED_S),
        log.written_s + AFTER_S,
        "the log has no times; its modification time is used",
        log.written_s - BEFORE_S if before < UNTIMED_S else None,
        log.written_s,
    )


def explain_failure(
    log: JobLog,
    site: Site | None,
    window: Window | None,
    hosts: Sequence[str] = (),
    lids_moved: bool | None = None,
    source: str = "FABRIC",
) -> Why:
    """Combine the logs with the fabric (None: there is none). ``hosts``: hosts of the job, if the logs do not name
    them; errors between other hosts are left out. ``lids_moved``: whether the history shows changed LIDs."""
    notes = list(log.problems)
    log = _of_hosts(log, site, hosts, notes)
    events = _roots(log.events)
    silent = "completed" if log.completed else "none"
    symptom = next((e.symptom for e in events if e.symptom not in REPORTS), events[0].symptom if events else silent)
    why = Why(
        files=log.files,
        lines=log.lines,
        symptom=symptom,
        symptoms=log.events,
        ends=[],
        window=_shown(window),
        path=[],
        cables=0,
        causes=[],
        notes=notes,
        jobs=log.job_ids,
    )
    facts = Facts(symptom)
    readings = None
    ethernet = sorted({e.gid for pair in _stated(log) for e in pair if e.gid and is_ethernet(e.gid)})
    if ethernet or log.ethernet:
        port = f"GID {ethernet[0]}" if ethernet else log.ethernet
        notes.append(
            f"{port} is an Ethernet (RoCE) port, not an InfiniBand port: its path uses no cable of this fabric"
        )
        facts.features["ethernet"] = True
    elif site is not None:
        readings = Readings(site, window, notes, _reported(events, site))
        pairs, ends = _pairs(log, site, hosts, notes)
        paths = paths_between(site, pairs)
        readings.lost = frozenset(paths.lost)
        facts = Facts(
            symptom=symptom,
            features=_features(site, readings, pairs, paths, lids_moved),
            weight=paths.weight,
            hosts=tuple(ends),
            alive=_nodes([e for e in events if e.symptom in ALIVE], site),
            named=_nodes([e for e in events if e.symptom == symptom and symptom in NAMING], site),
            lost=frozenset(paths.lost),
            isolated=paths.isolated,
            other_ends=paths.other_ends,
        )
        why.ends, why.cables = [site.name(p) for p in ends], len(paths.weight)
        why.path = hop_readings(site, readings, paths)
        if not ends and any(e.gid or e.lid for pair in _stated(log) for e in pair):
            notes.append("no port that the logs name is in this fabric, so its cables and counters are not used")
            readings = None
        if paths.ended:
            notes.append(f"the tables' path ends: {paths.ended}")
        _say_what_lacks(notes, site, ends, readings)
    else:
        notes.append(
            "no fabric is given: add --fabric (a running fabric, a dump) for the path, and --history for its counters"
        )
        if not any(e.gid or e.lid for pair in _stated(log) for e in pair):
            notes.append("the log has no GID or LID; run the job with NCCL_DEBUG=INFO, or add --hosts")
    if not log.events and not log.pairs:
        notes.append("no line of the logs is recognised; use the output of all ranks of the job")
    if any(e.symptom == "tcp-used" and "UCX_TLS=" in e.text for e in log.events):
        facts.features["tcp-configured"] = True
    if any(REPORTS.get(e.symptom) == "link-down" and not (site and site.ports_of(e.local)[0]) for e in events):
        facts.features["link-reported"] = True
    why.hypotheses = rank(facts, readings)
    why.causes = ranked_causes(why.hypotheses, site, readings, facts, events, source)
    return why


def _of_hosts(log: JobLog, site: Site | None, hosts: Sequence[str], notes: list[str]) -> JobLog:
    """Return ``log`` without errors and connections that have no end on one of ``hosts``; if ``hosts`` is empty, return
    the whole log. If a log contains several jobs and it is unclear to which of them an entry belongs, add a note."""
    if len(log.job_ids) > 1 and not hosts:
        notes.append(f"the logs belong to several jobs, {few(log.job_ids)}; use --hosts with the hosts of one job")
    if hosts:
        short = {h.lower().split(".")[0] for h in hosts}
        rows = set() if site is None else {p for h in hosts for p in site.ports_of_host(h)}

        def other(*ends: End) -> bool:
            rows_of_ends = [_is_of(end, site, rows, short) for end in ends if end]
            return False in rows_of_ends and True not in rows_of_ends

        of_job = [e for e in log.events if not other(e.local, e.remote)]
        pairs = [p for p in log.pairs if not other(*p)]
        if not any(e.local or e.remote for e in of_job) and not pairs:
            return log  # the log uses other names for the hosts
        kept = {id(e) for e in of_job}
        events = [e for e in log.events if e.symptom in REPORTS or id(e) in kept]
        if dropped := len(log.events) - len(events):
            notes.append(
                f"{counted(dropped, 'error')} of hosts outside the job {plural(dropped, 'is', 'are')} left out"
            )
        log = replace(log, events=events, pairs=pairs)
    unnamed = [e for e in log.events if e.symptom in NETWORK and not e.local and not e.remote]
    if unnamed and len({frozenset(p) for p in log.pairs}) > 1:
        notes.append(
            f"{counted(len(log.pairs), 'connection')}, and errors without a connection: if they belong to several "
            f"jobs, use the log of each job separately"
        )
    return log


def _is_of(end: End, site: Site | None, rows: set[int], short: set[str]) -> bool | None:
    """Return whether an end is at one of the job's ports ``rows`` or hosts ``short``; None if unknown."""
    ports = [] if site is None else site.ports_of(end)[0]
    if ports:
        return bool(rows & set(ports))
    return end.host.lower().split(".")[0] in short if end.host else None


def _roots(events: Sequence[Event]) -> list[Event]:
    """Return the events that may show the cause; the event nearest to the cause comes first. Aborts and kills that
    follow an error are left out."""
    network = [e for e in events if e.symptom in NETWORK]
    others = [e for e in events if e.symptom not in SECONDARY and e.symptom != "aborted"]
    killed = {id(e) for e in events if e.symptom == "process-died" and e.detail in ABORTS and others}
    died = [e for e in events if e.symptom in ("process-died", "out-of-memory") and id(e) not in killed]
    return [
        e
        for e in events
        if id(e) not in killed
        and not (e.symptom == "tcp-used" and network)
        and not (e.symptom == "time-limit" and died)
    ]


def _stated(log: JobLog) -> list[tuple[End, End]]:
    return [*((e.local, e.remote) for e in log.events), *log.pairs]


def _pairs(log: JobLog, site: Site, hosts: Sequence[str], notes: list[str]) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the pairs of port rows, and all ports of the job. The pairs are those that failed; otherwise those that
    were connected; otherwise all pairs of the job's hosts."""
    tried: set[str] = set()

    def port(end: End) -> int:
        ports, why = site.ports_of(end)
        if why and why not in tried and len(tried) < 8:
            tried.add(why)
            notes.append(why)
        if len(ports) > 1 and (end.gid or end.lid):
            notes.append(f"{end} is of {counted(len(ports), 'port')} (in several subnets); the first is used")
        return ports[0] if len(ports) == 1 or (ports and (end.gid or end.lid)) else -1

    by_event = [(port(e.local), port(e.remote)) for e in log.events if e.symptom not in ("manager-changed", "tcp-used")]
    by_log = [(port(a), port(b)) for a, b in log.pairs]
    named = [p for h in hosts for p in site.ports_of_host(h)]
    if missing := [h for h in hosts if not site.ports_of_host(h)]:
        notes.append(
            f"host {missing[0]} is not in this fabric" + (f", nor {len(missing) - 1} more" if len(missing) > 1 else "")
        )
    for some in (by_event, by_log):
        if whole := list(dict.fromkeys((a, b) for a, b in some if a >= 0 and b >= 0 and a != b)):
            return whole, list(dict.fromkeys(p for pair in whole for p in pair))
    single = list(dict.fromkeys([p for pair in (*by_event, *by_log) for p in pair if p >= 0] + named))
    ends = single or [p for h in log.hosts for p in site.ports_of_host(h)]
    return [(a, b) for i, a in enumerate(ends) for b in ends[i + 1 :]] or [(p, p) for p in ends], ends


def _features(
    site: Site, readings: Readings, pairs: list[tuple[int, int]], paths: PathSet, lids_moved: bool | None
) -> dict[str, bool]:
    features: dict[str, bool] = {}
    f = site.fabric
    ends = sorted({p for pair in pairs for p in pair})
    apart = [(a, b) for a, b in pairs[:16] if a != b and pkeys_of(f, a) and pkeys_of(f, b)]
    if apart and site.has_pkeys:
        why = [partitions_apart(f, f.node_names(), a, b) for a, b in apart]
        features["pkeys-apart"] = any(why)
        features["first-pkeys-apart"] = any(_first_pkeys_apart(f, a, b) for a, b in apart)
    if any(a != b for a, b in pairs):
        features["subnets-apart"] = paths.apart and not paths.lost and not any(readings.link[p] == 1 for p in ends)
    if ends:
        features["ethernet"] = False
    if lids_moved is not None:
        features["lids-moved"] = lids_moved
    moved = readings.moved(ends)
    if moved is not None and ends and site.observed is not None and (moved >= IDLE_BYTES or readings.covers(ends)):
        features["idle"] = moved < IDLE_BYTES
    if site.observed is not None and ends:
        cables = [int(site.cable[p]) for p in ends if site.cable[p] >= 0]
        counts = [v for c in cables for v in (readings.refused[c], readings.refused[site.peer[c]]) if v >= 0]
        if counts:
            features["refused"] = any(counts)
    return features


def _first_pkeys_apart(f: Fabric, a: int, b: int) -> bool:
    """Return whether the P_Keys at index 0, which programs use by default, prevent two ports from communicating."""
    first, second = pkeys_of(f, a)[0], pkeys_of(f, b)[0]
    return (first & 0x7FFF) != (second & 0x7FFF) or not (first | second) & 0x8000


def _reported(events: Sequence[Event], site: Site) -> dict[int, str]:
    """Return the states, by port, that kernels or managers report in the logs."""
    reports = {}
    for event in events:
        report = REPORTS.get(event.symptom)
        ports = site.ports_of(event.local)[0] if report and event.local else []
        if report and len(ports) == 1:
            reports[ports[0]] = report
    return reports


def _nodes(events: Sequence[Event], site: Site) -> frozenset[int]:
    """Return the nodes of the local ends of events."""
    ports = [p for e in events if e.local for p in site.ports_of(e.local)[0]]
    return frozenset(int(site.fabric.port_node[p]) for p in ports)


def _say_what_lacks(notes: list[str], site: Site, ends: list[int], readings: Readings | None) -> None:
    if not ends:
        notes.append(
            "the logs name no port of this fabric; add the job's hosts (--hosts), or logs with GIDs (NCCL_DEBUG=INFO)"
        )
    if readings and site.observed and ends and not readings.covers(ends):
        notes.append(
            "the history has no reading of the job's ports after the failure: it cannot show that a cable was good"
        )
    if site.observed is None:
        notes.append(
            "there is no history of counters, so the state of the cables at that time is unknown (softib exporter "
            "--history keeps one)"
        )
    if not site.has_tables:
        notes.append(
            "there are no forwarding tables, so all shortest paths count equally (use --lfts, or a running fabric)"
        )


def _shown(window: Window | None) -> str:
    if window is None:
        return ""
    return f"{clock_text(window.begin_s)} to {clock_text(window.end_s)} ({window.source})"
