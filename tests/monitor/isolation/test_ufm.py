"""Ports disabled by UFM's list. Oracles: the port as MADs and stock iblinkinfo read it; softib's UFM-compatible server, and servers that
refuse, do nothing, or speak something else."""

from __future__ import annotations

import base64
import json
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

import softib
from softib.errors import InputError
from softib.iba.constants import PhysState
from softib.monitor.isolation import means, ports
from softib.monitor.isolation.means import UfmList
from tests.monitor.lab import Wire, fabric_up, port_of
from tests.preload.verbs.applications import FABRIC, Applications
from tests.tenants.serving import Served

BAD = "leaf-1[3]"


@contextmanager
def answering(answer):
    """A server; ``answer`` gets (headers, body) and returns (status, text). Yields its address and the requests."""
    requests = []

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append((self.path, self.headers["Authorization"], body))
            status, text = answer(body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@pytest.fixture(scope="module")
def subnet():
    fabric = fabric_up()
    row = port_of(fabric, "leaf-1", 3)
    peer = int(fabric.port_peer[row])
    ends = tuple((int(fabric.node_guid[fabric.port_node[p]]), int(fabric.port_num[p])) for p in (row, peer))
    return Wire(fabric), ends


def does(wire):
    """A UFM that does what it is asked for, with Set(PortInfo)."""

    def answer(body):
        guid, _, number = body["ports"][0].partition("_")
        end = (int(guid, 16), int(number))
        if body["ports_policy"] == "UNHEALTHY":
            assert ports.disable(wire, [end])[1] == ""
        else:
            assert ports.enable(wire, end) == ""
        return 200, "{}"

    return answer


def test_the_list_disables_and_enables_a_port(subnet):
    wire, ends = subnet
    with answering(does(wire)) as (url, requests):
        ufm = UfmList(wire, url, "admin:secret:with:colons")
        end, why = ufm.disable(ends)
        assert (end, why) == (ends[0], "")
        assert ports.link_states(wire, [end])[end][1] == PhysState.DISABLED
        assert ufm.enable(end) == ""
        assert ports.link_states(wire, [end])[end][1] != PhysState.DISABLED
    name = f"{ends[0][0]:016x}_{ends[0][1]}"
    assert [r[2] for r in requests] == [
        {"ports": [name], "ports_policy": "UNHEALTHY", "action": "isolate"},
        {"ports": [name], "ports_policy": "HEALTHY"},
    ]
    assert {r[0] for r in requests} == {"/ufmRest/app/unhealthy_ports"}
    assert base64.b64decode(requests[0][1].split()[1]).decode() == "admin:secret:with:colons"


@pytest.mark.parametrize(
    ("status", "text", "shown"),
    [
        (401, '{"detail": "wrong password"}', "401: wrong password"),
        (404, "<html>no such page</html>", "404: <html>"),
        (500, "", "500: no reason"),
        (503, "[" * 100_000, "503: ["),
        (307, '{"message": "moved"}', "307: moved"),
    ],
)
def test_a_refusal_is_the_reason_and_nothing_changes(subnet, status, text, shown):
    wire, ends = subnet
    with answering(lambda body: (status, text)) as (url, requests):
        end, why = UfmList(wire, url, "token").disable(ends)
    assert end is None and shown in why and len(why) < 1000 and "\n" not in why
    assert len(requests) == 1 and requests[0][:2] == ("/ufmRestV3/app/unhealthy_ports", "Basic token")
    assert all(phys != PhysState.DISABLED for _, phys in ports.link_states(wire, ends).values())


def test_a_list_without_effect_is_undone(subnet, monkeypatch):
    monkeypatch.setattr(means, "DONE_S", 0.1)
    wire, ends = subnet
    with answering(lambda body: (200, "{}")) as (url, requests):
        end, why = UfmList(wire, url, "token").disable(ends)
    assert end is None and "did not disable" in why
    assert [r[2]["ports_policy"] for r in requests] == ["UNHEALTHY", "HEALTHY"]


def test_an_address_that_no_server_answers_is_a_reason(subnet):
    wire, ends = subnet
    with answering(lambda body: (200, "{}")) as (url, _):
        pass
    end, why = UfmList(wire, url, "token").disable(ends)
    assert end is None and "does not answer" in why


@pytest.mark.parametrize(
    "url", ["ufm.site", "ftp://ufm", "https://ufm/path", "https://a:b@ufm", "https://ufm:port", "http://ufm.site", ""]
)
def test_addresses_that_are_none_or_without_tls_are_refused(url):
    with pytest.raises(InputError):
        UfmList(None, url, "token")


def test_credentials_are_the_first_line_of_a_file(tmp_path):
    path = tmp_path / "credentials"
    for text in ("", "\n", "a\0b\n"):
        path.write_text(text)
        with pytest.raises(InputError):
            UfmList.from_file(None, "https://ufm", str(path))
    path.write_text("admin:secret\nmore\n")
    assert UfmList.from_file(None, "https://ufm", str(path)).credentials == "admin:secret"
    with pytest.raises(softib.InputError, match="use it as source"):
        softib.isolate(None, None, ufm=("https://ufm", path))


@pytest.mark.slow
def test_softib_serve_isolates_and_releases_a_bad_cable():
    """By name and password, and by a token; the server's own list has the port, and iblinkinfo shows it Disabled."""
    pytest.importorskip("alembic", reason="alembic is not installed (the extra tenants)")
    fabric = Applications(FABRIC)
    served = None
    try:
        name, folder = fabric.status()["name"], fabric.folder / "tenants"
        words = fabric.arguments("serve", name, "--tenants", str(folder), "--port", "0", "--every", "1")
        served = Served(words, fabric.env, folder)
        credentials = fabric.folder / "credentials"
        credentials.write_text(f"admin:{served.password}\n")
        fabric("fault", "ber", BAD, "1e-3")

        def ran(*words, code):
            words = fabric.arguments("isolate", *words, "--ufm", served.url, "--ufm-credentials", str(credentials))
            done = subprocess.run(words, env=fabric.env, capture_output=True, text=True, timeout=300)
            assert done.returncode == code, (done.stdout, done.stderr)
            return done.stdout

        def disabled():
            words = fabric.on("host-0001", "iblinkinfo")
            return subprocess.run(words, env=fabric.env, capture_output=True, text=True).stdout.count("/Disabled")

        assert "isolated: " in ran(name, "--every", "1.5", "--act", code=1)
        assert disabled() == 1
        isolated = served.until("/ufmRest/resources/isolated_ports", lambda rows: len(rows) == 2)
        assert {row["NodeDesc"] for row in isolated} == {"leaf-1:3", "spine-1:1"}, "both ends of the cable"
        status, token = served.ask("POST", "/ufmRest/app/tokens", {})
        assert status in (200, 201), token
        credentials.write_text(token["access_token"])
        assert "released manually" in ran("release", name, code=0)
        assert disabled() == 0
        actions = [r["action"] for r in served.ask("GET", "/tenants/v1/revisions?limit=2")[1]]
        assert actions == ["release ports", "isolate ports"]
    finally:
        if served is not None:
            served.stop()
        fabric.close()
