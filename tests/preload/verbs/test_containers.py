"""Programs that are not in one namespace: a container each, which shares the fabric's directory."""

from __future__ import annotations

import subprocess

import pytest

from tests.preload.verbs.applications import A, Applications, B
from tests.preload.verbs.c_programs import program


def begin(apps: Applications, node: str, *words: str) -> subprocess.Popen:
    return subprocess.Popen(apps.on(node, *words), env=apps.env, cwd=apps.folder, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)  # fmt: skip


@pytest.mark.stock
def test_no_process_of_another_pid_namespace_is_taken_for_the_peer(apps, stock, tmp_path):
    """Both are pid 2 of their own namespace, so the peer's pid is the sender's own: its memory stays what it is, the peer's
    has the data or the sender an error. The oracle is what both find in their memory."""
    words = (stock("bwrap"), "--unshare-pid", "--dev-bind", "/", "/", "--proc", "/proc", program("containers"))
    one, two = (begin(apps, node, *words, role, str(tmp_path), "plain") for node, role in ((A, "a"), (B, "b")))
    said, errors = one.communicate(timeout=60)
    assert one.returncode == 0, errors
    assert said.startswith("a: refused: remote access error") and errors.count("PID namespace") == 1
    two.kill()
    two.communicate()
