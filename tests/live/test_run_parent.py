"""What stays of ``softib run`` while its program runs: a program of one page, which hands signals and exit codes on as the interpreter does."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from softib.preload.build import WAIT
from tests.live.serving import wait_for

INTERPRETER = ("--refresh", "3600")
"""An option that leaves something to do: the interpreter stays, and is what the other is compared with."""
STEPS = {
    "exit 0": ("exit 0", None, 0),
    "exit 7": ("exit 7", None, 7),
    "killed": ("kill -9 $$", None, 137),
    "terminated": ("sleep 60", signal.SIGTERM, 143),
    "SIGTERM is the program's": ("while :; do sleep 0.1; done", signal.SIGTERM, 5),
    "hung up": ("sleep 60", signal.SIGHUP, 129),
    "SIGHUP is the program's": ("trap 'exit 6' HUP; echo begun; while :; do sleep 0.1; done", signal.SIGHUP, 6),
    "Ctrl-C does not end it": ("sleep 1; exit 3", signal.SIGINT, 3),
}


@pytest.fixture(autouse=True)
def waits() -> None:
    if not WAIT.is_file():
        pytest.skip("softib-wait is not built")


@pytest.fixture
def one(running_one):
    return running_one


@pytest.mark.parametrize("options", ((), INTERPRETER), ids=("small", "interpreter"))
def test_signals_and_exit_codes(one, options):
    """POSIX's rule for shells: 128 + signal; run(1)-like parents ignore Ctrl-C, which the terminal sends to the program too."""
    for name, (script, number, code) in STEPS.items():
        trap = "trap 'exit 5' TERM; " if code == 5 else ""
        words = one.words(
            "run", *options, "--", "sh", "-c", f"{trap}echo begun; {script}" if "begun" not in script else script
        )
        program = subprocess.Popen(words, env=one.env, cwd=one.folder, stdout=subprocess.PIPE, text=True)
        assert program.stdout.readline() == "begun\n"
        if number:
            program.send_signal(number)
        assert program.wait(60) == code, name
        program.stdout.close()


@pytest.mark.parametrize("options", ((), INTERPRETER), ids=("small", "interpreter"))
def test_a_killed_run_ends_its_program(one, options):
    """Its locks on ports end with it, so a program that went on would use a port that another program may have."""
    words = one.words(
        "run", *options, "--", "sh", "-c", "trap 'echo ended; exit' TERM; echo begun; while :; do sleep 0.1; done"
    )
    program = subprocess.Popen(words, env=one.env, cwd=one.folder, stdout=subprocess.PIPE, text=True)
    assert program.stdout.readline() == "begun\n"
    program.kill()
    assert program.communicate(timeout=60)[0] == "ended\n"


def test_it_is_small_and_hides_nothing(one):
    """Less than a tenth of the interpreter's 36 MB; seen by ps as what it is; no library preloaded."""
    words = one.words("run", "--", "sh", "-c", "echo $PPID; read line")
    program = subprocess.Popen(
        words, env=one.env, cwd=one.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    parent = Path("/proc", program.stdout.readline().strip())
    assert parent.name == str(program.pid), "the process that was started"
    assert wait_for(lambda: (parent / "cmdline").read_bytes().startswith(b"softib run\0")), "it may speak before that"
    parent_status = (parent / "status").read_text()
    assert int(re.search(r"VmRSS:\s+(\d+) kB", parent_status)[1]) < 3600
    assert "softib-umad" not in (parent / "maps").read_text()
    program.communicate("\n", timeout=60)
    assert program.returncode == 0


def test_a_call_in_a_python_process_returns(one):
    """Only the command becomes another program; the library, and main() of a program that embeds it, do not."""
    code = "import softib, sys; c = softib.RunningFabric('one').call(['sh', '-c', 'exit 4']); print('still here', c)"
    embedded = "from softib.cli.main import main\ntry: main(['run', '--', 'true'])\nexcept SystemExit as e: print('still here', e.code)"
    for text, said in ((code, "still here 4\n"), (embedded, "still here 0\n")):
        python = one.words()[0]
        done = subprocess.run([python, "-c", text], env={**os.environ, **one.env}, capture_output=True, text=True)
        assert done.stdout == said, done


@pytest.mark.parametrize("options", ((), INTERPRETER), ids=("small", "interpreter"))
def test_a_program_on_verbs_that_fails_is_offered_why(one, stock, options):
    """perftest without its device; ``softib why`` then finds the cause in that output."""
    run = lambda *words: subprocess.run(
        one.words("run", *options, "--", *words), env=one.env, cwd=one.folder, capture_output=True, text=True
    )
    failed = run(stock("ib_write_bw"), "-d", "nosuch")
    assert failed.returncode == 1 and failed.stderr.splitlines()[-1].endswith(
        "ib_write_bw ended with exit code 1; keep its output: softib why LOG --fabric one explains it"
    )
    (one.folder / "job.log").write_text(failed.stdout + failed.stderr)
    assert "no-device" in one("why", "job.log").split("1. ")[1].splitlines()[0]
    for words in (("sh", "-c", "exit 3"), (stock("ibv_devices"),)):
        assert "softib why" not in run(*words).stderr


@pytest.mark.parametrize("how", ("down", pytest.param("killed", marks=pytest.mark.slow)))
def test_programs_end_after_their_fabric(softib, stock, how):
    """POSIX: 128 + the signal. OpenSM, which goes on without its device, also where it is its own daemon."""
    one = softib
    one.start("one.yaml", "--name", "one")
    opensm = [stock("opensm"), "-f", str(one.folder / "osm.log"), "-p", "1"]
    one.env["OSM_CACHE_DIR"] = one.env["OSM_TMP_DIR"] = str(one.folder)
    deaf = ("sh", "-c", "trap '' TERM; while :; do sleep 0.1; done")
    expected = (
        ((), ("sleep", "1000"), 143),
        (INTERPRETER, ("sleep", "1000"), 143),
        ((), deaf, 137),
        (("--node", "host-0002"), opensm, 0),
    )
    running = [
        subprocess.Popen(one.words("run", *options, "--", *words), env=one.env, cwd=one.folder, stderr=subprocess.PIPE)
        for options, words, _ in expected
    ]
    one("run", "--node", "host-0003", "--", *opensm, "-B")
    one("run", "--", "sh", "-c", "sleep 1001 > /dev/null 2>&1 &")
    left = lambda: [
        pid
        for pid, words in commands()
        if str(one.folder) in words or words.startswith(("sleep\x001001", "/usr/bin/sleep\x001001"))
    ]
    assert wait_for(lambda: len(left()) >= 3)
    if how == "down":
        one("down", "one")
    else:
        os.kill(one.status()[0]["pid"], signal.SIGKILL)
    for (_, words, code), program in zip(expected, running, strict=True):
        assert program.wait(120) == code, words
        assert b"the fabric has stopped, so its programs are terminated" in program.stderr.read()
        program.stderr.close()
    assert wait_for(lambda: not left(), 120), "programs in the background"


def commands() -> list[tuple[int, str]]:
    """Return the number and words of every process."""
    every = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            every.append((int(path.parent.name), path.read_text(errors="replace")))
    return every
