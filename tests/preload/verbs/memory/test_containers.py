"""Two containers that share the fabric's directory and nothing else are two nodes, whatever their memory is like.

Each path of the table in docs/verbs.md is taken once; the programs say which (``programs/containers.c``), and check every
octet on both sides.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.live.serving import wait_for
from tests.preload.verbs.applications import SOURCE, A, Applications, B, empty, stop
from tests.preload.verbs.c_programs import program

EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "ci" / "rdma.yaml"
RELAY = Path(__file__).with_name("tcp_relay.py")
SYSTEM = ("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/dev/shm", "--tmpfs", "/run")
NOTHING = ("--unshare-all",)
"""PID, network, IPC, user, UTS and cgroup namespaces of its own; no capability."""
ROOT = ("--unshare-pid", "--unshare-ipc", "--unshare-net", "--cap-add", "ALL")
USER = ("--unshare-user",)


@pytest.fixture
def words(apps, stock):
    """``words(options)``: what a container is begun with."""
    bwrap = stock("bwrap")
    if subprocess.run([bwrap, *NOTHING, *SYSTEM, "true"], capture_output=True).returncode:
        pytest.skip("the system lets this user make no namespaces")
    shared = ("--bind", str(apps.folder), str(apps.folder))
    return lambda options: (bwrap, *options, *SYSTEM, *shared)


@pytest.fixture
def exchange(apps, tmp_path):
    made = apps.folder / "exchange" / tmp_path.name
    made.mkdir(parents=True)
    return made


def said(
    apps: Applications, containers: Sequence[Sequence[str]], programs: Sequence[Sequence[str]], **env: str
) -> list[str]:
    """What the two programs print, each in its container."""
    running = [
        subprocess.Popen(
            apps.on(node, *container, *words),
            env={**apps.env, **env},
            cwd=apps.folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for node, container, words in zip((A, B), containers, programs, strict=True)
    ]
    try:
        output = [one.communicate(timeout=120)[0] for one in running]
    finally:
        for one in running:
            one.kill()
    assert [one.returncode for one in running] == [0, 0], "\n--\n".join(output)
    return output


def both(apps, container, exchange, kind, **env):
    roles = [(program("containers"), role, str(exchange), kind) for role in ("a", "b")]
    return "".join(said(apps, [container] * 2, roles, **env))


MAPS, SYSTEM_COPIES, SERVES = ("maps", "does not serve"), ("does not map", "does not serve"), ("does not map", "serves")
MAPS_BY_OWNER = ("maps", "serves")
"""The owner handed the file over."""


def expect(output: str, path: tuple[str, str]) -> None:
    assert sorted(output.splitlines()) == [f"a: right, {path[0]}", f"b: right, {path[1]}"]


SLOW = {"marks": pytest.mark.slow}
KINDS = ["plain", "threads", *(pytest.param(kind, **SLOW) for kind in ("odd", "direct", "file"))]


@pytest.mark.stock
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options", [NOTHING, pytest.param(ROOT, **SLOW), pytest.param(USER, **SLOW)], ids=["nothing", "root", "user"]
)
def test_every_kind_of_memory_reaches_the_other_container(apps, words, exchange, kind, options):
    """A file handed over where whole pages can move; else the owner copies. Threads let pages move where root may stop them
    (userfaultfd); memory that the kernel may hold (O_DIRECT) never moves."""
    if options == ROOT and os.geteuid():
        pytest.skip("only root has capabilities to keep")
    moves = kind in ("plain", "odd", "file") or (kind == "threads" and options == ROOT)
    expect(both(apps, words(options), exchange, kind), MAPS_BY_OWNER if moves else SERVES)


@pytest.mark.slow
@pytest.mark.stock
@pytest.mark.parametrize("kind", ["plain", "odd", "direct", "file"])
def test_one_namespace(apps, exchange, kind):
    """Without containers nobody serves: what is not mapped is copied by the system."""
    expect(both(apps, (), exchange, kind), SYSTEM_COPIES if kind == "direct" else MAPS)


@pytest.mark.slow
@pytest.mark.stock
def test_private_memory_in_one_namespace(apps, exchange):
    """No page moves."""
    expect(both(apps, (), exchange, "plain", SOFTIB_REMAP="0"), SYSTEM_COPIES)


SIDES = [
    pytest.param((NOTHING, None), id="a"),
    pytest.param((None, NOTHING), id="b", **SLOW),
    pytest.param((ROOT, NOTHING), id="unlike", **SLOW),
]


@pytest.mark.stock
@pytest.mark.parametrize("sides", SIDES)
def test_a_container_and_the_host(apps, words, exchange, sides):
    """Of an owner in a container, too, whose peer the host's root could copy to it by the pid that it has there."""
    if ROOT in sides and os.geteuid():
        pytest.skip("only root has capabilities to keep")
    containers = [() if side is None else words(side) for side in sides]
    roles = [(program("containers"), role, str(exchange), "direct") for role in ("a", "b")]
    expect("".join(said(apps, containers, roles)), SERVES)


