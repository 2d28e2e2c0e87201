"""A hardened subnet, whose ports answer nothing without the M_Key (IBA 14.2.4.1, level 2): programs read it with the
key of ``--mkey``, or of ``SOFTIB_MKEY``."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request

import pytest

from softib.errors import InputError
from softib.live.umad_client.wire import KeyedWire, keyed
from tests.preload.verbs.applications import FABRIC, Applications
from tests.tenants.serving import Served

MKEY = "0x1122334455667788"
OPTIONS = f"m_key {MKEY}\nm_key_protection_level 2\n"
HOSTS, SWITCHES = 8, 6


class Wire:
    def exchange(self, outbox=None):
        return None

    def wait(self, timeout_s):
        return False


def test_the_key_is_the_given_one_or_that_of_the_environment(monkeypatch):
    monkeypatch.delenv("SOFTIB_MKEY", raising=False)
    wire = Wire()
    assert keyed(wire) is wire and keyed(wire, 0) is wire and keyed(wire, 5) == KeyedWire(wire, 5)
    monkeypatch.setenv("SOFTIB_MKEY", "0x10")
    assert keyed(wire) == KeyedWire(wire, 16) and keyed(wire, 5) == KeyedWire(wire, 5)
    assert keyed(wire, 0) is wire, "an audit also reads as a host without the key"
    for text in ("secret", "-1", "0x1ffffffffffffffff"):
        monkeypatch.setenv("SOFTIB_MKEY", text)
        with pytest.raises(InputError, match="SOFTIB_MKEY is not an M_Key") as error:
            keyed(wire)
        assert text not in str(error.value), "a key is in no log"


@pytest.fixture(scope="module")
def hardened(tmp_path_factory):
    pytest.importorskip("alembic", reason="alembic is not installed (the extra tenants)")
    options = tmp_path_factory.mktemp("hardened") / "opensm.conf"
    options.write_text(OPTIONS)
    made = Applications(FABRIC, "--sm-config", str(options))
    made.env.pop("SOFTIB_MKEY", None)
    try:
        yield made
    finally:
        made.close()


def run(fabric, words: list[str], **env: str) -> subprocess.CompletedProcess:
    return subprocess.run(words, env={**fabric.env, **env}, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
def test_verbs_that_send_mads_read_a_hardened_subnet_with_the_key(hardened):
    inside = hardened.on("host-0003", sys.executable, "-m", "softib", "check", "umad:", "--json")
    for words in (
        inside,
        hardened.arguments("exporter", "f", "--once"),
        hardened.arguments("top", "f", "--rounds", "2", "--every", "0.2"),
    ):
        shut = run(hardened, words)
        assert shut.returncode not in (0, 70), shut
        seen = run(hardened, words, SOFTIB_MKEY=MKEY)
        assert "host-0008" not in shut.stdout, (words, shut.stdout)
        assert seen.returncode in (0, 1) and seen.stdout, (words, seen.stderr)
        assert MKEY[2:] not in shut.stderr + seen.stderr + seen.stdout
    fabric = json.loads(run(hardened, inside, SOFTIB_MKEY=MKEY).stdout)["fabric"]
    assert (fabric["cas"], fabric["switches"]) == (HOSTS, SWITCHES), fabric
    wrong = run(hardened, inside, SOFTIB_MKEY="0x1")
    assert wrong.returncode not in (0, 1, 70) and "M_Key" in wrong.stderr, wrong


@pytest.mark.slow
def test_the_page_of_a_hardened_subnet(hardened):
    words = hardened.arguments("serve", "f", "--port", "0", "--every", "0.5", "--mkey", MKEY)
    server = subprocess.Popen(words, env=hardened.env, stderr=subprocess.PIPE, text=True)
    try:
        lines: list[str] = []
        while not lines or " at http" not in lines[-1]:
            lines.append(server.stderr.readline())
            assert lines[-1], lines
        url = lines[-1].rpartition(" at ")[2].strip().rstrip("/")
        with urllib.request.urlopen(f"{url}/api/v1/nodes", timeout=40) as answer:
            assert "host-0008" in answer.read().decode()
    finally:
        server.terminate()
        server.wait(20)
        server.stderr.close()


@pytest.mark.slow
def test_partitions_of_a_hardened_subnet_are_programmed_with_the_key(hardened):
    folder = hardened.folder / "tenants"
    words = hardened.arguments("serve", "f", "--tenants", str(folder), "--port", "0", "--mkey", MKEY)
    served = Served(words, hardened.env, folder)
    try:
        body = {"hosts_names": "host-0003,host-0005", "pkey": "0x5"}
        assert served.ask("POST", "/ufmRest/resources/pkeys/hosts", body) == (200, {})
        assert served.programmed()["state"] == "programmed"
        members = served.ask("GET", "/ufmRest/resources/pkeys/0x5?guids_data=true")[1]["guids"]
        assert [m["programmed"] for m in members] == [True, True]
    finally:
        served.stop()
    unkeyed = run(hardened, hardened.arguments("serve", "f", "--tenants", str(hardened.folder / "none"), "--port", "0"))
    assert unkeyed.returncode == 2 and "set SOFTIB_MKEY" in unkeyed.stderr, unkeyed
