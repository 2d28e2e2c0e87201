"""Other managers than softib's own. OpenSM 3.3.23 programs what clients ask for: its partitions.conf is written, it reads it on SIGHUP, and the
devices' tables hold it. One that takes the subnet over unasked is named: the service refuses nothing in a port's name, and programs everything
afterwards."""

from __future__ import annotations

import os
import re
import signal
import sys
import time

import pytest

from tests.preload.verbs.applications import FABRIC, Applications, stop
from tests.tenants.serving import Served, smpquery, table

pytest.importorskip("alembic", reason="alembic is not installed (the extra tenants)")
A, B, FOREIGN = "host-0003", "host-0005", "host-0008"


@pytest.mark.slow
@pytest.mark.stock
def test_opensm_programs_partitions_and_its_end_is_named(stock):
    opensm = stock("opensm")
    fabric = Applications(FABRIC, "--sm", "external")
    folder, conf, pid = fabric.folder / "tenants", fabric.folder / "partitions.conf", fabric.folder / "opensm.pid"
    written = (
        "Default=0x7fff, ipoib : ALL=full ;\n"
        "storage=0x11, ipoib, mtu=5, sl=2 : ALL_SWITCHES=full ;\nfuture=0x15, sl=3 : 0x0250f1b0000fff01=full ;\nempty=0x16 : ;\n"
    )
    conf.write_text(written)
    manager = fabric.begin(
        "host-0001", "sh", "-c", f"echo $$ > {pid}; exec {opensm} -P {conf} -f {fabric.folder}/osm.log"
    )
    try:
        end = time.monotonic() + 120
        while not re.search(r"LinkState:\.*Active", smpquery(fabric, "host-0008", "-D", "portinfo", "0", "1")):
            assert time.monotonic() < end, (fabric.folder / "osm.log").read_text()[-2000:]
            time.sleep(0.5)
        reload = f"kill -HUP {pid.read_text().strip()}"
        words = fabric.arguments(
            "serve", "f", "--tenants", str(folder), "--port", "0", "--partitions", str(conf), "--reload", reload
        )
        served = Served(words, fabric.env, folder)
        try:
            pkeys = "/ufmRest/resources/pkeys?guids_data=true&qos_conf=true"
            answer = served.until(pkeys, lambda listed: "0x16" in listed)
            assert {k: answer[k]["partition"] for k in ("0x11", "0x15", "0x16")} == {
                "0x11": "storage",
                "0x15": "future",
                "0x16": "empty",
            }
            assert [g["guid"] for g in answer["0x15"]["guids"]] == ["0250f1b0000fff01"]
            assert (answer["0x11"]["qos_conf"]["mtu_limit"], answer["0x15"]["qos_conf"]["service_level"]) == (4, 3)
            assert conf.with_name("partitions.conf.before-softib").read_text() == written
            body = {"hosts_names": "host-0003,host-0008", "pkey": "0x0012", "ip_over_ib": True, "index0": False}
            assert served.ask("POST", "/ufmRest/resources/pkeys/hosts", body) == (200, {})
            assert served.programmed()["state"] == "programmed"
            assert [sorted(table(fabric, h)) for h in ("host-0003", "host-0008", "host-0004")] == [
                ["0x8012", "0xffff"]
            ] * 2 + [["0xffff"]]
            absent = [f"00000000abcd{n:04x}" for n in range(1, 401)]  # in one line, OpenSM would drop the whole file
            assert served.ask("POST", "/ufmRest/resources/pkeys", {"pkey": "0x14", "guids": absent}) == (200, {})
            assert served.programmed()["state"] == "pending"
            assert served.ask("POST", "/ufmRest/resources/pkeys/hosts", {**body, "pkey": "0x14"}) == (200, {})
            assert served.programmed()["state"] == "programmed"
            assert sorted(table(fabric, "host-0003")) == ["0x8012", "0x8014", "0xffff"]
            assert served.ask("DELETE", "/ufmRest/resources/pkeys/0x14") == (200, {})
            assert served.ask("DELETE", "/ufmRest/resources/pkeys/0x12/hosts/host-0008") == (200, {})
            assert served.programmed()["state"] == "programmed"
            assert table(fabric, "host-0008") == ["0xffff"]
            for pkey in ("0x22", "0x21", "0x23"):  # the smallest one is at index 0, whatever the order
                at_0 = {"hosts_names": "host-0003", "pkey": pkey, "ip_over_ib": True, "index0": True}
                assert served.ask("POST", "/ufmRest/resources/pkeys/hosts", at_0) == (200, {})
                assert served.programmed()["state"] == "programmed"
            assert table(fabric, "host-0003")[0] == "0x8021"
            os.kill(int(pid.read_text()), signal.SIGKILL)
            manager.wait(20)
            sick = served.until("/ufmRest/healthcheck", lambda health: health["status"] != "ok")
            assert sick["status"] == "degraded" and "does not answer" in sick["problem"] and not sick["manager_reached"]
            assert (
                served.ask("POST", "/ufmRest/resources/pkeys/hosts", {**body, "pkey": "0x13"})[0] == 200
            )  # durable all the same
            of_manager = lambda findings: [f["text"] for f in findings if f["kind"] == "manager"]
            found = of_manager(served.until("/tenants/v1/findings", of_manager))
            # Until three looks had no answer the change is passed to the manager, whose reload fails.
            assert re.search("does not answer|No such process", found[0])
            assert served.programmed(0.1)["state"] == "durable"
            served.until("/tenants/v1/findings", lambda now: any("does not answer" in f["text"] for f in now))
        finally:
            served.stop()
    finally:
        stop(manager)
        fabric.close()


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
        ended = kinds(served.ask("GET", "/tenants/v1/findings?resolved=true")[1])
        assert {"manager"} <= {f["kind"] for f in ended} <= {"manager", "drift"}
        for finding in ended:
            assert finding["begun_s"] < finding["ended_s"]
            if finding["kind"] == "drift":
                assert "another subnet manager is the master" in finding["text"]
    finally:
        served.stop()
