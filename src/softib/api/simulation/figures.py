"""The figures of a simulation: the document of ``softib simulate --json``, from which its text and page are made."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from softib.analysis.simulation.failures import FaultEffect, ManagerOfRun, Retransmission
from softib.api.simulation.against import Against
from softib.api.simulation.columns import jobs, rows, trace_of
from softib.api.simulation.records import (
    Agreed,
    BusyPortFigures,
    EthernetTotals,
    Heat,
    JobTimes,
    LoadsOverTime,
    MessageTrace,
    PairShare,
    Remedy,
    SlowMessage,
    SlowPhase,
    Variant,
    VictimFigures,
)
from softib.api.simulation.what_if import SENSITIVITY
from softib.result import Result, key

if TYPE_CHECKING:
    from softib.analysis.simulation.causes import BusyPort
    from softib.analysis.simulation.result import RunResult
    from softib.analysis.simulation.victim_flows import Victims
    from softib.api.simulation.runs import Run
    from softib.sim.fluid.phases import Phases

__all__ = ["RunFigures", "busy_ports", "figures_of", "over_time"]

SLOWEST = 10
OPTIONAL = key(optional=True)


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
    """Which results agree with the packet layer, within 5 %."""
    why_not: list[str]
    notes: list[str]
    interrupted: bool | None = field(default=None, metadata=OPTIONAL)
    """Whether Ctrl-C ended the run: the figures then cover the virtual time until that moment."""
    messages: int = 0
    """Messages on links, without computations."""
    phases: int | None = field(default=None, metadata=OPTIONAL)
    """This field and the next two exist only for a workload that the fluid layer runs in phases."""
    phases_by_message: int | None = field(default=None, metadata=OPTIONAL)
    most_flows: int | None = field(default=None, metadata=OPTIONAL)
    computations: int | None = field(default=None, metadata=OPTIONAL)
    bytes: int | None = field(default=None, metadata=OPTIONAL)
    work: dict[str, Any] | None = field(default=None, metadata=OPTIONAL)
    """Amount of work done by the layer, by name."""
    deadlock: list[tuple[str, int]] | None = field(default=None, metadata=OPTIONAL)
    """Ports and virtual lanes that wait for each other in a deadlock."""
    dissolved: list[tuple[str, int]] | None = field(default=None, metadata=OPTIONAL)
    """Ports and virtual lanes of a deadlock that ended because HOQLife or packet lifetimes discarded packets."""
    latency_us: dict[str, float] | None = field(default=None, metadata=OPTIONAL)
    """Percentiles of message latencies."""
    jobs: list[dict[str, Any]] | None = field(default=None, metadata=OPTIONAL)
    """One entry per job: ``began_us`` of its first message, ``ended_us`` of its last completion at the sender, and
    ``gbps``, the rate of its bytes between the two."""
    slowest: list[SlowMessage | SlowPhase] = field(default_factory=list)
    """Messages, or phases, that took longest."""
    ports: list[BusyPortFigures] | None = field(default=None, metadata=OPTIONAL)
    other_engines: dict[str, float] | None = field(default=None, metadata=OPTIONAL)
    remedies: list[Remedy] | None = field(default=None, metadata=OPTIONAL)
    """Changes that follow from the causes, with results or the reason why they were not tried."""
    faults: list[FaultEffect] | None = field(default=None, metadata=OPTIONAL)
    """This field and the next three exist only for a run with faults."""
    management: ManagerOfRun | None = field(default=None, metadata=OPTIONAL)
    """The subnet manager during the run."""
    retransmission: Retransmission | None = field(default=None, metadata=OPTIONAL)
    """Losses and retries."""
    unreachable: list[str] | None = field(default=None, metadata=OPTIONAL)
    """Ports with traffic that, at the end of the run, were disconnected from all other ports."""
    network: str | None = field(default=None, metadata=key(type=Literal["roce", "tcp"] | None, optional=True))
    """This field and ``ethernet`` exist only for a run over Ethernet."""
    congestion_control: str | None = field(default=None, metadata=OPTIONAL)
    """This field exists only for a run over RoCE."""
    ethernet: EthernetTotals | None = field(default=None, metadata=OPTIONAL)
    """Totals over all ports."""
    over_time: LoadsOverTime | None = field(default=None, metadata=OPTIONAL)
    """Loads and queues in each interval."""


@dataclass
class WhatIf(Result):
    """The same run with a change."""

    change: str
    run: Figures = field(metadata=key(flat=Figures))


@dataclass
class OtherFabric(Result):
    """Jobs that the workload places on another fabric."""

    name: str
    over: str
    """Network: infiniband, roce or tcp, with options."""
    run: Figures = field(metadata=key(flat=Figures))


@dataclass
class RunFigures(Result):
    """A workload on a fabric in virtual time, and the same workload with changes."""

    document = "simulate"

    run: Figures = field(metadata=key(flat=Figures))
    trace: MessageTrace | None = field(default=None, metadata=OPTIONAL)
    """The timeline of one message."""
    sensitivity: dict[str, dict[str, float]] | None = field(default=None, metadata=OPTIONAL)
    """With ``--sensitivity``: the time with latency, bandwidth or congestion at ``half`` and at
    ``double``, relative to the unchanged run."""
    fabrics: list[OtherFabric] | None = field(default=None, metadata=OPTIONAL)
    """Runs on the other fabrics of the workload file."""
    what_if: WhatIf | None = field(default=None, metadata=OPTIONAL)
    variants: list[Variant] | None = field(default=None, metadata=OPTIONAL)
    """The unchanged run and all those of ``--what-if``, side by side."""
    against: Against | None = field(default=None, metadata=OPTIONAL)
    """With ``--against``: comparison of a log with predictions."""
    counters: dict[str, dict[str, int]] | None = field(default=None, metadata=OPTIONAL)
    """The increase of PortCounters in the run, by port."""


def _busy_port(run: RunResult, p: BusyPort) -> BusyPortFigures:
    return BusyPortFigures(
        port=p.place,
        peer=p.peer,
        gbps=p.gbps,
        load=p.load,
        bytes=p.octets,
        vls=list(p.vls),
        hop=p.hop,
        hops=p.hops,
        pairs=p.n_pairs,
        top_pairs=[PairShare(*pair) for pair in p.pairs],
        cause=p.cause,
        help=p.help,
        changes=list(p.changes),
        flows=p.n_flows,
        top_flows=list(p.flows),
        victims=None if p.victims is None else _victims(run, p.victims),
    )


def _victims(run: RunResult, victims: Victims) -> VictimFigures:
    m = run.messages
    return VictimFigures(
        messages=victims.messages,
        jobs=list(victims.jobs),
        worst=victims.worst,
        slowdown=victims.slowdown,
        source=run.names[m.src[victims.worst]],
        destination=run.names[m.dst[victims.worst]],
        latency_us=run.took_ps[victims.worst] / 1e6,
    )


def over_time(run: RunResult) -> LoadsOverTime | None:
    """Return the samples of a run as figures; None without samples."""
    from softib.analysis.simulation.over_time import loads_of_ports, loads_of_tiers, queues_of_ports

    s = run.outcome.samples
    if s is None:
        return None
    shown = lambda heat: (
        []
        if heat is None
        else [
            Heat(name, peak, np.round(values, 4))
            for name, peak, values in zip(heat.names, heat.peak, heat.value, strict=True)
        ]
    )
    return LoadsOverTime(
        interval_us=s.interval_ps / 1e6,
        intervals=len(s.octets),
        ports=shown(loads_of_ports(run, s)),
        tiers=shown(loads_of_tiers(run, s)),
        queues=shown(queues_of_ports(run, s)),
    )


def figures_of(run: Run, remedies: list[Remedy]) -> RunFigures:
    """Return all figures of a run and its variants; ``remedies`` are those of its busiest ports."""
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


def _figures(run: Run, remedies: list[Remedy]) -> Figures:
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
    slowest = [SlowPhase(int(phases.shifts[i]), phases.took_ps[i] / 1e6, int(phases.most[i])) for i in order]
    return replace(
        stated,
        messages=phases.flows,
        phases=len(phases.shifts),
        phases_by_message=phases.enumerated,
        most_flows=int(phases.most.max(initial=0)),
        slowest=[*slowest],
    )


def _with_messages(stated: Figures, run: Run, result: RunResult, remedies: list[Remedy]) -> Figures:
    """Return the figures of a run of messages."""
    m, outcome = result.messages, result.outcome
    ethernet, failures = outcome.network != "infiniband", run.failures
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
        faults=None if failures is None else failures.faults,
        management=None if failures is None else failures.management,
        retransmission=None if failures is None else failures.retransmission,
        unreachable=None if failures is None else failures.unreachable,
        network=outcome.network if ethernet else None,
        congestion_control=result.congestion_control.name if outcome.network == "roce" else None,
        ethernet=_ethernet(result) if ethernet else None,
        over_time=over_time(result),
    )


def busy_ports(run: Run) -> list[BusyPortFigures]:
    """Return the ports with the largest loads."""
    return [_busy_port(run.details, p) for p in run.causes]


def _sensitivity(run: Run) -> dict[str, dict[str, float]]:
    """Return the time with each factor, relative to the time without; only if all of them were run."""
    if not run.simulated_us or any(text not in run.variants for text in SENSITIVITY):
        return {}
    ratios: dict[str, dict[str, float]] = {}
    for text in SENSITIVITY:
        key, factor = text.split("=")
        half = "half" if factor == "0.5" else "double"
        ratios.setdefault(key, {})[half] = run.variants[text].simulated_us / run.simulated_us
    return ratios


def _variant(text: str, run: Run, base: Run) -> Variant:
    result = run.result
    counters = None if result is None else result.outcome.counters
    return Variant(
        change=text,
        engine=run.engine,
        good=run.good,
        agreement=Agreed(**vars(run.agreement)),
        simulated_us=run.simulated_us,
        wall_s=run.wall_s,
        ratio=run.simulated_us / base.simulated_us if base.simulated_us else None,
        latency_us=run.percentiles_us,
        busiest=None if result is None else float(result.load.max(initial=0.0)),
        waits=None if counters is None else int(counters["port_xmit_wait"].sum()),
        discards=None if counters is None else int(counters["port_xmit_discards"].sum()),
        notes=[note for note in run.notes if not {note, f"what if {text}: {note}"} & set(base.notes)],
        jobs=[]
        if result is None
        else [
            JobTimes(j["job"], j["ended_us"] - j["began_us"], j["latency_us"].get("p99")) for j in _jobs(run, result)
        ],
    )


def _jobs(run: Run, result: RunResult) -> list[dict[str, Any]]:
    """Return the jobs with percentiles of their latencies and, if they were also run alone, the
    figures of those runs."""
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


def _ethernet(run: RunResult) -> EthernetTotals:
    ports, end = run.outcome.port_figures, max(run.outcome.end_ps, 1)
    total = lambda name: int(ports[name].sum())
    return EthernetTotals(
        gbps=float(np.median(ports["gbps"][run.plane.ends])),
        pause_frames_sent=total("pause_frames_sent"),
        tail_drops=total("tail_drops"),
        headroom_drops=total("headroom_drops"),
        ecn_marked=total("ecn_marked"),
        peak_queue=int(ports["peak_queue"].max(initial=0)),
        longest_pause_share=float(ports["paused_ps"].max(initial=0) / end),
        cpu_send_us=float(ports["cpu_send_ps"].sum() / 1e6),
        cpu_receive_us=float(ports["cpu_receive_ps"].sum() / 1e6),
    )


def _slowest(run: RunResult) -> list[SlowMessage | SlowPhase]:
    m = run.messages
    return [
        SlowMessage(
            message=i,
            job=run.jobs[m.job[i]],
            source=run.names[m.src[i]],
            destination=run.names[m.dst[i]],
            size=int(m.size[i]),
            began_us=run.outcome.began_ps[i] / 1e6,
            latency_us=run.took_ps[i] / 1e6,
            gbps=float(run.outcome.gbps(m.size)[i]),
        )
        for i in run.slowest(SLOWEST).tolist()
    ]
