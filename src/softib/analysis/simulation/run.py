"""Runs a workload on a fabric by one of the simulator's layers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.analysis.simulation.messages import MAX_SL, with_groups, with_reductions, with_stated_sls
from softib.analysis.simulation.simulated import Simulated
from softib.analysis.simulation.watched import Ask, on_other_ports, watched
from softib.errors import InputError, UnknownName
from softib.plural import counted, plural
from softib.sim.paths import WHY, Plane, packets_of, wire_octets
from softib.sim.socket_reads import without_reads
from softib.workloads.gpu_figures import notes_of_jobs
from softib.workloads.hosts import hosts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from softib.analysis.routed import Routed
    from softib.scenario.failures import FailureRun
    from softib.sim.messages import Messages
    from softib.sim.outcome import Outcome
    from softib.sim.paths import Laid
    from softib.workloads.workload import Workload

__all__ = ["LAYERS", "run_layer", "run_messages", "simulated"]

LAYERS = ("static", "fluid", "packet")


def run_layer(layer: str) -> Any:
    """``run`` of a layer. Raises :class:`UnknownName`, and :class:`InputError` for the one that has no messages."""
    import importlib

    if layer == "loggops":
        raise InputError(
            "the LogGOPS layer runs a program alone: softib.replay(fabric, program), softib simulate --layer loggops"
        )
    if layer not in LAYERS:
        raise UnknownName("layer of the simulator", layer, LAYERS)
    return importlib.import_module(f"softib.sim.{layer}").run


def simulated(
    found: Routed, workload: Workload, layer: str, *, engine: str, seed: int = 0,
    options: Mapping[str, Any] | None = None, progress: Callable[[int, int, int], None] | None = None,
    ask: Ask | None = None,
) -> Simulated:  # fmt: skip
    """Run ``workload`` on a fabric that has LIDs and tables (``engine`` says whose). ``options``: fields of
    :class:`~softib.sim.packet.PacketOptions`, for the packet layer. ``ask``: what to write down beside the outcome.

    Raises :class:`InputError` where the workload does not fit: fewer hosts than it takes, a destination that no path leads to.
    """
    run_layer(layer)
    if workload.faults and layer != "packet":
        raise InputError(f"only the packet layer knows faults at a time, not {layer}; add --layer packet")
    fabric, ask = found.fabric, ask or Ask()
    plane, hosts = Plane(fabric, scale=ask.scale, aggregates=workload.reduces), hosts_of(fabric)
    if len(hosts) < 2:
        raise InputError(
            f"{fabric.name or 'the fabric'} has {counted(len(hosts), 'host')} with an address; traffic takes two"
        )
    made, jobs = workload.messages(hosts, seed)
    made.check(len(plane.ends))
    made = with_reductions(found, plane, made, layer)
    if (options or {}).get("network") == "tcp":
        made = without_reads(made)
    made = with_stated_sls(found, plane, made)
    made = with_groups(found, plane, made, layer)
    if ask.jobs_apart:
        made = replace(made, sl=(made.job % (MAX_SL + 1)).astype(np.int8))
    frame = Simulated(
        plane, hosts, workload, made, jobs, _NOTHING, engine, seed, [], dict(options or {}), of_tables=_of_tables(found)
    )
    if workload.faults:
        return _failing(frame, found, made, ask, progress)
    return run_messages(frame, made, layer, ask, progress)


def _of_tables(found: Routed) -> tuple[str, ...]:
    """What a run has to say of its tables."""
    part = found.part
    fallback = part.notes if part.tables not in ("", part.engine) else ()
    absent = part.ports_without_lid
    return (*fallback, *([f"{absent:,} cabled host ports have no LID and take no part"] if absent else []))


def _failing(
    like: Simulated, found: Routed, made: Messages, ask: Ask, progress: Callable[[int, int, int], None] | None
) -> Simulated:
    """``made`` while the workload's faults happen."""
    from softib.analysis.simulation.failing import run_failing
    from softib.sim.packet import PacketOptions

    shown = None if progress is None else lambda now_ps, done, of: progress(done, of, now_ps)
    sample_ps = ask.sample_ps or (_interval_ps(like.plane, made, like.plane.lay(made)) if ask.samples else 0)
    watch = watched(like.plane, like.hosts, made, like.plane.lay(made), ask)
    wanted = PacketOptions(seed=like.seed, sample_ps=sample_ps, **watch, **like.options)
    failures = run_failing(found, like.workload, made, wanted, shown)
    if more := on_other_ports(failures.outcome, wanted):
        failures = run_failing(found, like.workload, made, more, shown)
    return _made(like, made, failures.outcome, failures)


def _made(like: Simulated, made: Messages, outcome: Outcome, failures: FailureRun | None = None) -> Simulated:
    """``like`` with what came of ``made``, and with what its tables, its jobs and its layer have to say."""
    notes = [*like.of_tables, *notes_of_jobs(like.workload, like.hosts), *outcome.notes]
    return replace(like, messages=made, outcome=outcome, notes=notes, failures=failures)


_NOTHING: Any = None


def run_messages(
    like: Simulated, made: Messages, layer: str, ask: Ask, progress: Callable[[int, int, int], None] | None = None
) -> Simulated:
    """``made`` on the fabric and with the options of ``like``, by ``layer``. Raises :class:`InputError` where a message has no path."""
    run, plane, hosts, fabric = run_layer(layer), like.plane, like.hosts, like.fabric
    laid = plane.lay(made)
    if laid.why.any():
        row = int(np.argmax(laid.why != 0))
        a, b = (fabric.node_name(int(fabric.port_node[plane.ends[side[row]]])) for side in (made.src, made.dst))
        n = int((laid.why != 0).sum())
        raise InputError(
            f"{n:,} of {counted(len(made), 'message')} {plural(len(made), 'has', 'have')} no path, such as {a} to {b}: {WHY[int(laid.why[row])]}"
        )
    sample_ps = ask.sample_ps or (_interval_ps(plane, made, laid) if ask.samples else 0)
    if layer == "packet":
        watch = watched(plane, hosts, made, laid, ask)
        shown = None if progress is None else lambda now_ps, done, of: progress(done, of, now_ps)
        from softib.sim.packet import PacketOptions

        wanted = PacketOptions(seed=like.seed, sample_ps=sample_ps, **watch, **like.options)
        outcome = run(fabric, made, wanted, progress=shown)
        if more := on_other_ports(outcome, wanted):
            outcome = run(fabric, made, more, progress=shown)
    elif layer == "fluid":
        outcome = run(plane, made, progress=progress, sample_ps=sample_ps)
    else:
        outcome = run(plane, made)
        if progress is not None:
            progress(len(made), len(made), outcome.end_ps)
    if layer != "packet" and (made.receives > 0).any():
        outcome.valid = False
        outcome.why_not += ("receives are counted by the packet layer alone: here there is always one",)
    return _made(like, made, outcome)


def _interval_ps(plane: Plane, m: Messages, laid: Laid) -> int:
    """A hundredth of the time that the busiest link needs at least; the run takes as long or longer."""
    octets = wire_octets(m, packets_of(m, laid.mtu))
    load = np.bincount(laid.port[laid.channel] >> 4, np.repeat(octets, np.diff(laid.first)), minlength=len(plane.gbps))
    busy_ps = np.divide(load * 8e3, plane.gbps, out=np.zeros(len(load)), where=plane.gbps > 0)
    return max(int(busy_ps.max(initial=0.0)) // 100, 1000)
