"""What a workload did on a fabric in virtual time: the result of :func:`softib.simulate`."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from softib.api.shown import Suggests
from softib.api.simulation.runs import Made, Runs, port_row
from softib.api.table import Table
from softib.errors import InputError, UnknownName
from softib.plural import counted
from softib.whole_files import write_file, write_text

if TYPE_CHECKING:
    from softib.analysis.simulation.simulated import Simulated
    from softib.api.graph import Drawing

__all__ = ["Simulation"]

TABLES = ("messages", "jobs", "ports")
NOTHING = {
    "latencies": "no message arrived", "links": "no packet took a link between switches", "time": "give record=softib.Record(samples=…)",
}  # fmt: skip
"""Why a plot is empty."""


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
            *(f"what if {text}: {note}" for text, run in others if run is not None for note in run.of_tables),
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
        from softib.analysis.simulation.failing import figures

        run = self._run
        return {} if run is None or run.failures is None else figures(run.failures, run.fabric)

    @property
    def messages(self) -> Table:
        """One row a message: job, source, destination, size, when it began, arrived and completed, latency, Gb/s."""
        return self.table("messages")

    @property
    def jobs(self) -> Table:
        """One row a job: messages, bytes, begin, end, Gb/s."""
        return self.table("jobs")

    @property
    def ports(self) -> Table:
        """One row a port that sent: load, bytes, packets."""
        return self.table("ports")

    def table(self, kind: str = "messages") -> Table:
        """``messages``, ``jobs`` or ``ports``; an all-to-all with barriers has ``phases`` alone. Raises :class:`UnknownName` for another
        kind."""
        from softib.api.simulation import columns

        known = TABLES if self._phases is None else ("phases",)
        if kind not in known:
            raise UnknownName("table of a simulation", kind, known)
        if self._phases is not None:
            return Table(columns.phases(self._phases))
        return Table(getattr(columns, kind)(self._details))

    @cached_property
    def percentiles_us(self) -> dict[str, float]:
        """Latency of messages, from begin to arrival: min, p50, p90, p99, p99.9, max, mean."""
        return {} if self._run is None else {k: v / 1e6 for k, v in self._run.percentiles_ps().items()}

    @cached_property
    def busy_ports(self) -> list[dict[str, Any]]:
        """The ports with the largest loads, each with its cause and what would help."""
        from softib.analysis.simulation.causes import busy_ports
        from softib.api.simulation.columns import busy_port

        return [] if self._run is None else [busy_port(self._run, p) for p in busy_ports(self._run)]

    @cached_property
    def other_engines(self) -> dict[str, float]:
        """Other routing engines: the busiest link between switches under their tables, over this run's (less is better)."""
        from softib.analysis.simulation.causes import engine_loads

        return {} if self._run is None else {e.engine: e.relative for e in engine_loads(self._run)}

    def to_json(self) -> dict[str, Any]:
        """As ``softib simulate --json`` prints it."""
        from softib.api.simulation.columns import as_json
        from softib.render.documents import document

        return document("simulate", **as_json(self))

    def print(self) -> None:
        """As ``softib simulate`` prints it."""
        from softib.render.simulation.terminal import print_simulation
        from softib.render.terminal import console

        print_simulation(self.to_json(), console())

    def run_jobs_alone(self) -> dict[str, dict[str, float]]:
        """Run each job without the others, by the same layer on the same tables: by job its time, its slowdown in the run (time together over time alone)
        and that of its p50, p99 and p99.9 latencies."""
        from softib.analysis.simulation.slowdown import jobs_alone

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
        from softib.api.simulation.remedies import remedies

        return [] if self._run is None else remedies(self)

    def counters(self, place: str) -> dict[str, int]:
        """What the run added to the counters of ``leaf-1[3]``, as PortCounters has them: each stops at its largest value (IBA 16.1.3.5)."""
        from softib.analysis.simulation.counters import port_counters

        return port_counters(self._details, place)

    def perfquery(self, place: str) -> str:
        """:meth:`counters` as ``perfquery`` prints them."""
        from softib.analysis.simulation.counters import as_perfquery

        return as_perfquery(self._details, place)

    @cached_property
    def trace(self) -> dict[str, Any]:
        """The timeline of the message that was to be traced. Raises :class:`InputError` where none was."""
        from softib.api.simulation.trace import trace_of

        return trace_of(self._details, self._runs.record)

    @cached_property
    def over_time(self) -> dict[str, Any]:
        """Loads and queues over time of the ports that mattered, and of tiers of links; empty where no samples were taken."""
        from softib.api.simulation.columns import over_time

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
        from softib.render.simulation.page import page

        text = page(self.to_json(), self._latencies(), self._run)
        if path is not None:
            write_text(path, text)
        return text

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the messages (of phases: the phases) as a Parquet file. Raises :class:`InputError`, :class:`MissingLibrary`."""
        table = self.table("messages" if self._phases is None else "phases")
        write_file(path, table.to_polars().write_parquet)

    def plot(self, kind: str = "latencies") -> Drawing:
        """``latencies``: how long messages took, cumulative, a curve a job; ``links``: the load of each link of the busiest switches;
        ``time``: loads of ports over time, where samples were taken (``record=softib.Record(…)``).

        Raises :class:`UnknownName` for another kind, :class:`InputError` where the run has nothing to draw in it.
        """
        from softib.api.graph import Drawing
        from softib.render.plots import styled
        from softib.render.simulation.page import link_heat
        from softib.render.simulation.time_charts import heat_over_time, latency_curves

        kinds = {
            "latencies": lambda: latency_curves(self._latencies()),
            "links": lambda: link_heat(self._details),
            "time": lambda: (
                heat_over_time(self.over_time["ports"], self.over_time["interval_us"], "loads of ports over time")
                if self.over_time
                else ""
            ),
        }
        if kind not in kinds:
            raise UnknownName("plot of a simulation", kind, kinds)
        svg = kinds[kind]()
        if not svg:
            raise InputError(f"{self.workload}: no {kind} to draw; {NOTHING[kind]}")
        return Drawing(styled(svg))

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
        n = self._phases.flows if self._phases is not None else int((~self._details.messages.computes).sum())
        flaw = "" if self.good else ", not all completed"
        doubt = "" if self.valid else ", the layer's model does not hold"
        return (
            f"<Simulation of {self.workload!r} on {self.fabric.name!r} ({self.layer}): {counted(n, 'message')} in "
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
