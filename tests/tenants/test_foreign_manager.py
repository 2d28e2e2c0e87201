"""A subnet manager that nobody asked for takes the subnet over, and goes again: the service says so, refuses nothing in a port's name, and programs
everything afterwards."""

from __future__ import annotations

import sys

import pytest

from tests.preload.verbs.applications import FABRIC, Applications, stop
from tests.tenants.serving import Served, table

pytest.importorskip("alembic", reason="alembic is not installed (the extra tenants)")
A, B, FOREIGN = "host-0003", "host-0005", "host-0008"


@pytest.fixture
def fabric():
    made = Applications(FABRIC)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.slow
def test_a_foreign_master_is_named_and_changes_wait_for_its_end(fabric):
    folder = fabric.folder / "tenants"
    served = Served(fabric.arguments("serve", "f", "--tenants", str(folder), "--port", "0"), fabric.env, folder)
    health = lambda: served.ask("GET", "/ufmRest/healthcheck")[1]
    body = {"hosts_names": f"{A},{B}", "pkey": "0x5"}
    try:
        assert served.ask("POST", "/ufmRest/resources/pkeys/hosts", body)[0] == 200
        assert served.programmed()["state"] == "programmed"
        assert (health()["status"], health()["problem"]) == ("ok", "")
        command = [sys.executable, "-m", "softib", "sm", "run", "--priority", "15"]
        rival = fabric.begin(FOREIGN, *command, "--guid2lid", str(fabric.folder / "guid2lid"))
        try:
            sick = served.until("/ufmRest/healthcheck", lambda h: h["status"] != "ok")
            assert sick["status"] == "degraded" and FOREIGN in sick["problem"] and "master" in sick["problem"]
            found = served.ask("GET", "/tenants/v1/findings")[1]
            assert [f["text"] for f in found if f["kind"] == "manager"] == [sick["problem"]]
            assert served.ask("POST", "/ufmRest/resources/pkeys/hosts", {**body, "pkey": "0x6"})[0] == 200
            waiting = served.programmed(3)
            assert waiting["state"] == "durable", "no port has refused it"
            members = served.ask("GET", "/ufmRest/resources/pkeys/0x6?guids_data=true")[1]["guids"]
            assert [m["programmed"] for m in members] == [False, False]
            assert health()["status"] == "degraded"
        finally:
            stop(rival)
        path = f"/tenants/v1/revisions/{waiting['id']}"
        served.until(path, lambda r: r["state"] != "durable", 120)  # a standby manager polls four times in 10 s each
        assert served.revision(waiting["id"])["state"] == "programmed"
        served.until("/ufmRest/healthcheck", lambda h: h["status"] == "ok")
        assert sorted(table(fabric, A)) == ["0x8005", "0x8006", "0xffff"]
        kinds = lambda listed: [f for f in listed if f["kind"] != "isolation"]  # ports are full members of 0x7fff
        served.until("/tenants/v1/findings", lambda present: not kinds(present))
        for finding in kinds(served.ask("GET", "/tenants/v1/findings?resolved=true")[1]):
            assert finding["kind"] == "drift" and "another subnet manager is the master" in finding["text"]
            assert finding["begun_s"] < finding["ended_s"]
    finally:
        served.stop()
