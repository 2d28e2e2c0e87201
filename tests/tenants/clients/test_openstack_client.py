"""networking-mlnx-baremetal of the Python package index, unmodified: its UFM client's six calls, judged by what stock smpquery reads."""

from __future__ import annotations

import subprocess

import pytest

from tests.preload.foreign_wheels import environment
from tests.preload.verbs.applications import FABRIC, Applications
from tests.tenants.serving import Served, table

pytest.importorskip("alembic", reason="alembic is not installed (the extra tenants)")

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


@pytest.mark.slow
def test_openstacks_client_runs_as_it_is():
    python = environment("networking-mlnx-baremetal") / "bin" / "python"
    fabric = Applications(FABRIC)
    folder = fabric.folder / "tenants"
    served = Served(fabric.arguments("serve", "f", "--tenants", str(folder), "--port", "0"), fabric.env, folder)
    try:
        ports = {
            p["system_name"]: p["guid"] for p in served.ask("GET", "/ufmRest/resources/ports?sys_type=Computer")[1]
        }
        words = [python, "-c", CLIENT, served.url, served.password, *(ports[f"host-000{i}"] for i in (2, 3, 4))]
        client = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        output = client.stdout.readline()
        assert output == "left\n", output + client.stdout.read()
        assert [table(fabric, f"host-000{i}") for i in (2, 3, 4)] == [["0xffff"], ["0xffff", "0x8031"], ["0xffff"]]
        output = client.communicate("\n", timeout=60)[0]
        assert client.returncode == 0 and output.endswith("not there any more\n"), output
        served.programmed()
        assert table(fabric, "host-0003") == ["0xffff"]
    finally:
        served.stop()
        fabric.close()
