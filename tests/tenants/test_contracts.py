"""Every request that public clients of UFM send, as their sources have it (requests.json), is answered as they expect, and does what it says."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed (the extra serve)")
pytest.importorskip("alembic", reason="alembic is not installed (the extra tenants)")


REQUESTS = [r for r in json.loads(Path(__file__).with_name("requests.json").read_text()) if not r["live"]]
GUIDS = ["020000000000003e", "0002c903000e0b72"]
VALUES = {
    "pkey": "0x0005", "index0": True, "ip_over_ib": True, "membership": "full", "guids": GUIDS, "memberships": ["full", "limited"], "mtu_limit": 4,
    "service_level": 2, "rate_limit": 100.0, "hosts_names": "host-0001,host-0002", "event_id": 552, "description": "a port is bad",
    "duplicate_nodes": True, "cables": True, "external_event_name": "PDR", "external_event_type": "PDR", "external_event_source": "PDR plugin",
    "active": False, "destination": "127.0.0.1:5140", "level": "WARNING", "ufm_log": True, "events_log": True,
}  # fmt: skip # a table, its columns aligned


def name_of(request) -> str:
    return f"{request['client']}: {request['method']} {request['path']}"


@pytest.mark.parametrize("request_", REQUESTS, ids=name_of)
def test_a_clients_request_succeeds(ask, service, request_):
    first = {"pkey": "0x0005", "guids": GUIDS, "index0": True, "ip_over_ib": True, "membership": "full"}
    assert ask("POST", "/ufmRest/resources/pkeys", first) == (200, {})
    job = ask("GET", "/tenants/v1/revisions?limit=1")[1][0]["id"]
    path = request_["path"].format(job=job, pkey="0x5", guid=GUIDS[0], other=GUIDS[1], hosts="host-0001,host-0002")
    authorization = ""
    if path.startswith("/ufmRestV3"):
        authorization = f"Basic {ask('POST', '/ufmRest/app/tokens', {})[1]['access_token']}"
    body = {key: VALUES[key] for key in request_["body"]} or None
    status, document = ask(request_["method"], path, body, authorization)
    assert status == request_["status"], document


def test_ib_kubernetes_reads_back_what_it_added(ask):
    """ufm.go: keys as 0x%04X, exactly 200; its list parser makes a MAC of 16 digits, and an unpadded P_Key is its map's value."""
    for pkey, guid in (("0x0005", GUIDS[0]), ("0x7FFE", GUIDS[1])):
        body = {"pkey": pkey, "index0": True, "ip_over_ib": True, "membership": "full", "guids": [guid]}
        assert ask("POST", "/ufmRest/resources/pkeys", body)[0] == 200
    status, listed = ask("GET", "/ufmRest/resources/pkeys/?guids_data=true")
    assert status == 200 and list(listed) == ["0x7fff", "0x5", "0x7ffe"]
    in_use = {guid["guid"]: pkey for pkey, one in listed.items() for guid in one["guids"]}
    assert in_use == {GUIDS[0]: "0x5", GUIDS[1]: "0x7ffe"} and all(re.fullmatch("[0-9a-f]{16}", g) for g in in_use)
    removal = {"pkey": "0x0005", "guids": [GUIDS[0]]}
    assert [ask("POST", "/ufmRest/actions/remove_guids_from_pkey", removal)[0] for _ in range(2)] == [200, 200]
    assert ask("GET", "/ufmRest/resources/pkeys/0x5?guids_data=true")[1]["guids"] == []


def test_a_removal_from_no_partition_is_404_but_for_ib_kubernetes(ask):
    """ufm.go calls the action again until it is 200: a pod's removal must end after its partition was deleted."""
    keys = "/ufmRest/resources/pkeys/0x77"
    for path in (keys, f"{keys}/guids/{GUIDS[0]}", f"{keys}/hosts/host-0001"):
        status, answer = ask("DELETE", path)
        assert (status, answer) == (404, {"error": "there is no partition with P_Key 0x77"}), path
    removal = {"pkey": "0x0077", "guids": [GUIDS[0]]}
    assert ask("POST", "/ufmRest/actions/remove_guids_from_pkey", removal) == (200, {})
    assert ask("POST", "/ufmRest/resources/pkeys", removal)[0] == 200
    for path in (f"{keys}/guids/{GUIDS[0]}", f"{keys}/hosts/host-0001", keys):
        assert ask("DELETE", path) == (200, {}), "not a member any more, but the partition is there"


