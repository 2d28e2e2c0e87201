"""The table of roles in docs/tenants.md: every call of both interfaces is in it, and each cell is true."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed (the extra serve)")
pytest.importorskip("alembic", reason="alembic is not installed (the extra tenants)")

from softib.tenants.accounts import Account
from tests.tenants.asking import PASSWORD, basic

PAGE = Path(__file__).parents[2] / "docs" / "tenants.md"
ROLES = ("admin", "operator", "viewer", "tenant")
VALUES = {
    "pkey": "0x77",
    "guids": "00000000000000aa",
    "hosts": "host-0001",
    "names": "x_1",
    "guid": "aa",
    "number": "999",
    "name": "absent",
    "kind": "Network",
    "domain": "cloudx",
    "app_id": "999",
}
BODIES = {
    "/resources/pkeys": {"pkey": "0x77", "guids": []},
    "/resources/pkeys/add": {"pkey": "0x77"},
    "/resources/pkeys/qos_conf": {"pkey": "0x77"},
    "/resources/pkeys/hosts": {"pkey": "0x77", "hosts_names": []},
    "/actions/remove_guids_from_pkey": {"pkey": "0x77", "guids": []},
    "/partitions": {"name": "p"},
    "/app/unhealthy_ports": {"ports": ["x_1"], "ports_policy": "HEALTHY"},
    "/actions": {"action": "reset", "object_ids": ["x"]},
    "/app/events/external_event": {"description": "x"},
    "/default_membership": {"membership": "full"},
    "/isolation": {"guids": []},
    "/import": {"format": "partitions.conf", "content": "", "dry_run": True},
    "/restore": {"file": "absent"},
    "/accounts/{name}": {"role": "viewer", "password": PASSWORD},
    "/app/sharp/resources": {"app_id": "999", "hosts_names": "host-0001"},
    "/{domain}/{kind}": {"id": "n", "provider:segmentation_id": 0x77},
    "/{domain}/{kind}/{number}": {"id": "n", "provider:segmentation_id": 0x77},
}


def rows() -> list[tuple[str, str, dict[str, str]]]:
    """Method, path, and the cell of each role."""
    out = []
    text = PAGE.read_text().partition("| call | `admin` |")[2].partition("\n\n")[0]
    for line in text.splitlines()[2:]:
        calls, *cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        methods = list[str]()
        for words in re.findall(r"`([^`]+)`", calls):
            head, _, path = words.rpartition(" ")
            methods = head.split(",") if head else methods
            full = path if path.startswith("/tenants/v1") else f"/ufmRest/{path}"
            out += [(method, full, dict(zip(ROLES, cells, strict=True))) for method in methods]
    return out


@pytest.fixture
def accounts(ask, service):
    assert ask("PUT", "/tenants/v1/tenants/red", {"limit": 9})[0] == 200
    for role in ROLES:
        service.accounts.put(Account(f"a {role}", role, "red" if role == "tenant" else ""), PASSWORD)
    return {role: basic(f"a {role}", PASSWORD) for role in ROLES}


def test_every_call_is_in_the_table(ask):
    served = set()
    for prefix in ("/ufmRest", "/tenants/v1"):
        for path, operations in ask("GET", f"{prefix}/openapi.json")[1]["paths"].items():
            served |= {(method.upper(), prefix + path) for method in operations}
    listed = [(method, path) for method, path, _ in rows()]
    assert sorted(listed) == sorted(served)


def test_each_cell_is_true(ask, service, accounts, monkeypatch):
    """``no`` is 403; ``yes`` and ``its own`` are any answer but 401 and 403, most often 404: nothing of the request exists."""
    monkeypatch.setattr(service.store, "backup", lambda path: None)
    wrong = []
    for method, path, cells in rows():
        for role, cell in cells.items():
            own = path.removeprefix("/ufmRest").removeprefix("/tenants/v1")
            pkey = 0x70 + ROLES.index(role)  # that of another role is not the tenant's
            place = re.sub(r"{(\w+)}", lambda match: VALUES[match[1]], path).replace("0x77", f"{pkey:#x}")
            place = place.replace("reports/Network", "reports/UFM_Health")
            body = None if method == "GET" or (method == "DELETE" and "kind" not in path) else dict(BODIES.get(own, {}))
            for key, value in (body or {}).items():
                body[key] = (
                    {"0x77": f"{pkey:#x}", 0x77: pkey}.get(value, value) if not isinstance(value, list) else value
                )
            status = ask(method, place, body, accounts[role])[0]
            if (status in (401, 403)) != (cell == "no"):
                wrong.append((method, path, role, cell, status))
    assert wrong == []


def test_the_ports_that_a_tenant_may_add(ask, service, accounts, monkeypatch):
    """Each row of the second table."""
    guids = list(service.view.ports)
    switch, router, manager, free, others, operators, assigned, placed = guids[:8]
    virtual, unknown = 0x00FF00FF00FF0001, 0x00FF00FF00FF00FF
    for guid, kind in ((switch, {"switch": True}), (router, {"router": True})):
        monkeypatch.setitem(service.view.ports, guid, replace(service.view.ports[guid], **kind))
    monkeypatch.setattr(service.view, "manager", manager)
    assert ask("PUT", "/tenants/v1/tenants/blue", {})[0] == 200
    monkeypatch.setitem(service.view.ports, virtual, replace(service.view.ports[assigned], guid=virtual, vport=0))
    monkeypatch.setitem(service.view.ports, assigned, replace(service.view.ports[assigned], row=10**6))
    monkeypatch.setitem(service.view.ports, virtual, replace(service.view.ports[virtual], row=10**6))
    pkey = ask("POST", "/tenants/v1/partitions", {"name": "b", "tenant": "blue"})[1]["pkey"]
    add = lambda pkey, guid, role: ask(
        "POST", "/ufmRest/resources/pkeys", {"pkey": pkey, "guids": [f"{guid:016x}"]}, accounts[role]
    )
    assert add(pkey, others, "admin")[0] == 200 and add("0x31", operators, "operator")[0] == 200
    own = ask("POST", "/tenants/v1/partitions", {"name": "r"}, accounts["tenant"])[1]["pkey"]
    put = lambda ports, tenant="red": ask("PUT", f"/tenants/v1/tenants/{tenant}", {"limit": 9, "ports": ports})
    for guid, whose in ((switch, "a switch's"), (router, "a router's"), (manager, "the subnet manager's")):
        status, answer = put([f"{guid:016x}", f"{assigned:016x}"])
        assert status == 409 and whose in answer["error"], "no call of the tenant could use it"
    assert put([f"{assigned:016x}"])[0] == 200
    assert add(own, placed, "operator")[0] == 200
    never = dict.fromkeys((others, manager, switch, router), 403)
    expected = {**never, assigned: 200, virtual: 200, placed: 200, free: 403, operators: 403, unknown: 403}
    assert {guid: add(own, guid, "tenant")[0] for guid in expected} == expected
    assert "is not assigned to red; an operator assigns it" in add(own, free, "tenant")[1]["error"]
    assert ask("PUT", "/tenants/v1/tenants/red", {"limit": 8})[0] == 200
    (red,) = ask("GET", "/tenants/v1/tenants", authorization=accounts["tenant"])[1]
    assert (red["limit"], red["ports"]) == (8, [f"{assigned:016x}"])
    for port, problem in ((assigned, "is assigned to tenant red"), (placed, f"is in {own} of tenant red now")):
        status, answer = put([f"{port:016x}"], "blue")
        assert status == 409 and problem in answer["error"], answer
    assert put(["x"])[0] == 400 and put(True)[0] == 400
    assert put("any")[0] == 200
    expected |= dict.fromkeys((free, operators, unknown), 200)
    assert {guid: add(own, guid, "tenant")[0] for guid in expected} == expected
    assert "a switch's; only operators may add it" in add(own, switch, "tenant")[1]["error"]
    assert "a router's; only operators may add it" in add(own, router, "tenant")[1]["error"]
    for guid in (switch, router, manager):
        assert add("0x32", guid, "operator")[0] == 200
    assert put([f"{assigned:016x}"])[0] == 200
    for role in ("admin", "operator"):  # a port has one tenant
        for guid in (placed, assigned, virtual):
            status, answer = add(pkey, guid, role)
            assert status == 409 and "tenant red" in answer["error"], answer
    body = {"format": "partitions.conf", "content": f"b={pkey} : {assigned:#x}=full ;\n"}
    for dry_run in (True, False):
        assert ask("POST", "/tenants/v1/import", {**body, "dry_run": dry_run})[0] == 409
    assert set(service.state.partitions[int(pkey, 16)].members) == {others}
    assert add("0x32", assigned, "operator")[0] == 200, "a partition without a tenant, for example of storage"
    assert add(own, assigned, "tenant")[0] == 200 and add(own, others, "operator")[0] == 409


def test_a_change_of_a_tenant_keeps_what_is_not_given(ask, service):
    put = lambda body: ask("PUT", "/tenants/v1/tenants/kept", body)[0]
    kept = lambda: (service.state.tenants["kept"].limit, service.state.tenants["kept"].ports)
    port = "00000000000000cc"
    for body, expected in (
        ({}, (1024, ())),
        ({"limit": 2}, (2, ())),
        ({"ports": [port]}, (2, (port,))),
        ({"limit": 3}, (3, (port,))),
        ({"ports": "any"}, (3, None)),
        ({}, (3, None)),
    ):
        assert put(body) == 200 and kept() == expected, body
    for ports in ("all", True, {}):
        status, answer = ask("PUT", "/tenants/v1/tenants/kept", {"ports": ports})
        assert (status, answer["error"]) == (400, 'ports: must be a list of PortGUIDs, or "any" for all ports')
    assert ask("DELETE", "/tenants/v1/tenants/kept")[0] == 200
