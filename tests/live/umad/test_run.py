"""``softib run``: programs that no library reaches, what killed ones leave, and what cannot be run."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from softib.live.launch.executable import look_at
from softib.live.shared_fabric import SharedFabric
from tests.live.serving import PRELOAD
from tests.live.umad.lab import namespaces, needs_namespace

READER = r"""
#include <stdio.h>
#include <time.h>
#include <string.h>

static void show(const char *name)
{
    char path[200], line[200] = "none\n";
    snprintf(path, sizeof path, "/sys/class/infiniband/mlx5_0/ports/1/%s", name);
    FILE *f = fopen(path, "r");
    if (f && !fgets(line, sizeof line, f))
        strcpy(line, "empty\n");
    if (f)
        fclose(f);
    fputs(line, stdout);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    (void)argv;
    show("state");
    show("rate");
    do {
        show("counters/port_xmit_data");
        struct timespec rest = { 0, 50000000 };
        nanosleep(&rest, NULL);
    } while (argc > 1 && getchar() != EOF);
    return 0;
}
"""
SOURCES = Path(__file__).resolve().parents[3] / "src"


@pytest.fixture(scope="module")
def static_reader(tmp_path_factory) -> Path:
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    folder = tmp_path_factory.mktemp("static")
    (folder / "reader.c").write_text(READER)
    made = subprocess.run(["gcc", "-static", "-O", "-o", folder / "reader", folder / "reader.c"], capture_output=True)
    if made.returncode:
        pytest.skip("no static C library")
    return folder / "reader"


@pytest.fixture
def one(running_one):
    return running_one


def elf(bits: int, machine: int) -> bytes:
    """The head of a program that no loader here starts."""
    head = b"\x7fELF" + bytes((bits // 32, 1, 1)) + bytes(9) + struct.pack("<HHI", 2, machine, 1)
    return (head + bytes(48)).ljust(128, b"\0")


def executable(path: Path, octets: bytes) -> str:
    path.write_bytes(octets)
    path.chmod(0o755)
    return str(path)


@needs_namespace
def test_a_static_program_sees_a_tree_that_lives(one, static_reader, stock):
    """Its reads are plain system calls: state, rate and counters must be files, true within a second."""
    assert look_at(static_reader).static
    shared = SharedFabric.open(Path(one.status("one")[0]["shared_fabric"]))
    fabric = shared.fabric
    port = int(fabric.ports_of(int(fabric.cas[0]))[0])
    reader = subprocess.Popen(
        one.words("run", "--ns", "--refresh", "0.2", "--", str(static_reader), "again"),
        env=one.env,
        cwd=one.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert [reader.stdout.readline() for _ in range(2)] == ["4: ACTIVE\n", "200 Gb/sec (4X HDR)\n"]
    first = int(reader.stdout.readline())
    one("run", "--", stock("ibnetdiscover"))
    wanted = int(fabric.counters["port_xmit_data"][port])
    assert wanted > first
    until, seen = time.monotonic() + 60, first
    while seen != wanted and time.monotonic() < until:
        reader.stdin.write("\n")
        reader.stdin.flush()
        seen = int(reader.stdout.readline())
        assert first <= seen <= wanted
    assert seen == wanted
    reader.stdin.close()
    assert reader.wait(120) == 0
    # Nothing of it is seen outside, and the machine's own classes are still there inside.
    assert not Path("/sys/class/infiniband/mlx5_0").exists() or not Path("/sys/class/infiniband").is_mount()
    assert one("run", "--ns", "--", "ls", "/sys/class/net").split() == sorted(os.listdir("/sys/class/net"))


@needs_namespace
def test_a_namespace_without_privilege(one, static_reader):
    """As a user who may nothing but make user namespaces; the module alone, under a Python that everybody may run."""
    if os.getuid() == 0 and not namespaces("-Ur", "-m"):
        pytest.skip("no user namespaces here")
    python = "/usr/bin/python3" if os.getuid() == 0 else sys.executable
    if not Path(python).exists():
        pytest.skip("no Python for other users")
    tree = Path(one("run", "--sysfs").strip()).parent
    words = (
        "import os, sys; from pathlib import Path; from namespace import entering; "
        "entering(Path(sys.argv[1]), 2)(); os.execv(sys.argv[2], sys.argv[2:])"
    )
    other = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
    folder = Path("/tmp") / f"softib-ns-{os.getpid()}"
    shutil.copytree(tree, folder / "tree", symlinks=True)
    shutil.copy(static_reader, folder / "reader")
    shutil.copy(SOURCES / "softib/live/launch/mount_namespace.py", folder / "namespace.py")
    folder.chmod(0o755)
    for place, folders, _ in os.walk(folder / "tree"):
        for name in (".", *folders):
            (Path(place) / name).chmod(0o755)
    try:
        done = subprocess.run(
            [python, "-c", words, str(folder / "tree"), str(folder / "reader")],
            env={"PYTHONPATH": str(folder), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
            cwd="/",
            capture_output=True,
            text=True,
            **other,
        )
    finally:
        shutil.rmtree(folder)
    assert done.stdout.startswith("4: ACTIVE\n200 Gb/sec (4X HDR)\n"), done.stderr


@needs_namespace
def test_where_namespaces_are_not_permitted(one, static_reader):
    if not namespaces("-Ur"):
        pytest.skip("no user namespaces here")
    # Limits are a user namespace's own: in one that may have none, nobody gets one.
    script = 'for k in mnt user; do echo 0 > /proc/sys/user/max_${k}_namespaces; done || exit 77; exec "$@"'
    done = subprocess.run(
        ["unshare", "-Ur", "sh", "-c", script, "sh", *one.words("run", "--ns", "--", str(static_reader))],
        env=one.env,
        cwd=one.folder,
        capture_output=True,
        text=True,
    )
    if done.returncode == 77:
        pytest.skip("limits of namespaces cannot be set here")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done
    assert "does not permit mount namespaces" in done.stderr and "--sysfs" in done.stderr


def test_the_tree_has_a_path(one):
    tree = Path(one("run", "--sysfs").strip())
    assert (tree / "class/infiniband/mlx5_0/ports/1/state").read_text() == "4: ACTIVE\n"
    assert (tree / "class/infiniband/mlx5_0/ports/1/hw_counters").is_dir()  # node_exporter gives up without
    assert one("run", "--", "sh", "-c", "echo $SOFTIB_VIEW/sys").strip() == str(tree)
    assert "runs nothing" in one("run", "--sysfs", "--", "ls", code=2)
    assert "no program" in one("run", code=2)


def test_programs_that_no_library_reaches_are_named(one, static_reader):
    done = subprocess.run(one.words("run", "--", str(static_reader)), env=one.env, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("none\n")
    assert re.fullmatch(r"softib: \S+ is statically linked, .* --ns .*\n", done.stderr), done.stderr


@pytest.mark.parametrize(
    ("bits", "machine", "says"), [(32, 3, "32-bit x86"), (32, 40, "32-bit ARM"), (64, 183, "AArch64")]
)
def test_a_foreign_architecture_is_one_line(bits, machine, says, one, tmp_path):
    program = executable(tmp_path / "foreign", elf(bits, machine))
    script = executable(tmp_path / "script", f"#!{program}\n".encode())
    for words in ((program,), (script,)):
        assert says in one("run", "--", *words, code=2)
        if PRELOAD.is_file():
            assert says in one("run", "--stock-preload", "--", *words, code=2)
    executable(tmp_path / "broken", b"\x7fELF\x02\x01\x01" + b"\xff" * 100)
    one("run", "--", str(tmp_path / "broken"), code=2)


def test_bad_places_and_names(softib):
    assert "no fabric is running" in softib("run", "--", "true", code=2)
    softib.start("one.yaml", "--name", "one")
    near = softib("run", "--node", "host-01", "--", "true", code=2)
    assert "host-01" in near and "host-0001" in near
    assert "no such program" in softib("run", "--", "no-such-program-here", code=2)
    assert "ports 1 to 1" in softib("run", "--port", "7", "--", "true", code=2)
    softib.start("two.yaml", "--name", "two")
    both = softib("run", "--", "true", code=2)
    assert "one" in both and "two" in both
    softib("run", "--fabric", "two", "--", "true")
    assert "one" in softib("run", "--fabric", "on", "--", "true", code=2)


@pytest.mark.skipif(not PRELOAD.is_file(), reason="libumad2sim.so (ibsim-utils) is absent")
def test_killed_stock_programs_leave_no_folders(one, stock):
    """The program itself, a child of it, and one in another directory; somebody's own folder of such a name stays."""
    sub = one.folder / "sub"
    own = one.folder / "sys-999999999"
    for folder in (sub, own):
        folder.mkdir()
    (own / "letter").write_text("mine")
    seen = "for i in $(seq 150); do ls -d sys-* 2>/dev/null | grep -v 9999 && break; sleep 0.2; done"
    script = (
        f"{stock('opensm')} -f osm1.log >/dev/null & a=$!; {seen}; kill -9 $a; "
        f"cd sub; {stock('opensm')} -f osm2.log >/dev/null & b=$!; cd sub; {seen}; sleep 1.5; kill -9 $b; kill -9 $$"
    )
    done = subprocess.run(
        one.words("run", "--stock-preload", "--", "sh", "-c", script),
        env=one.env,
        cwd=one.folder,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 137 and len(re.findall(r"^sys-\d+$", done.stdout, re.MULTILINE)) == 2, done
    left = [str(p) for folder in (one.folder, sub) for p in folder.glob("sys-*")]
    assert left == [str(own)] and (own / "letter").read_text() == "mine"


TABLE_READER = """
import os
FOLDER = "/sys/class/infiniband/mlx5_0/ports/1/pkeys"
def table():
    lines = []
    for n in range(len(os.listdir(FOLDER))):
        fd = os.open(f"{FOLDER}/{n}", os.O_RDONLY)
        lines.append(os.read(fd, 100).decode().strip())
        os.close(fd)
    return lines
print(len(table()), table()[0])
"""


@pytest.mark.skipif(not shutil.which("strace"), reason="strace counts the questions")
def test_a_whole_table_is_a_few_questions(softib):
    """Each file of sysfs that is opened is a question to the daemon, but a P_Key table, which libibumad reads whole, an entry a file. (It was one an
    entry; the scan of a table that takes longer than 10 ms asks again.)"""
    (softib.folder / "net.yaml").write_text("topology: {kind: fat-tree, radix: 4, levels: 2}\n")
    (softib.folder / "reader.py").write_text(TABLE_READER)
    softib("up", "net.yaml", "--name", "net", "--detach")
    counted = softib(
        "run", "--", "strace", "-f", "-e", "trace=connect", "-o", "calls", sys.executable, "-S", "reader.py"
    )
    entries, first = counted.split()[:2]
    questions = (softib.folder / "calls").read_text().count("AF_UNIX")
    assert int(entries) >= 32 and first == "0xffff"
    assert 1 <= questions < int(entries)