def test_infra_controller_parses_the_answers(ask):
    """mod.rs: PartitionData, PortConfig and Port have these keys, SmConfig these; {} with 200 is its NotFound."""
    ask(
        "POST",
        "/ufmRest/resources/pkeys",
        {"pkey": "0x67", "guids": GUIDS, "membership": "limited", "index0": False, "ip_over_ib": False},
    )
    qos = {"pkey": "0x67", "mtu_limit": 4, "service_level": 2, "rate_limit": 2.5}
    assert ask("PUT", "/ufmRest/resources/pkeys/qos_conf", qos)[0] == 200
    one = ask("GET", "/ufmRest/resources/pkeys/0x67?guids_data=true&qos_conf=true")[1]
    assert one["partition"] == "api_pkey_0x67" and one["ip_over_ib"] is False
    assert one["qos_conf"] == {"mtu_limit": 4, "service_level": 2, "rate_limit": 2.5}
    assert [(g["guid"], g["index0"], g["membership"]) for g in one["guids"]] == [(g, False, "limited") for g in GUIDS]
    assert ask("GET", "/ufmRest/resources/pkeys/0x68?guids_data=true") == (200, {})
    default = ask("GET", "/ufmRest/resources/pkeys?guids_data=true")[1]["0x7fff"]
    assert (default["partition"], default["membership"], default["guids"]) == ("management", "full", [])
    assert ask("GET", "/ufmRest/app/smconf")[1].keys() == {
        "subnet_prefix",
        "m_key",
        "sm_key",
        "sa_key",
        "m_key_per_port",
    }
    ports = ask("GET", "/ufmRest/resources/ports?sys_type=Computer")[1]
    assert len(ports) == 8
    assert {"guid", "name", "systemID", "lid", "dname", "system_name", "physical_state", "logical_state"} <= ports[
        0
    ].keys()
    assert ask("GET", f"/ufmRest/resources/ports/{ports[0]['name']}")[1] == [ports[0]]
    assert ask("GET", f"/ufmRest/resources/systems/{ports[0]['systemID']}?ports=true")[1][0]["ports"] == [ports[0]]


def test_openstack_overwrites_and_gives_each_guid_its_membership(ask):
    ask("POST", "/ufmRest/resources/pkeys", {"pkey": "0x5", "guids": ["00000000000000aa"]})
    body = {"pkey": "0x5", "guids": GUIDS, "memberships": ["limited", "full"]}
    assert ask("PUT", "/ufmRest/resources/pkeys", body)[0] == 200
    one = ask("GET", "/ufmRest/resources/pkeys/0x5?guids_data=True")[1]
    assert {g["guid"]: g["membership"] for g in one["guids"]} == dict(zip(GUIDS, ["limited", "full"], strict=True))
    assert ask("PUT", "/ufmRest/resources/pkeys", {**body, "memberships": ["full"]})[0] == 400
    assert "guids" not in ask("GET", "/ufmRest/resources/pkeys/0x5?guids_data=False")[1]


def test_slurm_names_hosts(ask, service):
    body = {"hosts_names": "host-0001,host-0003", "pkey": "0x9", "ip_over_ib": True, "index0": False}
    assert ask("POST", "/ufmRest/resources/pkeys/hosts", body) == (200, {})
    assert service.state.partitions[9].members.keys() == {service.view.names[f"host-000{i}"][0] for i in (1, 3)}
    assert ask("DELETE", "/ufmRest/resources/pkeys/0x9/hosts/host-0001")[0] == 200
    assert service.state.partitions[9].members.keys() == {service.view.names["host-0003"][0]}
    unknown = 404, {"error": "host 'nobody' does not exist"}
    assert ask("POST", "/ufmRest/resources/pkeys/hosts", {**body, "hosts_names": "nobody"}) == unknown
    assert ask("DELETE", "/ufmRest/resources/pkeys/0x9/hosts/host-0003,nobody") == unknown
    assert service.state.partitions[9].members, "nothing was removed"


def test_imbue_splits_descriptions_of_switch_ports(ask):
    """find_problematic_events.py splits at ':' and takes a number, or two or three with '/'; without ':' it is no switch."""
    ports = ask("GET", "/ufmRest/resources/ports")[1]
    switches = [p["node_description"] for p in ports if p["type"] == "Switch"]
    assert len(switches) == 24 and all(re.fullmatch(r"[^:]+:(\d+|(1/)?\d+/\d+)", d) for d in switches)
    assert all(":" not in p["node_description"] for p in ports if p["type"] == "Computer")


def test_making_a_partition_that_exists_is_400(ask):
    assert ask("POST", "/ufmRest/resources/pkeys/add", {"pkey": "0x21", "partition_name": "red"}) == (200, {})
    assert ask("POST", "/ufmRest/resources/pkeys/add", {"pkey": "0x21"})[0] == 400
    assert ask("DELETE", "/ufmRest/resources/pkeys/0x21")[0] == 200
    assert ask("DELETE", "/ufmRest/resources/pkeys/0x21")[0] == 404


def test_grafana_gets_labels_once(ask):
    """labels_api.py reads hash and labels, and sends the hash back; its map takes these keys of each."""
    path = "/ufmRest/app/fabric_snapshot?tag=grafana&output=json&levels=true&hash="
    document = ask("GET", path)[1]
    keys = {"port_id", "device_name", "device_type", "level", "node_desc", "peer_level", "status"}
    assert len(document["labels"]) == 32 and all(one.keys() == keys for one in document["labels"])
    levels = {(one["device_type"], one["level"], one["peer_level"]) for one in document["labels"]}
    assert levels == {
        ("host", "host", "leaf"),
        ("switch", "leaf", "host"),
        ("switch", "leaf", "spine"),
        ("switch", "spine", "leaf"),
    }
    assert ask("GET", path + document["hash"])[1] == {"hash": document["hash"], "labels": []}


