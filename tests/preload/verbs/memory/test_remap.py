"""Registered private memory becomes shared: no octet is lost, a forked child has its own, and programs do not notice."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from softib.preload import build
from tests.preload.verbs.applications import A
from tests.preload.verbs.engine.engine_programs import program

SCENES = (
    "whole_pages",
    "not_moved",
    "sparse",
    "sparse_with_threads",
    "forks",
    "killed_child",
    "later",
    "allocator",
    "descriptors",
    "mappings",
)


def scene(name: str, before=None, **env: str) -> str:
    done = subprocess.run(
        [program("remap"), name],
        capture_output=True,
        text=True,
        timeout=240,
        preexec_fn=before,
        env={**os.environ, **env},
    )
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr[:4000]}"
    return done.stdout


@pytest.mark.parametrize("name", SCENES)
def test_memory(name):
    assert scene(name) == "ok\n"


def test_huge_pages_can_be_had_again():
    said = scene("huge_pages")
    if said.startswith("skip"):
        pytest.skip("the system has no MADV_COLLAPSE for shared memory (Linux 6.1), or denies it")
    assert said == "ok\n"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "not_moved" else pytest.mark.slow) for name in SCENES]
)
def test_memory_on_an_older_system(name, tmp_path):
    """Linux before 6.11 tells all mappings, or none."""
    shim = tmp_path / "older.so"
    source = Path(__file__).parents[1] / "programs" / "older_system.c"
    program("remap")  # skips where there is no compiler
    subprocess.run([*build.compiler().split(), "-shared", "-fPIC", "-o", str(shim), str(source)], check=True)
    assert scene(name, LD_PRELOAD=str(shim)) == "ok\n"


@pytest.mark.parametrize("name", ("child", "lock", "writer", "handlers"))
def test_hooks_of_a_communication_library_do_not_matter(name):
    """UCX 1.13's hook of mremap loses its fifth argument: forked children of MPICH shared the parent's memory. Others wait for a
    lock, or write to what is registered. UCX's cache holds a lock over a registration that its own handler before fork takes."""
    done = subprocess.run([program("hooks"), name], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


def test_no_write_of_another_thread_is_lost():
    """Four threads write to the pages while they are registered, one of them by system calls: where the user may have a
    userfaultfd the pages move, elsewhere they stay."""
    moved = int(re.match(r"(\d+) of 60 moved\nok\n$", scene("threads"))[1])
    assert moved in (0, 60)


def direct_io(kind: str, moves: str, folder: Path) -> tuple[int, int]:
    """(buffers that moved, buffers that lack data of the file that the kernel was reading into them)"""
    done = subprocess.run(
        [program("direct_io"), kind, moves, folder / "file"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    if done.stdout.startswith("skip: "):
        pytest.skip(done.stdout.strip().removeprefix("skip: "))
    moved, lost = re.fullmatch(r"(\d+) moved, (\d+) lost\n", done.stdout).groups()
    return int(moved), int(lost)


@pytest.mark.parametrize("kind", ("read", "aio", "uring", "unmapped"))
def test_no_read_in_flight_is_lost(kind, tmp_path):
    """Data that O_DIRECT, libaio or io_uring is reading into a buffer while it is registered arrives there. Where pages move all
    the same (``SOFTIB_REMAP=1``) some of it does not, or this test would show nothing."""
    moved, lost = direct_io(kind, "moves", tmp_path)
    assert lost == 0
    assert moved == 0 or kind == "read"  # on a busy machine a read may be over before, and its thread gone
    if direct_io("none", "moves", tmp_path)[0]:
        assert direct_io(kind, "always", tmp_path)[1] > 0


@pytest.mark.parametrize("kind", ("none", "pipe"))
def test_memory_of_other_programs_moves(kind, tmp_path):
    """No such I/O; a pipe with O_DIRECT and a second thread (which needs a userfaultfd)."""
    moved, lost = direct_io(kind, "moves", tmp_path)
    assert lost == 0
    assert moved == 6 or (kind == "pipe" and os.geteuid() != 0)


@pytest.mark.parametrize("what", ("locks", "policy"))
def test_what_a_program_asked_for_its_memory_stays(what):
    """mlock(2), mlock2(2), mbind(2)."""
    done = subprocess.run([program("memory_policy"), what], capture_output=True, text=True, timeout=60)
    if done.stdout == "skip\n":
        pytest.skip("this user may not lock memory, or say where it lies")
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


def nobody() -> None:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not have a userfaultfd")
def test_memory_stays_private_where_threads_cannot_be_stopped():
    program("remap").parent.chmod(0o755)
    switch = Path("/proc/sys/vm/unprivileged_userfaultfd")
    if not switch.exists():
        pytest.skip("this kernel does not say who may have a userfaultfd")
    allowed = switch.read_text().strip() != "0"
    assert scene("threads", before=nobody) == f"{60 if allowed else 0} of 60 moved\nok\n"


FORKS = """
import multiprocessing, os, subprocess
import pyverbs.enums as e
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.mr import MR
context = Context(name="mlx5_0")
pd = PD(context)
mr = MR(pd, 1 << 20, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE)
shared = sum("softib-memory" in line for line in open("/proc/self/maps"))
mr.write(b"parent", 6)
def child(queue):
    queue.put(bytes(mr.read(6, 0)))
    mr.write(b"child.", 6)
    queue.put(bytes(mr.read(6, 0)))
queue = multiprocessing.get_context("fork").Queue()
one = multiprocessing.get_context("fork").Process(target=child, args=(queue,))
one.start()
said = [queue.get(), queue.get()]
one.join()
subprocess.run(["true"], check=True, preexec_fn=lambda: None)
pid = os.fork()
if not pid:
    os._exit(0 if mr.read(6, 0) in (b"parent", "parent") else 1)
print(shared, said, mr.read(6, 0), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.stock
@pytest.mark.parametrize("on", [True, False])
def test_a_python_program_forks(apps, on):
    """``multiprocessing``, ``subprocess`` and ``os.fork`` of stock pyverbs, with a region that is shared, and with one that
    ``SOFTIB_REMAP=0`` leaves private."""
    if subprocess.run(["/usr/bin/python3", "-c", "import pyverbs"], capture_output=True).returncode:
        pytest.skip("pyverbs is not installed for /usr/bin/python3")
    arguments = apps.on(A, "/usr/bin/python3", "-c", FORKS)
    done = subprocess.run(
        arguments, env={**apps.env, "SOFTIB_REMAP": "1" if on else "0"}, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    shared, output = done.stdout.split(" ", 1)
    assert (int(shared) > 0) is on
    assert re.fullmatch(r"\[b'parent', b'child\.'\] b?'parent' 0", output.strip()), done.stdout


DIRECT_IO = """
import os, sys, threading
import pyverbs.enums as e
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.mr import MR
os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT)
threading.Thread(target=threading.Event().wait, daemon=True).start()
mr = MR(PD(Context(name="mlx5_0")), 1 << 20, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE)
print(any("softib-memory" in line for line in open("/proc/self/maps")))
"""


@pytest.mark.stock
def test_a_program_with_direct_io_keeps_its_memory_private_unless_it_says_so(apps, tmp_path):
    """Stock pyverbs, a second thread and a file open with O_DIRECT: strict mode reports why; ``SOFTIB_REMAP=1`` moves the pages."""
    if subprocess.run(["/usr/bin/python3", "-c", "import pyverbs"], capture_output=True).returncode:
        pytest.skip("pyverbs is not installed for /usr/bin/python3")
    command = apps.on(A, "/usr/bin/python3", "-c", DIRECT_IO, str(tmp_path / "file"))
    plain = {name: value for name, value in apps.env.items() if name != "SOFTIB_REMAP"}
    for env, moved, reported in (
        ({"SOFTIB_STRICT": "1"}, "False\n", True),
        ({"SOFTIB_STRICT": "1", "SOFTIB_REMAP": "1"}, "True\n", False),
    ):
        done = subprocess.run(command, env=plain | env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert done.stdout == moved
        assert ("registered memory stays private" in done.stderr) is reported, done.stderr


@pytest.mark.stock
def test_perftest_makes_no_system_call_a_message(apps, stock):
    """The client's copies: counted by strace they are none with remapped buffers, and one a message without."""
    port = next(apps.ports)
    arguments = ("-n", "500", "-s", "4096", "-F", "-p", str(port))
    for on, least, most in (("1", 0, 0), ("0", 500, 100_000)):
        count = apps.folder / f"calls-{on}"
        client = (
            stock("strace"),
            "-f",
            "-c",
            "-e",
            "trace=process_vm_writev",
            "-o",
            str(count),
            stock("ib_write_bw"),
            *arguments,
        )
        apps.pair((stock("ib_write_bw"), *arguments), (*client, "127.0.0.1"), tcp=port, SOFTIB_REMAP=on)
        rows = [line.split() for line in count.read_text().splitlines() if line.endswith("process_vm_writev")]
        assert least <= sum(int(row[3]) for row in rows) <= most
