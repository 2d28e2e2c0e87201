"""Traffic in virtual time: a workload on a fabric, by one of the simulator's layers."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softib.api.fabric import Fabric, as_fabric, result_of
from softib.api.frames import frame
from softib.api.shown import Suggests
from softib.errors import InputError, UnknownName

if TYPE_CHECKING:
    import polars

    from softib.analysis.routed import Routed
    from softib.analysis.simulated import Simulated
    from softib.sim.fluid_phases import Phases
    from softib.workloads.workload import Workload

__all__ = ["Simulation", "simulate"]

TABLES = ("messages", "jobs", "ports")
CHANGES = ("engine", "ar", "cc", "network")
"""What ``what_if`` may change: the routing engine; adaptive routing and congestion control on or off; the network (``roce``, ``tcp``)."""
OF_PACKETS = {"ar": "adaptive_routing", "cc": "congestion_control"}
"""Change → option of the packet layer."""
SWITCHES = ("on", "off")
Progress = Callable[[int, int, int], None]
"""Called with messages (or phases) that ended, all of them, and the virtual time in ps."""


class Simulation(Suggests):
    """What a workload did on a fabric.

    ``fabric`` has the tables that were taken, ``simulated_us`` is virtual time, ``wall_s`` what the layer took. ``what_if`` is the same workload
    with something changed, where that was asked for.
    """

    def __init__(
        self,
        run: Simulated | None,
        fabric: Fabric,
        wall_s: float,
        head: Mapping[str, Any],
        phases: Phases | None = None,
    ):
        self._run, self.fabric, self.wall_s, self._head, self._phases = run, fabric, wall_s, dict(head), phases
        self.what_if: Simulation | None = None
        self.what_if_text = ""

    @property
    def workload(self) -> str:
        """The workload's name."""
        return str(self._head["workload"])

    @property
    def layer(self) -> str:
        """``static``, ``fluid`` or ``packet``."""
        return str(self._head["layer"])

    @property
    def engine(self) -> str:
        """Whose forwarding tables the run took."""
        return str(self._head["engine"])

    @property
    def good(self) -> bool:
        """Did every message complete?"""
        return self._run is None or self._run.ok

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
        return () if self._run is None else tuple(self._run.notes)

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

        return [] if self._run is None else [busy_port(p) for p in busy_ports(self._run)]

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

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """A self-contained page: figures, loads of links, latencies; with ``path`` written there too. Raises :class:`InputError`."""
        from softib.render.simulation_page import page

        text = page(self.to_json(), self._latencies(), self._loads())
        if path is not None:
            _write(path, lambda target: target.write_text(text, encoding="utf-8"))
        return text

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the messages (of phases: the phases) as a Parquet file. Raises :class:`InputError`, :class:`MissingLibrary`."""
        table = self.table("messages" if self._phases is None else "phases")
        _write(path, table.write_parquet)

    @property
    def _details(self) -> Simulated:
        if self._run is None:
            raise InputError("phases with barriers have no messages of their own; run the workload without barrier")
        return self._run

    def _latencies(self) -> Any:
        import numpy as np

        if self._phases is not None:
            return np.sort(self._phases.took_ps) / 1e6
        took = self._details.took_ps
        return np.sort(took[took >= 0]) / 1e6

    def _loads(self) -> Any:
        return None if self._run is None else self._run

    def __repr__(self) -> str:
        n = f"{self._phases.flows:,}" if self._phases is not None else f"{len(self._details.messages):,}"
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
    engine: str | None = None, lfts: str | os.PathLike[str] | None = None, seed: int = 0, what_if: str | None = None,
    progress: Progress | None = None, network: str = "infiniband", faults: Sequence[str | Mapping[str, Any]] | Mapping[str, Any] = (),
) -> Simulation:  # fmt: skip
    """Run ``workload`` (``permutation:2MB``, a YAML file of jobs, a :class:`~softib.workloads.workload.Workload`) on the fabric, in virtual
    time.

    A fabric without tables is brought up by the subnet manager, with ``engine``; ``lfts`` is a dump of tables instead. ``layer``: ``packet``,
    ``fluid`` or ``static``. ``what_if`` (``"engine=updn"``, ``"ar=on,cc=on"``) runs it once more with that changed: ``ar`` and
    ``cc`` are adaptive routing and congestion control of the packet layer. ``network`` (also a change of a what-if): ``infiniband``, or the same cables,
    switches and hosts as Ethernet with ``roce`` (RoCEv2, priority flow control, DCQCN) or ``tcp``, each with options such as
    ``"roce,pfc=off,gbps=100"``, of the packet layer.
    ``faults`` (packet layer) adds to those of the workload: lines such as
    ``"20us link-down leaf-1[3]"``, mappings, or what a workload file has: ``{"faults": […], "management": {"sm": "off"}}``. Raises :class:`UnknownName` and
    :class:`InputError`, one line each, where the question is wrong: no such pattern, more hosts than there are, no path.

    >>> import softib
    >>> tree = softib.generate("fat-tree", radix=4, levels=2)
    >>> softib.simulate(tree, "shift:1MB")
    <Simulation of 'shift:1MB' on 'fat-tree' (fluid): 8 messages in 22.253 us>
    """
    from softib.analysis.routed import check_choice
    from softib.analysis.simulated import run_layer
    from softib.routing.engine import ENGINES
    from softib.workloads.workload import read

    path = None if lfts is None else os.fspath(lfts)
    check_choice(engine, path)
    changes = _changes(what_if, layer)
    first = {} if network == "infiniband" else {"network": network}
    _check_network(first, layer)
    run_layer(layer)
    work = _with_faults(read(workload), faults)
    if work.phased is not None and layer != "fluid":
        raise InputError(f"barriers are answered by the fluid layer alone, not by {layer}")
    fabric = as_fabric(source)
    made = _run(fabric, work, layer, engine, path, seed, progress, first)
    if changes:
        other = changes.get("engine") or (made.engine if path is None and made.engine in ENGINES else None)
        made.what_if = _run(fabric, work, layer, other, None, seed, progress, first | changes)
        made.what_if_text = str(what_if)
    return made


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


def _changes(text: str | None, layer: str) -> dict[str, str]:
    """``engine=updn,ar=on`` as options."""
    from softib.analysis.routed import check_choice

    found: dict[str, str] = {}
    # A list of engines has commas of its own: what is no change of its own belongs to the value before.
    for part in [] if text is None else text.split(","):
        key, equals, value = (p.strip() for p in part.partition("="))
        if not equals and found and list(found)[-1] == "engine" and key:
            found["engine"] += f",{key}"
            continue
        if equals and found and list(found)[-1] == "network" and key not in CHANGES:
            found["network"] += f",{key}={value}"
            continue
        if not equals or not value:
            raise InputError(f"what-if {text!r}: write what changes, such as engine=updn or ar=on,cc=on")
        if key not in CHANGES:
            raise UnknownName("change of a what-if", key, CHANGES)
        if key in OF_PACKETS and layer != "packet":
            raise InputError(f"what-if {key}={value}: only packets know that; add --layer packet")
        if key in OF_PACKETS and value not in SWITCHES:
            raise UnknownName(f"value of {key}", value, SWITCHES)
        found[key] = value
    check_choice(found.get("engine"), None)
    _check_network(found, layer)
    return found


def _check_network(changes: Mapping[str, str], layer: str) -> None:
    """Raise :class:`UnknownName` or :class:`InputError` for a network that is none, or that ``layer`` does not know."""
    from softib.sim.packet.ethernet_options import network_of

    if "network" in changes:
        network_of(changes["network"])
        if layer != "packet":
            raise InputError(f"network {changes['network']}: only packets know that; add --layer packet")


def _settings(changes: Mapping[str, str]) -> dict[str, Any]:
    """The manager's options that changes to ``on`` mean."""
    found: dict[str, Any] = {}
    if changes.get("ar") == "on":
        found["adaptive_routing"] = "free"
    if changes.get("cc") == "on":
        found |= congestion_settings()
    return found


