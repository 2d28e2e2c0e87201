"""The reader of /proc against processes that the test starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

from softib.live import proc
from tests.live.serving import wait_for


def started(program: str, *args: str) -> subprocess.Popen:
    return subprocess.Popen([program, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_a_name_with_parentheses_and_spaces(tmp_path):
    """The second field of /proc/PID/stat is the name in parentheses, as it is."""
    program = tmp_path / "a) Z 1 (b"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    child = started(str(program), "60")
    try:
        assert wait_for(lambda: proc.command_name(child.pid) == program.name.encode())
        assert proc.parents()[child.pid] == os.getpid()
        assert not proc.has_ended(child.pid) and proc.is_running(child.pid, proc.process_start(child.pid))
        assert not proc.is_running(child.pid, proc.process_start(child.pid) + 1), "another process of the same number"
        assert proc.working_directory(child.pid) == os.getcwd()
    finally:
        child.kill()
    began = proc.process_start(child.pid)
    assert wait_for(lambda: proc.has_ended(child.pid)) and not proc.is_running(child.pid, began), "a zombie"
    child.wait()
    assert proc.has_ended(child.pid) and proc.process_start(child.pid) == 0
    assert proc.working_directory(child.pid) is None and proc.command_name(child.pid) == b""


def test_descendants_the_youngest_generation_first():
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import sys; print(1, flush=True); sys.stdin.read()'])"
    child = started(sys.executable, "-c", script)
    try:
        assert child.stdout and child.stdout.readline() == b"1\n"
        below = proc.descendants(os.getpid())
        (grandchild,) = proc.descendants(child.pid)
        assert below.index(grandchild) < below.index(child.pid) and os.getpid() not in below
    finally:
        child.communicate(b"")
    assert proc.descendants(child.pid) == []


def test_the_start_counts_from_boot():
    ticks = os.sysconf("SC_CLK_TCK")
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - proc.process_start(os.getpid()) / ticks
    assert 0 <= age_s < 7 * 24 * 3600
