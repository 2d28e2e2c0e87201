"""Nothing that a command started for itself outlives it, whatever signal ends it. Oracles: /proc, and the folder for temporary files."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from softib.cli.main import VERBS

MARK = "SOFTIB_TEST_INTERRUPTED"
TREE = "topology: {kind: fat-tree, radix: 8, levels: 2}\n"
LOG = "host-0001:7:9 [0] NCCL WARN NET/IB : Got completion from peer with status=12 opcode=0 len=0 vendor err 129\n"
OSU = "# OSU MPI Latency Test v7.3\n# Size  Avg Latency(us)\n" + "".join(
    f"{1 << k} {1.5 + (1 << k) / 1e4:.2f}\n" for k in range(12)
)
AT_REST = {
    "compile": ("compile",),
    "report": ("report", "tree.yaml", "--html", "r.html"),
    "check": ("check", "tree.yaml", "--write-baseline", "known.json"),
    "path": ("path", "tree.yaml", "host-0001", "host-0020"),
    "diff": ("diff", "tree.yaml", "tree.yaml"),
    "convert": ("convert", "tree.yaml", "tree.ibnetdiscover"),
    "generate": ("generate", "fat-tree", "--hosts", "2000"),
    "route": ("route", "tree.yaml", "--dump", "lfts"),
    "simulate": ("simulate", "tree.yaml", "all-to-all:1MB", "--layer", "packet"),
    "calibrate": ("calibrate", "osu.log", "--source", "tree.yaml", "--workload", "mpi-latency", "--machine", "m.yaml"),
    "compare": ("compare", "tree.yaml", "permutation:1MB"),
    "plan": ("plan", "design", "--hosts", "2000", "--save", "designs"),
    "advise": ("advise", "--hosts", "64"),
    "up": ("up", "tree.yaml", "--name", "interrupted"),
    "ci": ("ci", "--", "sleep", "3"),
    "serve": ("serve", "tree.yaml", "--port", "0"),
    "doctor": ("doctor",),
    "completion": ("completion", "bash"),
}
RUNNING = {
    "status": ("status",),
    "run": ("run", "--node", "host-0003", "--", "sleep", "30"),
    "run --net": ("run", "--net", "--node", "host-0003", "--", "sleep", "30"),
    "shell": ("shell",),
    "target": ("run", "--node", "host-0001", "--", sys.executable, "-m", "softib", "target", "disk.img"),
    "nvme": ("run", "--node", "host-0002", "--", sys.executable, "-m", "softib", "nvme", "list", "127.64.0.1"),
    "fault": ("fault", "flap", "leaf-1[5]"),
    "exporter": ("exporter", "tree", "--port", "0", "--history", "kept"),
    "top": ("top", "tree"),
    "serve --tenants": ("serve", "tree", "--port", "0", "--tenants", "kept"),
    "diagnose": ("diagnose", "tree", "--every", "2"),
    "isolate": ("isolate", "tree", "--act", "--every", "2"),
    "audit": ("audit", "tree"),
    "node-check": ("node-check",),
    "stack": ("stack",),
    "why": ("why", "job.log", "--fabric", "tree"),
    "accept": ("accept", "tree", "--quick", "--seconds", "0.1"),
    "baseline": ("baseline", "record", "b.json", "tree"),
    "sm": ("sm", "sweep"),
    "sm run": ("run", "--node", "host-0005", "--", sys.executable, "-m", "softib", "sm", "run", "--priority", "3"),
    "lab": ("lab", "15"),
    "down": ("down", "tree"),
}
ENDS = {"TERM": signal.SIGTERM, "HUP": signal.SIGHUP, "INT": signal.SIGINT, "KILL": signal.SIGKILL}


def marked(value: str) -> list[int]:
    """Processes that inherited the mark."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={value}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def settings(folder: Path, runtime: Path, **more: str) -> dict[str, str]:
    return {
        **os.environ,
        "TMPDIR": str(folder / "tmp"),
        "XDG_RUNTIME_DIR": str(runtime),
        "PYTHONUNBUFFERED": "1",
        **more,
    }


