"""Programs of the Python package index, unmodified, against a service on a running fabric: networking-mlnx-baremetal's UFM client, ansible-core with
examples/ansible/partitions.yml, and a client that a generator makes of the OpenAPI document. What they declare is what stock smpquery reads."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tests.preload.foreign_wheels import environment
from tests.preload.verbs.applications import FABRIC, Applications
from tests.tenants.serving import Served, table

pytest.importorskip("alembic", reason="alembic is not installed (the extra tenants)")
pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "examples"
PLAYBOOK, TERRAFORM = EXAMPLES / "ansible/partitions.yml", EXAMPLES / "terraform/partitions.tf"

CLIENT = """
import sys, time
from networking_mlnx_baremetal.ufmclient.client import UfmClient
from networking_mlnx_baremetal.ufmclient.exceptions import ResourceNotFoundError
url, password, a, b, c = sys.argv[1:]
pkeys = UfmClient(url, "admin", password, False).pkey
def client_id(guid):  # as ironic has it: the prefix of Mellanox and the GUID
    return "ff:00:00:00:00:00:02:00:00:02:c9:00:" + ":".join(guid[i : i + 2] for i in range(0, 16, 2))
def until_programmed(pkey, count):
    for _ in range(300):
        guids = pkeys.get(pkey, with_guid=True)["guids"]
        if len(guids) == count and all(g["programmed"] for g in guids):
            return guids
        time.sleep(0.1)
    raise SystemExit(f"not programmed: {guids}")
pkeys.update("0x31", [client_id(a), client_id(b)])
assert [(g["guid"], g["membership"], g["index0"]) for g in until_programmed("0x31", 2)] == [(a, "full", False), (b, "full", False)]
pkeys.add_guids("0x31", [client_id(c)], index0=False, full_membership=False)
assert until_programmed("0x31", 3)[2]["membership"] == "limited"
assert "0x31" in pkeys.list() and "guids" not in pkeys.list()["0x31"]
pkeys.remove_guids("0x31", [client_id(a), client_id(c)])
assert [g["guid"] for g in until_programmed("0x31", 1)] == [b]
print("left", flush=True)
sys.stdin.readline()
pkeys.delete("0x31")
try:
    pkeys.delete("0x31")
except ResourceNotFoundError:
    print("not there any more")
"""
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


def test_openstacks_client_runs_as_it_is(fabric, served):
    python = environment("networking-mlnx-baremetal") / "bin" / "python"
    ports = {p["system_name"]: p["guid"] for p in served.ask("GET", "/ufmRest/resources/ports?sys_type=Computer")[1]}
    words = [python, "-c", CLIENT, served.url, served.password, *(ports[f"host-000{i}"] for i in (2, 3, 4))]
    client = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output = client.stdout.readline()
    assert output == "left\n", output + client.stdout.read()
    assert [table(fabric, f"host-000{i}") for i in (2, 3, 4)] == [["0xffff"], ["0xffff", "0x8031"], ["0xffff"]]
    output = client.communicate("\n", timeout=60)[0]
    assert client.returncode == 0 and output.endswith("not there any more\n"), output
    served.programmed()
    assert table(fabric, "host-0003") == ["0xffff"]


def test_a_second_run_of_the_playbook_changes_nothing(fabric, served):
    program = environment("ansible-core") / "bin" / "ansible-playbook"
    token = served.ask("POST", "/tenants/v1/tokens")[1]["access_token"]
    ports = served.ask("GET", "/ufmRest/resources/ports?sys_type=Computer")[1]
    a, b, c = [p["guid"] for p in ports if p["system_name"] in ("host-0003", "host-0004", "host-0005")]

    def changed(*words: str, **variables) -> int:
        given = {"url": served.url, "token": token, **variables}
        done = subprocess.run(
            [program, PLAYBOOK, "-e", json.dumps(given), *words],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "HOME": str(fabric.folder), "ANSIBLE_LOCALHOST_WARNING": "False"},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return int(re.findall(r"changed=(\d+)", done.stdout)[-1])

    blue = {"pkey": "0x21", "name": "blue", "full": [a, b], "limited": [c]}
    assert changed("--check", partitions=[blue], absent=["0x22"]) == 1 and table(fabric, "host-0003") == ["0xffff"]
    assert changed(partitions=[blue]) == 1
    assert [set(table(fabric, f"host-000{i}")) for i in (3, 4, 5, 6)] == [
        {"0xffff", "0x8021"},
        {"0xffff", "0x8021"},
        {"0xffff", "0x0021"},
        {"0xffff"},
    ]
    assert changed(partitions=[blue]) == 0
    assert changed(partitions=[{**blue, "full": [a], "limited": [b]}]) == 1
    assert [set(table(fabric, f"host-000{i}")) - {"0xffff"} for i in (3, 4, 5)] == [
        {"0x8021"},
        {"0x0021"},
        set(),
    ]
    assert changed(partitions=[], absent=["0x21"]) == 1
    assert changed(partitions=[], absent=["0x21"]) == 0
    served.until("/ufmRest/resources/pkeys", lambda found: list(found) == ["0x7fff"])


def generate(at: Path, folder: Path, document: object, name: str) -> None:
    """A client by openapi-python-client, without a warning."""
    (folder / f"{name}.json").write_text(json.dumps(document))
    generated = subprocess.run(
        [at / "openapi-python-client", "generate", "--path", f"{name}.json", "--output-path", name, "--meta", "none"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PATH": f"{at}:{os.environ['PATH']}"},
    )
    output = generated.stdout + generated.stderr
    assert generated.returncode == 0 and "warning" not in output.lower(), output


UFM_PROGRAM = """
import sys
from ufm import AuthenticatedClient
from ufm.api.default import add_guids, delete, healthcheck, one_pkey, ports
from ufm.models import Members, Problem
with AuthenticatedClient(base_url=sys.argv[1] + "/ufmRestV3", token=sys.argv[2], timeout=60) as client:
    guids = [port.guid for port in ports.sync(client=client, sys_type="Computer")][2:4]
    assert not isinstance(add_guids.sync(client=client, body=Members(pkey="0x33", guids=guids)), Problem)
    assert [one.guid for one in one_pkey.sync("0x33", client=client, guids_data=True).guids] == guids
    refused = add_guids.sync_detailed(client=client, body=Members(pkey="0x10000", guids=guids))
    assert refused.status_code == 400 and "0x10000" in refused.parsed.error
    assert healthcheck.sync(client=client).manager_reached
    assert not isinstance(delete.sync("0x33", client=client), Problem)
