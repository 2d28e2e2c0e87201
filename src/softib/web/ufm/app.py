"""The application below UFM's prefixes, and softib's own below ``/tenants/v1``."""

from __future__ import annotations

from fastapi import FastAPI

from softib import __version__
from softib.tenants.service import TenantService
from softib.web.served import Served
from softib.web.ufm.action_calls import add_action_calls
from softib.web.ufm.documents import describe_answers, describe_errors
from softib.web.ufm.errors import answer_errors
from softib.web.ufm.fabric_calls import Reading, add_fabric_calls
from softib.web.ufm.gate import App, Gate
from softib.web.ufm.monitoring_calls import add_monitoring_calls
from softib.web.ufm.neutron_calls import add_neutron_calls
from softib.web.ufm.partitions import add_partition_calls
from softib.web.ufm.report_calls import add_report_calls
from softib.web.ufm.sharp_calls import add_sharp_calls
from softib.web.ufm.snapshot_calls import add_snapshot_calls
from softib.web.ufm.syslog_calls import add_syslog_calls
from softib.web.ufm.tenant_calls import add_tenant_calls

__all__ = ["gate_of"]


def gate_of(outer: App, served: Served, service: TenantService) -> Gate:
    """Return ``outer`` with both interfaces added. Without a separate token, only accounts have access."""
    ufm, tenants = _app("softib: UFM's interface", "/ufmRest"), _app("softib: tenants", "/tenants/v1")
    for app in (ufm, tenants):
        app.router.generate_unique_id_function = lambda route: route.name  # names of a generated client's functions
    reading = Reading(served)
    add_partition_calls(ufm, service)
    add_fabric_calls(ufm, reading)
    add_monitoring_calls(ufm, served, service, reading)
    add_action_calls(ufm, served, service, reading)
    add_snapshot_calls(ufm, reading)
    add_syslog_calls(ufm, served, service)
    add_sharp_calls(ufm, service)
    add_report_calls(ufm, served, service)
    add_neutron_calls(ufm, service)
    add_tenant_calls(tenants, service)
    for app in (ufm, tenants):
        describe_errors(app)
    describe_answers(ufm)
    return Gate(ufm, tenants, outer, service.accounts, guards=getattr(outer, "token", None) is None)


def _app(title: str, prefix: str) -> FastAPI:
    app = FastAPI(
        title=title,
        version=__version__,
        servers=[{"url": prefix}],
        openapi_url="/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    answer_errors(app)
    return app
