"""The library under AddressSanitizer and UndefinedBehaviourSanitizer, in unmodified programs: neither finds anything."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from softib.preload import build
from tests.preload.verbs.applications import A, Applications, B, stop, wait_for_listener
from tests.preload.verbs.c_programs import SANITIZE, program, run
from tests.preload.verbs.foreign.pyverbs_suite import PASSED, PYTHON, RUNNER, suite_in

pytestmark = pytest.mark.stock


class Sanitized:
    """The libraries as a value of LD_PRELOAD, and what the sanitizers said."""

    def __init__(self, apps, folder):
        self.apps, self.folder = apps, folder
        libraries = [
            build.compile_library(folder / "libsoftib-umad.so", SANITIZE),
            build.compile_verbs(folder / "libsoftib-verbs.so", SANITIZE),
        ]
        asan = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
        self.preload = ":".join([asan.stdout.strip(), *map(str, libraries)])

    def arguments(self, *arguments: str, **more: str) -> list[str]:
        """A program under them. Leaks are the programs' own matter: stock ones free little before they end."""
        options = {
            "LD_PRELOAD": self.preload,
            "UBSAN_OPTIONS": "print_stacktrace=1",
            "ASAN_OPTIONS": f"detect_leaks=0:log_path={self.folder}/said",
            **more,
        }
        return ["env", *(f"{name}={value}" for name, value in options.items()), *arguments]

    def output(self) -> str:
        return "\n".join(p.read_text() for p in sorted(self.folder.glob("said*")))


@pytest.fixture(scope="module")
def sanitized(apps, tmp_path_factory):
    try:
        return Sanitized(apps, tmp_path_factory.mktemp("asan"))
    except RuntimeError as error:
        if "cannot find -l" not in str(error):
            raise
        pytest.skip(f"no AddressSanitizer: {error}")


PAIRS = ("ib_write_lat -n 100", "ib_send_bw -c UD -n 200", "ib_read_bw -a -n 20", "ib_atomic_bw -n 100")


def pair(apps, sanitized, stock, line: str) -> None:
    name, *options = line.split()
    port = next(apps.ports)
    arguments = (stock(name), *options, "-F", "-p", str(port))
    _, client = apps.pair(sanitized.arguments(*arguments), sanitized.arguments(*arguments, "127.0.0.1"), tcp=port)
    assert "BW average" in client or "t_avg" in client, client
    assert not sanitized.output()


@pytest.mark.slow
def test_it_would_speak(apps, sanitized):
    """The sanitizer is in the program: it answers."""
    done = subprocess.run(
        apps.on(A, *sanitized.arguments("ibv_devices", ASAN_OPTIONS="help=1")),
        env=apps.env,
        capture_output=True,
        text=True,
    )
    assert "Available flags for AddressSanitizer" in done.stdout + done.stderr


@pytest.mark.slow
def test_perftest(apps, sanitized, stock):
    pair(apps, sanitized, stock, PAIRS[0])


@pytest.mark.slow
@pytest.mark.parametrize("line", PAIRS[1:])
def test_perftest_all(apps, sanitized, stock, line):
    pair(apps, sanitized, stock, line)


@pytest.mark.slow
def test_rdma_cm(apps, sanitized, stock):
    ip = apps.address(A)
    server = sanitized.arguments(stock("rping"), "-s", "-a", ip, "-C", "5", "-V")
    _, client = apps.pair(
        server, sanitized.arguments(stock("rping"), "-c", "-a", ip, "-C", "5", "-v", "-V"), nodes=(A, B)
    )
    assert "ping data: rdma-ping-4" in client
    assert not sanitized.output()


ADAPTIVE = """
name: f
generation: HDR
sm: {adaptive_routing: free}
topology: {kind: fat-tree, radix: 8, levels: 2, hosts: 8}
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("pace", [False, True])
def test_adaptive_paths_come_and_go(tmp_path, stock, pace):
    """Queue pairs over four uplinks, of which one fails and comes back under them: the paths of each become fewer, and more."""
    fabric, programs = Applications(ADAPTIVE, *(["--pace"] if pace else [])), []
    try:
        sanitized = Sanitized(fabric, tmp_path)
        for line in ("ib_send_bw -q 4", "ib_write_bw -q 4", "ib_read_bw -q 2"):
            name, *options = line.split()
            port = next(fabric.ports)
            words = sanitized.arguments(stock(name), *options, "-D", "12", "-F", "-s", "65536", "-p", str(port))
            programs.append(fabric.begin("host-0001", *words))
            wait_for_listener(port, programs[-1])
            programs.append(fabric.begin("host-0005", *words, "127.0.0.1"))
        fabric.until_busy("host-0005")
        for _ in range(3):
            fabric("fault", "link-down", "leaf-2[5]")
            fabric("fault", "link-up", "leaf-2[5]")
        for program in programs:
            output = program.communicate(timeout=300)[0]
            assert program.returncode == 0, output
        assert not sanitized.output()
    finally:
        for program in programs:
            stop(program)
        fabric.close()


UCX = (("rc_v", "tag_bw"), ("ud_v", "stream_lat"), ("rc_v", "ucp_put_bw"), ("ud_v", "ucp_get"), ("rc_v", "ucp_cswap"))
PROGRAMS = (
    "batch",
    "refused",
    "dereg 5",
    "buffers",
    "many 500",
    "rings",
    "async_events 20",
    "reply_order rc 500",
    "statuses bounds",
    "reports errors",
)
"""Of this project, which do what stock programs seldom do: wrong requests, many objects, queues that go round, ends out of order."""


def ucx(apps, sanitized, stock, transport: str, test: str) -> None:
    port = next(apps.ports)
    words = (stock("ucx_perftest"), "-t", test, "-s", "8", "-n", "200", "-w", "10", "-p", str(port))
    env = {"UCX_TLS": f"{transport},self", "UCX_NET_DEVICES": "mlx5_0:1"}
    arguments = sanitized.arguments(*words, **env)
    _, client = apps.pair(arguments, (*arguments, "127.0.0.1"), tcp=port)
    assert "Final:" in client, client


@pytest.mark.slow
@pytest.mark.parametrize(("transport", "test"), UCX)
def test_ucx(apps, sanitized, stock, transport, test):
    ucx(apps, sanitized, stock, transport, test)
    assert not sanitized.output()


@pytest.mark.slow
@pytest.mark.parametrize("line", PROGRAMS)
def test_c_programs(apps, sanitized, line):
    name, *words = line.split()
    run(apps, A, *sanitized.arguments("sh", "-c", 'yes "" | "$@"', "sh", program(name), *words))
    assert not sanitized.output()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_all_at_once(apps, sanitized, stock):
    """On the same two nodes, three times over: objects of one program come and go between those of others."""
    tasks = [lambda line=line: pair(apps, sanitized, stock, line) for line in PAIRS]
    tasks += [lambda words=words: ucx(apps, sanitized, stock, *words) for words in UCX]
    tasks += [lambda line=line: test_c_programs(apps, sanitized, line) for line in PROGRAMS]
    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(task) for task in 3 * tasks]:
            done.result()
    assert not sanitized.output()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_suite(apps, sanitized, tmp_path):
    """All of rdma-core's own tests."""
    folder = suite_in(tmp_path)
    done = subprocess.run(
        apps.on(A, *sanitized.arguments(PYTHON, str(RUNNER))),
        env=apps.env,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=1000,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('["tests.')]
    assert not sanitized.output()
    assert not [row for row in rows if row[1] == "failed"], done.stderr
    assert sum(row[1] == "passed" for row in rows) >= PASSED
