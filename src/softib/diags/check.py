"""Runs every check on a fabric: one call returns a list of findings, the worst first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from softib.diags.cables.counters import error_counters, lost_links, stated_bit_errors
from softib.diags.cables.links import inactive_links, slow_links
from softib.diags.cables.modules import fec_modes, module_readings
from softib.diags.cabling_plan.compare import compare
from softib.diags.cabling_plan.plan_on_fabric import PlanComparison
from softib.diags.context import Context, SubnetTables
from softib.diags.finding import CODES, Code, Finding, Severity, code, finding
from softib.diags.hosts.swapped_host_checks import hosts_out_of_order, leaves_out_of_order, rail_mismatches
from softib.diags.hosts.unlinked_ports import unlinked_hca_ports
from softib.diags.identity import (
    cable_records,
    duplicate_descriptions,
    duplicate_guids,
    isolated_parts,
    lid_faults,
)
from softib.diags.managers.routing_checks import (
    OF_TABLES,
    credit_loops,
    uneven_load,
    unfit_for_ftree,
    unreachable_ends,
    unreachable_from_switches,
)
from softib.diags.managers.sm_checks import subnet_managers
from softib.diags.source_reports import source_reports
from softib.diags.structure.absent_checks import absent_nodes
from softib.diags.structure.exchanged.port_order import exchanged_ports
from softib.diags.structure.join_checks import missing_joins, unexplained_cables, unjudged_shapes
from softib.diags.structure.odd_cable_checks import extra_cables, same_tier_cables, switches_out_of_place
from softib.diags.structure.one_fault import one_each
from softib.diags.structure.recognise import Structure
from softib.diags.structure.structure_checks import (
    exchanged_between_tiers,
    missing_cables,
    pattern_breaks,
    unjudged_cables,
)
from softib.diags.structure.subnets import subnets_apart
from softib.diags.structure.uneven_checks import uneven_tiers
from softib.diags.view import FabricView
from softib.errors import InputError
from softib.extensions import Extension, blamed_on, extensions
from softib.fabric.formats.base import alike
from softib.fabric.formats.cabling.plan import CablingPlan
from softib.fabric.model import Fabric
from softib.plural import counted

# Modules outside of CHECKS declare their codes when imported.
from softib.diags.acceptance import codes as _acceptance_codes  # noqa: F401  isort: skip
from softib.diags.cable_rules import job_traffic as _job_traffic, judge as _rules_over_time  # noqa: F401  isort: skip
from softib.diags.hardening import options as _hardening  # noqa: F401  isort: skip
from softib.diags.managers import manager_health as _manager_health  # noqa: F401  isort: skip

__all__ = ["CHECKS", "CODES", "CheckedStructure", "check", "check_structure", "finding_codes"]

UNREADABLE_RECORDS = code(
    "unreadable-records",
    Severity.WARNING,
    "records of a file (the source, a plan, a dump) could not be used",
    "softib check lists file, line and reason of each; correct the file",
)


def unreadable_records(c: Context) -> Iterator[Finding]:
    """Report each file with unusable records that no other check reports. The records are also listed separately from
    the findings.
    """
    files: dict[str, list[list[Any]]] = {}
    for group in alike(p for p in c.problems if not p.code):
        files.setdefault(group[0].file, []).append(group)
    for file, groups in files.items():
        n, most = sum(map(len, groups)), max(groups, key=len)
        place = f", line {most[0].line}" if most[0].line else ""
        which = "it stands" if n == 1 else "they stand"
        which += (
            f"; {len(most)} like the first{place}" if 1 < len(most) < n else f"; the first{place}" if n > 1 else place
        )
        yield finding(
            UNREADABLE_RECORDS,
            [],
            f"{counted(n, 'record')} of {file} could not be used as {which}: {most[0].reason}",
            {
                "problems": n,
                "file": file,
                "kinds": [{"first": str(g[0]), "lines": [p.line for p in g]} for g in groups],
            },
        )


CHECKS = (
    absent_nodes,
    stated_bit_errors,
    error_counters,
    duplicate_guids,
    duplicate_descriptions,
    lid_faults,
    cable_records,
    isolated_parts,
    unlinked_hca_ports,
    subnets_apart,
    inactive_links,
    slow_links,
    module_readings,
    fec_modes,
    unreachable_ends,
    unreachable_from_switches,
    credit_loops,
    uneven_load,
    unfit_for_ftree,
    subnet_managers,
    source_reports,
    switches_out_of_place,
    pattern_breaks,
    missing_cables,
    missing_joins,
    exchanged_between_tiers,
    same_tier_cables,
    extra_cables,
    uneven_tiers,
    exchanged_ports,
    hosts_out_of_order,
    leaves_out_of_order,
    rail_mismatches,
    unjudged_cables,
    unjudged_shapes,
    unexplained_cables,
    lost_links,
    unreadable_records,
)
"""The checks in the order in which they run. Each takes a :class:`~softib.diags.context.Context` and returns findings.
Later checks skip cables that earlier checks reported. Checks of installed packages run last.
"""


@cache
def foreign_checks() -> Mapping[str, Extension]:
    """Return the checks of installed packages by name. Each is an entry point of the group ``softib.checks``: a
    function like those of :data:`CHECKS`, whose module declares its codes with :func:`softib.diags.finding.code` when
    it is imported. Warns about checks that cannot be used.
    """

    def function(name: str, value: Any) -> None:
        if not callable(value) or isinstance(value, type):
            raise InputError("it is not a function from a softib.diags.context.Context to findings")

    return extensions("softib.checks", {check.__name__ for check in CHECKS}, function)


def finding_codes() -> Mapping[str, Code]:
    """Return all finding codes by name, including those of installed packages."""
    foreign_checks()
    return CODES


def _foreign_findings(context: Context) -> Iterator[Finding]:
    """Return the findings of checks from installed packages. Raises :class:`InputError` if such a check fails."""
    for one in foreign_checks().values():
        with blamed_on(one.package, f"check {one.name}"):
            for each in one.value(context):
                if not isinstance(each, Finding) or each.code not in CODES:
                    raise TypeError(f"it returned {each!r}, not a finding of a declared code")
                yield each


def check(
    fabric: Fabric,
    *,
    problems: Sequence[Any] = (),
    tables: Sequence[SubnetTables] = (),
    remedy: Any = None,
    plan: CablingPlan | PlanComparison | None = None,
    sms: Sequence[dict[str, Any]] | None = None,
    records: frozenset[str] | None = None,
    structure: Structure | None = None,
) -> list[Finding]:
    """Return all findings about ``fabric``. Each fault is reported once. The most severe findings come first; findings
    of one severity are in the order of the checks.

    ``problems``: records that the reader of the source could not use. ``tables``: forwarding tables of each subnet.
    ``remedy``: changes after which ftree can route the first tree (``report.remedy.FtreeUnfit``). ``plan``: a plan to
    compare every cable with (or the result of :func:`~softib.diags.cabling_plan.compare.compare`). ``sms``: subnet
    managers of a live fabric (default: ``fabric.source.sms``). ``records`` replaces the source's list of recorded data
    (after bring-up: add ``lids``, ``states``). ``structure``: result of
    :func:`~softib.diags.structure.recognise.recognise` (default: computed here).
    """
    first, *others = tables or (SubnetTables(),)
    context = _context(fabric, records, structure, problems=problems, sms=sms, remedy=remedy, **vars(first))
    findings = [f for function in CHECKS for f in function(context)]
    for other in others:
        same = replace(context, remedy=None, **vars(other))
        findings += [f for function in OF_TABLES for f in function(same)]
    findings += _foreign_findings(context)
    compared = compare(fabric, plan) if isinstance(plan, CablingPlan) else plan
    return one_each(findings, compared)


class CheckedStructure(NamedTuple):
    """The findings of a fabric, and its recognised structure."""

    findings: list[Finding]
    structure: Structure


def check_structure(fabric: Fabric, **options: Any) -> CheckedStructure:
    """Return the findings of :func:`check` and the structure that it recognised."""
    from softib.diags.structure.recognise import recognise

    structure = options.pop("structure", None) or recognise(fabric)
    return CheckedStructure(check(fabric, structure=structure, **options), structure)


def _context(fabric: Fabric, records: frozenset[str] | None, structure: Structure | None, **options: Any) -> Context:
    context = Context(FabricView(fabric, records), **options)
    if structure is not None:
        context.__dict__["structure"] = structure  # fill the cached property
    return context