def test_syslog_gets_the_log_and_the_events_that_its_setting_selects(ask):
    """RFC 3164: a datagram begins with the facility (user, 1) and the severity in angle brackets."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(10)
        setting = {
            "active": True,
            "destination": f"127.0.0.1:{server.getsockname()[1]}",
            "level": "WARNING",
            "ufm_log": True,
            "events_log": True,
        }
        assert ask("PUT", "/ufmRest/app/syslog", setting) == (200, {})
        try:
            assert ask("GET", "/ufmRest/app/syslog")[1] == setting
            ask("POST", "/ufmRest/app/events/external_event", {"description": "an event of level info is not sent"})
            ask("DELETE", "/ufmRest/resources/pkeys/0x77")
            text = server.recv(4096).decode()
            assert text.startswith("<12>") and "0x77" in text
            ask("PUT", "/ufmRest/app/syslog", {**setting, "level": "INFO", "ufm_log": False})
            ask("DELETE", "/ufmRest/resources/pkeys/0x78")
            ask("POST", "/ufmRest/app/events/external_event", {"description": "hello"})
            text = server.recv(4096).decode()
            assert text.startswith("<14>") and "hello" in text
        finally:
            assert ask("PUT", "/ufmRest/app/syslog", {"active": False}) == (200, {})
    for wrong in ("nowhere", "127.0.0.1:0", ":514", "127.0.0.1:99999"):
        assert ask("PUT", "/ufmRest/app/syslog", {**setting, "destination": wrong})[0] == 400


CALLS = [
    "resources/pkeys",
    "resources/pkeys?guids_data=true&qos_conf=true",
    "resources/pkeys/0x5?guids_data=true&qos_conf=true",
    "resources/pkeys/0x99",
    "resources/ports",
    "resources/ports/{port}",
    "resources/systems",
    "resources/systems?ports=true",
    "resources/systems/{system}",
    "resources/links",
    "resources/isolated_ports",
    "app/ufm_version",
    "app/smconf",
    "app/versioning",
    "app/events",
    "app/events/1",
    "app/alarms",
    "app/unhealthy_ports",
    "app/fabric_snapshot",
    "app/syslog",
    "monitoring/session/0/data",
    "healthcheck",
    "jobs",
    "reports/1",
]


def test_every_answer_is_what_openapi_says(ask, service):
    """Each GET of UFM's interface against its own document, whose objects may have no other keys; errors too."""
    jsonschema = pytest.importorskip("jsonschema")
    document = ask("GET", "/ufmRest/openapi.json")[1]
    names = [one["operationId"] for ways in document["paths"].values() for one in ways.values()]
    assert len(names) == len(set(names)), "a client has one function a call"

    def closed(schema):
        if isinstance(schema, dict):
            return {k: closed(v) for k, v in schema.items()} | (
                {"additionalProperties": False} if "properties" in schema else {}
            )
        return [closed(one) for one in schema] if isinstance(schema, list) else schema

    strict = closed(document)

    def judged(method, call, answer, status):
        path = call.partition("?")[0].split("/")
        fits = lambda known: (
            len(known) == len(path) and all(a == b or a.startswith("{") for a, b in zip(known, path, strict=True))
        )
        known = min(
            (k for k in strict["paths"] if fits(k.split("/")[1:]) and method in strict["paths"][k]),
            key=lambda k: k.count("{"),
        )
        content = strict["paths"][known][method]["responses"][str(status)]["content"]["application/json"]["schema"]
        assert content.get("additionalProperties") is not True and content.get("items", {}).get("type") != "object", (
            known,
            content,
        )
        jsonschema.validate(answer, {**content, "components": strict["components"]})

    members = [f"{guid:016x}" for guid in list(service.view.ports)[:3]]
    assert ask("POST", "/ufmRest/resources/pkeys", {"pkey": "0x5", "guids": members}) == (200, {})
    assert ask("POST", "/ufmRest/app/events/external_event", {"description": "d"}) == (200, {})
    port = ask("GET", "/ufmRest/resources/ports?page_number=1&rpp=1")[1][0]
    for method, path, body in (
        ("post", "reports/UFM_Health", {}),
        ("post", "app/tokens", {}),
        ("put", "resources/pkeys", {"pkey": "0x5", "guids": members}),
    ):
        status, answer = ask(method.upper(), f"/ufmRest/{path}", body)
        judged(method, path, answer, status)
    for call in CALLS:
        status, answer = ask("GET", f"/ufmRest/{call.format(port=port['name'], system=port['systemID'])}")
        assert status == 200, (call, answer)
        judged("get", call, answer, status)
    for method, call, body, code in (
        ("post", "resources/pkeys", {"pkey": "0x10000", "guids": []}, 400),
        ("delete", "resources/pkeys/0x7fff", None, 409),
        ("get", "resources/systems/99", None, 404),
    ):
        status, answer = ask(method.upper(), f"/ufmRest/{call}", body)
        assert status == code
        judged(method, call, answer, status)
    assert "422" not in str(document["paths"]) and document["security"]
