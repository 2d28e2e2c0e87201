"""A daemon whose descriptors are used up: it answers, does not spin, and can be stopped."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.live.serving import wait_for

SOCKETS = {
    "umad": socket.SOCK_SEQPACKET,
    "verbs.sock": socket.SOCK_SEQPACKET,
    "rdma_cm": socket.SOCK_SEQPACKET,
    "control": socket.SOCK_STREAM,
}
CONNECTIONS = 300
"""To each socket: more than it keeps, and than the kernel lets wait."""


@pytest.fixture(autouse=True)
def descriptors():
    """This process may have as many as it opens here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2000:
        pytest.skip("the hard limit of descriptors is below 2,000 here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def processor_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def connect_and_say_nothing(folder: Path, held: contextlib.ExitStack) -> int:
    connected = 0
    for name, kind in SOCKETS.items():
        for _ in range(CONNECTIONS):
            sock = held.enter_context(socket.socket(socket.AF_UNIX, kind))
            sock.settimeout(1)
            try:
                sock.connect(str(folder / name))
            except OSError:  # the kernel's queue is full
                break
            connected += 1
    return connected


@pytest.mark.parametrize("limit", [32, 1024])
def test_connections_that_say_nothing(softib, limit):
    """Of more than there are descriptors for, or than one socket keeps."""
    up = subprocess.run(
        softib.words("up", "one.yaml", "--detach", "--sm", "none"),
        env=softib.env,
        cwd=softib.folder,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
    )
    assert up.returncode == 0
    pid = softib.status()[0]["pid"]
    with contextlib.ExitStack() as held:
        assert connect_and_say_nothing(softib.folder / "run" / "softib" / "one", held) > 4 * 64
        assert len(os.listdir(f"/proc/{pid}/fd")) <= min(limit, 4 * 257 + 40)
        before = processor_ticks(pid)
        time.sleep(1)
        assert processor_ticks(pid) - before < 0.5 * os.sysconf("SC_CLK_TCK"), "it waits"
        assert softib.status()[0]["bugs"] == 0
        softib("down", "one")


def test_the_soft_limit_is_no_limit(softib):
    """As a login shell has it (1,024), while the system allows more."""
    hard = 3000
    subprocess.run(
        softib.words("up", "one.yaml", "--detach", "--sm", "none"),
        env=softib.env,
        cwd=softib.folder,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard)),
    )
    lines = Path(f"/proc/{softib.status()[0]['pid']}/limits").read_text().splitlines()
    assert next(line for line in lines if line.startswith("Max open files")).split()[3:5] == [str(hard), str(hard)]
    softib("down", "one")


def test_after_they_are_gone_it_goes_on(softib):
    subprocess.run(
        softib.words("up", "one.yaml", "--detach", "--sm", "none"),
        env=softib.env,
        cwd=softib.folder,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32)),
    )
    with contextlib.ExitStack() as held:
        connect_and_say_nothing(softib.folder / "run" / "softib" / "one", held)
    pid = softib.status()[0]["pid"]
    assert wait_for(lambda: len(os.listdir(f"/proc/{pid}/fd")) < 32)
    softib("run", "--", "true")


def started_with(limit: int, softib) -> subprocess.CompletedProcess[str]:
    """``softib up`` with so many descriptors."""
    return subprocess.run(
        softib.words("up", "one.yaml", "--detach", "--sm", "none"),
        env=softib.env,
        cwd=softib.folder,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
    )


def test_a_fabric_that_does_not_start_says_which_limit_to_raise(softib):
    done = started_with(20, softib)
    assert done.returncode == 2 and done.stderr.endswith("Too many open files; raise the limit with 'ulimit -n'\n")
    assert not softib.status() and not (softib.folder / "run" / "softib" / "one").exists()


@pytest.mark.parametrize("limit", [16, 18, 20, 22])
def test_a_start_that_runs_out_of_descriptors_leaves_nothing(softib, limit):
    """At any of its steps, in a folder that an earlier fabric of the name left."""
    folder = softib.folder / "run" / "softib" / "one"
    for made in (folder.parent.parent, folder.parent, folder):
        made.mkdir(mode=0o700, exist_ok=True)
    done = started_with(limit, softib)
    if done.returncode == 0:
        softib("down", "one")
    else:
        assert {p.name for p in folder.glob("*")} <= {"lock", "log"}, done.stderr
        assert "raise the limit with 'ulimit -n'" in done.stderr
