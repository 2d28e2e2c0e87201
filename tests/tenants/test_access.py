"""Who may do what, and what a client gets for what cannot be: a status, one line, and nothing half done."""

from __future__ import annotations

import base64
import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed (the extra serve)")
pytest.importorskip("alembic", reason="alembic is not installed (the extra tenants)")

from softib.errors import InputError, PeerError
from softib.tenants.accounts import Account
from softib.tenants.intruders import Intruder
from softib.tenants.isolation import isolation_of
from softib.tenants.service import AWAY
from softib.tenants.state import State
from softib.tenants.subnet import Held
from softib.tenants.writer import Request
from softib.web.ufm.gate import CERTIFICATE, MOST_OCTETS
from tests.tenants.asking import PASSWORD, basic

GUID = "0002c903000e0b72"
ONE = {"pkey": "0x5", "guids": [GUID]}


@pytest.fixture
def accounts(ask, service):
    for name in ("red", "blue"):
        assert ask("PUT", f"/tenants/v1/tenants/{name}", {"limit": 2, "ports": "any"})[0] == 200
        service.accounts.put(Account(name, "tenant", name), PASSWORD)
    service.accounts.put(Account("looker", "viewer"), PASSWORD)
    return {name: basic(name, PASSWORD) for name in ("red", "blue", "looker")}


@pytest.mark.parametrize(
    ("path", "authorization"),
    [
        ("/ufmRest/resources/pkeys", "none"),
        ("/ufmRest/resources/pkeys", basic("admin", "wrong")),
        ("/ufmRest/resources/pkeys", basic("nobody", PASSWORD)),
        ("/ufmRest/resources/pkeys", "Basic !!!"),
        ("/ufmRestV2/resources/pkeys", basic("admin", PASSWORD)),
        ("/ufmRestV3/resources/pkeys", basic("admin", PASSWORD)),
        ("/ufmRestV3/resources/pkeys", "Basic forged"),
        ("/tenants/v1/revisions", "Bearer forged"),
    ],
)
def test_a_stranger_gets_401(ask, path, authorization):
    status, document = ask("GET", path, authorization=authorization)
    assert (status, list(document)) == (401, ["error"])


def test_tokens_come_in_three_forms(ask):
    token = ask("POST", "/ufmRest/app/tokens", {})[1]["access_token"]
    pair = base64.b64encode(f"{token}:".encode()).decode()
    for authorization in (f"Basic {token}", f"Basic {pair}", f"Bearer {token}"):
        assert ask("GET", "/ufmRestV3/app/ufm_version", authorization=authorization)[0] == 200


def test_a_client_certificate_names_an_account(ask, accounts):
    state = {CERTIFICATE: "looker"}
    assert ask("GET", "/ufmRestV2/resources/pkeys", authorization="-", state=state)[0] == 200
    assert ask("POST", "/ufmRestV2/resources/pkeys", ONE, "-", state)[0] == 403
    assert ask("GET", "/ufmRestV2/resources/pkeys", authorization="-", state={CERTIFICATE: "unknown"})[0] == 401


def test_a_tenant_stays_within_itself(ask, service, accounts):
    red, blue = accounts["red"], accounts["blue"]
    made = ask("POST", "/tenants/v1/partitions", {"name": "a"}, red)[1]["pkey"]
    assert service.state.partitions[int(made, 16)].tenant == "red"
    assert ask("POST", "/ufmRest/resources/pkeys", {"pkey": made, "guids": [GUID]}, red)[0] == 200
    assert ask("POST", "/ufmRest/resources/pkeys", {"pkey": made, "guids": ["00000000000000bb"]}, blue)[0] == 403
    assert ask("DELETE", f"/ufmRest/resources/pkeys/{made}", authorization=blue)[0] == 403
    assert ask("GET", f"/ufmRest/resources/pkeys/{made}", authorization=blue) == (200, {})
    assert ask("GET", "/ufmRest/resources/pkeys", authorization=blue) == (200, {})
    other = ask("POST", "/tenants/v1/partitions", {"name": "b"}, blue)[1]["pkey"]
    assert ask("POST", "/ufmRest/resources/pkeys", {"pkey": other, "guids": [GUID]}, blue)[0] == 403  # red's port
    assert ask("POST", "/ufmRest/resources/pkeys", {"pkey": "0x7fff", "guids": [GUID]}, red)[0] == 403
    for path, body in (
        ("/tenants/v1/tenants/red", {"limit": 99}),
        ("/tenants/v1/default_membership", {"membership": "full"}),
    ):
        assert ask("PUT", path, body, red)[0] == 403
    assert ask("POST", "/tenants/v1/partitions", {"name": "c"}, red)[0] == 200
    assert ask("POST", "/tenants/v1/partitions", {"name": "d"}, red)[0] == 409  # its limit
    for pkey in list(service.state.partitions.keys() - {0x7FFF}):
        ask("DELETE", f"/ufmRest/resources/pkeys/{pkey:#x}")


def test_rights_come_before_what_a_change_would_say(ask, accounts):
    """An account without the right to a partition gets 403, not what is wrong with the request for its owner."""
    red, blue = accounts["red"], accounts["blue"]
    made = ask("POST", "/tenants/v1/partitions", {"name": "a"}, red)[1]["pkey"]
    assert ask("DELETE", "/ufmRest/resources/pkeys/0x7fff", authorization=red)[0] == 403
    assert ask("DELETE", "/ufmRest/resources/pkeys/0x7fff")[0] == 409
    assert ask("POST", "/ufmRest/resources/pkeys/add", {"pkey": made}, blue)[0] == 403
    assert ask("POST", "/ufmRest/resources/pkeys/add", {"pkey": made}, red)[0] == 400
    assert ask("PUT", "/ufmRest/resources/pkeys/qos_conf", {"pkey": made}, blue)[0] == 403
    assert ask("DELETE", f"/ufmRest/resources/pkeys/{made}/guids/{GUID}", authorization=blue)[0] == 403
    network = {"id": "n", "provider:segmentation_id": int(made, 16)}
    assert ask("POST", "/ufmRest/cloudx/Network", network, blue)[0] == 403
    assert ask("DELETE", f"/ufmRest/resources/pkeys/{made}", authorization=red)[0] == 200