"""


def test_a_client_generated_of_ufms_document_reads_every_answer(fabric, served):
    at = environment("openapi-python-client") / "bin"
    generate(at, fabric.folder, served.ask("GET", "/ufmRest/openapi.json")[1], "ufm")
    token = served.ask("POST", "/ufmRest/app/tokens")[1]["access_token"]
    subprocess.run([at / "python", "-c", UFM_PROGRAM, served.url, token], cwd=fabric.folder, timeout=90, check=True)


def test_a_generated_client_declares_and_undoes(fabric, served):
    at = environment("openapi-python-client") / "bin"
    with urllib.request.urlopen(f"{served.url}/tenants/v1/openapi.json") as answer:
        document = json.load(answer)
    generate(at, fabric.folder, document, "gen")
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
    assert document["servers"] == [{"url": "/tenants/v1"}]


def test_terraform_declares_partitions_without_a_provider(fabric, served, tmp_path):
    terraform = shutil.which("terraform")
    if terraform is None:
        pytest.skip("terraform is not installed")
    shutil.copy(TERRAFORM, tmp_path)
    token = served.ask("POST", "/tenants/v1/tokens")[1]["access_token"]
    ports = served.ask("GET", "/ufmRest/resources/ports?sys_type=Computer")[1]
    a, b = [p["guid"] for p in ports if p["system_name"] in ("host-0003", "host-0004")]

    def run(*words: str, code: int = 0, **environment: str) -> str:
        env = {**os.environ, "SOFTIB_TOKEN": token, "TF_CLI_CONFIG_FILE": "/dev/null", **environment}
        done = subprocess.run(
            [terraform, *words, "-no-color"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def declared(**partitions) -> None:
        (tmp_path / "terraform.tfvars.json").write_text(json.dumps({"url": served.url, "partitions": partitions}))

    run("init")
    declared(**{"0x41": {"full": [a], "limited": [b]}, "0x42": {"full": [b]}})
    run("apply", "-auto-approve")
    assert served.programmed()["state"] == "programmed"
    assert (table(fabric, "host-0003"), table(fabric, "host-0004")) == (
        ["0xffff", "0x8041"],
        ["0xffff", "0x0041", "0x8042"],
    )
    run("plan", "-detailed-exitcode")
    declared(**{"0x41": {"full": [a, b]}})
    run("plan", "-detailed-exitcode", code=2)
    run("apply", "-auto-approve", code=1, SOFTIB_TOKEN="wrong")
    assert "0x42" in served.ask("GET", "/ufmRest/resources/pkeys")[1]
    run("apply", "-auto-approve")
    assert served.programmed()["state"] == "programmed"
    assert table(fabric, "host-0004") == ["0xffff", "0x8041"]
    run("destroy", "-auto-approve")
    assert served.programmed()["state"] == "programmed" and table(fabric, "host-0003") == ["0xffff"]
