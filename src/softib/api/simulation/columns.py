"""The tables of a simulation as columns, and its figures as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.api.simulation.trace import trace_of
from softib.api.simulation.what_if import SENSITIVITY

if TYPE_CHECKING:
    from softib.analysis.simulation.causes import BusyPort
    from softib.analysis.simulation.result import RunResult
    from softib.analysis.simulation.victim_flows import Victims
    from softib.api.simulation.runs import Run
    from softib.sim.fluid_phases import Phases

__all__ = ["as_json", "busy_ports", "jobs", "messages", "over_time", "phases", "ports"]

SLOWEST = 10


def messages(run: RunResult) -> dict[str, Any]:
    """One row a message; times in µs, NaN where they did not happen."""
    m, o = run.messages, run.outcome
    return {
        "job": np.array(run.jobs, object)[m.job].tolist(),
        "source": run.names[m.src].tolist(),
        "destination": run.names[m.dst].tolist(),
        "size": m.size,
        "start_us": m.start_ps / 1e6,
        "began_us": _us(o.began_ps),
        "arrived_us": _us(o.arrived_ps),
        "completed_us": _us(o.completed_ps),
        "latency_us": _us(run.took_ps),
        "gbps": o.gbps(m.size),
    }


def jobs(run: RunResult) -> dict[str, Any]:
    """One row a job."""
    found = run.job_times()
    return {
        "job": [j.name for j in found],
        "messages": np.array([j.messages for j in found]),
        "bytes": np.array([j.size for j in found]),
        "began_us": _us(np.array([j.began_ps for j in found])),
        "ended_us": _us(np.array([j.ended_ps for j in found])),
        "gbps": np.array([j.gbps for j in found]),
    }


def ports(run: RunResult) -> dict[str, Any]:
    """One row a port that sent or received; ``load`` is the share of the run in which its link was
    busy."""
    f, c = run.fabric, run.outcome.counters
    rows = np.flatnonzero((c["port_xmit_pkts"] > 0) | (c["port_rcv_pkts"] > 0))
    names = [f.node_name(int(n)) for n in f.port_node[rows]]
    figures = run.outcome.port_figures
    counted = ("port_xmit_data", "port_rcv_data", "port_xmit_pkts", "port_rcv_pkts", "port_xmit_wait")
    return {
        "node": names,
        "port": f.port_num[rows].astype(np.int64),
        "peer": [f.port_name(int(p)) for p in f.port_peer[rows]],
        "gbps": run.gbps[rows],
        "load": run.load[rows],
        **{name: c[name][rows].astype(np.int64) for name in counted},
        **{name: column[rows] for name, column in figures.items() if name != "gbps"},
    }


def phases(found: Phases) -> dict[str, Any]:
    """One row a phase."""
    return {"shift": found.shifts, "took_us": found.took_ps / 1e6, "most_flows": found.most}


def _busy_port(run: RunResult, p: BusyPort) -> dict[str, Any]:
    """One port as JSON."""
    return {
        "port": p.place,
        "peer": p.peer,
        "gbps": p.gbps,
        "load": p.load,
        "bytes": p.octets,
        "vls": list(p.vls),
        "hop": p.hop,
        "hops": p.hops,
        "pairs": p.n_pairs,
        "top_pairs": [{"source": a, "destination": b, "share": s} for a, b, s in p.pairs],
        "cause": p.cause,
        "help": p.help,
        "changes": list(p.changes),
        "flows": p.n_flows,
        "top_flows": [asdict(flow) for flow in p.flows],
        "victims": None if p.victims is None else _victims(run, p.victims),
    }


def _victims(run: RunResult, found: Victims) -> dict[str, Any]:
    m = run.messages
    return {
        "messages": found.messages,
        "jobs": list(found.jobs),
        "worst": found.worst,
        "slowdown": found.slowdown,
        "source": run.names[m.src[found.worst]],
        "destination": run.names[m.dst[found.worst]],
        "latency_us": run.took_ps[found.worst] / 1e6,
    }


def over_time(run: RunResult) -> dict[str, Any]:
    """The samples of a run as figures; empty where there are none."""
    from softib.analysis.simulation.over_time import loads_of_ports, loads_of_tiers, queues_of_ports

    s = run.outcome.samples
    if s is None:
        return {}
    shown = lambda heat: (
        []
        if heat is None
        else [
            {"name": n, "peak": p, "values": np.round(v, 4)}
            for n, p, v in zip(heat.names, heat.peak, heat.value, strict=True)
        ]
    )
    return {
        "interval_us": s.interval_ps / 1e6,
        "intervals": len(s.octets),
        "ports": shown(loads_of_ports(run, s)),
        "tiers": shown(loads_of_tiers(run, s)),
        "queues": shown(queues_of_ports(run, s)),
    }


def as_json(run: Run, remedies: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Return all figures of a run; ``remedies``: those of its busiest ports, None where it is a
    variant of another run."""
    s, result, phases = run.settings, run.result, run.phases
    figures: dict[str, Any] = {
        "source": run.fabric.source,
        "fabric": run.fabric.name,
        "workload": s.work.name,
        "layer": s.layer,
        "engine": run.engine,
        "seed": s.seed,
        "simulated_us": run.simulated_us,
        "wall_s": run.wall_s,
        "good": run.good,
        "valid": run.valid,
        "why_not": list(run.why_not),
        "notes": list(run.notes),
    }
    if phases is not None:
        figures |= _phases(phases)
    if result is not None:
        figures |= _messages(run, result, remedies or [])
        if samples := over_time(result):
            figures["over_time"] = samples
    if remedies is not None and s.record.trace is not None:
        figures["trace"] = trace_of(run.details, s.record.trace)
    if remedies is not None and (ratios := _sensitivity(run)):
        figures["sensitivity"] = ratios
    if run.others:
        figures["fabrics"] = [
            {"name": name, "over": other.settings.network, **as_json(other)} for name, other in run.others.items()
        ]
    if run.what_if:
        figures["what_if"] = {"change": run.what_if, **as_json(run.variants[run.what_if])}
        variants = {"as it is": run, **run.variants}
        figures["variants"] = [_variant(text, variant, run) for text, variant in variants.items()]
    return figures


