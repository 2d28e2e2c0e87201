"""Turn a log of a benchmark into the description of a machine."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.api.arguments import Suggests
from softib.api.fabric import as_fabric, result_of
from softib.errors import InputError
from softib.plural import counted
from softib.result import HIDDEN, Result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from softib.analysis.calibration.calibration import Knob, Predict
    from softib.workloads.benchmark_logs.log import BenchmarkLog
    from softib.workloads.hosts import Hosts
    from softib.workloads.job import Job
    from softib.workloads.machine_file import MachineFile
    from softib.workloads.nccl.machine import Machine
    from softib.workloads.nccl_jobs import Nccl

__all__ = ["Calibration", "Constant", "calibrate"]


@dataclass(frozen=True)
class Constant(Result):
    """A constant of the machine."""

    name: str
    value: float
    before: float
    """Value without the log."""
    unit: str


@dataclass(frozen=True)
class Calibration(Suggests, Result):
    """A machine described by a log."""

    document = "calibrate"

    log: str
    program: str
    job: str
    """The workload that predicts the log."""
    nodes: int
    sizes: int
    """Number of rows of the log."""
    fitted: list[Constant]
    kept: list[Constant]
    """Constants that stay unchanged because fewer than two rows depend on them."""
    error_before: float
    """Mean error of the predictions before the fit. (``error_after``: after the fit.)"""
    error_after: float
    error_left_out: float
    """Mean error of the predictions if each half of the rows is predicted from a fit to the other half."""
    low: float
    """Nine of ten measurements are between ``low`` and ``high`` times the prediction; the factors come from these
    half widths."""
    high: float
    machine: dict[str, Any]
    """Content of the machine file, as data."""
    text: str = field(default="", metadata=HIDDEN)
    """The machine file in YAML."""

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the machine file. Raises :class:`InputError` if that fails."""
        from softib.whole_files import write_text

        write_text(path, self.text)

    def lines(self) -> list[str]:
        """Return the text: fitted values, unchanged values, and the errors."""
        value = lambda c: f"{c.value:,.4g} {c.unit}".rstrip()
        fitted = [f"fitted {c.name}: {value(c)} ({c.before:,.4g} without the log)" for c in self.fitted]
        kept = [f"kept {c.name}: {value(c)} (the sizes of the log do not depend on it)" for c in self.kept]
        return [
            f"{self.log} ({self.program}): {self.job} on {counted(self.nodes, 'node')}, {counted(self.sizes, 'size')}",
            *fitted,
            *kept,
            f"mean error {self.error_before:.1%} without the log, {self.error_after:.1%} with it; "
            f"{self.error_left_out:.1%} where each half of the sizes is predicted from the other",
            f"nine of ten measurements between {self.low:.2f} and {self.high:.2f} times the prediction, "
            "by these halves",
        ]

    def print(self) -> None:
        """Print the text of ``softib calibrate``."""
        print("\n".join(self.lines()))


def calibrate(
    log: str | os.PathLike[str], source: Any = None, *, workload: str = "", machine: str | os.PathLike[str] = ""
) -> Calibration:
    """Fit a machine to ``log``, which is of nccl-tests or an OSU benchmark.

    ``source``: the fabric on which it ran. Without it, logs of NCCL are taken as from the vendor's
    nodes of the GPU that they name. ``workload``: what ran and on which nodes
    (``nccl-all-gather,gpudirect=phb``, ``mpi-allreduce,ranks-per-host=8``), if the log does not
    state it. ``machine``: a machine file to start from. Raises :class:`InputError` and
    :class:`UnknownName`, one line each: not such a log, too few rows, unknown units, another
    collective.
    """
    from softib.workloads.benchmark_logs.log import read_log
    from softib.workloads.machine_file import MachineFile, read_machine
    from softib.workloads.nccl_jobs import Nccl
    from softib.workloads.workload import parse

    stated = parse(workload).jobs[0] if workload else None
    read = read_log(log, [stated.pattern_name] if stated is not None else [])
    job = parse(f"{read.pattern}:8").jobs[0] if stated is None else stated
    base = read_machine(machine) if machine else MachineFile()
    if isinstance(job, Nccl):
        return _of_nccl(read, job, source, base, os.fspath(machine))
    return _of_mpi(read, job, source, base)


