"""Unmodified programs on a running fabric, as ``softib run`` starts them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path

import pytest

from softib.preload import build
from tests.scratch import scratch

SOURCE = Path(__file__).resolve().parents[3] / "src"
FABRIC = "name: apps\ngeneration: NDR\ntopology: {kind: fat-tree, radix: 4, levels: 2}\n"
A, B, C = "host-0001", "host-0008", "host-0003"
"""Two hosts on different leaves, and a third."""


def verbs_library() -> Path:
    """``libsoftib-verbs.so``, built where this test runs; skips where it cannot be."""
    if build.compiler() is None or build.missing_headers():
        pytest.skip("no C compiler, or libibverbs-dev and librdmacm-dev are not installed")
    build.compile_library()
    return build.compile_verbs()


def is_free(port: int) -> bool:
    """Also of a connection that has only just ended there (TIME_WAIT), for not every program says SO_REUSEADDR."""
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


PORTS = filter(is_free, cycle(range(20000 + os.getpid() * 4001 % 10000, 32000)))
"""TCP ports below those that the kernel hands out, each once a test run. Several threads may take one at a time (no generator can be
asked by two)."""


class Applications:
    """One running fabric. Files of a test go to ``folder``."""

    def __init__(self, text: str = FABRIC, *options: str, file: str = "f.yaml"):
        verbs_library()
        self.folder = scratch("softib-apps-", memory=True)
        self.folder.chmod(0o700)
        self.env = {**os.environ, "XDG_RUNTIME_DIR": str(self.folder), "PYTHONPATH": str(SOURCE)}
        self.ports = PORTS
        (self.folder / file).write_text(text)
        self("up", file, "--name", Path(file).stem, "--detach", *options)

    def arguments(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "softib.cli.main", *args]

    def __call__(self, *args: str) -> str:
        done = subprocess.run(
            self.arguments(*args), env=self.env, cwd=self.folder, capture_output=True, text=True, timeout=400
        )
        assert done.returncode == 0, (args, done.stdout, done.stderr)
        return done.stdout

    def on(self, node: str, *arguments: str) -> list[str]:
        """The words of a program on ``node``; ours are not in its environment's PYTHONPATH."""
        return self.arguments("run", "--node", node, "--", "env", "-u", "PYTHONPATH", *arguments)

    def begin(self, node: str, *arguments: str, **env: str) -> subprocess.Popen:
        return subprocess.Popen(
            self.on(node, *arguments),
            env={**self.env, **env},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def address(self, node: str) -> str:
        """What rdma_cm calls its first port."""
        return subprocess.run(
            self.on(node, "printenv", "SOFTIB_ADDRESS"), env=self.env, capture_output=True, text=True, check=True
        ).stdout.split()[0]

    def pair(
        self,
        server: Sequence[str],
        client: Sequence[str],
        tcp: int = 0,
        ready: str = "",
        limit_s: float = 240,
        nodes: tuple[str, str] = (A, B),
        **env: str,
    ) -> tuple[str, str]:
        """Both programs to their end, which must be 0: what the server and the client said. The client begins when the
        server listens on ``tcp``; where it uses rdma_cm (``tcp`` 0) it begins anew until it is not refused any more."""
        for _ in range(10):
            one = self.begin(nodes[0], *server, **env)
            try:
                if tcp:
                    wait_for_listener(tcp, one)
                    return ended(one, self.begin(nodes[1], *client, **env), limit_s)
                output = until_taken(one, lambda: self.begin(nodes[1], *client, **env), limit_s)
                if output is not None:
                    output_one = one.communicate(timeout=limit_s)[0]
                    assert one.returncode == 0, output_one
                    return output_one, output
            finally:
                stop(one)
        raise AssertionError(
            "ten times perftest's client asked for its second connection before its server listened for it"
        )

    def counters(self, node: str) -> dict[str, int]:
        """The 64-bit counters of its port, as ``perfquery -x`` of infiniband-diags shows them; those of 32 bits of a device that has no others (SDR)."""
        for options in (["-x"], []):
            done = subprocess.run(
                self.on(node, "perfquery", *options), env=self.env, capture_output=True, text=True, check=not options
            )
            if done.returncode == 0:
                break
        rows = (line.split(":", 1) for line in done.stdout.splitlines() if ":" in line and not line.startswith("#"))
        return {name: int(value.strip(". ")) for name, value in rows if value.strip(". ").isdigit()}

    def until_busy(self, node: str, limit_s: float = 240) -> None:
        """Wait until thousands of packets leave ``node``: its application has connected and sends."""
        end, before = time.monotonic() + limit_s, self.counters(node)["PortXmitPkts"]
        while time.monotonic() < end:
            time.sleep(0.1)
            now = self.counters(node)["PortXmitPkts"]
            if now - before > 2000:
                return
            before = now
        raise AssertionError(f"{node} sends nothing")

    def status(self) -> dict:
        return json.loads(self("status", "--json"))["fabrics"][0]

    def close(self) -> None:
        try:
            self("down")
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


def wait_for_listener(port: int, program: subprocess.Popen, limit_s: float = 240) -> None:
    """Until something listens on the TCP port (nothing connects: the program might take it for its peer)."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        for table in filter(Path.exists, (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))):  # without IPv6 there is one
            for line in table.read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                    return
        assert program.poll() is None, program.communicate()[0]
        time.sleep(0.02)
    raise AssertionError(f"nothing listens on {port}")


def ended(one: subprocess.Popen, two: subprocess.Popen, limit_s: float) -> tuple[str, str]:
    try:
        output_two = two.communicate(timeout=limit_s)[0]
        output_one = one.communicate(timeout=limit_s)[0]
    except subprocess.TimeoutExpired:
        stop(one)
        stop(two)
        raise AssertionError(f"no end: {one.communicate()[0]}\n--\n{two.communicate()[0]}") from None
    assert (one.returncode, two.returncode) == (0, 0), f"{output_one}\n--\n{output_two}"
    return output_one, output_two


NOT_YET = re.compile(r"RDMA_CM_EVENT_(REJECTED|UNREACHABLE)|Unexpected CM event.* [78]$|Connection refused", re.M)
"""What clients of rdma_cm say where nobody listens; perftest prints the event's number (7 unreachable, 8 rejected)."""


TOO_EARLY = re.compile(r"^Failed to connect RDMA CM", re.M)
"""What perftest says where its first connection stood and nobody listened for the second yet (a race of its own: hardware's
resolving takes longer than its server's listening). Its server waits for the second for ever. The daemon holds such a request for
250 ms now (tests/live/rdma_cm/test_early_requests.py), so this is for a machine that is busier than that."""


def until_taken(server: subprocess.Popen, begin: Callable[[], subprocess.Popen], limit_s: float) -> str | None:
    """Start the client, anew while it is refused because ``server`` does not listen yet: what it said in the end; None where
    the server must begin anew, too. Raises AssertionError where it does not end, or not with 0."""
    end = time.monotonic() + 20
    while True:
        client = begin()
        try:
            output = client.communicate(timeout=limit_s)[0]
        except subprocess.TimeoutExpired:
            stop(server)
            stop(client)
            raise AssertionError(f"no end: {server.communicate()[0]}\n--\n{client.communicate()[0]}") from None
        if client.returncode and TOO_EARLY.search(output):
            return None
        if client.returncode and NOT_YET.search(output) and server.poll() is None:
            if time.monotonic() > end:
                return None  # it has taken one that was gone when it wanted more
            time.sleep(0.2)
            continue
        assert client.returncode == 0, output
        return output


def stop(program: subprocess.Popen) -> None:
    """The program and what it started."""
    if program.poll() is None:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()


NOTHING = {"programs": 0, "numbers": 0, "keys": 0, "members": 0, "chunks": 0}


def empty(fabric) -> bool:
    held = fabric.status()["verbs"]
    return {name: held[name] for name in NOTHING} == NOTHING
