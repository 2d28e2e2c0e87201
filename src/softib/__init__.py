"""softib: InfiniBand in software.

>>> import softib
>>> fabric = softib.generate("fat-tree", radix=4, levels=2)
>>> softib.check(fabric)
<Findings: none>

Importing this package loads neither NumPy nor Numba; each name below is loaded on first use. The names in
``__all__`` and the behaviour described in their docstrings are stable: a release that changes
one announces it before, in the changelog. Every other module is internal to softib.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from softib.errors import (
    InputError,
    LimitError,
    MadTimeout,
    MissingLibrary,
    PeerError,
    SoftibBug,
    SoftibError,
    SoftibWarning,
    TopologyError,
    UnknownFormat,
    UnknownName,
    UnreadableFile,
)

if TYPE_CHECKING:
    from softib.api.acceptance.accepting import accept
    from softib.api.acceptance.baselines import Baseline, baseline
    from softib.api.acceptance.coverage import Coverage
    from softib.api.acceptance.covering import cover
    from softib.api.acceptance.result import Acceptance
    from softib.api.audit import Audit, audit
    from softib.api.fabric import Fabric, generate, load, running, topologies
    from softib.api.findings import Findings
    from softib.api.graph import Drawing
    from softib.api.labs.lab import Lab, LabCheck, lab, labs
    from softib.api.machine import compile_kernels, doctor
    from softib.api.manager.configuration import ConfigCheck, check_config
    from softib.api.manager.managing import PlannedChanges, UmadManager
    from softib.api.manager.several import UmadManagers
    from softib.api.monitor.diagnosing import Jobs, diagnose, jobs_on
    from softib.api.monitor.exporting import Exporter, ExporterOptions, Shard
    from softib.api.monitor.fault_ledger import FaultLedger, fault_ledger, forget_down, record_repair
    from softib.api.monitor.isolating import Isolation, IsolationLedger, isolate, isolations, release_isolated
    from softib.api.monitor.observing import Observed, TopView, observe
    from softib.api.monitor.why import why
    from softib.api.node import Node
    from softib.api.node_check import NodeCheck, node_check
    from softib.api.operations import bring_up, check, diff, engines, predict, report, route, verify
    from softib.api.planning.advice import Advice, Facts, advise, kind_of
    from softib.api.planning.cables import CablePlan, plan_cables
    from softib.api.planning.cost import Cost, plan_cost
    from softib.api.planning.design import Demand, Designs, plan_design
    from softib.api.planning.devices import Devices, devices
    from softib.api.planning.growth import Growth, plan_growth
    from softib.api.progress import on_compiling
    from softib.api.records import (
        ActiveFault,
        AttributeChange,
        Change,
        ExpectedErrors,
        Explanation,
        FabricStatus,
        FaultedPlace,
        FaultReply,
        Finding,
        JobTree,
        Kind,
        ManagerStatus,
        Moved,
        Parameter,
        Problem,
    )
    from softib.api.results import Changes, Prediction, Report
    from softib.api.routing import Remedy, Routing
    from softib.api.running.attach import Attachment
    from softib.api.running.ci import CiRun, ci
    from softib.api.running.running import RunningFabric, running_fabrics, stale_fabrics
    from softib.api.running.serving import Server, Starter, up
    from softib.api.simulation.calibration import Calibration, calibrate
    from softib.api.simulation.comparison import Comparison, compare
    from softib.api.simulation.replay import Replay, replay
    from softib.api.simulation.result import Simulation
    from softib.api.simulation.simulate import Record, scaling, simulate
    from softib.api.stack import Stack, stack, stack_collector
    from softib.api.storage.disk import NvmeDisk, nvme_connect, nvme_discover
    from softib.api.storage.records import NvmeBench, NvmeTransfer
    from softib.api.storage.target import NvmeTarget
    from softib.api.sweep.sweep import Sweep, sweep
    from softib.api.table import Table
    from softib.api.tenants import TenantOptions, serve_tenants
    from softib.api.web import serve
    from softib.workloads.workload import Workload

__version__ = "0.1.0"

_LAZY = {
    **dict.fromkeys(("Fabric", "generate", "load", "running", "topologies"), "fabric"),
    **dict.fromkeys(("bring_up", "check", "diff", "engines", "predict", "report", "route", "verify"), "operations"),
    **dict.fromkeys(("ConfigCheck", "check_config"), "manager.configuration"),
    **dict.fromkeys(("PlannedChanges", "UmadManager"), "manager.managing"),
    "UmadManagers": "manager.several",
    **dict.fromkeys(("CablingList", "cabling_list"), "cabling"),
    **dict.fromkeys(("Changes", "Prediction", "Report"), "results"),
    **dict.fromkeys(("Remedy", "Routing"), "routing"),
    **dict.fromkeys(("Replay", "replay"), "simulation.replay"),
    **dict.fromkeys(("RunningFabric", "running_fabrics", "stale_fabrics"), "running.running"),
    "Attachment": "running.attach",
    **dict.fromkeys(("CiRun", "ci"), "running.ci"),
    "accept": "acceptance.accepting",
    "cover": "acceptance.covering",
    "Coverage": "acceptance.coverage",
    "Acceptance": "acceptance.result",
    **dict.fromkeys(("Baseline", "baseline"), "acceptance.baselines"),
    **dict.fromkeys(("Server", "Starter", "up"), "running.serving"),
    "serve": "web",
    **dict.fromkeys(("Audit", "audit"), "audit"),
    **dict.fromkeys(("TenantOptions", "serve_tenants"), "tenants"),
    **dict.fromkeys(("Exporter", "ExporterOptions", "Shard"), "monitor.exporting"),
    **dict.fromkeys(("FaultLedger", "fault_ledger", "forget_down", "record_repair"), "monitor.fault_ledger"),
    **dict.fromkeys(("Observed", "TopView", "observe"), "monitor.observing"),
    "why": "monitor.why",
    "on_compiling": "progress",
    **dict.fromkeys(("Demand", "Designs", "plan_design"), "planning.design"),
    **dict.fromkeys(("CablePlan", "plan_cables"), "planning.cables"),
    **dict.fromkeys(("Cost", "plan_cost"), "planning.cost"),
    **dict.fromkeys(("Advice", "Facts", "advise", "kind_of"), "planning.advice"),
    **dict.fromkeys(("Devices", "devices"), "planning.devices"),
    **dict.fromkeys(("Growth", "plan_growth"), "planning.growth"),
    **dict.fromkeys(("Lab", "LabCheck", "lab", "labs"), "labs.lab"),
    **dict.fromkeys(("compile_kernels", "doctor"), "machine"),
    **dict.fromkeys(("AttributeChange", "Change", "Explanation", "Finding", "Kind", "Parameter", "Problem"), "records"),
    **dict.fromkeys(("FabricStatus", "JobTree", "ManagerStatus", "Moved"), "records"),
    **dict.fromkeys(("ActiveFault", "ExpectedErrors", "FaultReply", "FaultedPlace"), "records"),
    **dict.fromkeys(("Calibration", "calibrate"), "simulation.calibration"),
    **dict.fromkeys(("Comparison", "compare"), "simulation.comparison"),
    **dict.fromkeys(("Jobs", "diagnose", "jobs_on"), "monitor.diagnosing"),
    **dict.fromkeys(("Isolation", "IsolationLedger", "isolate", "isolations", "release_isolated"), "monitor.isolating"),
    **dict.fromkeys(("Record", "scaling", "simulate"), "simulation.simulate"),
    "Simulation": "simulation.result",
    **dict.fromkeys(("Sweep", "sweep"), "sweep.sweep"),
    **dict.fromkeys(("NvmeBench", "NvmeTransfer"), "storage.records"),
    **dict.fromkeys(("NvmeDisk", "nvme_connect", "nvme_discover"), "storage.disk"),
    "NvmeTarget": "storage.target",
    "Drawing": "graph",
    "Table": "table",
    "Node": "node",
    **dict.fromkeys(("NodeCheck", "node_check"), "node_check"),
    **dict.fromkeys(("Stack", "stack", "stack_collector"), "stack"),
    "Findings": "findings",
    "Workload": "records",
}
"""Module of :mod:`softib.api` that has each name."""

__all__ = [
    "Acceptance",
    "ActiveFault",
    "Advice",
    "Attachment",
    "AttributeChange",
    "Audit",
    "Baseline",
    "CablePlan",
    "CablingList",
    "Calibration",
    "Change",
    "Changes",
    "CiRun",
    "Comparison",
    "ConfigCheck",
    "Cost",
    "Coverage",
    "Demand",
    "Designs",
    "Devices",
    "Drawing",
    "ExpectedErrors",
    "Explanation",
    "Exporter",
    "ExporterOptions",
    "Fabric",
    "FabricStatus",
    "Facts",
    "FaultLedger",
    "FaultReply",
    "FaultedPlace",
    "Finding",
    "Findings",
    "Growth",
    "InputError",
    "Isolation",
    "IsolationLedger",
    "JobTree",
    "Jobs",
    "Kind",
    "Lab",
    "LabCheck",
    "LimitError",
    "MadTimeout",
    "ManagerStatus",
    "MissingLibrary",
    "Moved",
    "Node",
    "NodeCheck",
    "NvmeBench",
    "NvmeDisk",
    "NvmeTarget",
    "NvmeTransfer",
    "Observed",
    "Parameter",
    "PeerError",
    "PlannedChanges",
    "Prediction",
    "Problem",
    "Record",
    "Remedy",
    "Replay",
    "Report",
    "Routing",
    "RunningFabric",
    "Server",
    "Shard",
    "Simulation",
    "SoftibBug",
    "SoftibError",
    "SoftibWarning",
    "Stack",
    "Starter",
    "Sweep",
    "Table",
    "TenantOptions",
    "TopView",
    "TopologyError",
    "UmadManager",
    "UmadManagers",
    "UnknownFormat",
    "UnknownName",
    "UnreadableFile",
    "Workload",
    "__version__",
    "accept",
    "advise",
    "audit",
    "baseline",
    "bring_up",
    "cabling_list",
    "calibrate",
    "check",
    "check_config",
    "ci",
    "compare",
    "compile_kernels",
    "cover",
    "devices",
    "diagnose",
    "diff",
    "doctor",
    "engines",
    "fault_ledger",
    "forget_down",
    "generate",
    "isolate",
    "isolations",
    "jobs_on",
    "kind_of",
    "lab",
    "labs",
    "load",
    "node_check",
    "nvme_connect",
    "nvme_discover",
    "observe",
    "on_compiling",
    "plan_cables",
    "plan_cost",
    "plan_design",
    "plan_growth",
    "predict",
    "record_repair",
    "release_isolated",
    "replay",
    "report",
    "route",
    "running",
    "running_fabrics",
    "scaling",
    "serve",
    "serve_tenants",
    "simulate",
    "stack",
    "stack_collector",
    "stale_fabrics",
    "sweep",
    "topologies",
    "up",
    "verify",
    "why",
]


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _LAZY:
        from softib.errors import nearest

        similar = nearest(name, __all__)
        hint = f"; did you mean {', '.join(similar)}?" if similar and not name.startswith("_") else ""
        raise AttributeError(f"module 'softib' has no attribute {name!r}{hint}")
    found = getattr(importlib.import_module(f"softib.api.{_LAZY[name]}"), name)
    return found if isinstance(found, type) else importlib.import_module("softib.api.arguments").checked(found)


def __dir__() -> list[str]:
    return sorted(set(__all__) | set(globals()))
