"""What counters over time say is wrong (``softib diagnose``), for the fabric that is served."""

from __future__ import annotations

from softib.analysis.isolation_cost import with_bisection
from softib.diags.cable_rules.judge import judge
from softib.diags.finding import Finding
from softib.diags.observations import Observations, tables_of
from softib.fabric.model import Fabric
from softib.web.jobs_on_map import JobsOnMap

__all__ = ["counter_findings"]


def counter_findings(fabric: Fabric, seen: Observations, jobs: JobsOnMap | None) -> list[Finding]:
    """Findings of the rules over ``seen``, followed through the tables that were read of
    ``fabric``, with the jobs that cross each."""
    tables = tables_of(fabric, seen.ports) if "lfts" in fabric.source.records else None
    return with_bisection(fabric, judge(seen, tables, None, None if jobs is None else jobs.links.crossing))