def test_the_page_is_closed_to_tenants_and_strangers(ask, accounts):
    """It shows the fabric of all tenants, also on loopback, where tenants' programs may run."""
    for path in ("/api/v1/ports", "/api/openapi.json", "/"):
        assert ask("GET", path)[0] == 418, "passed on"
        assert ask("GET", path, authorization=accounts["looker"])[0] == 418
        assert ask("GET", path, authorization=accounts["red"])[0] == 403
        assert ask("GET", path, authorization="-")[0] == 401


@pytest.mark.parametrize("headers", [{"origin": "http://evil"}, {"origin": "null"}, {"sec_fetch_site": "cross-site"}])
def test_a_page_of_another_site_changes_nothing(ask, service, headers):
    """The browser adds the name and password that it remembers."""
    assert ask("POST", "/ufmRest/resources/pkeys", ONE, **headers)[0] == 403
    assert int(ONE["pkey"], 16) not in service.state.partitions
    own = {"origin": "http://localhost", "sec_fetch_site": "same-origin"}
    assert ask("POST", "/ufmRest/resources/pkeys", ONE, **own)[0] == 200


def test_the_same_json_is_the_same_request(ask):
    send = lambda text: ask("PUT", "/ufmRest/resources/pkeys/qos_conf", raw=[text.encode()], x_request_id="json")[0]
    assert ask("POST", "/ufmRest/resources/pkeys", ONE)[0] == 200
    key = ONE["pkey"]
    assert send(f'{{"pkey": "{key}", "rate_limit": 10, "mtu_limit": 4}}') == 200
    assert send(f'{{ "mtu_limit":4,"rate_limit":10.0,\n"pkey":"{key}"}}') == 200
    assert send(f'{{"pkey": "{key}", "rate_limit": 20, "mtu_limit": 4}}') == 409


def test_a_request_id_works_for_every_change(ask, service):
    newest = lambda: service.store.revisions(1)[0].id
    assert ask("POST", "/ufmRest/resources/pkeys", ONE)[0] == 200
    number = newest()
    one, two = (ask("POST", f"/tenants/v1/revisions/{number}/undo", x_request_id="undo") for _ in range(2))
    assert one == two and one[0] == 200 and newest() == one[1]["revision"]
    for _ in range(2):
        assert ask("PUT", "/tenants/v1/default_membership", {"membership": "full"}, x_request_id="default")[0] == 200
    assert newest() == one[1]["revision"] + 1
    status, answer = ask("DELETE", "/ufmRest/resources/pkeys/0x7", x_request_id="x" * 129)
    assert status == 400 and answer["error"].startswith("X-Request-Id: "), "the header is named"


@pytest.mark.parametrize(
    "body",
    [
        {"pkey": "0x0", "guids": [GUID]},
        {"pkey": "0x8000", "guids": [GUID]},
        {"pkey": "0x10005", "guids": [GUID]},
        {"pkey": 5, "guids": [GUID]},
        {"pkey": "five", "guids": [GUID]},
        {"pkey": "0x5", "guids": ["12"]},
        {"pkey": "0x5", "guids": ["0" * 16]},
        {"pkey": "0x5", "guids": [GUID, "../../etc/passwd"]},
        {"pkey": "0x5", "guids": GUID},
        {"pkey": "0x5"},
        {"pkey": "0x5", "guids": [GUID], "membership": "both"},
        {"pkey": "0x5", "guids": [GUID], "membership": ["full"]},
        {"pkey": "0x5", "guids": [GUID], "index0": "yes"},
        [],
        "text",
        None,
    ],
)
def test_a_body_that_cannot_be_is_400_and_changes_nothing(ask, service, body):
    before = service.store.revisions(1)
    status, document = ask("POST", "/ufmRest/resources/pkeys", body)
    assert status == 400 and "\n" not in document["error"] and len(document["error"]) < 500, document
    assert service.store.revisions(1) == before and 5 not in service.state.partitions


def test_text_that_is_no_json_is_400(ask):
    for text in (b"{", b"\xff\xfe", b"[" * 100_000, b'{"pkey": ' + b"9" * 5000 + b"}"):
        assert ask("POST", "/ufmRest/resources/pkeys", raw=[text])[0] == 400, text[:20]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tenants/v1/import", rb'{"format": "ufm", "content": {"0x61": {"partition": "\ud800", "guids": []}}}'),
        ("/ufmRest/app/events/external_event", rb'{"description": "\uDFFF"}'),
        ("/ufmRest/resources/pkeys", rb'{"pkey": "0x5", "guids": [], "partition_name": "\ud83d"}'),
    ],
)
def test_half_a_surrogate_pair_is_400_and_a_whole_one_is_text(ask, path, body):
    """RFC 8259 8.2: such text cannot be encoded; what receives it is unpredictable."""
    assert ask("POST", path, raw=[body])[0] == 400
    assert ask("GET", "/ufmRest/app/events")[0] == 200
    whole = rb'{"pkey": "0x5", "guids": [], "partition_name": "\ud83d\ude00"}'
    assert ask("POST", "/ufmRest/resources/pkeys", raw=[whole])[0] == 200
    assert ask("GET", "/ufmRest/resources/pkeys/0x5")[1]["partition"] == "\U0001f600"


