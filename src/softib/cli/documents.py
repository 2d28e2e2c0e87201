"""The documents that ``--json`` prints, each with the result from which it is made."""

from __future__ import annotations

import functools
import importlib
import operator
from typing import Any, Literal

from softib.result import json_type, schema_id

__all__ = ["DOCUMENTS", "model_of"]

DOCUMENTS: dict[str, str] = {
    "advise": "api.planning.advice:Recommendation",
    "audit": "api.audit:AuditResult",
    "accept": "api.acceptance.result:Acceptance",
    "accept-cover": "api.acceptance.coverage:Coverage",
    "baseline": "api.acceptance.baselines:BaselineComparison",
    "baseline-record": "api.acceptance.baselines:RecordedBaseline",
    "calibrate": "api.simulation.calibration:Calibration",
    "check": "analysis.model:CheckResult",
    "ci": "api.running.ci_result:CiRun",
    "compare": "analysis.simulation.networks:NetworkComparison",
    "compile": "cli.itself.installation:Compiled",
    "convert": "cli.look.convert:Converted",
    "convert-explain": "fabric.formats.cabling.explain:PlanReading",
    "diff": "api.results:Changes",
    "doctor": "live.launch.doctor:Machine",
    "down": "cli.run.up:Down",
    "fault": "live.faults.replies:FaultReply",
    "forget": "api.monitor.fault_ledger:Forgotten",
    "generate": "cli.look.generate:Kinds",
    "isolate": "api.monitor.isolating:Isolation",
    "isolate-ledger": "api.monitor.isolating:IsolationLedger",
    "ledger": "api.monitor.fault_ledger:FaultLedger",
    "lab": "api.labs.lab:Lab",
    "lab-check": "api.labs.lab:LabCheck",
    "labs": "cli.run.lab:Laboratories",
    "listening": "cli.shared.output:Listening",
    "nvme-bench": "api.storage.records:NvmeBench",
    "nvme-discover": "api.storage.records:NvmeDiscovery",
    "nvme-list": "api.storage.records:NvmeSubsystem",
    "nvme-transfer": "api.storage.records:NvmeTransfer",
    "plan-cables": "api.planning.cables:CableList",
    "plan-cost": "api.planning.cost:CostSheet",
    "plan-design": "api.planning.design:DesignComparison",
    "plan-devices": "plan.device_records:DeviceCatalogue",
    "plan-grow": "api.planning.growth:AddedHosts",
    "plan-quote": "api.planning.cables:QuoteCheck",
    "node-check": "api.node_check:NodeCheck",
    "path": "analysis.path_explanation:Explanation",
    "replay": "api.simulation.replay:Replay",
    "report": "analysis.model:Report",
    "route": "analysis.model:Route",
    "simulate": "api.simulation.figures:RunFigures",
    "sm": "live.status:ManagerStatus",
    "sm-config": "api.manager.configuration:ConfigCheck",
    "sm-explain": "analysis.path_explanation:Explanation",
    "sm-job": "live.status:JobTree",
    "sm-run": "api.manager.managing:SmRun api.manager.managing:PlannedChanges api.manager.several:SmRunPorts",
    "stack": "api.stack:Stack",
    "status": "live.status:Status",
    "sweep": "api.sweep.sweep:Sweep",
    "target": "api.storage.records:TargetDescription",
    "top": "render.top:Top",
    "why": "analysis.jobs.why:Why",
}
"""Document of ``--json`` → module and class of its result, or several classes if the document has several forms.
"""


def model_of(name: str) -> Any:
    """Return the type of the document ``name``, for pydantic."""
    models = []
    for one in DOCUMENTS[name].split():
        module, _, cls = one.partition(":")
        model = getattr(importlib.import_module(f"softib.{module}"), cls)
        models.append(json_type(model, schema=Literal[schema_id(name)]))
    return functools.reduce(operator.or_, models)