@pytest.mark.slow
@pytest.mark.stock
def test_a_datagram_wakes_a_receiver_that_began_before_any_container(words, stock):
    """Its QP knew no peer, and it makes no call: it is woken to serve, and for the datagram. On a fabric of its own, where all
    were in one namespace until then."""
    made = Applications()
    try:
        name = str(made.folder / "end")
        container = (*words(NOTHING)[:-3], "--bind", str(made.folder), str(made.folder))
        env = {**made.env, "SOFTIB_REMAP": "0"}
        one = made.begin(A, program("sleeper"), "b", name, SOFTIB_REMAP="0")
        assert one.stdout.readline() == "b: sleeps\n"
        done = subprocess.run(
            made.on(B, *container, program("sleeper"), "a", name), env=env, capture_output=True, text=True, timeout=60
        )
        assert (done.stdout, done.stderr) == ("a: right\n", "")
        assert one.communicate(timeout=60)[0] == "b: right\n"
    finally:
        made.close()


X86_64 = {"process_vm_readv": 310, "process_vm_writev": 311, "userfaultfd": 323}


def refusing(calls: Sequence[int]) -> bytes:
    """A seccomp filter (struct sock_filter[]) for which these system calls are EPERM, as container engines have them."""
    load, equal, back = 0x20, 0x15, 0x06
    rows = [(load, 0, 0, 0)]
    rows += [(equal, len(calls) - i, 0, call) for i, call in enumerate(calls)]
    rows += [(back, 0, 0, 0x7FFF0000), (back, 0, 0, 0x00050001)]
    return b"".join(struct.pack("=HBBI", *row) for row in rows)


@pytest.mark.slow
@pytest.mark.stock
@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of system calls")
@pytest.mark.parametrize("options", [(), NOTHING], ids=["same", "nothing"])
def test_a_system_that_refuses_to_copy(apps, words, exchange, options):
    """Docker's and podman's filters; also where both are in one PID namespace."""
    (exchange / "filter").write_bytes(refusing(tuple(X86_64.values())))
    filtered = ("sh", "-c", f'exec 9<{exchange}/filter; exec "$@"', "sh", *words((*options, "--seccomp", "9")))
    for kind, path in (("plain", MAPS_BY_OWNER), ("threads", SERVES)):
        (exchange / kind).mkdir()
        expect(both(apps, filtered, exchange / kind, kind), path)


@pytest.mark.slow
@pytest.mark.stock
@pytest.mark.parametrize(
    "line",
    [
        "ibv_rc_pingpong -c",
        "ibv_uc_pingpong -c",
        "ibv_ud_pingpong -c",
        "ibv_rc_pingpong -c -e",
        "ibv_srq_pingpong -c",
        "ib_write_bw -n 100 -F",
        "ib_read_bw -n 100 -F",
        "ib_send_lat -n 100 -F",
        "ib_atomic_bw -n 100 -F",
        "ucx_perftest -t tag_bw -n 100 -w 10",
        "ucx_perftest -t ucp_put_lat -n 100 -w 10",
    ],
)
def test_programs_in_containers(apps, words, exchange, stock, line):
    """Each in a network of its own; what they say to each other beside the fabric goes through a socket in the shared directory."""
    name, *arguments = line.split()
    port = next(apps.ports)
    run = (stock(name), *arguments, "-p", str(port))
    programs = [
        (sys.executable, str(RELAY), role, str(port), str(exchange / "s"), *run, *to)
        for role, to in (("server", ()), ("client", ("127.0.0.1",)))
    ]
    said(apps, [words(NOTHING)] * 2, programs, UCX_TLS="rc_verbs,ud_verbs,self", UCX_NET_DEVICES="mlx5_0:1")


