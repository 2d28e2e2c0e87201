"""Tenants, confused operators and damaged files against the service's rules: no partition or account without its tenant, no tenant in another's
partition, no import of what was not said, and never a status of 500."""

from __future__ import annotations

import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed (the extra serve)")
pytest.importorskip("alembic", reason="alembic is not installed (the extra tenants)")

from softib.errors import SoftibError
from softib.tenants.accounts import Account
from tests.tenants.asking import ADMIN, PASSWORD, basic

KEYS, GUID, OTHER = "/ufmRest/resources/pkeys", "00000000000000aa", "00000000000000bb"


@pytest.fixture
def who(ask, service):
    for name in ("crimson", "navy"):
        assert ask("PUT", f"/tenants/v1/tenants/{name}", {"limit": 3, "ports": "any"})[0] == 200
        service.accounts.put(Account(name, "tenant", name), PASSWORD)
    service.accounts.put(Account("op", "operator"), PASSWORD)
    yield {name: basic(name, PASSWORD) for name in ("crimson", "navy", "op")}
    for pkey in service.state.partitions.keys() - {0x7FFF}:
        assert ask("DELETE", f"{KEYS}/{pkey:#x}")[0] == 200
    for name in ("crimson", "navy", "op"):
        service.accounts.remove(name)
    for name in ("crimson", "navy"):
        assert ask("DELETE", f"/tenants/v1/tenants/{name}")[0] == 200


def newest(service) -> int:
    return service.store.revisions(1)[0].id


def test_no_undo_leaves_a_partition_without_its_tenant(ask, service, who):
    assert ask("PUT", "/tenants/v1/tenants/late", {})[0] == 200
    made = newest(service)
    assert ask("POST", "/tenants/v1/partitions", {"name": "a", "tenant": "late"}, who["op"])[0] == 200
    status, document = ask("POST", f"/tenants/v1/revisions/{made}/undo")
    assert status == 409 and "late still has 1 partition" in document["error"]
    assert "late" in service.state.tenants
    deleted = next(f"{k:#x}" for k, p in service.state.partitions.items() if p.tenant == "late")
    assert ask("DELETE", f"{KEYS}/{deleted}")[0] == 200
    end = newest(service)
    assert ask("DELETE", "/tenants/v1/tenants/late")[0] == 200
    assert ask("POST", f"/tenants/v1/revisions/{end}/undo")[0] in (404, 409), "a partition of no tenant"


def test_no_undo_leaves_more_partitions_than_the_limit(ask, service, who):
    assert ask("PUT", "/tenants/v1/tenants/crimson", {"limit": 5})[0] == 200
    raised = newest(service)
    for _ in range(4):
        assert ask("POST", "/tenants/v1/partitions", {"name": "a"}, who["crimson"])[0] == 200
    status, document = ask("POST", f"/tenants/v1/revisions/{raised}/undo")
    assert status == 409 and "limit of 3" in document["error"]
    assert service.state.tenants["crimson"].limit == 5


def test_a_tenants_name_does_not_bring_its_accounts_to_the_next(ask, service, who):
    """The accounts of a tenant that left would own the partitions of a later one of that name."""
    status, document = ask("DELETE", "/tenants/v1/tenants/navy")
    assert status == 409 and "accounts: navy" in document["error"]
    assert ask("GET", "/tenants/v1/tenants", authorization=who["navy"])[0] == 200
    with pytest.raises(SoftibError, match="does not exist"):
        service.accounts.put(Account("ghost", "tenant", "none"), PASSWORD)


def test_an_administrator_cannot_lock_itself_out(ask, service):
    for role in ("viewer", "operator"):
        body = {"role": role, "password": PASSWORD}
        assert ask("PUT", f"/tenants/v1/accounts/{ADMIN}", body)[0] == 400
    assert ask("PUT", f"/tenants/v1/accounts/{ADMIN}", {"role": "admin", "password": PASSWORD})[0] == 200
    assert ask("DELETE", f"/tenants/v1/accounts/{ADMIN}")[0] == 400
    assert ask("DELETE", "/tenants/v1/accounts/absent")[0] == 404
    for name in ("n" * 65, "%20", "a%0Ab", "a%3Ab"):
        assert ask("PUT", f"/tenants/v1/accounts/{name}", {"role": "viewer", "password": PASSWORD})[0] == 400


def test_a_tenant_does_not_catch_ports_by_the_name_of_a_network(ask, service, who):
    """Neutron names networks by an ID, and any client can give a partition that name."""
    for name in ("crimson", "navy"):
        for _ in range(2):
            assert ask("POST", "/tenants/v1/partitions", {"name": "net-1"}, who[name])[0] == 200
    network = {"id": "net-1", "provider:segmentation_id": 0x7001}
    assert ask("POST", "/ufmRest/cloudx/Network", network, who["op"])[0] == 200
    client = "ff:00:00:00:00:00:02:00:00:02:c9:00:00:00:00:00:00:00:00:aa"
    port = {"id": "p", "network_id": "net-1", "extra_dhcp_opts": [{"opt_name": "client-id", "opt_value": client}]}
    assert ask("POST", "/ufmRest/cloudx/Port", port, who["op"])[0] == 200
    assert [k for k, p in service.state.partitions.items() if p.members] == [0x7001]
    assert ask("DELETE", "/ufmRest/cloudx/Network/net-1", network, who["op"])[0] == 200
    assert 0x7001 not in service.state.partitions
    assert ask("POST", "/ufmRest/cloudx/Port", port, who["op"])[0] == 404
    assert sum(p.name == "net-1" for p in service.state.partitions.values()) == 4


