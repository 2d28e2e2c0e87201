"""Who may not use a fabric, and what programs are told that find none, or one of another version."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.preload.verbs.applications import A, Applications


@pytest.fixture
def fabric(apps):
    return apps


def environment(fabric: Applications, node: str) -> dict[str, str]:
    """What ``softib run`` gives a program."""
    output = subprocess.run(
        fabric.on(node, "env", "-0"), env=fabric.env, capture_output=True, text=True, check=True
    ).stdout
    return dict(line.split("=", 1) for line in output.split("\0") if "=" in line)


def devices(env: dict[str, str], *before: str) -> subprocess.CompletedProcess:
    return subprocess.run([*before, "ibv_devices"], env=env, capture_output=True, text=True, timeout=240, cwd="/")


@pytest.mark.stock
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_kept_out(fabric, stock):
    """Even with the owner's whole environment, and where the directories above the fabric's are open to all."""
    stock("ibv_devices"), stock("setpriv")
    env = environment(fabric, A)
    assert "mlx5_0" in devices(env).stdout
    nobody = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    done = devices(env, *nobody)
    assert done.returncode == 0 and "mlx5" not in done.stdout
    output = subprocess.run(
        [*nobody, sys.executable, "-I", "-c", ATTACK, str(fabric.folder), *files(fabric)],
        capture_output=True,
        text=True,
        timeout=240,
        cwd="/",
    )
    assert (output.returncode, output.stdout) == (0, "kept out\n"), output.stderr


ATTACK = """
import os, socket, sys
folder, *names = sys.argv[1:]
for name in names:
    for flags in (os.O_RDONLY, os.O_RDWR):
        try:
            os.open(name, flags)
        except OSError:
            continue
        sys.exit(f"opened {name}")
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        try:
            socket.socket(socket.AF_UNIX, kind).connect(name)
        except OSError:
            continue
        sys.exit(f"connected to {name}")
print("kept out")
"""


def files(fabric: Applications) -> list[str]:
    """Everything of a fabric. What programs open is its owner's alone, were its folder open, too."""
    found = []
    for path in sorted(fabric.folder.rglob("*")):
        if "/hosts/" in str(path) or path.is_dir() or path.name == "f.yaml":
            continue
        found.append(str(path))
        if path.name in ("shared_fabric", "verbs", "traffic") or path.is_socket():
            assert path.stat().st_mode & 0o077 == 0, path
    assert any(name.endswith("/verbs") for name in found) and any(name.endswith("/shared_fabric") for name in found)
    return found


@pytest.mark.stock
@pytest.mark.parametrize("quiet", [False, True])
def test_no_fabric(fabric, stock, quiet):
    env = environment(fabric, A) | {"SOFTIB_UMAD": "/nowhere/at/all/umad"} | ({"SOFTIB_QUIET": "1"} if quiet else {})
    done = devices({**env, "SOFTIB_VIEW": "/nowhere/at/all/views/x"})
    assert done.returncode == 0 and "mlx5" not in done.stdout
    lines = [line for line in done.stderr.splitlines() if "no InfiniBand devices" in line]
    assert lines == [] if quiet else len(lines) == 1 and "no fabric runs at /nowhere/at/all" in lines[0], done.stderr


@pytest.mark.stock
@pytest.mark.parametrize("name", ["shared_fabric", "verbs", "traffic"])
def test_a_file_of_another_version(fabric, stock, name):
    """Programs see no devices, and one line names both versions."""
    env = environment(fabric, A)
    path = next(fabric.folder.glob(f"softib/*/{name}"))
    with path.open("r+b") as file:
        file.seek(8)
        mine = file.read(4)
        file.seek(8)
        file.write((77).to_bytes(4, sys.byteorder))
    try:
        done = devices(env)
    finally:
        with path.open("r+b") as file:
            file.seek(8)
            file.write(mine)
    assert done.returncode == 0 and "mlx5" not in done.stdout, done.stdout
    lines = [line for line in done.stderr.splitlines() if "no InfiniBand devices" in line]
    assert len(lines) == 1 and "has version 77" in lines[0], done.stderr
    assert f"reads version {int.from_bytes(mine, sys.byteorder)}" in lines[0], done.stderr


@pytest.mark.stock
def test_too_little_address_space_is_named(apps, stock):
    """RLIMIT_AS of 20 GB; the file of verbs is mapped whole, 64 GB."""
    stock("ibv_devices")
    words = apps.on(A, "sh", "-c", "ulimit -v 20000000; exec ibv_devices")
    done = subprocess.run(words, env=apps.env, capture_output=True, text=True)
    assert done.stderr.count("verbs takes 64 GB of address space, the limit is 19; use ulimit -v unlimited") == 1, done