def _of_nccl(log: BenchmarkLog, job: Nccl, source: Any, base: MachineFile, path: str) -> Calibration:
    from softib.analysis.calibration.calibration import Knob
    from softib.analysis.calibration.predicting import of_law, values_of
    from softib.workloads.hosts import hosts_of, rows_of
    from softib.workloads.machine_file import MachineFile
    from softib.workloads.nccl.job import machine_of_job

    job = _as_logged(log, job, path if base.gpu is not None else "")
    if source is None:
        hosts = _vendor_nodes(log, job)
    else:
        hosts = _of_log(log, job, hosts_of(_up(source)[0]))
    placed = machine_of_job(job, hosts.name, rows_of(job, hosts), hosts.gbps)
    node = placed.machine
    launch = "nccl.launch_volta" if node.gpu.index == 0 else "nccl.launch"
    rate = node.gpu_nic_gbps or node.nic_gbps
    knobs = (
        *(Knob(n, node.values[n.removeprefix("nccl.")], u) for n, u in ((launch, "us"), ("nccl.latency", ""))),
        *((Knob("nccl.host_launch", node.values["host_launch"], "us"),) if node.per_process > 1 else ()),
        Knob("gpu_nic_gbps", rate, "Gb/s", limit=True)
        if len(placed.adapters) > 1
        else Knob("nvlink_gbytes", node.gpu.nvlink_gbytes, "GB/s", limit=True),
    )

    def described(values: Mapping[str, float]) -> MachineFile:
        nccl = {k.removeprefix("nccl."): v for k, v in values.items() if k.startswith("nccl.")}
        plain = {k: v for k, v in values.items() if not k.startswith("nccl.")}
        return MachineFile.model_validate({"nccl": {**node.constants, **nccl}, **plain})

    predict = lambda values: values_of(log, job, of_law(job, hosts, described(values)))
    content = lambda values: {**_described_node(node), **described(values).model_dump(exclude_defaults=True)}
    return _calibration(log, job, hosts, base, knobs, predict, content)


def _as_logged(log: BenchmarkLog, job: Nccl, path: str) -> Nccl:
    """Return ``job`` with the log's GPUs, processes and version, if the job does not state them."""
    stated = job.model_fields_set
    changes: dict[str, Any] = {}
    if "machine" not in stated and (path or log.gpu):
        changes["machine"] = path or log.gpu
    if "gpus" not in stated and log.nodes:
        if log.ranks % log.nodes:
            raise InputError(
                f"{log.path}: {log.ranks:,} GPUs cannot be spread evenly over {counted(log.nodes, 'node')}"
            )
        changes["gpus"] = log.ranks // log.nodes
    if "per_process" not in stated and log.per_process > 1:
        changes["per_process"] = log.per_process
    if "nccl" not in stated and log.version:
        changes["nccl"] = log.version
    return job.model_copy(update=changes)


def _vendor_nodes(log: BenchmarkLog, job: Nccl) -> Hosts:
    """Return the log's nodes, each with the adapters of its machine."""
    from softib.sim.packet.profiles import PROFILES, ethernet_generation
    from softib.workloads.hosts import Hosts
    from softib.workloads.nccl.machine import machine_of

    if not log.nodes or job.machine is None:
        raise InputError(
            f"{log.path} does not list devices ('# Rank 0 … on HOST device …'); add --source FABRIC and "
            f"--workload {log.pattern},machine=a100"
        )
    node = machine_of(job.machine)
    names = tuple(f"node-{n + 1} {k}" for n in range(log.nodes) for k in range(job.nics or node.nics))
    rows = np.arange(len(names))
    hosts = Hosts(rows, names, np.zeros(len(names), np.int64), np.full(len(names), node.nic_gbps))
    hosts.__dict__["profile"] = PROFILES[ethernet_generation(node.nic_gbps)]
    return hosts


def _of_log(log: BenchmarkLog, job: Nccl, hosts: Hosts) -> Hosts:
    """Return ``hosts`` for the log's nodes: the first hosts if ``job`` names none."""
    from softib.workloads.hosts import rows_of
    from softib.workloads.nccl.net_ib import nodes_of

    if not log.nodes or job.hosts is not None:
        return hosts
    adapters = nodes_of(hosts.name, rows_of(job, hosts), job.nics)
    if len(adapters) < log.nodes:
        raise InputError(f"{log.path} ran on {counted(log.nodes, 'node')}; the fabric has {len(adapters):,}")
    rows = adapters[: log.nodes].reshape(-1)
    return replace(
        hosts,
        end=hosts.end[rows],
        name=tuple(hosts.name[r] for r in rows.tolist()),
        switch=hosts.switch[rows],
        gbps=hosts.gbps[rows],
    )