@pytest.mark.parametrize("path", ["/ufmRest/resources/pkeys/0x5%0Aforged", "/ufmRest/resources/pkeys/x%0Aforged"])
def test_each_refusal_is_one_line_of_the_log(ask, accounts, caplog, path):
    """By the gate, or by a call; a name in the path cannot forge another line."""
    for authorization, status in (("", 400), ("-", 401)):
        caplog.clear()
        assert ask("GET", path, authorization=authorization)[0] == status
        (line,) = [r.getMessage() for r in caplog.records if r.name == "softib.tenants"]
        assert f": {status}: " in line and "\n" not in line


def test_a_body_of_100_megabytes_is_refused_unread(ask, caplog):
    assert ask("POST", "/ufmRest/resources/pkeys", raw=[b"x"], content_length=str(100 << 20))[0] == 413
    pieces = [b"x" * (1 << 20)] * 100
    assert ask("POST", "/ufmRest/resources/pkeys", raw=pieces)[0] == 413
    assert ask("POST", "/ufmRest/resources/pkeys", raw=[b"x"], content_length="-1")[0] == 413
    assert MOST_OCTETS < 100 << 20
    assert [r.getMessage().split(": ")[1] for r in caplog.records if r.name == "softib.tenants"] == ["413"] * 3


def test_a_hostile_name_ends_no_definition(ask, service):
    name = "red=0x6 : ALL=full ;\nx"
    ask("POST", "/ufmRest/resources/pkeys", {**ONE, "partition_name": name})
    text = ask("GET", "/tenants/v1/export/partitions.conf")[1]
    definitions = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(definitions) == 2 and definitions[1].startswith("pkey_0x5=0x5,") and "0x6" not in definitions[1]


def test_a_repeated_request_is_made_once_and_another_body_is_409(ask, service):
    before = ask("GET", "/tenants/v1/revisions?limit=1")[1][0]["id"]
    for _ in range(2):
        assert ask("POST", "/ufmRest/resources/pkeys", ONE, x_request_id="same")[0] == 200
    assert (
        ask("POST", "/ufmRest/resources/pkeys", {**ONE, "guids": ["00000000000000bb"]}, x_request_id="same")[0] == 409
    )
    assert ask("GET", "/tenants/v1/revisions?limit=1")[1][0]["id"] == before + 1


def test_a_request_id_belongs_to_the_account_that_sent_it(ask, service, accounts):
    """docs/tenants.md: a tenant sees and changes the partitions of its tenant; nobody else's answer, nor its number."""
    red, blue = accounts["red"], accounts["blue"]
    body, same = {"name": "slurm-c1-7-0"}, {"x_request_id": "slurm-c1-7-0/partition"}
    answers = [ask("POST", "/tenants/v1/partitions", body, who, **same) for who in (red, blue, "")]
    assert [status for status, _ in answers] == [200, 200, 200]
    assert len({document["pkey"] for _, document in answers}) == 3
    owners = [service.state.partitions[int(document["pkey"], 16)].tenant for _, document in answers]
    assert owners == ["red", "blue", ""]
    for who, answer in zip((red, blue, ""), answers, strict=True):
        assert ask("POST", "/tenants/v1/partitions", body, who, **same) == answer, "its own answer again"
    assert ask("POST", "/tenants/v1/partitions", {"name": "other"}, blue, **same)[0] == 409, "its own id, another body"
    hosts = {"pkey": answers[0][1]["pkey"], "guids": [GUID]}
    assert ask("POST", "/ufmRest/resources/pkeys", hosts, red, x_request_id="hosts")[0] == 200
    assert ask("POST", "/ufmRest/resources/pkeys", hosts, blue, x_request_id="hosts")[0] == 403
    other = {"name": "blocked"}
    assert ask("POST", "/tenants/v1/partitions", other, "", x_request_id="hosts")[0] == 200, "nobody blocks an id"


def test_rights_come_before_a_repeated_answer(ask, service, accounts):
    red, blue = accounts["red"], accounts["blue"]
    body = {"pkey": "0x901", "guids": [GUID]}
    send = lambda who: ask("POST", "/ufmRest/resources/pkeys", body, who, x_request_id="rights")[0]
    assert send(red) == 200
    assert ask("DELETE", "/ufmRest/resources/pkeys/0x901", authorization=red)[0] == 200
    assert send(red) == 200, "gone, and not made again"
    assert 0x901 not in service.state.partitions
    assert ask("POST", "/ufmRest/resources/pkeys", {**body, "guids": ["00000000000000bb"]}, blue)[0] == 200
    assert send(red) == 403, "it is blue's now"
    made = ask("POST", "/tenants/v1/partitions", {"name": "a"}, red, x_request_id="moved")[1]
    service.accounts.put(Account("red", "tenant", "blue"), PASSWORD)
    again = ask("POST", "/tenants/v1/partitions", {"name": "a"}, red, x_request_id="moved")
    assert again[0] == 200 and again[1]["pkey"] != made["pkey"], "an account that moved has left its answers"
    assert ask("DELETE", "/tenants/v1/accounts/red")[0] == 200
    service.accounts.put(Account("red", "tenant", "blue"), PASSWORD)
    third = ask("POST", "/tenants/v1/partitions", {"name": "a"}, red, x_request_id="moved")
    assert third[0] == 409 and "limit of 2 partitions" in third[1]["error"], (
        "another account of that name: a new request"
    )


@pytest.mark.parametrize(
    ("method", "path", "body", "text"),
    [
        ("POST", "partitions", {"name": "typo", "renter": "red"}, "renter: is not a name of this document"),
        ("POST", "partitions", {"name": "typo", "index0": "yes"}, "index0: must be true or false"),
        ("PUT", "tenants/typo", {"limit": True}, "limit: must be a whole number"),
        ("POST", "isolation", {"guids": [GUID], "fast": 1}, "fast: is not a name of this document"),
    ],
)
def test_a_misspelt_name_or_another_type_is_400(ask, service, method, path, body, text):
    before = len(service.state.partitions)
    assert ask(method, f"/tenants/v1/{path}", body) == (400, {"error": text})
    assert len(service.state.partitions) == before and service.state.tenants.get("typo") is None


