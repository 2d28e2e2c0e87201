"""examples/ansible/partitions.yml, run by ansible-core of the Python package index: what it declares is in the tables that stock smpquery reads."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.preload.foreign_wheels import environment
from tests.preload.verbs.applications import FABRIC, Applications
from tests.tenants.serving import Served, table

pytest.importorskip("alembic", reason="alembic is not installed (the extra tenants)")
PLAYBOOK = Path(__file__).parents[3] / "examples/ansible/partitions.yml"


@pytest.mark.slow
def test_a_second_run_changes_nothing():
    program = environment("ansible-core") / "bin" / "ansible-playbook"
    fabric = Applications(FABRIC)
    try:
        folder = fabric.folder / "tenants"
        served = Served(
            fabric.arguments("serve", "f", "--tenants", str(folder), "--port", "0", "--every", "1"), fabric.env, folder
        )
        try:
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
            assert changed("--check", partitions=[blue], absent=["0x22"]) == 1 and table(fabric, "host-0003") == [
                "0xffff"
            ]
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
        finally:
            served.stop()
    finally:
        fabric.close()