def _described_node(node: Machine) -> dict[str, Any]:
    """Return the keys of a machine file that describe ``node``."""
    keys = ("gpus", "nics", "nic_gbps", "cpu", "gpudirect")
    return {"gpu": node.gpu.name, **{key: getattr(node, key) for key in keys}}


def _of_mpi(log: BenchmarkLog, job: Job, source: Any, base: MachineFile) -> Calibration:
    from softib.analysis.calibration.calibration import Knob
    from softib.analysis.calibration.predicting import Simulated, values_of
    from softib.workloads.hosts import hosts_of

    if source is None:
        raise InputError(f"{log.path}: an OSU log does not describe the hosts and links; add --source FABRIC")
    arrays, tables, engine, costs = _up(source)
    costs = {**costs, **base.hosts}
    hosts = hosts_of(arrays, costs)
    names = {"mpi-latency": ("program_ns",), "mpi-bandwidth": ("post_ns",)}.get(
        log.pattern, ("program_ns", "copy_gbytes") if getattr(job, "ranks_per_host", 1) > 1 else ("program_ns",)
    )
    knobs = tuple(Knob(f"hosts.{n}", getattr(hosts.profile, n), "GB/s" if n == "copy_gbytes" else "ns") for n in names)
    figures = lambda values: {k.removeprefix("hosts."): v for k, v in values.items()}

    def predict(values: Mapping[str, float]) -> np.ndarray:
        return values_of(log, job, Simulated(tables, engine, hosts={**costs, **figures(values)}))

    return _calibration(log, job, hosts, base, knobs, predict, lambda values: {"hosts": {**costs, **figures(values)}})


def _up(source: Any) -> Any:
    """Return (fabric with LIDs, its tables, the engine that computed them, the hosts' costs of messages) for
    ``source``."""
    from contextlib import nullcontext

    from softib.analysis.routed import routed

    result = result_of(as_fabric(source))
    tables = routed(result, None, None, lambda _: nullcontext())
    return tables.fabric, tables, tables.part.tables, dict(result.extra.get("hosts", {}))


def _calibration(
    log: BenchmarkLog,
    job: Job,
    hosts: Hosts,
    base: MachineFile,
    knobs: tuple[Knob, ...],
    predict: Predict,
    content: Any,
) -> Calibration:
    """Fit the machine and build its file from ``base``, the fitted constants in ``content``, and
    the log as measurements."""
    import yaml

    from softib.analysis.calibration.calibration import calibrated, half_width
    from softib.api.simulation.against import dataset_of, nodes_of_log
    from softib.workloads.machine_file import MachineFile, Measured

    nodes = nodes_of_log(log, job, hosts)
    fit = calibrated(log, knobs, predict)
    error = lambda ratios: float(np.mean(np.abs(np.exp(-ratios) - 1)))
    half = half_width(fit.left_out)
    row = dataset_of(log, job, hosts, nodes, round(error(fit.left_out), 4), round(half, 4))
    measured = [m for m in base.measured if (m.name, m.what) != (row.name, row.what)] + [
        Measured.model_validate(vars(row))
    ]
    values = {name: float(f"{value:.5g}") for name, value in fit.values.items()}
    file = _merged(base, MachineFile.model_validate(content(values)), measured)
    text = f"# softib calibrate: {job.pattern_name} on {counted(nodes, 'node')}, from {log.path}\n"
    constant = {k.name: Constant(k.name, values.get(k.name, k.now), k.now, k.unit) for k in knobs}
    return Calibration(
        log=log.path,
        program=log.program,
        job=job.pattern_name,
        nodes=nodes,
        sizes=len(log.rows),
        fitted=[constant[name] for name in fit.values],
        kept=[constant[name] for name in fit.kept],
        error_before=error(fit.before),
        error_after=error(fit.after),
        error_left_out=error(fit.left_out),
        low=float(np.exp(-half)),
        high=float(np.exp(half)),
        machine=file,
        text=text + yaml.safe_dump(file, sort_keys=False, default_flow_style=None),
    )


def _merged(base: MachineFile, file: MachineFile, measured: list[Any]) -> dict[str, Any]:
    """Return ``base`` with the keys of ``file``, and the measurements."""
    old, new = (m.model_dump(mode="json", exclude_defaults=True) for m in (base, file))
    both = {**old, **new, "nccl": {**old.get("nccl", {}), **new.get("nccl", {})}}
    both["hosts"] = {**old.get("hosts", {}), **new.get("hosts", {})}
    both["measured"] = [m.model_dump(mode="json", exclude_defaults=True) for m in measured]
    return {key: value for key, value in both.items() if value not in ({}, [])}
