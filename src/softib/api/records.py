"""Elements of results: findings, problems, changes, kinds of topology with their parameters, paths;
and workloads."""

from __future__ import annotations

from softib.analysis.path_explanation import Explanation
from softib.diags.finding import Finding
from softib.fabric.diff import Change
from softib.fabric.formats.base import Problem
from softib.fabric.topologies.params import Kind, Parameter
from softib.sm.dry_run import AttributeChange
from softib.workloads.workload import Workload

__all__ = ["AttributeChange", "Change", "Explanation", "Finding", "Kind", "Parameter", "Problem", "Workload"]