@pytest.mark.parametrize(
    ("names", "rule"),
    [
        ("", "names no host; use names of hosts, separated by commas"),
        (" , ", "names no host; use names of hosts, separated by commas"),
        (7, "must be text or must be a list"),
        ({}, "must be text or must be a list"),
        ([7], "must be text"),
    ],
)
def test_names_of_hosts_that_cannot_be_are_400(ask, service, names, rule):
    """The answer names the field of the request, and no type of the program."""
    answer = ask("POST", "/ufmRest/resources/pkeys/hosts", {"pkey": "0x9", "hosts_names": names})
    assert answer == (400, {"error": f"hosts_names: {rule}"})
    assert 9 not in service.state.partitions


def test_isolation_of_a_subnet_that_cannot_be_reached_is_503(ask, service, monkeypatch):
    monkeypatch.setattr(service, "programmer", object())
    assert ask("POST", "/tenants/v1/isolation", {"guids": [GUID]}) == (503, {"error": AWAY})


def test_a_revision_without_rows_cannot_be_undone(ask, service):
    """An act on ports that found nothing to do, a removal of no member, and a tenant that was entered as it was."""
    newest = lambda: ask("GET", "/tenants/v1/revisions?limit=1")[1][0]["id"]
    numbers = [service.submit(Request(lambda draft: "release ports", "admin", "release ports")).result().revision]
    assert ask("POST", "/ufmRest/actions/remove_guids_from_pkey", {"pkey": "0x9", "guids": [GUID]})[0] == 200
    numbers.append(newest())
    for _ in range(2):
        assert ask("PUT", "/tenants/v1/tenants/same", {"limit": 3})[0] == 200
    numbers.append(newest())
    for number in numbers:
        status, answer = ask("POST", f"/tenants/v1/revisions/{number}/undo")
        assert status == 409 and answer["error"].startswith(f"revision {number} changed no partition or tenant")


@pytest.mark.parametrize("undone", ["the partition's end", "a member's removal"])
def test_an_undo_joins_no_two_tenants(ask, service, accounts, undone):
    """docs/tenants.md: a port of one tenant never comes into a partition of another."""
    red, blue, theirs = accounts["red"], accounts["blue"], "00000000000000bb"
    keys, newest = "/ufmRest/resources/pkeys", lambda: service.store.revisions(1)[0].id
    assert ask("POST", keys, {"pkey": "0x901", "guids": [GUID]}, red)[0] == 200
    if undone == "a member's removal":
        assert ask("DELETE", f"{keys}/0x901/guids/{GUID}", authorization=red)[0] == 200
        number = newest()
    assert ask("DELETE", f"{keys}/0x901", authorization=red)[0] == 200
    if undone == "the partition's end":
        number = newest()
    assert ask("POST", keys, {"pkey": "0x901", "guids": [theirs]}, blue)[0] == 200
    assert ask("POST", f"/tenants/v1/revisions/{number}/undo")[0] in (200, 409)
    partition = service.state.partitions[0x901]
    assert (partition.tenant, set(partition.members)) == ("blue", {0xBB})


@pytest.mark.parametrize("undone", ["the partition's end", "a member's removal", "a set of members"])
def test_an_undo_takes_no_port_from_its_new_tenant(ask, service, accounts, undone):
    """docs/tenants.md: tenants cannot add a port of another, and the undo of an operator would do just that."""
    red, blue, keys = accounts["red"], accounts["blue"], "/ufmRest/resources/pkeys"
    assert ask("POST", keys, {"pkey": "0x901", "guids": [GUID, "00000000000000bb"]}, red)[0] == 200
    ways = {
        "the partition's end": ("DELETE", f"{keys}/0x901", None),
        "a member's removal": ("DELETE", f"{keys}/0x901/guids/{GUID}", None),
        "a set of members": ("PUT", keys, {"pkey": "0x901", "guids": ["00000000000000bb"]}),
    }
    assert ask(*ways[undone], red)[0] == 200
    number = service.store.revisions(1)[0].id
    assert ask("POST", keys, {"pkey": "0x902", "guids": [GUID]}, blue)[0] == 200
    before = dict(service.state.partitions)
    status, document = ask("POST", f"/tenants/v1/revisions/{number}/undo")
    assert status == 409 and "tenant red" in document["error"] and "tenant blue" in document["error"], document
    assert service.state.partitions == before
    assert ask("DELETE", f"{keys}/0x902", authorization=blue)[0] == 200
    assert ask("POST", f"/tenants/v1/revisions/{number}/undo")[0] == 200, "the port is free"
    assert int(GUID, 16) in service.state.partitions[0x901].members


def test_an_undo_counts_what_it_took_back_and_names_what_superseded_the_rest(ask):
    path, guids = "/ufmRest/resources/pkeys", [GUID, "00000000000000bb"]
    newest = lambda: ask("GET", "/tenants/v1/revisions?limit=1")[1][0]["id"]
    undo = lambda number: ask("POST", f"/tenants/v1/revisions/{number}/undo")
    assert ask("POST", path, {"pkey": "0x5", "guids": [GUID]})[0] == 200
    assert ask("POST", path, {"pkey": "0x5", "guids": guids, "membership": "limited"})[0] == 200
    both = newest()
    assert ask("POST", path, {"pkey": "0x5", "guids": [GUID], "membership": "full"})[0] == 200
    assert undo(both)[1]["detail"] == f"1 row taken back; revision {newest() - 1} superseded the others"
    once, text = newest(), f"revision {both}: 0 rows taken back; revision {newest()} superseded it"
    assert undo(both) == (409, {"error": f"{text}; nothing is left to undo"})
    assert newest() == once, "nothing was entered"


