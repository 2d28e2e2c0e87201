"""Ports that UFM's clients isolate are Disabled on a running fabric, as stock iblinkinfo reads them, and come back; jobs get aggregation trees."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.preload.verbs.applications import Applications
from tests.tenants.serving import Served

pytest.importorskip("alembic", reason="alembic is not installed (the extra tenants)")
pytestmark = pytest.mark.slow
FABRIC = """
name: f
generation: HDR
topology: {kind: fat-tree, radix: 4, levels: 2, aggregation_nodes: true}
sm: {aggregation: true}
"""
REQUESTS = [r for r in json.loads(Path(__file__).with_name("requests.json").read_text()) if r["live"]]


@pytest.fixture(scope="module")
def fabric():
    made = Applications(FABRIC)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def served(fabric):
    folder = fabric.folder / "tenants"
    words = fabric.arguments("serve", "f", "--tenants", str(folder), "--port", "0", "--every", "1")
    one = Served(words, fabric.env, folder)
    try:
        yield one
    finally:
        one.stop()


@pytest.fixture(scope="module")
def switches(served):
    return {s["system_name"]: s for s in served.ask("GET", "/ufmRest/resources/systems?type=switch")[1]}


def disabled(fabric) -> int:
    """Ports that iblinkinfo shows as Disabled."""
    words = fabric.on("host-0001", "iblinkinfo")
    output = subprocess.run(words, env=fabric.env, capture_output=True, text=True, timeout=120).stdout
    return output.count("/Disabled")


def isolated(served) -> list[dict[str, str]]:
    """Rows of the ports that are out of use; a link that went down may be unhealthy for its counters."""
    rows = served.ask("GET", "/ufmRest/app/unhealthy_ports")[1]
    return [row for row in rows if row["Condition"] == "ISOLATED"]


def send(served, client: str, method: str, **values):
    """The request of ``client`` with these values of its body, as its source has it."""
    (request,) = [
        r for r in REQUESTS if r["client"] == client and r["method"] == method and set(values) == set(r["body"])
    ]
    status, document = served.ask(method, request["path"], values or None, timeout=120)
    assert status == request["status"], document
    return document


def test_a_switch_is_cut_off_and_one_port_comes_back(fabric, served, switches):
    """batch_isolate_devices.py: the switch, its job, then one port; it waits until no entry has that switch and port as peer."""
    spine = switches["spine-2"]["guid"]
    job = send(
        served,
        "ufm_sdk batch_isolate_devices",
        "POST",
        params={"action": "isolate", "device_policy": "UNHEALTHY"},
        action="mark_device_unhealthy",
        object_ids=[spine],
        object_type="System",
        identifier="id",
    )
    number = int(job.rpartition("/")[2])
    served.until(f"/ufmRest/jobs/{number}", lambda one: one["Status"] == "Completed")
    assert disabled(fabric) == 4, "a cable to each leaf, at the leaf"
    peers = lambda: {(p["PeerGUID"], p["PeerPortDname"]) for p in served.ask("GET", "/ufmRest/app/unhealthy_ports")[1]}
    assert {(spine, str(n)) for n in range(1, 5)} <= peers(), "the next answer has the service's own act"
    send(served, "ufm_sdk batch_isolate_devices", "PUT", ports=[f"{spine}_2"], ports_policy="HEALTHY")
    assert disabled(fabric) == 3
    assert (spine, "2") not in peers()
    assert (
        served.ask("POST", "/ufmRest/actions", {"action": "mark_device_healthy", "object_ids": [spine]}, timeout=120)[0]
        == 202
    )
    assert disabled(fabric) == 0


def test_a_port_is_isolated_reset_and_brought_back(fabric, served, switches):
    leaf = switches["leaf-2"]["guid"]
    port = f"{leaf}_3"
    send(served, "ufm_sdk pdr plugin", "PUT", ports=[port], ports_policy="UNHEALTHY", action="isolate")
    assert disabled(fabric) == 1
    assert len(served.ask("GET", "/ufmRest/resources/isolated_ports")[1]) == 1
    send(served, "ufm_sdk batch_isolate_devices", "PUT", ports=[port], ports_policy="HEALTHY")
    send(
        served,
        "ufm_sdk pdr plugin",
        "POST",
        params={"port_id": port},
        action="reset",
        object_ids=[leaf],
        object_type="System",
        description="",
        identifier="id",
    )
    assert disabled(fabric) == 0
    assert isolated(served) == []
    acts = [(r["action"], r["detail"], r["id"]) for r in served.ask("GET", "/tenants/v1/revisions?limit=4")[1]]
    assert [(action, detail) for action, detail, _ in acts] == [
        ("reset", f"reset of {port}"),
        ("reset", f"reset of {port} begins"),
        ("release ports", f"release ports of {port}"),
        ("isolate ports", f"isolate ports of {port}"),
    ], "the log names each act"
    for *_, number in acts:
        status, answer = served.ask("POST", f"/tenants/v1/revisions/{number}/undo")
        assert status == 409 and answer["error"].startswith(f"revision {number} is an action on ports ("), answer


def test_what_cannot_be_done_changes_nothing(fabric, served):
    unhealthy = {"ports": ["00000000000000aa_1"], "ports_policy": "UNHEALTHY"}
    assert served.ask("PUT", "/ufmRest/app/unhealthy_ports", unhealthy)[0] == 404
    assert served.ask("PUT", "/ufmRest/app/unhealthy_ports", {**unhealthy, "action": "no_discover"})[0] == 501
    assert served.ask("POST", "/ufmRest/actions", {"action": "reboot", "object_ids": ["aa"]})[0] == 501
    served.ask("PUT", "/tenants/v1/tenants/red", {})
    served.ask("PUT", "/tenants/v1/accounts/rita", {"role": "tenant", "tenant": "red", "password": "a long password"})
    assert served.ask("PUT", "/ufmRest/app/unhealthy_ports", unhealthy, user="rita:a long password")[0] == 403
    assert disabled(fabric) == 0


def test_a_job_gets_its_aggregation_tree_and_gives_it_back(served):
    job = {"app_id": "12", "hosts_names": "host-0001,host-0003", "app_resources_limit": -1, "pkey": "0x5"}
    tree = send(served, "UFM-Slurm with SHARP", "POST", **job)
    assert tree["hosts"] == ["leaf-1", "leaf-2"] and tree["top"].startswith("spine-")
    assert send(served, "UFM-Slurm with SHARP", "POST", **job) == tree
    assert served.ask("GET", "/ufmRest/app/sharp/resources")[1] == [tree]
    assert served.ask("POST", "/ufmRest/app/sharp/resources", {**job, "hosts_names": "nobody"})[0] == 404
    (path,) = [r["path"] for r in REQUESTS if r["method"] == "DELETE"]
    assert [served.ask("DELETE", path.format(app="12"))[0] for _ in range(2)] == [204, 404]


@pytest.mark.parametrize("restarts", ["the service", "the service and the fabric"])
def test_a_port_is_released_by_the_next_service(fabric, served, restarts):
    """Neither process has seen the host, whose only cable is disabled: its port is in the database."""
    unhealthy = "/ufmRest/app/unhealthy_ports"
    ports = served.ask("GET", "/ufmRest/resources/ports?sys_type=Computer")[1]
    (host,) = [p for p in ports if p["system_name"] == "host-0006"]
    body = {"ports": [host["name"]], "ports_policy": "UNHEALTHY"}
    assert served.ask("PUT", unhealthy, body, X_Request_Id=restarts)[0] == 200
    assert disabled(fabric) == 1
    served.stop()
    if "fabric" in restarts:  # its ports are enabled
        fabric("down", "f")
        fabric("up", "f.yaml", "--name", "f", "--detach")
    served.start()
    (listed,) = isolated(served)
    if "fabric" in restarts:
        assert listed["port"] == host["name"] and "not disabled now" in listed["description"]
    else:
        named = {"port": host["peer"], "PeerGUID": host["systemID"], "PeerNodeDesc": "host-0006"}
        assert named == {key: listed[key] for key in named}
    by_node = f"{host['systemID']}_{host['number']}"
    assert by_node != host["name"], "the port has its own GUID"
    assert served.ask("PUT", unhealthy, {"ports": [by_node], "ports_policy": "HEALTHY"})[0] == 200
    assert disabled(fabric) == 0
    assert isolated(served) == []
    assert served.ask("PUT", unhealthy, body, X_Request_Id=restarts)[0] == 200
    assert disabled(fabric) == 0, "the repeated request came before"
