"""Runs of one workload on one fabric: unchanged, with a change, and each job alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from softib.api.arguments import check_fields
from softib.api.fabric import Fabric, result_of
from softib.api.simulation.what_if import OF_PACKETS, manager_settings, packet_options, scale_of
from softib.errors import InputError

if TYPE_CHECKING:
    from softib.analysis.calibration.predicting import Simulated
    from softib.analysis.routing import Routed
    from softib.analysis.simulation.causes import BusyPort
    from softib.analysis.simulation.failures import FailureFigures
    from softib.analysis.simulation.result import RunResult
    from softib.analysis.simulation.run import Recording
    from softib.api.simulation.against import Against
    from softib.sim.agreement import Agreement
    from softib.sim.fluid.phases import Phases
    from softib.sim.paths import Scale
    from softib.workloads.workload import Workload

__all__ = ["Progress", "Record", "Run", "Runs", "port_row"]

Progress = Callable[[int, int, int], None]
"""Called with the number of messages done (packet layer: packets; with barriers: phases), the total
number, and the virtual time in ps."""

AS_INFINIBAND = "the file's adapters are RoCE's, and this run is InfiniBand: add --network roce for Ethernet"


@dataclass(frozen=True)
class Record:
    """Options and additional records of a run. ``samples``: loads and queues over time, at an
    interval like ``"1us"`` (True: about a hundredth of the run). For the packet layer: ``ports``
    whose frames :meth:`Simulation.to_pcap` writes (``leaf-1[3]`` or ``leaf-1:3``), and ``trace``,
    the message for :attr:`Simulation.trace` (a row, or ``SOURCE->DESTINATION#n``). ``counters``:
    ports for :meth:`Simulation.counters`; an unknown name is rejected before the run. ``progress``
    is called during the run. ``queue_pairs``: ``timeout``, ``retry_cnt``, ``min_rnr_timer`` and
    ``rnr_retry`` of the packet layer's queue pairs, as in ibv_modify_qp(3) (not for TCP).
    ``hosts``: host costs of messages, instead of the fabric file's ``hosts``: ``{"pcie": "gen4x16",
    "program_ns": 860}`` (docs/simulate.md). ``machine``: a file of :func:`softib.calibrate` that
    describes nodes and hosts; it is used unless jobs and costs state other values. ``against``: a
    log of nccl-tests or an OSU benchmark, which :attr:`Simulation.against` compares with
    predictions (docs/calibrate.md). ``packets`` (packet layer): log every event of a packet at
    every port, for :meth:`Simulation.packets_to_parquet`. ``interruptible`` (packet layer): Ctrl-C
    ends the run and sets :attr:`Simulation.interrupted`, instead of raising KeyboardInterrupt."""

    samples: bool | str = False
    ports: Sequence[str] = ()
    trace: str | int | None = None
    counters: Sequence[str] = ()
    progress: Progress | None = field(default=None, compare=False)
    queue_pairs: Mapping[str, int] = field(default_factory=dict)
    hosts: Mapping[str, Any] = field(default_factory=dict)
    machine: str | os.PathLike[str] = ""
    against: str | os.PathLike[str] = ""
    packets: bool = False
    interruptible: bool = False

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass
class Run:
    """A run with its derived results. It has either ``result`` or ``phases`` (an all-to-all with barriers).

    ``settings``: the settings of the run; ``fabric`` has its tables, which ``engine`` computed;
    ``wall_s``: seconds that the layer took. Further runs: ``variants`` with changes, keyed by
    change, and ``what_if``, the first of these; ``others``: jobs on other fabrics, by fabric name;
    ``alone``: figures of each job without the others; ``against``: a log compared with predictions.
    """

    settings: Runs
    result: RunResult | None
    phases: Phases | None
    fabric: Fabric
    wall_s: float
    engine: str
    what_if: str = ""
    variants: dict[str, Run] = field(default_factory=dict)
    others: dict[str, Run] = field(default_factory=dict)
    alone: dict[str, dict[str, float]] = field(default_factory=dict)
    against: Against | None = None

    def variant(self, changes: Mapping[str, str]) -> Run:
        """Run the workload again with ``changes`` (for example ``{"engine": "updn"}``)."""
        from softib.routing.engine import engines

        engine = self.engine if self.settings.lfts is None and self.engine in engines() else None
        return self.settings.make(changes, changes.get("engine") or engine)

    @property
    def details(self) -> RunResult:
        """``result``. Raises :class:`InputError` for phases, which have no messages."""
        if self.result is None:
            raise InputError("workloads with barriers have no messages; run the workload without barrier")
        return self.result

    @property
    def good(self) -> bool:
        """Return whether every message completed, on the other fabrics too."""
        return (self.result is None or self.result.ok) and all(other.good for other in self.others.values())

    @property
    def interrupted(self) -> bool:
        """Return whether Ctrl-C ended the run."""
        return self.result is not None and self.result.outcome.interrupted

    @property
    def agreement(self) -> Agreement:
        """Which results agree with the packet layer."""
        from softib.sim.agreement import ALL, NONE

        if self.result is not None:
            return self.result.outcome.agreement
        return NONE if self.phases is not None and self.phases.most.max(initial=0) > 1 else ALL

    @property
    def why_not(self) -> tuple[str, ...]:
        """Reasons why the layer's results may be wrong."""
        if self.result is None:
            return () if self.agreement.end else ("phases in which flows share links are not judged",)
        return self.result.outcome.why_not

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the run."""
        if self.result is None:
            return ()
        tables = ((text, v.result.of_tables) for text, v in self.variants.items() if v.result is not None)
        return (*self.result.notes, *(f"what if {text}: {note}" for text, notes in tables for note in notes))

    @property
    def simulated_us(self) -> float:
        """Virtual time at the end, in microseconds."""
        return (self.phases.end_ps if self.phases is not None else self.details.outcome.end_ps) / 1e6

    @cached_property
    def percentiles_us(self) -> dict[str, float]:
        """Latency of messages: min, p50, p90, p99, p99.9, max, mean."""
        return {} if self.result is None else {k: v / 1e6 for k, v in self.result.percentiles_ps().items()}

    @cached_property
    def failures(self) -> FailureFigures | None:
        """Faults, their cost, and the manager's reaction; None without faults."""
        from softib.analysis.simulation.failures import failure_figures

        run = self.result
        return None if run is None or run.failures is None else failure_figures(run.failures, run.fabric)

    @cached_property
    def other_engines(self) -> dict[str, float]:
        """Other routing engines: the load of the busiest link between switches with their tables,
        relative to this run's (less is better)."""
        from softib.analysis.simulation.causes import engine_loads

        return {} if self.result is None else {e.engine: e.relative for e in engine_loads(self.result)}

    @cached_property
    def causes(self) -> list[BusyPort]:
        """The ports with the largest loads, each with its cause."""
        from softib.analysis.simulation.causes import busy_ports

        return [] if self.result is None else busy_ports(self.result)

    def with_measurements(self, predict: Simulated, with_log: bool) -> None:
        """Add the reliability of the results, from the measurements in the machine file of ``record``. ``with_log``:
        also compare the results with the log of ``record``."""
        from dataclasses import replace

        from softib.api.simulation.against import against
        from softib.workloads.machine_file import read_machine

        record, result = self.settings.record, self.details
        measured = read_machine(record.machine).datasets if record.machine else ()
        hosts = replace(result.hosts, measured=measured)
        if record.against and with_log:
            compared = against(record.against, result.workload, hosts, predict)
            self.against = compared.against
            hosts = replace(hosts, measured=(compared.dataset, *measured))
        self.result = replace(result, hosts=hosts)

    def run_jobs_alone(self) -> None:
        """Run each job alone and fill ``alone``, also in the runs on other fabrics."""
        from softib.analysis.simulation.slowdown import jobs_alone

        run = self.result
        if run is not None and (len(run.jobs) > 1 or self.others or self.settings.whole) and not self.alone:
            self.alone = jobs_alone(run, self.settings.alone)
        for other in self.others.values():
            other.run_jobs_alone()