DAMAGED = {
    "empty": None,
    "another version": "UPDATE alembic_version SET version_num = 'none'",
    "an MTU": "UPDATE partition SET mtu = 77",
    "a P_Key": "UPDATE partition SET pkey = 99999 WHERE pkey = 5",
    "a GUID": "UPDATE member SET guid = 'zz'",
    "no tenants": "DELETE FROM tenant",
    "ports": "UPDATE tenant SET ports = '7'",
    "a port": "UPDATE tenant SET ports = '[\"zz\"]'",
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_backup_is_refused(ask, service, who, damage):
    assert ask("POST", KEYS, {"pkey": "0x5", "guids": [GUID]}, who["crimson"])[0] == 200
    saved = service.folder / ask("POST", "/tenants/v1/backup")[1]["file"]
    bad = saved.with_name("tenants-7.db")
    if DAMAGED[damage] is None:
        bad.write_bytes(b"")
    else:
        shutil.copy(saved, bad)
        with sqlite3.connect(bad) as db:
            db.execute(DAMAGED[damage])
        db.close()
    before = dict(service.state.partitions)
    for dry in (True, False):
        status, document = ask("POST", "/tenants/v1/restore", {"file": bad.name, "dry_run": dry})
        assert status in (400, 409) and "\n" not in document["error"], document
    assert service.state.partitions == before
    assert ask("POST", "/tenants/v1/restore", {"file": saved.name})[0] == 200


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ({"0x5": {"guids": [{"guid": GUID, "membership": "weird"}]}}, "membership"),
        ({"0x5": {"guids": [{"guid": GUID, "index0": "yes"}]}}, "index0"),
        ({"0x5": {"guids": [], "ip_over_ib": "no"}}, "ip_over_ib"),
        ({"0x5": {"guids": [], "partition": {"a": 1}}}, "partition"),
        ({"0x5": {"guids": []}, "5": {"guids": [{"guid": GUID}]}}, "twice"),
        ({"0x7fff": {"guids": [], "membership": "none"}}, "membership"),
        ({"0x5": {"guids": [], "qos_conf": {"mtu_limit": 1e400}}}, "qos_conf"),
    ],
)
def test_an_import_takes_no_value_for_another(ask, content, named):
    status, document = ask("POST", "/tenants/v1/import", {"format": "ufm", "content": content})
    assert status == 400 and named in document["error"]


BODIES = [
    b"",
    b"null",
    b"[]",
    b"5",
    b'"x"',
    b"{",
    b"\xff\xfe",
    b"\xef\xbb\xbf{}",
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b"a=b&c=d",
    b'{"pkey":NaN,"guids":[]}',
    b'{"pkey":"0x5","guids":null}',
    b'{"pkey":5,"guids":[]}',
    b'{"pkey":"0x5","guids":[5]}',
    b'{"pkey":"0x5","guids":["\\u0000"]}',
    b'{"pkey":"0x5","guids":["\\ud800"]}',
    b'{"pkey":"0x5","guids":[],"index0":"true"}',
    b'{"pkey":"0x5","guids":["' + b"a" * 100_000 + b'"]}',
    b'{"pkey":"0x' + b"5" * 100_000 + b'","guids":[]}',
]


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_a_body_that_is_none_is_400(ask, service, method, body):
    status, document = ask(method, KEYS, raw=[body])
    assert status == 400 and "\n" not in document["error"]
    assert service.state.partitions.keys() == {0x7FFF}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "0x8000",
        "0x10000",
        "-1",
        " 0x5",
        "0x5 ",
        "\u0665",
        "0x\uff15",
        "5h",
        "None",
        "0x" + "0" * 30 + "5",
    ],
)
def test_a_text_that_is_no_pkey_is_400(ask, service, text):
    assert ask("POST", KEYS, {"pkey": text, "guids": []})[0] == 400
    assert ask("GET", f"{KEYS}/{quote(text)}")[0] == (400 if text else 200)
    assert service.state.partitions.keys() == {0x7FFF}


@pytest.mark.parametrize(
    "path",
    [
        "//tenants/v1/accounts",
        "/tenants/v1//accounts",
        "/tenants/v1/./accounts",
        "/tenants/v1/tenants/../accounts",
        "/tenants/v1/tenants/%2e%2e/accounts",
        "/tenants/v1/ACCOUNTS",
        "/Tenants/v1/accounts",
        "/ufmRest/../tenants/v1/accounts",
        "/ufmRest/resources/../app/events",
        "/tenants/v1/tenants%00/accounts",
        "/ufmRest/resources%2f..%2fapp/events",
    ],
)
def test_a_tenant_finds_no_other_path_to_a_closed_call(ask, who, path):
    assert ask("GET", path, authorization=who["crimson"])[0] in (400, 403, 404, 405, 418)


def test_of_two_tenants_that_race_for_a_port_one_has_it(ask, service, who):
    for pkey, name in (("0x101", "crimson"), ("0x102", "navy")):
        assert ask("POST", KEYS, {"pkey": pkey, "guids": []}, who[name])[0] == 200
    for guid in range(1, 21):
        add = lambda pair, guid=guid: ask("POST", KEYS, {"pkey": pair[0], "guids": [f"{guid:016x}"]}, who[pair[1]])[0]
        with ThreadPoolExecutor(2) as pool:
            statuses = sorted(pool.map(add, (("0x101", "crimson"), ("0x102", "navy"))))
        assert statuses == [200, 403]
        assert len(service.state.memberships(guid)) == 1
