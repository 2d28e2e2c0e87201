"""A workload on a fabric in virtual time: the result of :func:`softib.simulate`."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from softib.api.arguments import Suggests
from softib.api.simulation.runs import Run, Runs, port_row
from softib.api.table import Table
from softib.errors import InputError, UnknownName
from softib.plural import counted
from softib.whole_files import write_file, write_text

if TYPE_CHECKING:
    from softib.analysis.simulation.result import RunResult
    from softib.api.graph import Drawing
    from softib.api.simulation.against import Against
    from softib.api.simulation.records import Remedy
    from softib.sim.agreement import Agreement

__all__ = ["Simulation"]

TABLES = ("messages", "jobs", "ports")
NOTHING = {
    "latencies": "no message arrived",
    "links": "no packet took a link between switches",
    "time": "give record=softib.Record(samples=…)",
}
"""Why a plot is empty."""


class Simulation(Suggests):
    """Result of a workload on a fabric. ``fabric`` has the tables of the run; ``wall_s`` is the wall time of the layer
    in seconds.
    """

    def __init__(self, run: Run):
        self._plain, self._run, self._phases = run, run.result, run.phases
        self.fabric, self.wall_s = run.fabric, run.wall_s
        self._shown: dict[int, Simulation] = {}

    @classmethod
    def of(cls, settings: Callable[[], Runs]) -> Simulation:
        """Return the simulation with the settings that ``settings`` returns. It includes the runs on the workload's
        other fabrics."""
        runs = settings()
        run = runs.make()
        run.others.update((name, other.make()) for name, other in runs.elsewhere.items())
        return cls(run)

    def variant(self, changes: Mapping[str, str]) -> Simulation:
        """Run the workload again with ``changes`` (for example ``{"engine": "updn"}``)."""
        return Simulation(self._plain.variant(changes))

    def add_variant(self, text: str, changes: Mapping[str, str]) -> Simulation:
        """Run the workload again with ``changes`` (:meth:`variant`), store the result in ``variants`` under ``text``,
        and return it."""
        self._plain.variants[text] = run = self._plain.variant(changes)
        self._plain.what_if = self._plain.what_if or text
        return self._simulation(run)

    def _simulation(self, run: Run) -> Simulation:
        """Return the object that shows ``run`` together with this run."""
        return self._shown.setdefault(id(run), Simulation(run))

    @property
    def variants(self) -> dict[str, Simulation]:
        """Runs of the same workload with changes, keyed by change."""
        return {text: self._simulation(run) for text, run in self._plain.variants.items()}

    @property
    def what_if(self) -> Simulation | None:
        """The first of ``variants``; None if there is none."""
        return self.variants.get(self._plain.what_if)

    @property
    def what_if_text(self) -> str:
        """The change of ``what_if``, as text."""
        return self._plain.what_if

    @property
    def others(self) -> dict[str, Simulation]:
        """Runs of the jobs that the workload places on other fabrics, by fabric name."""
        return {name: self._simulation(run) for name, run in self._plain.others.items()}

    @property
    def jobs_alone(self) -> dict[str, dict[str, float]]:
        """Figures of each job, as returned by :meth:`run_jobs_alone`; empty before that call."""
        return self._plain.alone

    @property
    def workload(self) -> str:
        """The workload's name."""
        return self._plain.settings.work.name

    @property
    def layer(self) -> str:
        """``static``, ``fluid`` or ``packet``."""
        return self._plain.settings.layer

    @property
    def engine(self) -> str:
        """The engine or source of the forwarding tables."""
        return self._plain.engine

    @property
    def good(self) -> bool:
        """Return whether every message completed, on the other fabrics too."""
        return self._plain.good

    @property
    def interrupted(self) -> bool:
        """Return whether Ctrl-C ended the run. The result then covers the time until that moment."""
        return self._plain.interrupted

    @property
    def against(self) -> Against | None:
        """Return the comparison of the log ``record.against`` with predictions; None without a log."""
        return self._plain.against

    @property
    def agreement(self) -> Agreement:
        """Which results agree with the packet layer within 5 %: ``.end`` of the run, ``.mean`` latency, latency of each
        of the ``.messages``. For results that do not agree, ``why_not`` has the reasons."""
        return self._plain.agreement

    @property
    def why_not(self) -> tuple[str, ...]:
        """Reasons why the layer's results may be wrong."""
        return self._plain.why_not

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the run."""
        return self._plain.notes

    @property
    def simulated_us(self) -> float:
        """Virtual time at the end, in microseconds."""
        return self._plain.simulated_us

    @property
    def faults(self) -> list[dict[str, Any]]:
        """For each fault: its time, its cost, and the time at which the manager had handled it."""
        failures = self._plain.failures
        return [] if failures is None else [fault.to_json() for fault in failures.faults]

    @property
    def management(self) -> dict[str, Any]:
        """The manager during the run: its port, MADs sent, lost and answered, traps, sweeps; empty
        without faults."""
        failures = self._plain.failures
        return {} if failures is None else failures.management.to_json()

    @property
    def unreachable(self) -> list[str]:
        """Ports with traffic that, at the end of the run, were disconnected from all other ports."""
        failures = self._plain.failures
        return [] if failures is None else list(failures.unreachable)

    @property
    def messages(self) -> Table:
        """One row per message: job, source, destination, size, times at which it began, arrived and
        completed, latency, Gb/s."""
        return self.table("messages")

    @property
    def jobs(self) -> Table:
        """One row per job: messages, bytes, begin, end, Gb/s."""
        return self.table("jobs")

    @property
    def ports(self) -> Table:
        """One row per port that sent: load, bytes, packets."""
        return self.table("ports")

    def table(self, kind: str = "messages") -> Table:
        """Return ``messages``, ``jobs`` or ``ports``; an all-to-all with barriers has only
        ``phases``. Raises :class:`UnknownName` for another kind."""
        from softib.api.simulation import columns

        kinds = TABLES if self._phases is None else ("phases",)
        if kind not in kinds:
            raise UnknownName("table of a simulation", kind, kinds)
        if self._phases is not None:
            return Table(columns.phases(self._phases))
        return Table(getattr(columns, kind)(self._details))

    @property
    def percentiles_us(self) -> dict[str, float]:
        """Latency of messages in microseconds, from begin to arrival: min, p50, p90, p99, p99.9, max, mean."""
        return self._plain.percentiles_us

    @cached_property
    def busy_ports(self) -> list[dict[str, Any]]:
        """The ports with the largest loads, each with the cause and remedies."""
        from softib.api.simulation.figures import busy_ports

        return [port.to_json() for port in busy_ports(self._plain)]

    @property
    def other_engines(self) -> dict[str, float]:
        """Other routing engines: the load of the busiest link between switches with their tables,
        relative to this run's (less is better)."""
        return self._plain.other_engines

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``softib simulate --json``."""
        from softib.api.simulation.figures import figures_of

        return figures_of(self._plain, self._remedies).to_json()

    def print(self) -> None:
        """Print the text of ``softib simulate``."""
        from softib.render.simulation.terminal import print_simulation
        from softib.render.terminal import console

        print_simulation(self.to_json(), console())

    def run_jobs_alone(self) -> dict[str, dict[str, float]]:
        """Run each job without the others, in the same layer and on the same tables. Return for
        each job its time alone in microseconds, its slowdown in the run (its time in this run divided
        by its time alone), and the slowdown of its p50, p99 and p99.9 latencies."""
        self._plain.run_jobs_alone()
        return self.jobs_alone

    @cached_property
    def _remedies(self) -> list[Remedy]:
        from softib.api.simulation.remedies import remedies

        return [] if self._run is None or self.interrupted else remedies(self._plain)

    @property
    def remedies(self) -> list[dict[str, Any]]:
        """Changes for a what-if that follow from the causes of the busiest ports. Cheap changes are
        run (``verified``); their time and p99 latency are given relative to this run's."""
        return [remedy.to_json() for remedy in self._remedies]

    def counters(self, place: str) -> dict[str, int]:
        """Return the increase of the counters of ``leaf-1[3]`` in the run, under the names of
        PortCounters' fields; each stops at its maximum (IBA 16.1.3.5)."""
        from softib.analysis.simulation.result import port_counters

        return port_counters(self._details, place)

    def perfquery(self, place: str) -> str:
        """Return :meth:`counters` in the form that ``perfquery`` prints."""
        from softib.analysis.simulation.result import as_perfquery

        return as_perfquery(self._details, place)

    @cached_property
    def trace(self) -> dict[str, Any]:
        """The timeline of the traced message. Raises :class:`InputError` without one."""
        from softib.api.simulation.columns import trace_of

        return trace_of(self._details, self._plain.settings.record.trace).to_json()

    @cached_property
    def over_time(self) -> dict[str, Any]:
        """Return loads and queues over time of the relevant ports, and of tiers of links; empty
        without samples."""
        from softib.api.simulation.figures import over_time

        loads = None if self._run is None else over_time(self._run)
        return {} if loads is None else loads.to_json()

    def to_pcap(self, path: str | os.PathLike[str]) -> int:
        """Write the frames at the ports of ``record`` as a capture (pcapng, with time 0 in 1970);
        return their number. Raises :class:`InputError`."""
        from softib.sim.packet.frames import write_capture

        names = self._plain.settings.record.ports
        log = self._details.outcome.log
        if not names or log is None:
            raise InputError("no port was captured; use record=softib.Record(ports=['leaf-1[3]']) and layer packet")
        rows = [port_row(self._details.fabric, name) for name in names]
        return write_capture(log, self._details.fabric, rows, path)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return a self-contained page with figures, loads over time, latencies and causes; with
        ``path``, also write it there. Raises :class:`InputError`."""
        from softib.render.simulation.page import page

        text = page(self.to_json(), self._latencies(), self._run)
        if path is not None:
            write_text(path, text)
        return text

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the messages (if the run has phases: the phases) as a Parquet file. Raises
        :class:`InputError`, :class:`MissingLibrary`."""
        table = self.table("messages" if self._phases is None else "phases")
        write_file(path, table.to_polars().write_parquet)

    def packets_to_parquet(self, path: str | os.PathLike[str]) -> int:
        """Write the events of packets at every port as a Parquet file, one row per event; return
        their number. Raises :class:`InputError` without ``record=softib.Record(packets=True)``,
        :class:`MissingLibrary`."""
        from softib.api.simulation.columns import packets

        if not self._plain.settings.record.packets:
            raise InputError("no packets were logged; use record=softib.Record(packets=True) and layer packet")
        table = Table(packets(self._details))
        write_file(path, table.to_polars().write_parquet)
        return len(table)

    def plot(self, kind: str = "latencies") -> Drawing:
        """Plot ``latencies`` (cumulative distribution of message times, one curve per job),
        ``links`` (load of each link of the busiest switches), or ``time`` (loads of ports over
        time, if samples were taken: ``record=softib.Record(…)``).

        Raises :class:`UnknownName` for another kind, :class:`InputError` if the run has no data to
        draw.
        """
        from softib.api.graph import Drawing
        from softib.render.html import styled
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
    def _details(self) -> RunResult:
        return self._plain.details

    def _latencies(self) -> list[tuple[str, Any]]:
        """Return latencies in µs, ascending, by job; with barriers, the times of phases."""
        import numpy as np

        if self._phases is not None:
            return [("phases", np.sort(self._phases.took_ps) / 1e6)]
        run = self._details
        took = run.took_ps
        return [(name, np.sort(took[(run.messages.job == k) & (took >= 0)]) / 1e6) for k, name in enumerate(run.jobs)]

    def __repr__(self) -> str:
        n = self._phases.flows if self._phases is not None else int((~self._details.messages.computes).sum())
        flaw = "" if self.good else ", not all completed"
        doubt = f", {' and '.join(self.agreement.missing)} may be off" if self.agreement.missing else ""
        return (
            f"<Simulation of {self.workload!r} on {self.fabric.name!r} ({self.layer}): {counted(n, 'message')} in "
            f"{self.simulated_us:,.3f} us{flaw}{doubt}>"
        )

    def _repr_html_(self) -> str:
        rows = {
            "workload": self.workload,
            "layer": self.layer,
            "tables": self.engine,
            "virtual time": f"{self.simulated_us:,.3f} µs",
            "took": f"{self.wall_s:.2f} s",
            **{f"latency {k}": f"{v:,.3f} µs" for k, v in self.percentiles_us.items()},
        }
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>"
            for k, v in rows.items()
        )
        return f"<table><caption><b>{html.escape(self.fabric.name)}</b></caption>{cells}</table>"
