"""Progress of compiling: what takes over a second is shown, as one count that only grows."""

import fcntl
import io
import re
import subprocess
import sys

import pytest

from softib.cli.shared import output
from softib.cli.shared.output import Compiling, show_line
from softib.jit import progress, store


class Terminal(io.StringIO):
    def isatty(self):
        return True


def _play(monkeypatch, stream, seconds):
    """Three units of 40 kernels, the second twice: 0.1 s a kernel."""
    now = [0.0]
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(output.time, "monotonic", lambda: now[0])
    compiling = Compiling()
    for unit in ("a.serve", "b.route", "a.serve", "c.step"):
        for i in range(40):
            now[0] += seconds
            compiling(unit, i, 40)
    return [int(n) for n in re.findall(r"(\d+) done", stream.getvalue())]


@pytest.mark.parametrize(
    ("stream", "least", "most"), ((Terminal(), 50, 80), (io.StringIO(), 1, 2)), ids=("terminal", "log")
)
def test_the_count_only_grows(monkeypatch, stream, least, most):
    counts = _play(monkeypatch, stream, 0.1)  # 16 s
    assert counts == sorted(counts) and least <= len(counts) <= most and counts[-1] <= 120


def test_what_is_over_in_a_second_is_not_shown(monkeypatch):
    assert _play(monkeypatch, Terminal(), 0.005) == []


def test_a_log_has_a_line_each_ten_seconds(monkeypatch):
    stream = io.StringIO()
    counts = _play(monkeypatch, stream, 1.0)  # 160 s, of silence before
    assert 14 <= len(counts) <= 17 and stream.getvalue().count("\n") == len(counts)


def test_a_line_changes_on_a_terminal_and_is_repeated_each_ten_seconds_in_a_log(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(output.time, "monotonic", lambda: now[0])
    for stream, expected in ((io.StringIO(), "softib: 10\nsoftib: 20\n"), (Terminal(), r"\r\033\[Ksoftib: 24$")):
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setattr(output, "_next_s", 10.0)
        for second in range(25):
            now[0] = second
            show_line(str(second))
        show_line("")
        assert re.search(expected, stream.getvalue().removesuffix("\r\033[Ksoftib: "))


def test_a_wait_for_another_process_is_shown(monkeypatch, tmp_path):
    monkeypatch.setenv("SOFTIB_CACHE_DIR", str(tmp_path))
    stream, now = io.StringIO(), [0.0]
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(output.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "_listeners", [Compiling()])
    with (store.STORE.make_folder() / f"softib.a.serve{store.LOCK}").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)

        def later(seconds):
            now[0] += 1
            if now[0] > 24:
                fcntl.flock(other, fcntl.LOCK_UN)

        monkeypatch.setattr(store.time, "sleep", later)
        with store.STORE.alone("softib.a.serve"):
            pass
    shown = stream.getvalue()
    assert shown.count("another process compiles softib.a.serve") == shown.count("\n") == 2, shown


PROGRAM = """
import os, sys
import softib.jit.store as store
for name in ("HOME", "XDG_CACHE_HOME", "SOFTIB_CACHE_DIR"): os.environ.pop(name, None)
os.environ["HOME"] = sys.argv[1]
os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
print(store.cache_dir())
store.STORE.write("kernel", b"code")
print(store.STORE.read("kernel"))
"""


def test_a_home_that_cannot_be_written_has_a_cache_elsewhere(tmp_path):
    """Another process finds what the first kept there; what another user put there is not run."""
    import os
    import tempfile

    if os.geteuid():
        pytest.skip("only root can become a user without a home")
    with tempfile.TemporaryDirectory(dir="/tmp") as home:
        os.chmod(home, 0o755)
        environment = {**os.environ, "TMPDIR": home + "/t"}
        os.mkdir(home + "/t")
        os.chmod(home + "/t", 0o1777)
        run = lambda: subprocess.run(
            [sys.executable, "-c", PROGRAM, home], capture_output=True, text=True, env=environment, timeout=60
        )
        for _ in range(2):
            done = run()
            assert done.stdout.splitlines() == [f"{home}/t/softib-65534/kernels", "b'code'"], done.stderr
        os.chown(f"{home}/t/softib-65534/kernels", 65533, 65533)
        done = run()
        assert done.stdout.splitlines()[1] == "None" and "belongs to uid 65533" in done.stderr
