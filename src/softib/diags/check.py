"""Every check over a fabric: one call, a list of findings, the worst first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

# Importing a family registers its checks, in the order in which they run.
# isort: off
from softib.diags.structure import absent_checks as _absent_checks  # noqa: F401
from softib.diags.cables import bit_error_ratios as _bit_error_ratios, counters as _counters  # noqa: F401
from softib.diags import identity as _identity  # noqa: F401
from softib.diags.structure import subnets as _subnets  # noqa: F401
from softib.diags.cables import links as _links, modules as _modules  # noqa: F401
from softib.diags.managers import routing_checks as _routing_checks, sl_checks as _sl_checks, sm_checks as _sm_checks  # noqa: F401
from softib.diags import source_reports as _source_reports  # noqa: F401
from softib.diags.structure import structure_checks as _structure_checks  # noqa: F401
from softib.diags.hosts import swapped_host_checks as _swapped_host_checks  # noqa: F401
# isort: on

from softib.diags.acceptance import codes as _acceptance_codes  # noqa: F401
from softib.diags.cable_rules import judge as _rules_over_time  # noqa: F401  (declares their codes)
from softib.diags.cabling_plan.compare import compare
from softib.diags.cabling_plan.result import PlanComparison
from softib.diags.finding import Finding, Severity
from softib.diags.managers import manager_health as _manager_health  # noqa: F401  (declares its codes)
from softib.diags.registry import CHECKS, CODES, Context, check_function, code, finding
from softib.diags.structure.one_fault import one_each
from softib.diags.structure.recognise import Structure
from softib.diags.view import FabricView
from softib.fabric.formats.base import alike
from softib.fabric.formats.cabling.plan import CablingPlan
from softib.fabric.model import Fabric
from softib.plural import counted

__all__ = ["CHECKS", "CODES", "check", "check_structure"]

UNREADABLE_RECORDS = code(
    "unreadable-records",
    Severity.WARNING,
    "records of a file (the source, a plan, a dump) could not be used as they stand",
    "softib check lists file, line and reason of each; correct them there",
)


@check_function
def unreadable_records(c: Context) -> Iterator[Finding]:
    """One finding for each file with problems of which no other check makes a finding; each of them
    is listed in addition to the findings."""
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


def check(
    fabric: Fabric,
    *,
    problems: Sequence[Any] = (),
    proof: Any = None,
    quality: Any = None,
    graph: Any = None,
    remedy: Any = None,
    plan: CablingPlan | PlanComparison | None = None,
    sms: Sequence[dict[str, Any]] | None = None,
    records: frozenset[str] | None = None,
    structure: Structure | None = None,
    others: Sequence[Mapping[str, Any]] = (),
) -> list[Finding]:
    """All findings about ``fabric``, each fault once, the most severe first, else in the order of
    the checks.

    ``problems`` of the reader; ``proof`` (``routing.verify.Proof``), ``quality``
    (``routing.quality.Balance``) and the ``graph`` that their rows belong to (None: rows are the
    fabric's switches); ``remedy``: what the tree needs for ftree (``report.remedy.FtreeUnfit``);
    ``plan``: compare every cable (or what :func:`~softib.diags.cabling_plan.compare.compare`
    found); ``sms``: subnet managers of a live fabric (else ``fabric.source.sms``); ``records``
    overrides what the source recorded (after bring-up: add ``lids``, ``states``); ``structure``
    from :func:`~softib.diags.structure.recognise.recognise`, if at hand; ``others``:
    ``proof``, ``quality`` and ``graph`` of each other subnet that has tables of its own.
    """
    context = _context(
        fabric, records, structure, problems=problems, proof=proof, quality=quality, graph=graph, sms=sms, remedy=remedy
    )
    found = [f for function in CHECKS.values() for f in function(context)]
    for other in others:
        same = replace(context, remedy=None, **other)
        found += [f for function in _routing_checks.OF_TABLES for f in function(same)]
    compared = compare(fabric, plan) if isinstance(plan, CablingPlan) else plan
    return one_each(found, compared)


def check_structure(fabric: Fabric, **options: Any) -> tuple[list[Finding], Structure]:
    """:func:`check`, and the structure that was recognised."""
    from softib.diags.structure.recognise import recognise

    structure = options.pop("structure", None) or recognise(fabric)
    return check(fabric, structure=structure, **options), structure


def _context(fabric: Fabric, records: frozenset[str] | None, structure: Structure | None, **more: Any) -> Context:
    context = Context(FabricView(fabric, records), **more)
    if structure is not None:
        context.__dict__["structure"] = structure  # fills the cached property
    return context
