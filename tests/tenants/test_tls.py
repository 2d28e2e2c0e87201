"""TLS as clients meet it: the certificate that is made for an address, and a client certificate that names an account; forged ones do not."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import threading
import time

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed (the extra serve)")
pytest.importorskip("cryptography", reason="cryptography is not installed (the extra tenants)")

from softib.errors import InputError
from softib.tenants.accounts import Account
from softib.web.server import _library, listen
from softib.web.tls import self_signed, tls_of
from tests.tenants.asking import PASSWORD, basic


def openssl(folder, *words):
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """A CA, a certificate of the account ``looker`` from it, and one of that name from nobody."""
    folder = tmp_path_factory.mktemp("keys")
    new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl(folder, *new, "-x509", "-subj", "/CN=test CA", "-keyout", "ca.key", "-out", "ca.pem")
    openssl(folder, *new, "-x509", "-subj", "/CN=looker", "-keyout", "forged.key", "-out", "forged.pem")
    openssl(folder, *new, "-subj", "/O=test/CN=looker", "-keyout", "looker.key", "-out", "looker.csr")
    openssl(
        folder,
        "x509",
        "-req",
        "-in",
        "looker.csr",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-out",
        "looker.pem",
    )
    return folder


@pytest.fixture
def secured(keys, asking, service, tmp_path):
    service.accounts.put(Account("looker", "viewer"), PASSWORD)
    tls = self_signed(tmp_path, "127.0.0.1", keys / "ca.pem")
    listener = listen("127.0.0.1", 0)
    server = _library()(asking.app, tls)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield listener.getsockname()[1], tmp_path / "server.pem"
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


def ask(port, server_certificate, method, path, client="", body=None, **headers):
    context = ssl.create_default_context(cafile=server_certificate)
    if client:
        context.load_cert_chain(f"{client}.pem", f"{client}.key")
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
    connection.request(method, path, body, {"Content-Type": "application/json", **headers})
    answer = connection.getresponse()
    out = answer.status, json.loads(answer.read())
    connection.close()
    return out


def test_a_client_certificate_of_the_ca_is_its_account(secured, keys):
    for prefix in ("/ufmRestV2", "/ufmRest"):
        assert ask(*secured, "GET", f"{prefix}/app/ufm_version", str(keys / "looker"))[0] == 200
    assert (
        ask(*secured, "POST", "/ufmRestV2/resources/pkeys", str(keys / "looker"), '{"pkey": "0x5", "guids": []}')[0]
        == 403
    )
    assert ask(*secured, "GET", "/ufmRestV2/app/ufm_version")[0] == 401
    assert ask(*secured, "GET", "/ufmRest/app/ufm_version", Authorization=basic("looker", PASSWORD))[0] == 200


def test_a_certificate_of_nobody_gets_no_connection(secured, keys):
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        ask(*secured, "GET", "/ufmRestV2/app/ufm_version", str(keys / "forged"))


def test_the_certificate_is_kept_and_its_key_is_private(tmp_path):
    first = self_signed(tmp_path, "192.0.2.7", None)
    text = (tmp_path / "server.pem").read_text()
    assert self_signed(tmp_path, "192.0.2.7", None) == first and (tmp_path / "server.pem").read_text() == text
    assert (tmp_path / "server.pem").stat().st_mode & 0o077 == 0
    shown = subprocess.run(
        ["openssl", "x509", "-noout", "-ext", "subjectAltName"], input=text, capture_output=True, text=True
    ).stdout
    assert "192.0.2.7" in shown


def test_what_is_no_certificate_is_one_line(tmp_path, keys):
    (tmp_path / "x.pem").write_text("no PEM")
    for words in ((tmp_path / "x.pem", None), (keys / "missing.pem", None)):
        with pytest.raises(InputError, match="not a PEM file with a certificate and its key"):
            tls_of(*words)
