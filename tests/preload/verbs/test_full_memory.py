"""A full file system below the fabric (a container's /dev/shm): errors of calls, never SIGBUS of a program or the daemon."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.preload.verbs.applications import FABRIC, SOURCE, verbs_library
from tests.preload.verbs.c_programs import program
from tests.scratch import scratch

SCENES = Path(__file__).with_name("full_memory.py")
NAMESPACE = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-U", "-r", "-m"]
KINDS = ("cq", "qp", "srq", "mw", "mr")


def permitted() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(not permitted(), reason="this machine permits no mount namespace")


def played(size: str, scene: str) -> dict:
    verbs_library()
    folder = scratch("softib-full-")
    folder.with_suffix(".yaml").write_text(FABRIC)
    try:
        done = subprocess.run([*NAMESPACE, sys.executable, str(SCENES), str(folder), size, scene, program("full")],
                              env={**os.environ, "PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, timeout=500)  # fmt: skip
    finally:
        folder.with_suffix(".yaml").unlink()
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def check(seen: dict) -> None:
    """No program was killed by a signal (``softib run`` gives 128 + its number), and the daemon is whole."""
    assert {code for code, _ in seen["ends"]} == {0}, seen["ends"]
    assert len(seen["status"]) == 1 and seen["status"][0]["bugs"] == 0 and seen["down"] == 0
    assert seen["status"][0]["verbs"]["programs"] == seen["status"][0]["verbs"]["chunks"] == 0, "all was given back"
    for _, said in seen["ends"]:
        lines = dict(line.split(" ", 1) for line in said.splitlines() if line.split(" ", 1)[0] in KINDS)
        assert set(lines.values()) <= {"ENOMEM"}, said
        assert said.count("no room for more RDMA objects") <= 1, said


def test_eight_programs_make_objects_until_it_is_full():
    seen = played("3m", "many")
    check(seen)
    assert "the file system is full; programs get ENOMEM" in seen["log"]
    whole = [said for _, said in seen["ends"] if all(f"{kind} ENOMEM" in said for kind in KINDS)]
    assert whole and any(said.count("send arrived") == 2 for said in whole), "what was made before goes on"


def steps(last: int, by: int) -> str:
    return json.dumps(list(range(0, last, by)))


@pytest.mark.parametrize(
    "scene", [steps(40, 13), pytest.param(steps(60, 1), marks=pytest.mark.slow)], ids=["some", "every page"]
)
def test_a_program_that_begins_when_so_many_pages_are_left(scene):
    """Each page that a program touches in its life is once the one that is not there."""
    seen = played("4m", scene)
    check(seen)
    _, free = seen["ends"][0]
    assert all(f"{kind} ENOMEM" in free for kind in KINDS), free