def _phases(found: Phases) -> dict[str, Any]:
    """Figures of an all-to-all with barriers."""
    order = np.argsort(-found.took_ps, kind="stable")[:SLOWEST]
    slowest = [
        {"shift": int(found.shifts[i]), "took_us": found.took_ps[i] / 1e6, "most_flows": int(found.most[i])}
        for i in order
    ]
    return {
        "messages": found.flows,
        "phases": len(found.shifts),
        "phases_by_message": found.enumerated,
        "most_flows": int(found.most.max(initial=0)),
        "slowest": slowest,
    }


def _messages(run: Run, result: RunResult, remedies: list[dict[str, Any]]) -> dict[str, Any]:
    """Figures of a run of messages."""
    m, outcome = result.messages, result.outcome
    figures = {
        "messages": int((~m.computes).sum()),
        "computations": int(m.computes.sum()),
        "bytes": int(m.size[~m.computes].sum()),
        "work": dict(outcome.work),
        "deadlock": [[result.fabric.port_name(p), vl] for p, vl in outcome.deadlock],
        "latency_us": run.percentiles_us,
        "jobs": _jobs(run, result),
        "slowest": _slowest(result),
        "ports": busy_ports(run),
        "other_engines": run.other_engines,
        "remedies": remedies,
        **run.failures,
    }
    if outcome.network != "infiniband":
        figures |= {"network": outcome.network, "ethernet": _ethernet(result)}
    if outcome.network == "roce":
        figures["congestion_control"] = result.congestion_control.name
    return figures


def busy_ports(run: Run) -> list[dict[str, Any]]:
    """The ports with the largest loads as JSON."""
    return [_busy_port(run.details, p) for p in run.causes]


