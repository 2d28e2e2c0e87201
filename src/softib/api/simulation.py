"""Traffic in virtual time: a workload on a fabric, by one of the simulator's layers."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from softib.api.fabric import Fabric, as_fabric
from softib.api.frames import frame
from softib.api.shown import Suggests
from softib.api.simulation_runs import Made, Record, Runs, port_row, write_file
from softib.api.what_if import SENSITIVITY, changes_of, check_network, text_of, variants_of
from softib.errors import InputError, UnknownName

if TYPE_CHECKING:
    import polars

    from softib.analysis.simulated import Simulated
    from softib.workloads.workload import Workload

__all__ = ["Record", "Simulation", "simulate"]

TABLES = ("messages", "jobs", "ports")


class Simulation(Suggests):
    """What a workload did on a fabric.

    ``fabric`` has the tables that were taken, ``simulated_us`` is virtual time, ``wall_s`` what the layer took. ``what_if`` is the same workload
    with something changed, where that was asked for, ``variants`` all such runs by what changed. ``jobs_alone``: what each job does without the
    others, after :meth:`run_jobs_alone`. ``others``: runs of the jobs that the workload places on other fabrics, by their names.
    """

    def __init__(self, runs: Runs, made: Made):
        self._runs, self._made, self._run, self._phases = runs, made, made.run, made.phases
        self.fabric, self.wall_s = made.fabric, made.wall_s
        self.what_if: Simulation | None = None
        self.what_if_text = ""
        self.variants: dict[str, Simulation] = {}
        self.others: dict[str, Simulation] = {}
        self.jobs_alone: dict[str, dict[str, float]] = {}

    def variant(self, changes: Mapping[str, str]) -> Simulation:
        """The same once more with ``changes`` (such as ``{"engine": "updn"}``)."""
        from softib.routing.engine import ENGINES

        engine = self.engine if self._runs.lfts is None and self.engine in ENGINES else None
        return Simulation(self._runs, self._runs.make(changes, changes.get("engine") or engine))

    def add_variant(self, text: str, changes: Mapping[str, str]) -> Simulation:
        """:meth:`variant`, which ``variants`` has under ``text``."""
        found = self.variant(changes)
        self.variants[text] = found
        if self.what_if is None:
            self.what_if, self.what_if_text = found, text
        return found

    @property
    def workload(self) -> str:
        """The workload's name."""
        return self._runs.work.name

    @property
    def layer(self) -> str:
        """``static``, ``fluid`` or ``packet``."""
        return self._runs.layer

    @property
    def engine(self) -> str:
        """Whose forwarding tables the run took."""
        return self._made.engine

    @property
    def good(self) -> bool:
        """Did every message complete, on the other fabrics too?"""
        return (self._run is None or self._run.ok) and all(other.good for other in self.others.values())

    @property
    def valid(self) -> bool:
        """Does the layer's model hold for this traffic? ``why_not`` says what is against it."""
        return self._run is None or self._run.outcome.valid

    @property
    def why_not(self) -> tuple[str, ...]:
        """Why the layer's answer may be off."""
        return () if self._run is None else self._run.outcome.why_not

    @property
    def notes(self) -> tuple[str, ...]:
        """What else to know of the run."""
        if self._run is None:
            return ()
        others = ((text, v._run) for text, v in self.variants.items())
        return (
            *self._run.notes,
            *(f"what if {text}: {note}" for text, run in others if run is not None for note in run.fallback),
        )

    @property
    def simulated_us(self) -> float:
        """Virtual time of the end, in microseconds."""
        return (self._phases.end_ps if self._phases is not None else self._details.outcome.end_ps) / 1e6

    @property
    def faults(self) -> list[dict[str, Any]]:
        """What failed and when, what it cost at once, and when the manager had dealt with it."""
        return list(self._failures.get("faults", ()))

    @property
    def management(self) -> dict[str, Any]:
        """The manager and its MADs while things failed: where it ran, MADs sent, lost and answered, traps, sweeps; empty without faults."""
        return dict(self._failures.get("management", {}))

    @property
    def unreachable(self) -> list[str]:
        """Ports with traffic that no link joined to the rest at the end."""
        return list(self._failures.get("unreachable", ()))

    @cached_property
    def _failures(self) -> dict[str, Any]:
        from softib.analysis.failing import figures

        run = self._run
        return {} if run is None or run.failures is None else figures(run.failures, run.fabric)

    @property
    def messages(self) -> polars.DataFrame:
        """One row a message: job, source, destination, size, when it began, arrived and completed, latency, Gb/s."""
        return self.table("messages")

    @property
    def jobs(self) -> polars.DataFrame:
        """One row a job: messages, bytes, begin, end, Gb/s."""
        return self.table("jobs")

    @property
    def ports(self) -> polars.DataFrame:
        """One row a port that sent: load, bytes, packets."""
        return self.table("ports")

    def table(self, kind: str = "messages") -> polars.DataFrame:
        """``messages``, ``jobs`` or ``ports``; an all-to-all with barriers has ``phases`` alone. Raises :class:`UnknownName` for another
        kind, :class:`MissingLibrary` without polars."""
        from softib.api import simulation_columns as columns

        known = TABLES if self._phases is None else ("phases",)
        if kind not in known:
            raise UnknownName("table of a simulation", kind, known)
        if self._phases is not None:
            return frame(columns.phases(self._phases))
        return frame(getattr(columns, kind)(self._details))

    @cached_property
    def percentiles_us(self) -> dict[str, float]:
        """Latency of messages, from begin to arrival: min, p50, p90, p99, p99.9, max, mean."""
        return {} if self._run is None else {k: v / 1e6 for k, v in self._run.percentiles_ps().items()}

    @cached_property
    def busy_ports(self) -> list[dict[str, Any]]:
        """The ports with the largest loads, each with its cause and what would help."""
        from softib.analysis.causes import busy_ports
        from softib.api.simulation_columns import busy_port

        return [] if self._run is None else [busy_port(self._run, p) for p in busy_ports(self._run)]

    @cached_property
    def other_engines(self) -> dict[str, float]:
        """Other routing engines: the busiest link between switches under their tables, over this run's (less is better)."""
        from softib.analysis.causes import engine_loads

        return {} if self._run is None else {e.engine: e.relative for e in engine_loads(self._run)}

    def to_json(self) -> dict[str, Any]:
        """As ``softib simulate --json`` prints it."""
        from softib.api.simulation_columns import as_json
        from softib.render.documents import document

        return document("simulate", **as_json(self))

    def print(self) -> None:
        """As ``softib simulate`` prints it."""
        from softib.render.simulation_terminal import print_simulation
        from softib.render.terminal import console

        print_simulation(self.to_json(), console())

    def run_jobs_alone(self) -> dict[str, dict[str, float]]:
        """Run each job without the others, by the same layer on the same tables: by job its time, its slowdown in the run (time together over time alone)
        and that of its p50, p99 and p99.9 latencies."""
        from softib.analysis.slowdown import jobs_alone

        several = len(self._run.jobs) > 1 if self._run is not None else False
        if self._run is not None and (several or self.others or self._runs.whole) and not self.jobs_alone:
            self.jobs_alone = jobs_alone(self._run, self._runs.alone)
        for other in self.others.values():
            other.run_jobs_alone()
        return self.jobs_alone

    @cached_property
    def remedies(self) -> list[dict[str, Any]]:
        """What the causes of the busiest ports propose, each as a change of a what-if; run where that is cheap (``verified``), with the ratio of
        its time and of its p99 latency to this run's."""
        from softib.api.simulation_remedies import remedies

        return [] if self._run is None else remedies(self)

    def counters(self, place: str) -> dict[str, int]:
        """What the run added to the counters of ``leaf-1[3]``, as PortCounters has them: each stops at its largest value (IBA 16.1.3.5)."""
        from softib.analysis.run_counters import port_counters

        return port_counters(self._details, place)

    def perfquery(self, place: str) -> str:
        """:meth:`counters` as ``perfquery`` prints them."""
        from softib.analysis.run_counters import as_perfquery

        return as_perfquery(self._details, place)

    @cached_property
    def trace(self) -> dict[str, Any]:
        """The timeline of the message that was to be traced. Raises :class:`InputError` where none was."""
        from softib.api.simulation_trace import trace_of

        return trace_of(self._details, self._runs.record)

    @cached_property
    def over_time(self) -> dict[str, Any]:
        """Loads and queues over time of the ports that mattered, and of tiers of links; empty where no samples were taken."""
        from softib.api.simulation_columns import over_time

        return {} if self._run is None else over_time(self._run)

    def to_pcap(self, path: str | os.PathLike[str]) -> int:
        """Write the frames of the ports of ``record`` as a capture (pcapng, time 0 being 1970); returns how many. Raises :class:`InputError`."""
        from softib.sim.packet.frames import write_capture

        names = self._runs.record.ports
        log = self._details.outcome.log
        if not names or log is None:
            raise InputError(
                "no port was to be captured; take record=softib.Record(ports=['leaf-1[3]']) and layer packet"
            )
        rows = [port_row(self._details.fabric, name) for name in names]
        return write_capture(log, self._details.fabric, rows, path)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """A self-contained page: figures, loads over time, latencies, causes; with ``path`` written there too. Raises :class:`InputError`."""
        from softib.render.simulation_page import page

        text = page(self.to_json(), self._latencies(), self._run)
        if path is not None:
            write_file(path, lambda target: target.write_text(text, encoding="utf-8"))
        return text

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the messages (of phases: the phases) as a Parquet file. Raises :class:`InputError`, :class:`MissingLibrary`."""
        table = self.table("messages" if self._phases is None else "phases")
        write_file(path, table.write_parquet)

    @property
    def _details(self) -> Simulated:
        if self._run is None:
            raise InputError("phases with barriers have no messages of their own; run the workload without barrier")
        return self._run

    def _latencies(self) -> list[tuple[str, Any]]:
        """Latencies in µs, ascending, by job; of barriers the times of phases."""
        import numpy as np

        if self._phases is not None:
            return [("phases", np.sort(self._phases.took_ps) / 1e6)]
        run = self._details
        took = run.took_ps
        return [(name, np.sort(took[(run.messages.job == k) & (took >= 0)]) / 1e6) for k, name in enumerate(run.jobs)]

    def __repr__(self) -> str:
        n = (
            f"{self._phases.flows:,}"
            if self._phases is not None
            else f"{int((~self._details.messages.computes).sum()):,}"
        )
        flaw = "" if self.good else ", not all completed"
        doubt = "" if self.valid else ", the layer's model does not hold"
        return (
            f"<Simulation of {self.workload!r} on {self.fabric.name!r} ({self.layer}): {n} messages in "
            f"{self.simulated_us:,.3f} us{flaw}{doubt}>"
        )

    def _repr_html_(self) -> str:
        rows = {"workload": self.workload, "layer": self.layer, "tables": self.engine, "virtual time": f"{self.simulated_us:,.3f} µs",
                "took": f"{self.wall_s:.2f} s", **{f"latency {k}": f"{v:,.3f} µs" for k, v in self.percentiles_us.items()}}  # fmt: skip
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>"
            for k, v in rows.items()
        )
        return f"<table><caption><b>{html.escape(self.fabric.name)}</b></caption>{cells}</table>"


def simulate(
    source: Fabric | str | os.PathLike[str], workload: Workload | str | os.PathLike[str], *, layer: str = "fluid",
    engine: str | None = None, lfts: str | os.PathLike[str] | None = None, seed: int = 0, network: str = "infiniband",
    what_if: str | Sequence[str] | None = None, record: Record | None = None,
    faults: Sequence[str | Mapping[str, Any]] | Mapping[str, Any] = (),
) -> Simulation:  # fmt: skip
    """Run ``workload`` (``permutation:2MB``, a YAML file of jobs, a :class:`~softib.workloads.workload.Workload`) on the fabric, in virtual
    time.

    A fabric without tables is brought up by the subnet manager, with ``engine``; ``lfts`` is a dump of tables instead. ``layer``: ``packet``,
    ``fluid`` or ``static``. ``what_if`` (``"engine=updn"``, ``"ar=on,cc=on"``, several as a list) runs it once more with that changed, and with each
    change alone where one names several: ``ar`` and ``cc`` are adaptive routing and congestion control of the packet layer, ``vl=jobs`` gives each
    job an SL of its own; ``latency=2``, ``bandwidth=0.5`` and ``congestion=2`` are factors, ``generation=XDR`` keeps the graph and takes links of that generation. ``"sensitivity"`` means each of these three halved and doubled. ``network`` (also a change of a what-if): ``infiniband``, or the same cables, switches and hosts as Ethernet with
    ``roce`` (RoCEv2, priority flow control, DCQCN) or ``tcp``, each with options such as ``"roce,pfc=off,gbps=100"``, of the packet layer. ``faults`` (packet
    layer) adds to those of the workload: lines such as ``"20us link-down leaf-1[3]"``, mappings, or what a workload file has: ``{"faults": […],
    "management": {"sm": "off"}}``. ``record``: what to write down beside the result. A running fabric is read, never written. Raises :class:`UnknownName` and
    :class:`InputError`, one line each, where the question is wrong: no such pattern, more hosts than there are, no path.

    >>> import softib
    >>> tree = softib.generate("fat-tree", radix=4, levels=2)
    >>> softib.simulate(tree, "shift:1MB")
    <Simulation of 'shift:1MB' on 'fat-tree' (fluid): 8 messages in 22.253 us>
    """
    from softib.analysis.routed import check_choice
    from softib.workloads.workload import read

    path = None if lfts is None else os.fspath(lfts)
    check_choice(engine, path)
    texts = [what_if] if isinstance(what_if, str) else list(what_if or ())
    texts = [one for text in texts for one in (SENSITIVITY if text == "sensitivity" else (text,))]
    wanted = [(text, changes_of(text, layer)) for text in texts]
    first = {} if network == "infiniband" else {"network": network}
    check_network(first, layer)
    work = _with_faults(read(workload), faults)
    check_layer(work, layer)
    if not work.fabrics:
        runs = Runs(as_fabric(source), work, layer, engine, path, seed, network, record or Record())
    else:
        check_fabrics(work, layer)
        parts = (work.of_fabric(None), layer, engine, path, seed, network, record or Record(), work.on_one_fabric())
        runs = Runs(as_fabric(source), *parts)
    made = Simulation(runs, runs.make())
    for name, other in work.fabrics.items():
        there = Runs(
            as_fabric(other.source),
            work.of_fabric(name),
            layer,
            other.engine or engine,
            None,
            seed,
            other.network,
            Record(),
        )
        made.others[name] = Simulation(there, there.make())
    for text, changes in wanted:
        for number, variant in enumerate(variants_of(changes)):
            made.add_variant(text if number == 0 else text_of(variant), variant)
    return made


def check_layer(work: Workload, layer: str) -> None:
    """Raise :class:`UnknownName` for a layer that is none, :class:`InputError` for one that does not answer ``work``."""
    from softib.analysis.simulated import run_layer

    run_layer(layer)
    if work.phased is not None and layer != "fluid":
        raise InputError(f"barriers are answered by the fluid layer alone, not by {layer}")


def check_fabrics(work: Workload, layer: str) -> None:
    """Raise one line where a job has no fabric of its file, or ``layer`` does not know the network of one."""
    work.of_fabric(None)
    for name, other in work.fabrics.items():
        work.of_fabric(name)
        if other.network != "infiniband":
            check_network({"network": other.network}, layer)


def _with_faults(work: Workload, given: Sequence[str | Mapping[str, Any]] | Mapping[str, Any]) -> Workload:
    """``work`` and what ``simulate`` was told of faults."""
    if isinstance(given, str):
        return work.with_faults([given])
    if not isinstance(given, Mapping):
        return work.with_faults(given) if given else work
    for key in given:
        if key not in ("faults", "management"):
            raise UnknownName("key of faults", str(key), ("faults", "management"))
    return work.with_faults(given.get("faults", ()), given.get("management"))