def congestion_settings() -> dict[str, Any]:
    """Congestion control that makes five senders along a chain share one sink fairly (Jain's index above 0.95, 0.9 of the link):
    OpenSM's options. The sources' table has entries of i / 8 packet times."""
    sls = range(16)
    return {
        "congestion_control": True, "cc_sw_cong_setting_control_map": "0x1f", "cc_sw_cong_setting_threshold": "8",
        "cc_sw_cong_setting_packet_size": "8", "cc_sw_cong_setting_marking_rate": "4", "cc_ca_cong_setting_control_map": "0xffff",
        "cc_ca_cong_setting_ccti_timer": ", ".join(f"{sl} 20" for sl in sls),
        "cc_ca_cong_setting_ccti_increase": ", ".join(f"{sl} 1" for sl in sls),
        "cc_cct": ",".join(f"3:{i}" for i in range(128)),
    }  # fmt: skip


def _run(
    fabric: Fabric, work: Workload, layer: str, engine: str | None, lfts: str | None, seed: int, progress: Progress | None,
    changes: Mapping[str, str] | None = None,
) -> Simulation:  # fmt: skip
    import time
    from contextlib import nullcontext
    from dataclasses import replace

    from softib.analysis.routed import routed
    from softib.analysis.simulated import simulated
    from softib.sim.packet.ethernet_options import network_of

    result, changes = result_of(fabric), changes or {}
    settings = _settings(changes)
    if settings:
        result = replace(result, extra={**result.extra, "sm": {**result.extra.get("sm", {}), **settings}})
    found: Routed = routed(result, engine, lfts, lambda _: nullcontext())
    named = found.part.tables or found.part.engine
    options: dict[str, Any] = {OF_PACKETS[key]: value == "on" for key, value in changes.items() if key in OF_PACKETS}
    if "network" in changes:
        options |= network_of(changes["network"])
    shown = Fabric(replace(result, fabric=found.fabric), fabric.source)
    head = {"workload": work.name, "layer": layer, "engine": named, "seed": seed}
    began = time.perf_counter()
    if work.phased is not None:
        phases = _phases(found.fabric, work, progress)
        return Simulation(None, shown, time.perf_counter() - began, head, phases)
    run = simulated(found, work, layer, engine=named, seed=seed, options=options, progress=progress)
    run.outcome.wall_s = time.perf_counter() - began
    return Simulation(run, shown, run.outcome.wall_s, head)


def _phases(fabric: Any, work: Workload, progress: Progress | None) -> Phases:
    """An all-to-all with barriers. It takes all hosts, and nothing but a size."""
    from softib.sim.fluid_phases import shift_phases

    job = work.phased
    assert job is not None
    odd = job.model_fields_set - {"pattern", "size", "barrier", "name"}
    if odd:
        raise InputError(
            f"{work.name}: an all-to-all with barriers takes all hosts by LID and a size; leave {min(odd)} out"
        )
    return shift_phases(fabric, job.size, progress=progress)


def _write(path: str | os.PathLike[str], write: Callable[[Path], Any]) -> None:
    try:
        write(Path(path))
    except OSError as error:
        raise InputError(f"{os.fspath(path)}: cannot write: {error.strerror or error}") from None
