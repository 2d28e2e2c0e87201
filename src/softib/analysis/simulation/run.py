"""Runs a workload on a fabric with one of the simulator's layers. A :class:`Recording` selects additional data to
record: samples over time, frames of ports, the timeline of a message.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.analysis.simulation.result import RunResult, names_of
from softib.errors import InputError, LimitError, UnknownName
from softib.plain_values import whole_number
from softib.plural import counted, plural
from softib.scenario.cut_off import notes_of_parts
from softib.scenario.managed_messages import MAX_SL, managed_messages, other_sls
from softib.sim.agreement import NONE
from softib.sim.credits import credit_note
from softib.sim.packet.profiles import host_figures
from softib.sim.packet_sizes import packets_of, wire_octets
from softib.sim.paths import WHY, Plane, Scale
from softib.workloads.hosts import hosts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from softib.analysis.routing import Routed
    from softib.scenario.failures import FailureRun, ManagerSettings
    from softib.sim.messages import Messages
    from softib.sim.outcome import Outcome
    from softib.sim.packet import PacketOptions
    from softib.sim.paths import Laid
    from softib.workloads.workload import Workload

    Progress = Callable[[int, int, int], None]
from collections.abc import Callable
from typing import TYPE_CHECKING

from softib.scenario.managed_messages import stated_sls
from softib.sim.fluid.phases import Phases, shift_phases

if TYPE_CHECKING:
    from softib.analysis.routing import Routed

__all__ = ["LAYERS", "Recording", "message_row", "phases_of", "run_layer", "run_messages", "run_workload"]


AT_ONCE = 1 << 20
"""Number of pairs for which SLs are queried in one call."""


def phases_of(
    tables: Routed, size: int, scale: Scale | None = None, progress: Callable[[int, int, int], None] | None = None
) -> Phases:
    """Return :func:`softib.sim.fluid.phases.shift_phases` for all hosts of ``tables``. Each pair uses the SL that the
    manager states.

    Raises :class:`InputError` for a pair that has no path or shares no partition.
    """
    plane = Plane(tables.fabric, scale=scale)
    hosts = plane.phase_tables.hosts
    if hosts < 2:
        raise InputError(f"{tables.fabric.name or 'the fabric'} has {hosts} hosts with an address; traffic needs two")
    path_sl = _path_sl(tables, plane, hosts)
    return shift_phases(plane if path_sl is None else Plane(tables.fabric, path_sl, scale), size, progress=progress)


def _path_sl(tables: Routed, plane: Plane, hosts: int) -> np.ndarray | None:
    """Return ``path_sl`` of :class:`Plane` for pairs of hosts; None where all are 0."""
    sls = np.zeros((len(plane.ends), len(plane.ends)), np.uint8)
    rows = max(AT_ONCE // hosts, 1)
    for begin in range(0, hosts, rows):
        source, target = (a.ravel() for a in np.mgrid[begin : min(begin + rows, hosts), 0:hosts])
        apart = source != target
        stated = stated_sls(tables, plane, source[apart], target[apart])
        if stated is None:
            return None
        sls[source[apart], target[apart]] = np.maximum(stated, 0)
    return sls if sls.any() else None


LAYERS = ("static", "fluid", "packet")
NOT_RUN: Any = None
MOST_LOGGED = 10_000_000
"""Maximum number of packet hops in a run in which all ports log their packets; each hop takes about 200 bytes."""
MOST_NAMED = 6
"""Maximum number of ports that a note on a deadlock names."""


@dataclass(frozen=True)
class Recording:
    """Data to record of a run in addition to its outcome.

    ``samples``: loads and queues over time, every ``sample_ps`` (0: about a hundredth of the run). Packet layer: frames
    of ``ports`` (rows), and the timeline of the message ``trace`` (its row, or ``SOURCE->DESTINATION#n``, the n-th from
    1 on). ``packets``: log every event of a packet at any port. ``jobs_apart``: each job uses a separate service level,
    and therefore a separate VL. ``scale``: factors on the fabric's latencies and rates (fluid and static layers).
    """

    samples: bool = False
    sample_ps: int = 0
    ports: tuple[int, ...] = ()
    trace: str | int | None = None
    jobs_apart: bool = False
    scale: Scale | None = None
    packets: bool = False

    def interval_ps(self, plane: Plane, m: Messages, laid: Laid) -> int:
        """Return the interval of samples, 0 without samples; by default, a hundredth of the minimum
        time of the busiest link."""
        if self.sample_ps or not self.samples:
            return self.sample_ps
        octets = np.repeat(wire_octets(m, packets_of(m, laid.mtu)), np.diff(laid.first))
        load = np.bincount(laid.port[laid.channel] >> 4, octets, minlength=len(plane.gbps))
        busy_ps = np.divide(load * 8e3, plane.gbps, out=np.zeros(len(load)), where=plane.gbps > 0)
        return max(int(busy_ps.max(initial=0.0)) // 100, 1000)

    def packet_options(self, of: RunResult, m: Messages, laid: Laid) -> PacketOptions:
        """Return the packet layer's options of the run ``of``, with the additional records for the messages ``m`` on
        the paths ``laid``."""
        from softib.sim.packet import PacketOptions

        plane = of.plane
        ports = _with_peers(plane, self.ports)
        rows: tuple[int, ...] = ()
        if self.trace is not None:
            row = message_row(self.trace, names_of(plane, of.hosts), m)
            on_path = laid.port[laid.channel[laid.first[row] : laid.first[row + 1]]] >> 4
            ports, rows = tuple(sorted({*ports, *on_path.tolist()})), (row,)
        if self.packets:
            ports = _all_ports(plane, m, laid)
        sample_ps = self.interval_ps(plane, m, laid)
        return PacketOptions(seed=of.seed, sample_ps=sample_ps, watch_ports=ports, watch_messages=rows, **of.options)


def run_layer(layer: str) -> Any:
    """Return the function ``run`` of a layer. Raises :class:`UnknownName`, and :class:`InputError` for the LogGOPS
    layer, which has no messages."""
    import importlib

    if layer == "loggops":
        raise InputError(
            "the LogGOPS layer runs a single program; use softib.replay(fabric, program) or softib simulate --layer "
            "loggops"
        )
    if layer not in LAYERS:
        raise UnknownName("layer of the simulator", layer, LAYERS)
    return importlib.import_module(f"softib.sim.{layer}").run


def run_workload(
    tables: Routed,
    workload: Workload,
    layer: str,
    *,
    engine: str,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    recording: Recording | None = None,
    hosts: Mapping[str, Any] | None = None,
) -> RunResult:
    """Run ``workload`` on a fabric that has LIDs and tables, which ``engine`` computed.
    ``options``: fields of :class:`~softib.sim.packet.PacketOptions`, for the packet layer.
    ``hosts``: message costs of the hosts, as in ``hosts`` of a fabric file.

    Raises :class:`InputError` if the workload cannot run on this fabric, for example because it needs more hosts or a
    destination has no path.
    """
    run_layer(layer)
    if workload.faults and layer != "packet":
        raise InputError(f"the {layer} layer cannot inject faults at a given time; use --layer packet")
    fabric, recording = tables.fabric, recording or Recording()
    ends = hosts_of(fabric, hosts)
    if len(ends) < 2:
        raise InputError(f"{fabric.name or 'the fabric'} has {len(ends)} hosts with an address; traffic needs two")
    messages, jobs = workload.messages(ends, seed)
    notes_of_workload = tuple(workload.notes(ends))
    figures = host_figures(hosts or {})
    plane = Plane(fabric, scale=recording.scale, aggregates=workload.reduces, hosts=figures)
    messages.check(len(plane.ends))
    messages = managed_messages(tables, plane, messages, layer, (options or {}).get("network", ""))
    if recording.jobs_apart:
        messages = replace(messages, sl=(messages.job % (MAX_SL + 1)).astype(np.int8))
    forced = other_sls(tables, plane, messages)
    frame = RunResult(
        plane=plane,
        hosts=ends,
        workload=workload,
        messages=messages,
        jobs=jobs,
        outcome=NOT_RUN,
        engine=engine,
        seed=seed,
        options={**(options or {}), **({"profile": figures} if figures else {})},
        of_tables=(*_notes_of_tables(tables), *_sl_note(engine, jobs, messages, forced)),
        of_workload=notes_of_workload,
    )
    if workload.faults:
        return _run_with_faults(frame, tables, recording, progress)
    return run_messages(frame, messages, layer, recording, progress)


def _sl_note(engine: str, jobs: tuple[str, ...], m: Messages, forced: np.ndarray) -> tuple[str, ...]:
    """Return a warning if jobs use SLs other than those that the engine states. ``forced``: bool by message."""
    if not forced.any():
        return ()
    names, n = ", ".join(jobs[k] for k in np.unique(m.job[forced]).tolist()), int(forced.sum())
    return (
        f"{names}: {counted(n, 'message')} of {len(m):,} {plural(n, 'has', 'have')} another SL than {engine} states "
        "for the path; its tables are free of deadlocks with its own SLs alone",
    )


def _notes_of_tables(tables: Routed) -> tuple[str, ...]:
    """Return notes on the reason why another engine than the requested one computed the tables, and on the number of
    ports that are missing in the tables."""
    part = tables.part
    fallback = part.notes if tables.others or part.tables != part.engine else ()
    if not (absent := part.ports_without_lid):
        return tuple(fallback)
    missing = (
        f"{counted(absent, 'cabled host port')} {plural(absent, 'has', 'have')} no LID and "
        f"{plural(absent, 'takes', 'take')} no part"
    )
    return tuple(dict.fromkeys([*fallback, missing, *notes_of_parts(tables.fabric, tables.graph)]))


def run_messages(
    frame: RunResult, m: Messages, layer: str, recording: Recording, progress: Progress | None = None
) -> RunResult:
    """Run ``m`` on the fabric and with the options of ``frame``. Raises :class:`InputError` if a
    message has no path."""
    run, plane = run_layer(layer), frame.plane
    laid = plane.lay(m)
    if laid.why.any():
        row = int(np.argmax(laid.why != 0))
        a, b = (frame.fabric.node_name(int(frame.fabric.port_node[plane.ends[side[row]]])) for side in (m.src, m.dst))
        n = int((laid.why != 0).sum())
        raise InputError(f"{n:,} of {len(m):,} messages have no path, such as {a} to {b}: {WHY[int(laid.why[row])]}")
    if layer == "packet":
        wanted, shown = recording.packet_options(frame, m, laid), _with_time_last(progress)
        outcome = run(frame.fabric, m, wanted, progress=shown)
        if further := _with_ports_taken(outcome, wanted):
            outcome = run(frame.fabric, m, further, progress=shown)
    elif layer == "fluid":
        outcome = run(plane, m, progress=progress, sample_ps=recording.interval_ps(plane, m, laid))
    else:
        outcome = run(plane, m)
        if progress is not None:
            progress(len(m), len(m), outcome.end_ps)
    if layer != "packet" and (m.receives > 0).any():
        outcome.agreement = NONE
        outcome.why_not += ("receives are counted by the packet layer alone: here there is always one",)
    return _with_outcome(frame, m, outcome)


def _run_with_faults(frame: RunResult, tables: Routed, recording: Recording, progress: Progress | None) -> RunResult:
    """Run the messages of ``frame`` on a copy of the fabric while the faults of the workload
    happen, with the manager on the same clock.

    Raises :class:`InputError` and :class:`UnknownName` for an impossible fault, and if a manager
    would replace tables of a dump.
    """
    from softib.scenario.failures import run_failures
    from softib.scenario.faults_in_time import TimedFault

    m = frame.messages
    faults = [
        TimedFault(f.at, str(getattr(f, "kind", "")), f.where, f.model_dump(exclude={"at", "kind", "where"}))
        for f in frame.workload.faults
    ]
    settings = _manager_settings(tables, frame.workload)
    wanted, shown = recording.packet_options(frame, m, frame.plane.lay(m)), _with_time_last(progress)
    run = run_failures(tables.fabric.copy(), m, faults, wanted, settings, progress=shown)
    if further := _with_ports_taken(run.outcome, wanted):
        run = run_failures(tables.fabric.copy(), m, faults, further, settings, progress=shown)
    if settings.config is not None and tables.config is None:
        note = f"the subnet manager brought the fabric up with {run.engine} before the run, and replaced its tables"
        run.outcome.notes = (*run.outcome.notes, note)
    return _with_outcome(frame, m, run.outcome, run)


def _manager_settings(tables: Routed, workload: Workload) -> ManagerSettings:
    from softib.scenario.failures import ManagerSettings
    from softib.sim.packet.stepping import ProcessorTimes
    from softib.sm.config import SmConfig
    from softib.workloads.faults import Management

    m = workload.management or Management.model_validate({})
    times = ProcessorTimes(m.agent, m.forward, m.vl15_packets)
    if m.sm == "off":
        return ManagerSettings(None, times=times)
    if tables.config is None and tables.part.engine == "file":
        raise InputError("after a fault, the subnet manager would replace the tables of the dump; add --sm off")
    config = replace(tables.config or SmConfig(), window=m.window, timeout_ps=max(m.timeout, 1), retries=m.retries)
    return ManagerSettings(config, m.node or tables.manager_node, m.manager, times)


def _with_outcome(frame: RunResult, m: Messages, outcome: Outcome, failures: FailureRun | None = None) -> RunResult:
    """Return ``frame`` with the outcome of ``m``, and with notes on deadlocks and on cables that are too long for the
    credits of their ports."""
    if outcome.network == "infiniband":
        outcome.notes = (*outcome.notes, *credit_note(frame.plane, frame.plane.lay(m)))
    for cycle, end in ((outcome.deadlock, "for ever"), (outcome.dissolved, "until discards dissolved it")):
        if cycle:
            shown = [f"{frame.fabric.port_name(p)} VL {vl}" for p, vl in cycle[:MOST_NAMED]]
            shown += ["…"] * (len(cycle) > MOST_NAMED)
            note = (
                f"deadlock: packets at {counted(len(cycle), 'port')} waited for each other {end} ({', '.join(shown)})"
            )
            outcome.notes = (note, *outcome.notes)
    return replace(frame, messages=m, outcome=outcome, failures=failures)


def _with_time_last(progress: Progress | None) -> Progress | None:
    """Return ``progress`` with its arguments in the packet layer's order, in which time comes first."""
    return None if progress is None else lambda now_ps, done, of: progress(done, of, now_ps)