def send(process: subprocess.Popen, args: tuple[str, ...], number: int) -> None:
    """To the command; where it stands for a program of the user's (``softib run``), to both, as a terminal and a scheduler do."""
    (os.killpg if args[0] in ("run", "shell") else os.kill)(process.pid, number)


def interrupt(folder: Path, args: tuple[str, ...], number: int, after_s: float, runtime: Path | None = None) -> None:
    """Run a command, end it after a time, and look for what does not end with it."""
    folder.mkdir(exist_ok=True)
    (folder / "tree.yaml").write_text(TREE)
    (folder / "job.log").write_text(LOG)
    (folder / "osu.log").write_text(OSU)
    (folder / "disk.img").write_bytes(bytes(1 << 20))
    (folder / "tmp").mkdir()
    value = str(folder)
    process = subprocess.Popen(
        [sys.executable, "-m", "softib", *args],
        cwd=folder,
        env=settings(folder, runtime or folder, **{MARK: value}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        time.sleep(after_s)
        over = process.poll() is not None
        if not over:
            send(process, args, number)
        out = process.communicate(timeout=60)[0]
        deadline = time.monotonic() + 60
        while marked(value) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not marked(value), out
        assert "Traceback" not in out and "bug in softib" not in out, out
        assert over or process.returncode in (0, -number, 128 + number), out  # 0: what serves until then
        if number != signal.SIGKILL:
            assert not list((folder / "tmp").iterdir()), out
            assert not list(folder.glob(".*")), out
    finally:
        for pid in marked(value):
            os.kill(pid, signal.SIGKILL)


def test_every_verb_is_interrupted():
    assert {name.split()[0] for name in (*AT_REST, *RUNNING)} == set(VERBS)


@pytest.mark.parametrize("end", ("TERM", "KILL"))
def test_an_interrupted_compile_leaves_no_fabric(tmp_path, end):
    interrupt(tmp_path, AT_REST["compile"], ENDS[end], 3.0)


def moments(verb: str):
    rng = random.Random(verb)
    for number in range(10):
        end = rng.choice(list(ENDS))
        # "up" that serves and a subnet manager read their files again on SIGHUP, like OpenSM.
        yield str(number), ENDS["TERM" if end == "HUP" and verb in ("up", "sm run") else end], rng.uniform(0.1, 6.0)


@pytest.mark.slow
@pytest.mark.parametrize("verb", AT_REST)
def test_nothing_is_left_of_ten_interrupted_runs(tmp_path, verb):
    for name, end, after_s in moments(verb):
        interrupt(tmp_path / name, AT_REST[verb], end, after_s)


@pytest.mark.slow
@pytest.mark.parametrize("verb", RUNNING)
def test_nothing_is_left_on_a_running_fabric(tmp_path, verb):
    """The fabric itself answers after each; ``softib down`` has ended it, or not."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "tree.yaml").write_text(TREE)

    def softib(*words: str) -> str:
        ran = subprocess.run(
            [sys.executable, "-m", "softib", *words], cwd=home, env=settings(home, home), capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    (home / "tmp").mkdir()
    try:
        for name, end, after_s in moments(verb):
            if not json.loads(softib("status", "--json"))["fabrics"]:
                softib("up", "tree.yaml", "--name", "tree", "--detach")
            interrupt(tmp_path / name, RUNNING[verb], end, after_s, home)
            left = json.loads(softib("status", "--json"))["fabrics"]
            assert [f["bugs"] for f in left] in ([0], [] if verb == "down" else [0])
    finally:
        softib("down", "--all")


@pytest.mark.parametrize(("end", "line"), (("INT", "interrupted"), ("TERM", "ended by SIGTERM")))
def test_an_interrupted_command_reports_it_in_one_line(tmp_path, end, line):
    """The exit code of an end by a signal is 128 + its number (POSIX shells)."""
    fifo = tmp_path / "never.yaml"
    os.mkfifo(fifo)
    process = subprocess.Popen(
        [sys.executable, "-m", "softib", "why", fifo], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    with open(fifo, "w"):  # it reads now
        process.send_signal(ENDS[end])
        out = process.communicate(timeout=60)[0]
    assert (out, process.returncode) == (f"softib: {line}\n", 128 + ENDS[end])


def test_a_signal_that_is_sent_again_interrupts_no_end(tmp_path):
    """A terminal that closes and ``softib run`` both send SIGHUP to the program. (Here SIGTERM: below nohup, SIGHUP is ignored.)"""
    fifo = tmp_path / "never.yaml"
    os.mkfifo(fifo)
    process = subprocess.Popen(
        [sys.executable, "-m", "softib", "why", fifo], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    with open(fifo, "w"):  # it reads now
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            process.terminate()
            time.sleep(0.002)
        process.kill()
        assert (process.communicate()[0], process.returncode) == ("softib: ended by SIGTERM\n", 128 + signal.SIGTERM)


@pytest.mark.parametrize(("moment", "code"), (("a callback", 143), ("an exec", 143), ("an exec that catches it", 7)))
def test_an_interrupt_that_python_would_lose_ends_the_command(tmp_path, moment, code):
    """Python drops what rises in a callback of a weak reference (imports have them), and ends ``python -m`` by SIGINT where it passed an
    exec of text (dataclass has one): both were met at random moments. The exit code of an end by SIGTERM is 128 + 15 (POSIX shells)."""
    (tmp_path / "moment.py").write_text(
        "import os, signal, sys, time, weakref\n"
        "import click\n"
        "from softib.cli import main\n"
        "class Gone: pass\n"
        "def kill(*_): os.kill(os.getpid(), signal.SIGTERM)\n"
        "def lose(*_, **__):\n"
        "    if 'a callback' in sys.argv[1]:\n"
        "        gone = Gone(); kept = weakref.ref(gone, kill); del gone\n"
        "    try: exec('kill()' if 'an exec' in sys.argv[1] else '', {'kill': kill})\n"
        "    except KeyboardInterrupt:\n"
        "        if 'catches' in sys.argv[1]: return 7\n"
        "        raise\n"
        "    time.sleep(20)\n"
        "main.cli.main = lose\n"
        "main.main()\n"
    )
    began = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-m", "moment", moment], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    line = "softib: ended by SIGTERM\n" if code == 143 else ""
    assert (ran.returncode, ran.stderr) == (code, line) and time.monotonic() - began < 20


def test_a_folder_of_a_killed_command_is_removed_and_one_in_use_stays(tmp_path):
    """Also for a user of another container, whose process numbers mean nothing here; a user's own folder is no scratch folder."""
    from softib.scratch import scratch_folder

    (tmp_path / "softib-results").mkdir()
    holds = "import sys, time\nfrom pathlib import Path\nfrom softib.scratch import scratch_folder\nwith scratch_folder('ci', Path(sys.argv[1])) as f: print(f, flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", holds, tmp_path], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    held = Path(process.stdout.readline().strip())
    with scratch_folder("up", tmp_path) as mine:
        assert held.is_dir() and mine.is_dir()
    assert held.is_dir() and not mine.exists()
    process.kill()
    process.wait()
    with scratch_folder("up", tmp_path):
        assert not held.exists()
    assert [p.name for p in tmp_path.iterdir()] == ["softib-results"]


def test_the_fabric_of_a_killed_ci_ends_with_it(tmp_path):
    """Killed when its fabric runs and its program begins: both end, and the next run removes the folder in shared memory."""
    value, memory, folders = str(tmp_path), Path("/dev/shm"), "softib-ci-*.scratch"
    before = set(memory.glob(folders))
    (tmp_path / "tmp").mkdir()
    program = [sys.executable, "-c", "print('begins', flush=True); import time; time.sleep(600)"]
    process = subprocess.Popen(
        [sys.executable, "-m", "softib", "ci", "--", *program],
        cwd=tmp_path,
        env=settings(tmp_path, tmp_path, **{MARK: value}),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None and "begins" in iter(process.stdout.readline, "").__next__()
        process.kill()
        process.wait()
        deadline = time.monotonic() + 60
        while marked(value) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not marked(value)
        left = set(memory.glob(folders)) - before
        subprocess.run(
            [sys.executable, "-m", "softib", "ci", "--", "true"], cwd=tmp_path, env=settings(tmp_path, tmp_path)
        )
        assert not left & set(memory.glob(folders))
    finally:
        for pid in marked(value):
            os.kill(pid, signal.SIGKILL)
