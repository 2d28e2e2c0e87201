"""Types of the elements of results: findings, problems, changes, kinds of topology with their parameters, paths,
and workloads."""

from __future__ import annotations

from softib.analysis.path_explanation import Explanation
from softib.diags.finding import Finding
from softib.fabric.diff import Change
from softib.fabric.formats.base import Problem
from softib.fabric.topologies.params import Kind, Parameter
from softib.live.faults.replies import ActiveFault, ExpectedErrors, FaultedPlace, FaultReply
from softib.live.status import FabricStatus, JobTree, ManagerStatus, Moved
from softib.sm.dry_run import AttributeChange
from softib.workloads.workload import Workload

__all__ = [
    "ActiveFault",
    "AttributeChange",
    "Change",
    "ExpectedErrors",
    "Explanation",
    "FabricStatus",
    "FaultReply",
    "FaultedPlace",
    "Finding",
    "JobTree",
    "Kind",
    "ManagerStatus",
    "Moved",
    "Parameter",
    "Problem",
    "Workload",
]