def _with_ports_taken(outcome: Outcome, wanted: PacketOptions) -> PacketOptions | None:
    """Return options that watch all ports that the packets of a traced message crossed; None if they are already
    watched. Acknowledgements, adaptive routing and a manager that re-routes use ports that are not on the planned path.
    A second run with these options gives identical results."""
    from softib.sim.packet.timeline import ports_of_message

    ports: set[int] = set()
    if outcome.interrupted:
        return None
    for row in wanted.watch_messages:
        ports |= ports_of_message(outcome.log, row) - set(wanted.watch_ports)
    return replace(wanted, watch_ports=tuple(sorted({*wanted.watch_ports, *ports}))) if ports else None


def message_row(text: str | int, names: np.ndarray, m: Messages) -> int:
    """Return the row of the message that ``text`` names: a number, or ``SOURCE->DESTINATION#n``.
    Raises :class:`InputError`, one line."""
    word = str(text).strip()
    row = whole_number(word)
    if row is not None:
        if row >= len(m):
            raise InputError(f"message {row:,} does not exist; the workload has {len(m):,} messages, numbered from 0")
        return row
    ends, _, number = word.partition("#")
    source, arrow, target = (part.strip() for part in ends.partition("->"))
    if not arrow or (number and whole_number(number) is None):
        raise InputError(
            f"{word!r} is not a message: use its number, or SOURCE->DESTINATION, or SOURCE->DESTINATION#2 "
            f"for the second one"
        )
    for name in (source, target):
        if not (names == name).any():
            raise UnknownName("host", name, [str(n) for n in names])
    rows = np.flatnonzero((names[m.src] == source) & (names[m.dst] == target))
    nth = int(number or 1)
    if not 1 <= nth <= len(rows):
        raise InputError(f"{source} sends only {len(rows):,} messages to {target}, so number {nth} does not exist")
    return int(rows[nth - 1])


def _all_ports(plane: Plane, m: Messages, laid: Laid) -> tuple[int, ...]:
    """Return all cabled ports. Raises :class:`LimitError` if packets would pass more ports than can be logged."""
    hops = int((packets_of(m, laid.mtu) * np.diff(laid.first)).sum())
    if hops > MOST_LOGGED:
        raise LimitError(
            f"{counted(hops, 'packet hop')} are too many to log; the limit is {MOST_LOGGED:,}: send less, or trace "
            f"one message"
        )
    return tuple(np.flatnonzero(plane.fabric.port_peer >= 0).tolist())


def _with_peers(plane: Plane, ports: tuple[int, ...]) -> tuple[int, ...]:
    """Return ``ports`` and the other ends of their cables, ascending."""
    peer = plane.fabric.port_peer
    return tuple(sorted({p for port in ports for p in (port, int(peer[port])) if p >= 0}))
