"""UFM's calls for long operations: ``jobs`` and ``reports``. A job is a revision of the partitions, which is completed
when the tables contain the change. A report is created immediately from the monitor's data.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Any, Literal

from fastapi import FastAPI, HTTPException, Request

from softib.tenants.service import TenantService
from softib.tenants.store import Revision
from softib.web.served import Served
from softib.web.ufm.authority import account_of

__all__ = ["add_report_calls"]

MOST_REPORTS = 16
STATUS = {
    "durable": "Running",
    "pending": "Completed",
    "programmed": "Completed",
    "superseded": "Completed",
    "rolled-back": "Completed With Errors",
    "refused": "Completed With Errors",
}
"""Maps the state of a revision to that of a job. Members that do not answer are programmed when
they appear, which may never happen: their job counts as completed."""


def add_report_calls(app: FastAPI, served: Served, service: TenantService) -> None:
    """Add the calls to ``app``."""
    reports: OrderedDict[int, dict[str, Any]] = OrderedDict()
    lock = threading.Lock()

    def visible(request: Request, revisions: list[Revision]) -> list[dict[str, Any]]:
        """Return the jobs that the account of the request may see: for an account of a tenant, only jobs of its
        tenant's accounts.
        """
        account = account_of(request)
        if account.role == "tenant":
            names = {one.name for one in service.accounts.all() if one.tenant == account.tenant}
            revisions = [r for r in revisions if r.actor in names]
        return [_job(r) for r in revisions]

    @app.get("/jobs")
    def jobs(request: Request, parent_id: int | None = None) -> list[dict[str, Any]]:
        """The newest 100 jobs. No job has parts."""
        return [] if parent_id is not None else visible(request, service.store.revisions(100))

    @app.get("/jobs/{number}")
    @app.get("/app/jobs/{number}", include_in_schema=False)
    def job(request: Request, number: int) -> dict[str, Any]:
        """One job."""
        revision = service.store.revision(number)
        matches = [] if revision is None else visible(request, [revision])
        if not matches:
            raise HTTPException(404, f"job {number} does not exist")
        return matches[0]

    @app.post("/reports/{kind}")
    def make_report(kind: Literal["Fabric_Health", "UFM_Health"]) -> dict[str, Any]:
        """Create a report; it has all sections, whatever the body selects."""
        report = _fabric_health(served) if kind == "Fabric_Health" else _service_health(served, service)
        with lock:
            number = next(reversed(reports), 0) + 1
            reports[number] = report
            while len(reports) > MOST_REPORTS:
                reports.popitem(last=False)
        return {"report_id": str(number)}

    @app.get("/reports/{number}")
    def report(number: int) -> dict[str, Any]:
        """One of the last 16 reports."""
        with lock:
            made = reports.get(number)
        if made is None:
            raise HTTPException(404, f"report {number} does not exist; the last {MOST_REPORTS} are kept")
        return made


def _job(revision: Revision) -> dict[str, Any]:
    return {
        "ID": str(revision.id),
        "Status": STATUS[revision.state],
        "Progress": 0 if revision.state == "durable" else 100,
        "Operation": revision.action,
        "Owner": revision.actor,
        "CreationTime": _time(revision.at_s),
        "LastUpdated": _time(revision.settled_s or revision.at_s),
        "Summary": revision.detail,
        "RelatedObjects": "",
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _fabric_health(served: Served) -> dict[str, Any]:
    """Return the present findings by code, with the location of each."""
    now, sections = served.now, dict[str, list[dict[str, str]]]()
    for f in now.findings:
        row = {"severity": f.severity.name.lower(), "object": str(f.where[0]) if f.where else "", "summary": f.message}
        sections.setdefault(f.code, []).append(row)
    errors = sum(f.severity.name == "ERROR" for f in now.findings)
    return {
        "report": "Fabric_Health",
        "timestamp": _time(now.time_s),
        "summary": {"findings": len(now.findings), "errors": errors},
        "sections": sections,
    }


def _service_health(served: Served, service: TenantService) -> dict[str, Any]:
    """Return the problem of the service, and its findings."""
    health = service.health()
    return {
        "report": "UFM_Health",
        "timestamp": _time(served.now.time_s),
        "summary": {"status": health.status, "problem": health.problem},
        "sections": {"findings": [{"kind": f.kind, "object": f.where, "summary": f.text} for f in service.findings()]},
    }
