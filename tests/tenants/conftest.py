"""A service without a subnet behind both interfaces, for tests of requests."""

from __future__ import annotations

import pytest

import softib
from softib.api.fabric import result_of
from softib.api.web import _copy
from softib.errors import InputError
from tests.tenants.asking import ADMIN, PASSWORD, Asking


def nowhere():
    raise InputError("no subnet in this test")


@pytest.fixture(scope="session")
def fabric():
    return softib.generate("fat-tree", radix=4, levels=2)


@pytest.fixture(scope="session")
def service(tmp_path_factory, fabric):
    pytest.importorskip("alembic", reason="alembic is not installed (the extra tenants)")
    from softib.tenants.accounts import Account
    from softib.tenants.service import TenantService
    from softib.tenants.subnet import Port

    one = TenantService(tmp_path_factory.mktemp("tenants"), nowhere, None)
    f = result_of(fabric).fabric
    for row in f.end_ports().tolist():
        if f.port_num[row]:
            guid, node = int(f.port_guid[row]), f.node_name(int(f.port_node[row]))
            one.view.ports[guid] = Port(guid, f"{node}[1]", node, row, -1, "", 128, 0, 5)
            one.view.names.setdefault(node, []).append(guid)
    one.accounts.put(Account(ADMIN, "admin"), PASSWORD)
    yield one
    one.close()


@pytest.fixture(scope="session")
def served(fabric):
    pytest.importorskip("fastapi", reason="fastapi is not installed (the extra serve)")
    from softib.web.served import Served

    one = Served("tree", lambda: _copy(result_of(fabric)), explain=lambda f, a, b: {})
    one.refresh()
    return one


@pytest.fixture(scope="session")
def asking(service, served):
    from softib.web.ufm.app import gate_of

    async def outside(scope, receive, send):
        await send({"type": "http.response.start", "status": 418, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return Asking(gate_of(outside, served, service))


@pytest.fixture
def ask(asking, service):
    """Without the partitions of the tests before."""
    from softib.tenants import changes

    for pkey in service.state.partitions.keys() - {0x7FFF}:
        service.change(lambda draft, pkey=pkey: changes.delete_partition(draft, pkey, 0.0), "test", "clean")
    return asking


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """A running fabric with a service on it, for all tests: each uses its own P_Keys, and leaves the default partition as it was."""
    pytest.importorskip("alembic", reason="alembic is not installed (the extra tenants)")
    from tests.tenants.subnet_lab import SubnetLab

    made = SubnetLab(tmp_path_factory.mktemp("lab"))
    try:
        yield made
    finally:
        made.close()


def name_of(request) -> str:
    return f"{request['client']}: {request['method']} {request['path']}"