@dataclass(frozen=True)
class Runs:
    """``work`` on ``fabric`` by ``layer``. ``lfts``: a dump of tables instead of an engine's. ``whole``: include
    the jobs that the workload places on other fabrics; ``elsewhere``: these jobs by fabric."""

    fabric: Fabric
    work: Workload
    layer: str
    engine: str | None
    lfts: str | None
    seed: int
    network: str
    record: Record
    whole: Workload | None = None
    elsewhere: Mapping[str, Runs] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise :class:`InputError` for a record that the layer or the network does not have."""
        from softib.sim.packet.profiles import host_figures

        r = self.record
        if (r.ports or r.trace is not None or r.packets) and self.layer != "packet":
            raise InputError(f"the {self.layer} layer has no packets to record; use layer packet")
        if (r.ports or r.trace is not None or r.packets) and self.network != "infiniband":
            raise InputError(f"frames, packets and timelines exist only for InfiniBand, not for {self.network}")
        if r.samples and self.layer == "static":
            raise InputError("the static layer has no virtual time to sample; use layer fluid or packet")
        host_figures(r.hosts)
        self._interval_ps  # noqa: B018  (raises for a wrong text)

    @property
    def _interval_ps(self) -> int:
        """Interval between samples; 0: about a hundredth of the run."""
        return _picoseconds(self.record.samples) if isinstance(self.record.samples, str) else 0

    def make(self, changes: Mapping[str, str] | None = None, engine: str | None = None) -> Run:
        """Make the run; with ``changes``, on the tables of ``engine``. Raises :class:`InputError` if the workload
        cannot run on the fabric."""
        import time
        from contextlib import nullcontext
        from dataclasses import replace

        from softib.analysis.calibration.predicting import Simulated
        from softib.analysis.routed import routed
        from softib.analysis.simulation.run import run_workload
        from softib.fabric.generation import at_generation, main_generation
        from softib.sim.packet.options import network_of
        from softib.sim.packet.profiles import ethernet_generation
        from softib.workloads.hosts import hosts_of
        from softib.workloads.machine_file import MachineFile, read_machine

        first = {} if self.network == "infiniband" else {"network": self.network}
        result, changed = result_of(self.fabric), {**first, **(changes or {})}
        if "fabrics" in changed and self.whole is None:
            raise InputError(
                "what-if fabrics=one has no effect: all jobs of the workload already run on one fabric; leave it out"
            )
        over = network_of(changed["network"]) if "network" in changed else {}
        gbps = over.get("ethernet", {}).get("gbps")  # a rate changes adapters and switches too, not only cables
        generation = ethernet_generation(gbps) if gbps else changed.get("generation")
        if generation is not None:
            result = replace(result, fabric=at_generation(result.fabric, generation))
        settings = manager_settings(changed) | ({"aggregation": True} if self.work.reduces else {})
        if settings:
            result = replace(result, extra={**result.extra, "sm": {**result.extra.get("sm", {}), **settings}})
        if changes is None:
            self._check_ports(result.fabric)
        by_manager = engine is not None or bool(
            manager_settings(changes or {})
        )  # a dump has no AR groups and no CC tables
        lfts = None if by_manager and changes is not None else self.lfts
        tables: Routed = routed(result, self.engine if changes is None else engine, lfts, lambda _: nullcontext())
        named = tables.part.tables
        options: dict[str, Any] = {
            OF_PACKETS[key]: value == "on" for key, value in changed.items() if key in OF_PACKETS
        }
        options |= over
        if self.record.interruptible and self.layer == "packet":
            options["interruptible"] = True
        network = changed.get("network", "infiniband").partition(",")[0]
        options |= {} if network == "tcp" else packet_options(self.record.queue_pairs, self.layer)
        shown = Fabric(replace(result, fabric=tables.fabric), self.fabric.source)
        began = time.perf_counter()
        if self.work.phased is not None:
            phases = self._phases(tables, scale_of(changed))
            return Run(self, None, phases, shown, time.perf_counter() - began, named)
        work = self.whole if changed.get("fabrics") == "one" and self.whole is not None else self.work
        if generation is not None and changes is not None:  # other links, the same GPUs
            before = at_generation(tables.fabric, main_generation(result_of(self.fabric).fabric))
            work = work.on_assumed_machines(hosts_of(before))
        recording = self._recording(tables.fabric, changes is None, changed.get("vl") == "jobs")
        machine = read_machine(self.record.machine) if self.record.machine else MachineFile()
        costs = {**result.extra.get("hosts", {}), **machine.hosts, **self.record.hosts}
        run = run_workload(
            tables,
            work,
            self.layer,
            engine=named,
            seed=self.seed,
            options=options,
            progress=self.record.progress,
            recording=replace(recording, scale=scale_of(changed)),
            hosts=costs,
        )
        from softib.sim.packet.profiles import no_adaptive_routing

        if changed.get("ar") == "on" and (still := no_adaptive_routing(tables.fabric)):
            run.outcome.notes = (*run.outcome.notes, still)
        if "network" not in changed and tables.fabric.node_ethernet.any():
            run.outcome.notes = (*run.outcome.notes, AS_INFINIBAND)
        run.outcome.wall_s = time.perf_counter() - began
        run_of_packets = Run(self, run, None, shown, run.outcome.wall_s, named)
        if (self.record.machine or self.record.against) and not run_of_packets.interrupted:
            run_of_packets.with_measurements(
                Simulated(tables, named, self.layer, self.seed, options, costs), changes is None
            )
        return run_of_packets

    def alone(self, run: RunResult, job: int) -> RunResult:
        """Run one job of ``run`` without the others, on the same tables."""
        from softib.analysis.simulation.run import Recording, run_messages

        messages = run.messages.only(run.messages.job == job)
        return run_messages(run, messages, self.layer, Recording(), self.record.progress)

    def _check_ports(self, fabric: Any) -> None:
        """Raise :class:`InputError` for a port of the record that the fabric does not have."""
        from softib.analysis.simulation.result import named_port

        for name in self.record.counters:
            named_port(fabric, name)
        for name in self.record.ports:
            port_row(fabric, name)

    def _recording(self, fabric: Any, recorded: bool, apart: bool) -> Recording:
        from softib.analysis.simulation.run import Recording

        if not recorded:
            return Recording(jobs_apart=apart)
        r = self.record
        ports = tuple(port_row(fabric, name) for name in r.ports)
        return Recording(bool(r.samples), self._interval_ps, ports, r.trace, apart, packets=r.packets)

    def _phases(self, tables: Routed, scale: Scale) -> Phases:
        """Run an all-to-all with barriers. It uses all hosts, and its only option is a size."""
        from softib.analysis.simulation.run import phases_of

        job = self.work.phased
        assert job is not None
        odd = job.model_fields_set - {"pattern", "size", "barrier", "name"}
        if odd:
            raise InputError(
                f"{self.work.name}: an all-to-all with barriers always uses all hosts in LID order, so its only option "
                f"is the size; leave {min(odd)} out"
            )
        r = self.record
        if r.ports or r.trace is not None or isinstance(r.samples, str) or r.counters or r.against:
            raise InputError(
                f"{self.work.name}: a workload with barriers has no samples, frames, messages, counters or logs; leave "
                f"out barrier, or these options"
            )
        if self.work.faults:
            raise InputError(
                f"{self.work.name}: faults need the packet layer, which does not support barriers; leave out faults or "
                f"barrier"
            )
        return phases_of(tables, job.size, scale, self.record.progress)


def port_row(fabric: Any, place: str) -> int:
    """Return the row of the port ``place``, for example ``leaf-1[3]`` or ``leaf-1:3``. Raises :class:`InputError` for a
    port that does not exist or has no link."""
    from softib.analysis.simulation.result import named_port

    port = named_port(fabric, place)
    if fabric.port_num[port] == 0 or fabric.port_peer[port] < 0:
        raise InputError(f"{place} has no cable, so it has no frames to capture; use a port with a cable")
    return port


def _picoseconds(text: str) -> int:
    from softib.workloads.units import time_ps_of

    try:
        time_ps = time_ps_of(text)
    except ValueError:
        time_ps = 0
    if time_ps < 1:
        raise InputError(f"{text!r} is not an interval between samples; use for example 100ns or 10us")
    return time_ps
