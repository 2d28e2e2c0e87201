"""examples/clouds/partitions.py with the lists of two clouds. Their keys are from the sources of each: canonical/maas 01e8157a
(src/maasserver/api/examples/machines.json) and apache/cloudstack 1502b605 (DedicateHostResponse.java)."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed (the extra serve)")
pytest.importorskip("alembic", reason="alembic is not installed (the extra tenants)")
SCRIPT = Path(__file__).parents[2] / "examples/clouds/partitions.py"


def machine(hostname: str, pool: str, status: str = "Deployed") -> dict:
    return {
        "hostname": hostname,
        "fqdn": f"{hostname}.ubnt",
        "owner": "admin",
        "status_name": status,
        "pool": {"name": pool, "id": 0},
    }


def dedicated(hostname: str, account: str | None) -> dict:
    return {
        "id": "r",
        "hostid": "h",
        "hostname": hostname,
        "domainid": "d-1",
        **({"accountid": account} if account else {}),
    }


@pytest.fixture
def script(ask):
    """The script's functions, its requests sent to the service of the tests; the number of changes in ``changes``."""
    token = ask("POST", "/tenants/v1/tokens")[1]["access_token"]
    loaded = runpy.run_path(str(SCRIPT))
    loaded["changes"] = changes = []

    def sent(method, path, body=None):
        status, document = ask(method, path, body, f"Bearer {token}")
        assert status == 200, document
        if method != "GET":
            changes.append(path)
        return document

    loaded["apply"].__globals__["ask"] = sent
    return loaded


def test_pools_of_maas_are_partitions(script, service, capsys):
    hosts = lambda: {
        p.name: {service.view.ports[g].node for g in p.members}
        for k, p in service.state.partitions.items()
        if k != 0x7FFF
    }
    machines = [
        machine("host-0001", "blue"),
        machine("host-0002", "blue", "Allocated"),
        machine("host-0003", "red"),
        machine("host-0004", "red", "Ready"),
        machine("newname", "default"),
    ]
    script["apply"]("maas", script["of_maas"](machines))
    assert hosts() == {"maas-blue": {"host-0001", "host-0002"}, "maas-red": {"host-0003"}}
    assert "newname" in capsys.readouterr().err
    script["changes"].clear()
    script["apply"]("maas", script["of_maas"](machines))
    assert not script["changes"], "a second run changes nothing"
    script["apply"](
        "cloudstack", script["of_cloudstack"]({"count": 1, "dedicatedhost": [dedicated("host-0005", None)]})
    )
    machines = [machine("host-0002", "blue", "Releasing"), machine("host-0001", "blue"), machine("host-0002", "red")]
    script["apply"]("maas", script["of_maas"](machines))
    assert hosts() == {"maas-blue": {"host-0001"}, "maas-red": {"host-0002"}, "cloudstack-d-1": {"host-0005"}}


def test_hosts_that_the_fabric_does_not_know_change_nothing(script, service):
    """Names in another form, as fully qualified ones, or another fabric: that is no list of tenants that are gone."""
    script["apply"]("maas", script["of_maas"]([machine("host-0001", "blue")]))
    before = dict(service.state.partitions)
    script["changes"].clear()
    with pytest.raises(SystemExit, match="nothing was changed") as ended:
        script["apply"]("maas", script["of_maas"]([machine("host-0001.ubnt", "blue"), machine("newname", "red")]))
    assert isinstance(ended.value.code, str), "a text: status 1"
    assert not script["changes"] and service.state.partitions == before


def test_hosts_dedicated_by_cloudstack(script):
    document = {"count": 3, "dedicatedhost": [dedicated("a", "acc"), dedicated("b", "acc"), dedicated("c", None)]}
    assert script["of_cloudstack"](document) == {"acc": {"a", "b"}, "d-1": {"c"}}


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"hostname": "a"}]', "null", "[]"])
def test_another_input_changes_nothing(text):
    done = subprocess.run(
        [sys.executable, SCRIPT, "maas"], input=text, capture_output=True, text=True, timeout=60, env={}
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "nothing was changed" in done.stderr