def _sensitivity(run: Run) -> dict[str, dict[str, float]]:
    """Time with each factor over that without, where all of them were run."""
    if not run.simulated_us or any(text not in run.variants for text in SENSITIVITY):
        return {}
    ratios: dict[str, dict[str, float]] = {}
    for text in SENSITIVITY:
        key, factor = text.split("=")
        half = "half" if factor == "0.5" else "double"
        ratios.setdefault(key, {})[half] = run.variants[text].simulated_us / run.simulated_us
    return ratios


def _variant(text: str, run: Run, base: Run) -> dict[str, Any]:
    """One column of runs side by side."""
    result = run.result
    counters = None if result is None else result.outcome.counters
    return {
        "change": text,
        "engine": run.engine,
        "good": run.good,
        "valid": run.valid,
        "simulated_us": run.simulated_us,
        "wall_s": run.wall_s,
        "ratio": run.simulated_us / base.simulated_us if base.simulated_us else None,
        "latency_us": run.percentiles_us,
        "busiest": None if result is None else float(result.load.max(initial=0.0)),
        "waits": None if counters is None else int(counters["port_xmit_wait"].sum()),
        "discards": None if counters is None else int(counters["port_xmit_discards"].sum()),
        "jobs": []
        if result is None
        else [
            {"job": j["job"], "took_us": j["ended_us"] - j["began_us"], "p99_us": j["latency_us"].get("p99")}
            for j in _jobs(run, result)
        ],
    }


def _jobs(run: Run, result: RunResult) -> list[dict[str, Any]]:
    """Return jobs with percentiles of their latencies, and with the figures of their run alone, if
    any."""
    from softib.analysis.simulation.slowdown import job_percentiles_ps, request_figures

    found = _rows(jobs(result))
    of_patterns = result.workload.figures(result.hosts, [row["ended_us"] for row in found])
    for k, row in enumerate(found):
        row |= of_patterns[k] if k < len(of_patterns) else {}
        row["latency_us"] = {q: v / 1e6 for q, v in job_percentiles_ps(result, k).items()}
        if figures := request_figures(result, k):
            row["requests"] = figures
        if row["job"] in run.alone:
            row["alone"] = run.alone[row["job"]]
    return found


def _ethernet(run: RunResult) -> dict[str, Any]:
    """Return the totals of an Ethernet run, and its longest queue."""
    found, end = run.outcome.port_figures, max(run.outcome.end_ps, 1)
    names = ("pause_frames_sent", "tail_drops", "headroom_drops", "ecn_marked")
    return {
        "gbps": float(np.median(found["gbps"][run.plane.ends])),
        **{name: int(found[name].sum()) for name in names},
        "peak_queue": int(found["peak_queue"].max(initial=0)),
        "longest_pause_share": float(found["paused_ps"].max(initial=0) / end),
        "cpu_send_us": float(found["cpu_send_ps"].sum() / 1e6),
        "cpu_receive_us": float(found["cpu_receive_ps"].sum() / 1e6),
    }


def _slowest(run: RunResult) -> list[dict[str, Any]]:
    m, found = run.messages, []
    for i in run.slowest(SLOWEST).tolist():
        found.append(
            {
                "message": i,
                "job": run.jobs[m.job[i]],
                "source": run.names[m.src[i]],
                "destination": run.names[m.dst[i]],
                "size": int(m.size[i]),
                "began_us": run.outcome.began_ps[i] / 1e6,
                "latency_us": run.took_ps[i] / 1e6,
                "gbps": float(run.outcome.gbps(m.size)[i]),
            }
        )
    return found


def _rows(columns: dict[str, Any]) -> list[dict[str, Any]]:
    plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in columns.items()}
    return [dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True)]


def _us(ps: np.ndarray) -> np.ndarray:
    """Picoseconds as µs; NaN where it never happened."""
    return np.where(ps >= 0, ps / 1e6, np.nan)