@pytest.mark.slow
@pytest.mark.stock
def test_the_directory_has_another_name_there(apps, words, stock, exchange):
    """As container engines mount it: ``softib run`` inside finds all below its own runtime directory, and the umad devices too."""
    elsewhere = f"/run/fabric/{exchange.relative_to(apps.folder)}"
    inside = (
        *words(NOTHING)[:-3],
        "--tmpfs",
        "/dev/shm",
        "--bind",
        str(apps.folder),
        "/run/fabric",
        "--setenv",
        "XDG_RUNTIME_DIR",
        "/run/fabric",
    )
    running = [
        subprocess.Popen(
            [*inside, *apps.on(node, program("containers"), role, elsewhere, "direct")],
            env=apps.env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for node, role in ((A, "a"), (B, "b"))
    ]
    expect("".join(one.communicate(timeout=120)[0] for one in running), SERVES)
    done = subprocess.run(
        [*inside, *apps.on(A, stock("ibstat"), "-p")], env=apps.env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and done.stdout.startswith("0x"), done.stderr


DEVICES = ("null", "zero", "random", "urandom")
SHM = {
    "none": ("--tmpfs", "/dev", *(word for name in DEVICES for word in ("--dev-bind", f"/dev/{name}", f"/dev/{name}"))),
    "64 MB": ("--dev", "/dev", "--size", str(64 << 20), "--tmpfs", "/dev/shm"),
}
"""Mounts of /dev: without /dev/shm, and with the size that Docker gives it."""
BARE = (*NOTHING, "--cap-drop", "ALL", "--ro-bind", "/", "/", "--proc", "/proc", "--tmpfs", "/run", "--tmpfs", "/tmp")


@pytest.mark.slow
@pytest.mark.stock
@pytest.mark.parametrize("kind", ["plain", "threads"])
@pytest.mark.parametrize("shm", SHM)
def test_nodes_need_no_shared_memory_of_their_own(apps, stock, exchange, shm, kind):
    """Two containers without a capability share the fabric's directory, below another name, and nothing else."""
    binary = Path(program("containers"))
    inside = (
        stock("bwrap"),
        *BARE,
        *SHM[shm],
        "--ro-bind",
        str(binary.parent),
        str(binary.parent),
        "--bind",
        str(apps.folder),
        "/run/fabric",
        "--setenv",
        "XDG_RUNTIME_DIR",
        "/run/fabric",
    )
    elsewhere = f"/run/fabric/{exchange.relative_to(apps.folder)}"
    running = [
        subprocess.Popen(
            [*inside, *apps.on(node, str(binary), role, elsewhere, kind)],
            env=apps.env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for node, role in ((A, "a"), (B, "b"))
    ]
    expect("".join(one.communicate(timeout=120)[0] for one in running), MAPS_BY_OWNER if kind == "plain" else SERVES)


@pytest.mark.slow
@pytest.mark.stock
@pytest.mark.parametrize("shm", SHM)
@pytest.mark.parametrize("engine", ["bwrap", "podman"])
def test_one_container_holds_a_whole_fabric(stock, request, tmp_path, engine, shm):
    """``softib ci`` as in continuous integration: no capability, the engine's own seccomp profile, no network."""
    stock("ibv_rc_pingpong")
    softib = [sys.executable, "-m", "softib.cli.main", "ci", "--artifacts", "/run/ci", "--file", str(EXAMPLE)]
    env = {"HOME": "/run", "PYTHONPATH": str(SOURCE), "SOFTIB_CACHE_DIR": "/run/cache"}
    kernels = Path(os.environ.get("SOFTIB_CACHE_DIR") or Path.home() / ".cache" / "softib")
    if engine == "bwrap":
        options = (*BARE, *SHM[shm], "--bind", str(kernels), "/run/cache", "--unsetenv", "XDG_RUNTIME_DIR")
        words = [stock("bwrap"), *options, *(word for item in env.items() for word in ("--setenv", *item))]
    else:
        memory = ("--ipc", "none") if shm == "none" else ("--shm-size", "64m")
        words = [
            *request.getfixturevalue("podman"),
            "--cap-drop",
            "ALL",
            *memory,
            f"--volume={kernels}:/run/cache",
            *(f"--env={name}={value}" for name, value in env.items()),
            "--rootfs",
            "/:O",
        ]
    done = subprocess.run([*words, *softib], capture_output=True, text=True, timeout=500, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "verbs moved" in done.stderr and done.stdout.count("600000 iters") == 2


class Contained(Applications):
    """A fabric whose daemon runs in a container, in the foreground."""

    def __init__(self, bwrap: str):
        self.bwrap = bwrap
        super().__init__()

    def __call__(self, *args: str) -> str:
        if args[0] != "up":
            return super().__call__(*args)
        options = (*NOTHING, *SYSTEM, "--die-with-parent", "--bind", str(self.folder), str(self.folder))
        words = self.arguments("up", str(self.folder / args[1]), *(word for word in args[2:] if word != "--detach"))
        self.daemon = subprocess.Popen([self.bwrap, *options, *words], env=self.env, stderr=subprocess.PIPE, text=True)
        return self.daemon.stderr.readline()

    def close(self) -> None:
        super().close()
        self.daemon.communicate(timeout=60)


@pytest.mark.slow
@pytest.mark.stock
@pytest.mark.parametrize("options", [None, NOTHING], ids=["host", "containers"])
def test_the_daemon_in_a_container(words, stock, tmp_path, options):
    """It sees no pid of the programs, nor they its own: all the same they get every file, and leave nothing behind."""
    made = Contained(stock("bwrap"))
    try:
        exchange = made.folder / "exchange"
        exchange.mkdir()
        container = () if options is None else (*words(options)[:-3], "--bind", str(made.folder), str(made.folder))
        expect(both(made, container, exchange, "direct"), SYSTEM_COPIES if options is None else SERVES)
        assert wait_for(lambda: empty(made)), made.status()["verbs"]
        assert "findings none" in " ".join(
            made("check", "f").lower().split()
        )  # reads the tables that the daemon holds alone
    finally:
        made.close()


def pid_of(*words: str) -> int:
    """The process with this command line, in whatever namespace it is."""
    line = "".join(f"{word}\0" for word in words).encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes() == line:
                return int(path.parent.name)
    raise AssertionError(f"no process {words}")


@pytest.mark.slow
@pytest.mark.stock
@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_an_owner_that_stops_or_dies(apps, words, exchange, how):
    """As when a host hangs or fails: the sender's retries decide, and nothing is left of either."""
    roles = [(program("containers"), role, str(exchange), "direct", "300000", "on") for role in ("a", "b")]
    one, two = (
        subprocess.Popen(
            apps.on(node, *words(NOTHING), *role),
            env=apps.env,
            cwd=apps.folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        for node, role in zip((A, B), roles, strict=True)
    )
    try:
        assert one.stdout.readline() == "a: writes\n"
        os.kill(pid_of(*roles[1]), how)
        assert one.stdout.readline() == "a: transport retry counter exceeded\n"
        assert one.wait(60) == 0
    finally:
        stop(one)
        stop(two)
    assert wait_for(lambda: empty(apps)), apps.status()["verbs"]


PODMAN = (("podman",), ("podman", "--runtime", "runc"))
"""crun needs the unified hierarchy of control groups, or none."""


@pytest.fixture(scope="module")
def podman():
    """How podman runs here, with the host's files under an overlay: an image registry is not asked."""
    if shutil.which("podman") is None:
        pytest.skip("podman is not installed")
    limits = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000")
    said = ""
    for words in PODMAN:
        run = (*words, "run", "--rm", "--network", "none", *limits)
        done = subprocess.run([*run, "--rootfs", "/:O", "true"], capture_output=True, text=True, timeout=120)
        if done.returncode == 0:
            return run
        said = said or done.stderr.strip()
    pytest.skip(f"podman runs no container here: {said}")


@pytest.mark.slow
@pytest.mark.stock
@pytest.mark.parametrize("kind", ["plain", "threads"])
def test_podman(apps, podman, exchange, kind):
    """Its own network, seccomp profile and capabilities."""
    own = (str(apps.folder), str(SOURCE), str(Path(program("containers")).parent))
    container = (*podman, "--env-host", *(f"--volume={path}:{path}" for path in own), "--rootfs", "/:O")
    expect(both(apps, container, exchange, kind), MAPS_BY_OWNER if kind == "plain" else SERVES)