def test_a_tenant_makes_no_partition_of_another(ask, service, accounts):
    for named in ("blue", "nobody"):
        answer = ask("POST", "/tenants/v1/partitions", {"name": "a", "tenant": named}, accounts["red"])
        assert answer[0] == 403 and service.state.partitions.keys() == {0x7FFF}
    assert ask("POST", "/tenants/v1/partitions", {"name": "a", "tenant": "red"}, accounts["red"])[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_each_guid_has_its_own_of_memberships(ask, service, method):
    body = {"pkey": "0x5", "guids": [GUID, "00000000000000bb"], "memberships": ["limited", "full"]}
    assert ask(method, "/ufmRest/resources/pkeys", {**body, "memberships": ["limited"]})[0] == 400
    assert 5 not in service.state.partitions
    assert ask(method, "/ufmRest/resources/pkeys", body)[0] == 200
    held = ask("GET", "/ufmRest/resources/pkeys/0x5?guids_data=true")[1]["guids"]
    assert {one["guid"]: one["membership"] for one in held} == {GUID: "limited", "00000000000000bb": "full"}


@pytest.mark.parametrize(
    ("guids", "keys", "silent", "isolated"),
    [
        ([1, 2], {1: 0x8005, 2: 0x8006}, [], True),
        ([1, 2], {1: 0x8005}, [], None),
        ([1, 2], {1: 0x8005, 2: 0x8006}, [3], None),
        ([1, 2], {1: 0x8005, 3: 0x8005}, [2], False),
        ([], {1: 0x8005}, [], None),
    ],
)
def test_isolation_is_unknown_while_a_port_is_silent(ask, service, monkeypatch, guids, keys, silent, isolated):
    """Also another port: its table may have a key of theirs."""
    tables = {guid: Held((key,), None) for guid, key in keys.items()}
    monkeypatch.setattr(service, "isolation", lambda asked: isolation_of(asked, tables, set(silent), State.empty(), 0))
    status, answer = ask("POST", "/tenants/v1/isolation", {"guids": [f"{guid:016x}" for guid in guids]})
    unknown = {*silent, *(set(guids) - keys.keys())}
    assert (status, answer["isolated"], len(answer["silent"])) == (200, isolated, len(unknown))
    assert answer["pairs"] == len(answer["meets"]) == (isolated is False)


@pytest.mark.parametrize("number", [0, -1, (1 << 63) - 1, 1 << 63, -(1 << 63) - 1, 10**30])
def test_a_number_that_no_revision_has_is_404(ask, number):
    """Numbers of SQLite have 64 bits."""
    for method, path in (
        ("GET", f"/tenants/v1/revisions/{number}"),
        ("GET", f"/tenants/v1/revisions/{number}?wait_s=1"),
        ("POST", f"/tenants/v1/revisions/{number}/undo"),
        ("GET", f"/ufmRest/jobs/{number}"),
        ("GET", f"/ufmRest/app/jobs/{number}"),
        ("GET", f"/ufmRest/reports/{number}"),
    ):
        assert ask(method, path)[0] == 404, path
    assert ask("GET", f"/tenants/v1/revisions?before={number}")[0] == 200


def test_two_clients_at_once_lose_nothing(ask, service):
    def add(first: int) -> None:
        for i in range(first, first + 20):
            assert ask("POST", "/ufmRest/resources/pkeys", {"pkey": "0x5", "guids": [f"{i:016x}"]})[0] == 200

    threads = [threading.Thread(target=add, args=(1 + 100 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(service.state.partitions[5].members) == 80 and service.store.state() == service.state


@pytest.mark.parametrize(
    "content", [None, 5, "red=0x5 : ALL", {"0x5": []}, {"0x5": {"guids": [5]}}, {"0x5": {"guids": [], "qos_conf": 5}}]
)
@pytest.mark.parametrize("form", ["partitions.conf", "ufm"])
def test_an_import_that_cannot_be_is_400(ask, form, content):
    status, document = ask("POST", "/tenants/v1/import", {"format": form, "content": content})
    assert status == 400 and "\n" not in document["error"]


def test_an_import_without_members_removes_none(ask, service):
    """UFM's answer without guids_data=true says nothing of members."""
    assert ask("POST", "/ufmRest/resources/pkeys", ONE)[0] == 200
    content = ask("GET", "/ufmRest/resources/pkeys")[1]
    status, document = ask("POST", "/tenants/v1/import", {"format": "ufm", "content": content})
    assert status == 400 and "guids_data=true" in document["error"]
    assert set(service.state.partitions[5].members) == {int(GUID, 16)}


def test_clients_that_begin_together_cost_one_scrypt(service, accounts, monkeypatch):
    calls, scrypt = [], hashlib.scrypt
    for password in ("another password", PASSWORD):  # no earlier test's is remembered
        service.accounts.put(Account("looker", "viewer"), password)

    def counted(*args, **options):
        calls.append(args)
        return scrypt(*args, **options)

    monkeypatch.setattr(hashlib, "scrypt", counted)
    with ThreadPoolExecutor(16) as pool:
        accounts_seen = list(pool.map(lambda _: service.accounts.by_password("looker", PASSWORD), range(64)))
    assert {a.name for a in accounts_seen} == {"looker"} and len(calls) == 1
    service.accounts.put(Account("looker", "viewer"), "another password")
    assert service.accounts.by_password("looker", PASSWORD) is None, "a new password counts at once"


def test_a_tenant_sees_nothing_of_others(ask, service, accounts):
    red, blue = basic("red", PASSWORD), basic("blue", PASSWORD)
    made = ask("POST", "/tenants/v1/partitions", {"name": "secret"}, red)[1]
    mine = ask("POST", "/tenants/v1/partitions", {"name": "b"}, blue)[1]["revision"]
    assert ask("GET", f"/ufmRest/resources/pkeys/{made['pkey']}", None, blue) == (200, {})
    assert {job["Owner"] for job in ask("GET", "/ufmRest/jobs", None, blue)[1]} == {"blue"}
    assert ask("GET", f"/ufmRest/jobs/{mine}", None, blue)[0] == 200
    assert ask("GET", f"/ufmRest/jobs/{made['revision']}", None, blue)[0] == 404
    network = {"id": "n", "provider:segmentation_id": int(made["pkey"], 16)}
    status, document = ask("POST", "/ufmRest/cloudx/Network", network, blue)
    assert status in (403, 409) and "secret" not in document["error"]
    for method, path in [
        ("GET", "/ufmRest/app/events"),
        ("POST", "/ufmRest/app/events/external_event"),
        ("GET", "/ufmRest/app/alarms"),
        ("GET", "/ufmRest/app/smconf"),
        ("POST", "/ufmRest/reports/UFM_Health"),
        ("GET", "/ufmRest/app/unhealthy_ports"),
        ("POST", "/ufmRest/actions"),
        ("GET", "/tenants/v1/findings"),
        ("POST", "/tenants/v1/restore"),
        ("GET", "/ufmRest/monitoring/session/0/data"),
    ]:
        assert ask(method, path, {}, blue)[0] == 403, path


def test_the_managers_port_stays_the_operators(ask, service, accounts, monkeypatch):
    """Management packets have the P_Key at index 0: a tenant's key there would take the manager off the default partition."""
    guid = next(iter(service.view.ports))
    monkeypatch.setattr(service.view, "manager", guid)
    head, other = {"pkey": "0x5", "guids": [f"{guid:016x}"]}, {"pkey": "0x5", "guids": [GUID], "index0": True}
    for index0 in (True, False):
        body = {**head, "index0": index0}
        status, document = ask("POST", "/ufmRest/resources/pkeys", body, accounts["red"])
        assert status == 403 and "the subnet manager's; only operators" in document["error"]
        assert ask("PUT", "/ufmRest/resources/pkeys", body, accounts["red"])[0] == 403
    status, document = ask("POST", "/ufmRest/resources/pkeys", {**head, "index0": True})
    assert status == 409 and "at index 0" in document["error"] and "\n" not in document["error"]
    assert 5 not in service.state.partitions
    assert ask("POST", "/ufmRest/resources/pkeys", head)[0] == 200
    assert ask("POST", "/ufmRest/resources/pkeys", other)[0] == 409, "the last request that names index0 counts"
    conf = f"red=0x6, indx0 : {guid:#x}=full ;\n"
    body = {"format": "partitions.conf", "content": conf, "dry_run": True}
    assert ask("POST", "/tenants/v1/import", body)[0] == 409
    monkeypatch.setattr(service.view, "manager", 0)
    assert ask("POST", "/ufmRest/resources/pkeys", other)[0] == 200
    monkeypatch.setattr(service.view, "manager", guid)  # a standby manager took over
    assert [f.text for f in service.findings() if f.kind == "index0" and "subnet manager's port" in f.text]


def test_a_token_ends_with_what_it_stands_for(ask, service):
    """A stolen token is worth nothing after the password, the role or the tenant of its account changed, or the account was removed and made
    anew; the same account entered again, as a playbook does it at each run, keeps it."""
    place = "/tenants/v1/accounts/borrowed"
    first = {"role": "viewer", "password": "the first password"}
    assert ask("PUT", "/tenants/v1/tenants/red", {})[0] == 200
    token = lambda password: ask("POST", "/tenants/v1/tokens", None, basic("borrowed", password))[1].get("access_token")
    is_good = lambda one: ask("GET", "/ufmRestV3/resources/pkeys", None, f"Bearer {one}")[0] == 200
    for change in ({"password": "another password"}, {"role": "operator"}, {"role": "tenant", "tenant": "red"}, None):
        assert ask("PUT", place, first)[0] == 200
        held = token(first["password"])
        assert is_good(held) and ask("PUT", place, first)[0] == 200 and is_good(held)
        if change is None:
            signed_in = service.accounts.by_password("borrowed", first["password"])
            assert ask("DELETE", place)[0] == 200 and not is_good(held)
            with pytest.raises(InputError, match="sign in again"):
                service.accounts.new_token(signed_in)  # the request that was under way
            assert ask("PUT", place, {**first, "password": "another password"})[0] == 200
        else:
            assert ask("PUT", place, {**first, **change})[0] == 200
        assert not is_good(held), change
        assert service.accounts.by_token(held) is None
    with pytest.raises(InputError, match="sign in again"):
        service.accounts.new_token(Account("borrowed", "viewer"))
    assert ask("DELETE", place)[0] == 200


def test_a_change_that_reached_some_ports_names_them(ask, service, served, monkeypatch):
    """One port refuses, and then the wire is lost: the client learns which ports changed, and the log has who did it."""
    from softib.web.ufm import action_calls

    names = [p["name"] for p in ask("GET", "/ufmRest/resources/ports?sys_type=Computer")[1][:3]]
    answers = [[((1, 1), ""), (None, "Set(PortInfo) was refused"), ((1, 3), "")], PeerError("the wire was lost")]

    def switched(wire, cables, phys, away):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(action_calls, "switched", switched)
    monkeypatch.setattr(action_calls, "cut_off", lambda wire, cables: "")
    monkeypatch.setattr(service, "wire", lambda: nullcontext(None))
    body = {"ports": names, "ports_policy": "UNHEALTHY", "action": "isolate"}
    status, answer = ask("PUT", "/ufmRest/app/unhealthy_ports", body)
    assert status == 503 and answer["failed"] == {names[1]: "Set(PortInfo) was refused"}
    assert answer["changed"] == [names[0], names[2]] and all(name in answer["error"] for name in names)
    (newest,) = ask("GET", "/tenants/v1/revisions?limit=1")[1]
    assert newest["actor"] == "admin" and names[1] in newest["detail"] and "failed at" in newest["detail"]
    status, answer = ask("PUT", "/ufmRest/app/unhealthy_ports", {**body, "ports": names[:2]})
    assert status == 503 and answer["changed"] == [] and set(answer["failed"]) == set(names[:2])
    assert "state is unknown" in answer["error"]


def test_a_port_that_was_never_read_has_each_of_its_names(ask, service, monkeypatch):
    """Its row in the database has the names by PortGUID and NodeGUID; a client may use either, also with 0x and capitals."""
    from softib.tenants.model import CableEnd, IsolatedPort
    from softib.web.ufm import action_calls

    host = CableEnd(0xAB00, 1, "000000000000ab01_1")
    cable = IsolatedPort(1.0, (host, CableEnd(0xCD00, 7, "000000000000cd00_7")))
    monkeypatch.setattr(action_calls, "switched", lambda wire, cables, phys, away: [((0xCD00, 7), "") for _ in cables])
    monkeypatch.setattr(service, "wire", lambda: nullcontext(None))
    for name, status in (
        ("000000000000ab01_1", 200),
        ("000000000000ab00_1", 200),
        (" 0xAB00_1", 200),
        ("000000000000cd00_7", 200),
        ("000000000000ab00_2", 404),
        ("000000000000ab01_x", 404),
        ("ab00", 404),
    ):
        monkeypatch.setitem(service.state.isolated, "000000000000ab01_1", cable)
        body = {"ports": [name], "ports_policy": "HEALTHY"}
        assert ask("PUT", "/ufmRest/app/unhealthy_ports", body)[0] == status, name
        assert ("000000000000ab01_1" in service.state.isolated) == (status == 404)


@pytest.mark.parametrize("policy", ["UNHEALTHY", "HEALTHY"])
def test_an_act_while_the_fabric_is_down_is_503(ask, policy):
    """The service without a subnet opens no wire: clients send the request again, and read nothing of softib's commands."""
    ports = [p["name"] for p in ask("GET", "/ufmRest/resources/ports?sys_type=Computer")[1][:1]]
    status, answer = ask("PUT", "/ufmRest/app/unhealthy_ports", {"ports": ports, "ports_policy": policy})
    assert status == 503 and "send the request again" in answer["error"] and "softib" not in answer["error"]
    switch = ask("GET", "/ufmRest/resources/systems?type=switch")[1][0]["guid"]
    action = "mark_device_unhealthy" if policy == "UNHEALTHY" else "mark_device_healthy"
    assert ask("POST", "/ufmRest/actions", {"action": action, "object_ids": [switch]})[0] == 503


def test_a_tenant_adds_no_port_before_the_managers_is_known(ask, service, accounts, monkeypatch):
    """It may not take the manager's port, so the answer is to try again; a partition without ports is made."""
    monkeypatch.setattr(type(service), "is_read", property(lambda self: False))
    made = ask("POST", "/tenants/v1/partitions", {"name": "p"}, accounts["red"])
    assert made[0] == 200
    body = {"pkey": made[1]["pkey"], "guids": [GUID]}
    status, document = ask("POST", "/ufmRest/resources/pkeys", body, accounts["red"])
    assert status == 503 and "send the request again" in document["error"]
    monkeypatch.undo()
    assert ask("POST", "/ufmRest/resources/pkeys", body, accounts["red"]) == (200, {})


@pytest.mark.parametrize(
    ("method", "path", "body", "name"),
    [
        ("POST", "resources/pkeys", {**ONE, "kind_of_member": "limited"}, "kind_of_member"),
        ("PUT", "resources/pkeys", {**ONE, "index_0": True}, "index_0"),
        ("POST", "resources/pkeys/add", {"pkey": "0x5", "service_levl": 3}, "service_levl"),
        ("PUT", "resources/pkeys/qos_conf", {"pkey": "0x5", "service_level": True}, "service_level"),
        ("PUT", "resources/pkeys/qos_conf", {"pkey": "0x5", "rate_limit": False}, "rate_limit"),
        ("POST", "resources/pkeys/hosts", {"pkey": "0x5", "hosts_names": "a", "memberships": ["full"]}, "memberships"),
        ("POST", "actions/remove_guids_from_pkey", {**ONE, "guid": GUID}, "guid"),
    ],
)
def test_a_misspelt_name_of_ufms_calls_is_400(ask, service, method, path, body, name):
    """A misspelt membership would make full members. Clients in the contracts send no other names."""
    status, answer = ask(method, f"/ufmRest/{path}", body)
    assert status == 400 and answer["error"].startswith(f"{name}: "), answer
    assert 5 not in service.state.partitions


def test_the_answer_names_the_rate_of_the_ipoib_group(ask):
    """UFM's 2.5 Gb/s means that no rate is set: the group then has that of managers, 10 Gb/s. Numbers may be text."""
    path = "/ufmRest/resources/pkeys/0x5?qos_conf=true"
    for limit, group in ((2.5, 10), ("100", 100), (10, 10)):
        assert ask("POST", "/ufmRest/resources/pkeys/add", {"pkey": "0x5", "rate_limit": limit})[0] == 200
        qos = ask("GET", path)[1]["qos_conf"]
        assert (qos["rate_limit"], qos["group_rate"]) == (float(limit), group)
        assert ask("DELETE", "/ufmRest/resources/pkeys/0x5")[0] == 200
    assert ask("POST", "/ufmRest/resources/pkeys/add", {"pkey": "0x5", "ip_over_ib": False})[0] == 200
    assert "group_rate" not in ask("GET", path)[1]["qos_conf"], "it has no group"


def test_members_whose_switch_does_not_check_are_a_finding(ask, service, monkeypatch):
    guid, other = list(service.view.ports)[:2]
    monkeypatch.setattr(service.view, "unchecked", frozenset({guid, other}))
    assert [f for f in service.findings() if "do not check" in f.text] == []
    assert ask("POST", "/ufmRest/resources/pkeys", {"pkey": "0x5", "guids": [f"{guid:016x}"]})[0] == 200
    (finding,) = [f for f in service.findings() if "do not check" in f.text]
    assert (finding.kind, finding.where) == ("isolation", f"{guid:016x}") and "1 member" in finding.text


def test_a_tenants_port_to_which_the_manager_moved_is_a_finding(ask, service, monkeypatch):
    """The manager's port cannot be assigned; one that was assigned before the manager moved there is named."""
    guid = next(iter(service.view.ports))
    assert ask("PUT", "/tenants/v1/tenants/moved", {"ports": [f"{guid:016x}"]})[0] == 200
    present = lambda: [f for f in service.findings() if "tenant moved" in f.text]
    assert present() == []
    monkeypatch.setattr(service.view, "manager", guid)
    (finding,) = present()
    assert (finding.kind, finding.where) == ("isolation", f"{guid:016x}")
    assert ask("PUT", "/tenants/v1/tenants/moved", {"ports": []})[0] == 200
    assert present() == []
    assert ask("DELETE", "/tenants/v1/tenants/moved")[0] == 200


def test_findings_of_partitions_begin_and_end(ask, service, monkeypatch):
    """docs/tenants.md: present findings have their begin, those that ended also their end; a change of the text is no end."""
    service.findings()
    now = [5000.0]
    monkeypatch.setattr(service.ledger.log, "_clock", lambda: now[0])
    guid, other = (f"{g:016x}" for g in list(service.view.ports)[:2])
    read = lambda kind, query="": [
        f
        for f in ask("GET", f"/tenants/v1/findings{query}")[1]
        if f["kind"] == kind and 5000 <= (f["begun_s"] or 0) < 6000
    ]
    keys = "/ufmRest/resources/pkeys"
    for pkey, index0 in (("0x5", True), ("0x6", True)):
        assert ask("POST", keys, {"pkey": pkey, "guids": [guid], "index0": index0})[0] == 200
    for kind, where in (("isolation", "0x7fff"), ("index0", guid)):
        (one,) = read(kind)
        assert (one["where"], one["begun_s"], one["ended_s"]) == (where, 5000, None), one
    now[0] += 60
    assert ask("POST", keys, {"pkey": "0x5", "guids": [other]})[0] == 200
    (changed,) = read("isolation")
    assert (changed["begun_s"], changed["ended_s"]) == (5000, None) and "2 members" in changed["text"]
    now[0] += 60
    assert ask("DELETE", f"{keys}/0x6")[0] == 200
    for kind in ("isolation", "index0"):
        assert read(kind) == []
        (past,) = read(kind, "?resolved=true")
        assert (past["begun_s"], past["ended_s"]) == (5000, 5120), past


def test_a_guid_with_two_memberships_is_400(ask, service):
    body = {"pkey": "0x5", "guids": [GUID, GUID.upper()], "memberships": ["full", "limited"]}
    for method in ("POST", "PUT"):
        status, answer = ask(method, "/ufmRest/resources/pkeys", body)
        assert status == 400 and f"{GUID} is given as a full and as a limited member" in answer["error"]
    assert 5 not in service.state.partitions
    assert ask("POST", "/ufmRest/resources/pkeys", {**body, "memberships": ["full", "full"]}) == (200, {})
    members = [{"guid": GUID, "membership": m} for m in ("full", "limited")]
    for content, why in (({"guids": members}, "two"), ({"guids": [], "qos_conf": {"service_level": True}}, "a flag")):
        body = {"format": "ufm", "content": {"0x6": content}, "dry_run": True}
        assert ask("POST", "/tenants/v1/import", body)[0] == 400, why


def test_the_end_of_no_quarantine_is_404(ask, service):
    assert ask("DELETE", "/tenants/v1/quarantine/0x777")[0] == 404
    assert ask("POST", "/ufmRest/resources/pkeys/add", {"pkey": "0x777"})[0] == 200
    assert ask("DELETE", "/tenants/v1/quarantine/0x777")[0] == 409, "it has a partition"
    assert ask("DELETE", "/ufmRest/resources/pkeys/0x777")[0] == 200
    assert [ask("DELETE", "/tenants/v1/quarantine/0x777")[0] for _ in range(2)] == [200, 404]


def test_a_switch_that_refused_a_packet_is_named_with_its_port():
    name_of = {5: "leaf-1[0]"}.get
    line = Intruder(0.0, 259, 3, 4, 0x8005, 5, 7).named(lambda lid: name_of(lid, f"LID {lid}"))
    assert "; port 7 of leaf-1 refused it (trap 259)" in line
    assert "port 7 of LID 6 refused" in Intruder(0.0, 259, 3, 4, 0x8005, 6, 7).named(lambda lid: f"LID {lid}")


def test_a_refused_packet_without_a_p_key_says_so():
    """The entry at the index of the sender's queue pair is empty: its partition was removed."""
    of = lambda key, trap: Intruder(0.0, trap, 3, 4, key, 5).named(lambda lid: f"LID {lid}")
    assert "P_Key 0x0 (no P_Key: " in of(0, 259) and "P_Key 0x8000 (no P_Key: " in of(0x8000, 257)
    assert "(no P_Key" not in of(0, 258) + of(0x8005, 259)
