"""A backup restores what GET answered when it was made, as a revision that can be undone; and UFM's jobs and reports."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed (the extra serve)")
pytest.importorskip("alembic", reason="alembic is not installed (the extra tenants)")

from softib.tenants.accounts import Account
from tests.tenants.asking import PASSWORD, basic

LIST = "/ufmRest/resources/pkeys?guids_data=true&qos_conf=true"
A, B = "0002c903000e0b72", "0002c903000e0b73"


def put(ask, pkey, *guids, membership="full"):
    assert ask("PUT", "/ufmRest/resources/pkeys", {"pkey": pkey, "guids": guids, "membership": membership})[0] == 200


def test_a_backup_is_restored_while_the_service_runs(ask):
    assert ask("PUT", "/tenants/v1/tenants/kept", {"limit": 3})[0] == 200
    put(ask, "0x5", A, B)
    put(ask, "0x6", A, membership="limited")
    before = ask("GET", LIST)[1], ask("GET", "/tenants/v1/tenants")[1]
    file = ask("POST", "/tenants/v1/backup")[1]["file"]
    put(ask, "0x5", B)
    put(ask, "0x7", B)
    ask("DELETE", "/ufmRest/resources/pkeys/0x6")
    ask("DELETE", "/tenants/v1/tenants/kept")
    ask("PUT", "/tenants/v1/tenants/later", {"limit": 1})
    changed = ask("GET", LIST)[1], ask("GET", "/tenants/v1/tenants")[1]
    status, planned = ask("POST", "/tenants/v1/restore", {"file": file, "dry_run": True})
    assert status == 200 and (ask("GET", LIST)[1], ask("GET", "/tenants/v1/tenants")[1]) == changed
    revision = ask("POST", "/tenants/v1/restore", {"file": os.path.basename(file)})[1]["revision"]
    assert (ask("GET", LIST)[1], ask("GET", "/tenants/v1/tenants")[1]) == before
    rows = ask("GET", f"/tenants/v1/revisions/{revision}")[1]["rows"]
    assert {t: r for t, r in rows.items() if t != "quarantine"} == {
        t: r for t, r in planned["rows"].items() if t != "quarantine"
    }
    assert ask("POST", f"/tenants/v1/revisions/{revision}/undo")[0] == 200
    assert ask("GET", LIST)[1] == changed[0]


def test_a_restore_takes_nothing_from_another_tenant(ask, service):
    """A port or a P_Key that changed its tenant since the backup stays where it is."""
    who = {}
    for name in ("red", "blue"):
        assert ask("PUT", f"/tenants/v1/tenants/{name}", {"limit": 9, "ports": "any"})[0] == 200
        service.accounts.put(Account(name, "tenant", name), PASSWORD)
        who[name] = basic(name, PASSWORD)
    pkeys = "/ufmRest/resources/pkeys"
    for key, guids, name in (("0x5", [A, B], "red"), ("0x6", [A], "red"), ("0x7", [], "blue")):
        assert ask("PUT", pkeys, {"pkey": key, "guids": guids, "membership": "full"}, who[name])[0] == 200
    file = ask("POST", "/tenants/v1/backup")[1]["file"]
    assert ask("PUT", pkeys, {"pkey": "0x5", "guids": [A], "membership": "full"}, who["red"])[0] == 200
    assert ask("PUT", pkeys, {"pkey": "0x7", "guids": [B], "membership": "full"}, who["blue"])[0] == 200
    now = ask("GET", LIST)[1]
    status, answer = ask("POST", "/tenants/v1/restore", {"file": file})
    assert status == 409 and "in 0x7 of tenant blue now" in str(answer), answer
    assert ask("GET", LIST)[1] == now
    assert ask("PUT", pkeys, {"pkey": "0x7", "guids": [], "membership": "full"}, who["blue"])[0] == 200
    assert ask("DELETE", f"{pkeys}/0x6", None, who["red"])[0] == 200
    assert ask("PUT", pkeys, {"pkey": "0x6", "guids": [B], "membership": "full"}, who["blue"])[0] == 200
    status, answer = ask("POST", "/tenants/v1/restore", {"file": file})
    assert status == 409 and "tenant blue" in str(answer), answer
    assert ask("DELETE", f"{pkeys}/0x6", None, who["blue"])[0] == 200
    assert ask("POST", "/tenants/v1/restore", {"file": file})[0] == 200


def test_a_name_that_another_tenant_gets_shows_no_earlier_jobs(ask, service):
    for name in ("first", "second"):
        assert ask("PUT", f"/tenants/v1/tenants/{name}", {"limit": 9, "ports": "any"})[0] == 200
    service.accounts.put(Account("one", "tenant", "first"), PASSWORD)
    one = basic("one", PASSWORD)
    body = {"pkey": "0x9", "guids": [A], "membership": "full"}
    assert ask("PUT", "/ufmRest/resources/pkeys", body, one)[0] == 200
    assert len(ask("GET", "/ufmRest/jobs", None, one)[1]) == 1
    service.accounts.put(Account("one", "tenant", "second"), PASSWORD)
    assert ask("GET", "/ufmRest/jobs", None, one)[1] == []
    assert ask("DELETE", "/tenants/v1/accounts/one")[0] == 200
    service.accounts.put(Account("one", "tenant", "second"), PASSWORD)
    assert ask("GET", "/ufmRest/jobs", None, one)[1] == []


@pytest.mark.parametrize("content", [b"", b"no database", None])
def test_what_is_no_backup_changes_nothing(ask, service, content):
    put(ask, "0x5", A)
    before = ask("GET", LIST)[1]
    path = Path(service.folder) / "tenants-1.db"
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_bytes(content)
    for name in ("tenants-1.db", "../../etc/passwd", "tenants.db", ""):
        status, answer = ask("POST", "/tenants/v1/restore", {"file": name})
        assert status == 400 and "\n" not in answer["error"]
    assert ask("GET", LIST)[1] == before
    path.unlink(missing_ok=True)


def test_jobs_are_revisions(ask, service):
    """job_polling.py and batch_isolate_devices.py of ufm_sdk_3.0 read Status until it is not Running, then the jobs of that parent."""
    put(ask, "0x5", A)
    number = ask("GET", "/tenants/v1/revisions?limit=1")[1][0]["id"]
    assert ask("GET", f"/ufmRest/jobs/{number}")[1]["Status"] == "Running"
    service._mark([number], "programmed", "")
    service.settled(number, 10)
    assert ask("GET", f"/ufmRest/jobs/{number}")[1]["Status"] == "Completed"
    assert ask("GET", f"/ufmRest/jobs?parent_id={number}") == (200, [])
    assert ask("GET", "/ufmRest/jobs/999999")[0] == 404


def test_reports_have_the_findings(ask, served):
    """report_polling.py reads report_id, then the report until the status is 200."""
    number = ask("POST", "/ufmRest/reports/Fabric_Health", {"cables": True})[1]["report_id"]
    status, report = ask("GET", f"/ufmRest/reports/{number}")
    assert status == 200 and report["summary"]["findings"] == len(served.now.findings)
    assert sum(map(len, report["sections"].values())) == len(served.now.findings)
    number = ask("POST", "/ufmRest/reports/UFM_Health", {})[1]["report_id"]
    assert ask("GET", f"/ufmRest/reports/{number}")[1]["summary"]["status"] == "degraded"
    assert ask("GET", "/ufmRest/reports/999")[0] == 404 and ask("POST", "/ufmRest/reports/Nothing", {})[0] in (400, 404)
