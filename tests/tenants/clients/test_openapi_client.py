"""A client that a generator of the Python package index makes of the OpenAPI document: declare, programmed, undo."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request

import pytest

from tests.preload.foreign_wheels import environment
from tests.preload.verbs.applications import FABRIC, Applications
from tests.tenants.serving import Served, table

pytest.importorskip("alembic", reason="alembic is not installed (the extra tenants)")

PROGRAM = """
import sys
from gen import AuthenticatedClient
from gen.api.default import allot, import_partitions as entered, revision, undo
from gen.models import Import, ImportFormat, New, RevisionRowsState
url, token, guid = sys.argv[1:]
client = AuthenticatedClient(base_url=url + "/tenants/v1", token=token, timeout=60)
made = allot.sync(client=client, body=New(name="blue"))
conf = f"blue={made.pkey}, ipoib : 0x{guid}=full ;"
plan = entered.sync(client=client, body=Import(format_=ImportFormat.PARTITIONS_CONF, content=conf, dry_run=True))
assert plan.rows.additional_properties["member"], plan
done = entered.sync(client=client, body=Import(format_=ImportFormat.PARTITIONS_CONF, content=conf))
state = revision.sync(done.revision, client=client, wait_s=30)
assert state.state == RevisionRowsState.PROGRAMMED and state.actor == "admin", state
print(made.pkey, flush=True)
sys.stdin.readline()
back = undo.sync(done.revision, client=client)
assert revision.sync(back.revision, client=client, wait_s=30).state == RevisionRowsState.PROGRAMMED
print("undone")
"""


@pytest.mark.slow
def test_a_generated_client_declares_and_undoes():
    at = environment("openapi-python-client") / "bin"
    fabric = Applications(FABRIC)
    try:
        folder = fabric.folder / "tenants"
        words = fabric.arguments("serve", "f", "--tenants", str(folder), "--port", "0", "--every", "1")
        served = Served(words, fabric.env, folder)
        try:
            with urllib.request.urlopen(f"{served.url}/tenants/v1/openapi.json") as answer:
                (fabric.folder / "openapi.json").write_bytes(answer.read())
            generated = subprocess.run(
                [
                    at / "openapi-python-client",
                    "generate",
                    "--path",
                    "openapi.json",
                    "--output-path",
                    "gen",
                    "--meta",
                    "none",
                ],
                cwd=fabric.folder,
                capture_output=True,
                text=True,
                timeout=120,
                env={**os.environ, "PATH": f"{at}:{os.environ['PATH']}"},
            )
            assert generated.returncode == 0 and "WARNING" not in generated.stdout, generated.stdout + generated.stderr
            token = served.ask("POST", "/tenants/v1/tokens")[1]["access_token"]
            ports = served.ask("GET", "/ufmRest/resources/ports?sys_type=Computer")[1]
            guid = next(p["guid"] for p in ports if p["system_name"] == "host-0003")
            client = subprocess.Popen(
                [at / "python", "-c", PROGRAM, served.url, token, guid],
                cwd=fabric.folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            pkey = client.stdout.readline().strip()
            assert pkey, client.stderr.read()
            assert f"{int(pkey, 16) | 0x8000:#x}" in table(fabric, "host-0003")
            out, problem = client.communicate("\n", timeout=90)
            assert (client.returncode, out) == (0, "undone\n"), problem
            assert table(fabric, "host-0003") == ["0xffff"]
            assert json.loads((fabric.folder / "openapi.json").read_text())["servers"] == [{"url": "/tenants/v1"}]
        finally:
            served.stop()
    finally:
        fabric.close()
