"""The figures of a simulation: document of ``softib simulate --json``, and source of its text and
page."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from softib.analysis.simulation.failures import FaultEffect
from softib.api.simulation.against import Against
from softib.api.simulation.columns import jobs, rows, trace_of
from softib.api.simulation.what_if import SENSITIVITY
from softib.result import Result, key

if TYPE_CHECKING:
    from softib.analysis.simulation.causes import BusyPort
    from softib.analysis.simulation.result import RunResult
    from softib.analysis.simulation.victim_flows import Victims
    from softib.api.simulation.runs import Run
    from softib.sim.fluid_phases import Phases

__all__ = ["RunFigures", "busy_ports", "figures_of", "over_time"]

SLOWEST = 10
OPTIONAL = key(optional=True)


@dataclass
class Agreed(Result):
    """Results within 5 % of the packet layer."""

    end: bool
    """The end of the run."""
    mean: bool
    """The mean latency of messages."""
    messages: bool
    """The latency of each single message."""


@dataclass
class Figures(Result):
    """A workload on a fabric in virtual time."""

    source: str
    fabric: str
    workload: str
    layer: str = field(metadata=key(type=Literal["static", "fluid", "packet"]))
    engine: str
    seed: int
    simulated_us: float
    wall_s: float
    good: bool
    agreement: Agreed
    """Results that agree with the packet layer within 5 %."""
    why_not: list[str]
    notes: list[str]
    interrupted: bool | None = field(default=None, metadata=OPTIONAL)
    """Ctrl-C ended the run: the figures are of the virtual time until then."""
    messages: int = 0
    """Messages on links, without computations."""
    phases: int | None = field(default=None, metadata=OPTIONAL)
    """Only for a workload that the fluid layer runs in phases, with the next two."""
    phases_by_message: int | None = field(default=None, metadata=OPTIONAL)
    most_flows: int | None = field(default=None, metadata=OPTIONAL)
    computations: int | None = field(default=None, metadata=OPTIONAL)
    bytes: int | None = field(default=None, metadata=OPTIONAL)
    work: dict[str, Any] | None = field(default=None, metadata=OPTIONAL)
    """Work of the layer, by name."""
    deadlock: list[tuple[str, int]] | None = field(default=None, metadata=OPTIONAL)
    """Ports and virtual lanes that wait for each other."""
    dissolved: list[tuple[str, int]] | None = field(default=None, metadata=OPTIONAL)
    """The same for a deadlock dissolved by HOQLife or lifetimes."""
    latency_us: dict[str, float] | None = field(default=None, metadata=OPTIONAL)
    """Percentiles."""
    jobs: list[dict[str, Any]] | None = field(default=None, metadata=OPTIONAL)
    slowest: list[dict[str, Any]] = field(default_factory=list)
    """Messages, or phases, that took longest."""
    ports: list[dict[str, Any]] | None = field(default=None, metadata=OPTIONAL)
    other_engines: dict[str, float] | None = field(default=None, metadata=OPTIONAL)
    remedies: list[dict[str, Any]] | None = field(default=None, metadata=OPTIONAL)
    """Changes proposed by causes: results, or why they were not tried."""
    faults: list[FaultEffect] | None = field(default=None, metadata=OPTIONAL)
    """Only for a run with faults, with the next three."""
    management: dict[str, Any] | None = field(default=None, metadata=OPTIONAL)
    """Location and engine of the subnet manager; MADs sent, lost and answered, VL15Dropped,
    traps, [begin, end] of sweeps in us."""
    retransmission: dict[str, int] | None = field(default=None, metadata=OPTIONAL)
    """Messages lost, resent, and late (resent, and arrived); packets resent, discarded at inactive
    ports, lost on the wire."""
    unreachable: list[str] | None = field(default=None, metadata=OPTIONAL)
    """Ports with traffic that no link joined to the rest at the end."""
    network: str | None = field(default=None, metadata=key(type=Literal["roce", "tcp"] | None, optional=True))
    """Only of a run over Ethernet, with ``ethernet``."""
    congestion_control: str | None = field(default=None, metadata=OPTIONAL)
    """Only of a run over RoCE."""
    ethernet: dict[str, float] | None = field(default=None, metadata=OPTIONAL)
    """Rate of the hosts' links, pause frames, frames dropped and marked, the longest queue in
    bytes, the largest share of the run in which a port was paused, CPU time of all hosts."""
    over_time: dict[str, Any] | None = field(default=None, metadata=OPTIONAL)
    """Loads and queues by interval: rows of ``ports``, ``tiers``, ``queues``."""


@dataclass
class WhatIf(Result):
    """The same run with a change."""

    change: str
    run: Figures = field(metadata=key(flat=Figures))


@dataclass
class OtherFabric(Result):
    """The jobs that the workload places on another fabric."""

    name: str
    over: str
    """infiniband, roce or tcp, with options."""
    run: Figures = field(metadata=key(flat=Figures))


@dataclass
class RunFigures(Result):
    """A workload on a fabric in virtual time, and the same with changes."""

    document = "simulate"

    run: Figures = field(metadata=key(flat=Figures))
    trace: dict[str, Any] | None = field(default=None, metadata=OPTIONAL)
    """The timeline of one message."""
    sensitivity: dict[str, dict[str, float]] | None = field(default=None, metadata=OPTIONAL)
    """With ``--sensitivity``: the time with latency, bandwidth or congestion at ``half`` and
    ``double``, relative to the unchanged time."""
    fabrics: list[OtherFabric] | None = field(default=None, metadata=OPTIONAL)
    """Runs on the other fabrics of the workload file."""
    what_if: WhatIf | None = field(default=None, metadata=OPTIONAL)
    variants: list[dict[str, Any]] | None = field(default=None, metadata=OPTIONAL)
    """The run as it is and all of ``--what-if``, side by side."""
    against: Against | None = field(default=None, metadata=OPTIONAL)
    """Comparison of a log with predictions, with ``--against``."""
    counters: dict[str, dict[str, int]] | None = field(default=None, metadata=OPTIONAL)
    """PortCounters that the run added, by port."""


def _busy_port(run: RunResult, p: BusyPort) -> dict[str, Any]:
    """Return one port as JSON."""
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


def _victims(run: RunResult, victims: Victims) -> dict[str, Any]:
    m = run.messages
    return {
        "messages": victims.messages,
        "jobs": list(victims.jobs),
        "worst": victims.worst,
        "slowdown": victims.slowdown,
        "source": run.names[m.src[victims.worst]],
        "destination": run.names[m.dst[victims.worst]],
        "latency_us": run.took_ps[victims.worst] / 1e6,
    }


def over_time(run: RunResult) -> dict[str, Any]:
    """Return the samples of a run as figures; empty without samples."""
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


def figures_of(run: Run, remedies: list[dict[str, Any]]) -> RunFigures:
    """Return all figures of a run and its variants; ``remedies``: those of its busiest ports."""
    s = run.settings
    variants = {"as it is": run, **run.variants}
    return RunFigures(
        _figures(run, remedies),
        None if s.record.trace is None else trace_of(run.details, s.record.trace),
        _sensitivity(run) or None,
        [OtherFabric(name, other.settings.network, _figures(other, [])) for name, other in run.others.items()] or None,
        WhatIf(run.what_if, _figures(run.variants[run.what_if], [])) if run.what_if else None,
        [_variant(text, variant, run) for text, variant in variants.items()] if run.what_if else None,
        run.against,
    )


def _figures(run: Run, remedies: list[dict[str, Any]]) -> Figures:
    s = run.settings
    stated = Figures(
        source=run.fabric.source,
        fabric=run.fabric.name,
        workload=s.work.name,
        layer=s.layer,
        engine=run.engine,
        seed=s.seed,
        simulated_us=run.simulated_us,
        wall_s=run.wall_s,
        good=run.good,
        agreement=Agreed(**vars(run.agreement)),
        why_not=list(run.why_not),
        notes=list(run.notes),
        interrupted=run.interrupted or None,
    )
    if run.phases is not None:
        return _with_phases(stated, run.phases)
    return _with_messages(stated, run, run.details, remedies)


def _with_phases(stated: Figures, phases: Phases) -> Figures:
    """Return the figures of an all-to-all with barriers."""
    order = np.argsort(-phases.took_ps, kind="stable")[:SLOWEST]
    slowest = [
        {"shift": int(phases.shifts[i]), "took_us": phases.took_ps[i] / 1e6, "most_flows": int(phases.most[i])}
        for i in order
    ]
    return replace(
        stated,
        messages=phases.flows,
        phases=len(phases.shifts),
        phases_by_message=phases.enumerated,
        most_flows=int(phases.most.max(initial=0)),
        slowest=slowest,
    )


def _with_messages(stated: Figures, run: Run, result: RunResult, remedies: list[dict[str, Any]]) -> Figures:
    """Return the figures of a run of messages."""
    m, outcome = result.messages, result.outcome
    ethernet = outcome.network != "infiniband"
    return replace(
        stated,
        messages=int((~m.computes).sum()),
        computations=int(m.computes.sum()),
        bytes=int(m.size[~m.computes].sum()),
        work=dict(outcome.work),
        deadlock=[(result.fabric.port_name(p), vl) for p, vl in outcome.deadlock],
        dissolved=[(result.fabric.port_name(p), vl) for p, vl in outcome.dissolved] or None,
        latency_us=run.percentiles_us,
        jobs=_jobs(run, result),
        slowest=_slowest(result),
        ports=busy_ports(run),
        other_engines=run.other_engines,
        remedies=remedies,
        **run.failures,
        network=outcome.network if ethernet else None,
        congestion_control=result.congestion_control.name if outcome.network == "roce" else None,
        ethernet=_ethernet(result) if ethernet else None,
        over_time=over_time(result) or None,
    )


def busy_ports(run: Run) -> list[dict[str, Any]]:
    """Return the ports with the largest loads as JSON."""
    return [_busy_port(run.details, p) for p in run.causes]


def _sensitivity(run: Run) -> dict[str, dict[str, float]]:
    """Return time with each factor over that without, where all of them were run."""
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
        "agreement": vars(run.agreement),
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

    table = rows(jobs(result))
    of_patterns = result.workload.figures(result.hosts, [row["ended_us"] for row in table])
    for k, row in enumerate(table):
        row |= of_patterns[k] if k < len(of_patterns) else {}
        row["latency_us"] = {q: v / 1e6 for q, v in job_percentiles_ps(result, k).items()}
        if figures := request_figures(result, k):
            row["requests"] = figures
        if row["job"] in run.alone:
            row["alone"] = run.alone[row["job"]]
    return table


def _ethernet(run: RunResult) -> dict[str, Any]:
    """Return the totals of an Ethernet run, and its longest queue."""
    ports, end = run.outcome.port_figures, max(run.outcome.end_ps, 1)
    names = ("pause_frames_sent", "tail_drops", "headroom_drops", "ecn_marked")
    return {
        "gbps": float(np.median(ports["gbps"][run.plane.ends])),
        **{name: int(ports[name].sum()) for name in names},
        "peak_queue": int(ports["peak_queue"].max(initial=0)),
        "longest_pause_share": float(ports["paused_ps"].max(initial=0) / end),
        "cpu_send_us": float(ports["cpu_send_ps"].sum() / 1e6),
        "cpu_receive_us": float(ports["cpu_receive_ps"].sum() / 1e6),
    }


def _slowest(run: RunResult) -> list[dict[str, Any]]:
    m, slowest = run.messages, []
    for i in run.slowest(SLOWEST).tolist():
        slowest.append(
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
    return slowest
