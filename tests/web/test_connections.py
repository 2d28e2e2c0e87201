"""A server under clients that mean no good, by raw sockets: half-sent requests, more connections than descriptors, malformed headers, and its end.

What is right is RFC 9110 (408, 401, 200) and what an operator sees: other requests are answered, the log is short, SIGTERM ends the process.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the extra serve is not installed")
TOKEN = "a-token-of-some-length"
FABRIC = "name: tiny\ntopology: {kind: fat-tree, radix: 4, levels: 2}\n"
DESCRIPTORS = 128


class Server:
    def __init__(self, folder: Path):
        (folder / "tiny.yaml").write_text(FABRIC)
        (folder / "token").write_text(f"{TOKEN}\n")
        self.log = folder / "log"
        words = [sys.executable, "-m", "softib", "serve", "tiny.yaml", "--port", "0", "--token-file", "token"]

        def few_descriptors() -> None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))

        with self.log.open("w") as log:
            self.process = subprocess.Popen(words, cwd=folder, stderr=log, preexec_fn=few_descriptors)
        end = time.monotonic() + 120
        while "http://" not in self.log.read_text():
            assert self.process.poll() is None and time.monotonic() < end, self.log.read_text()
            time.sleep(0.1)
        self.port = int(self.log.read_text().rsplit(":", 1)[1].split("/")[0])

    def connect(self) -> socket.socket:
        one = socket.create_connection(("127.0.0.1", self.port), 20)
        one.settimeout(20)
        return one

    def answer(self, *headers: str) -> bytes:
        with self.connect() as one:
            one.sendall(
                "\r\n".join(
                    ("GET /api/v1/fabric HTTP/1.1", "Host: localhost", *headers, "Connection: close", "", "")
                ).encode()
            )
            text = b""
            while piece := one.recv(65536):
                text += piece
        return text

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(20)


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    one = Server(tmp_path_factory.mktemp("serve"))
    try:
        yield one
    finally:
        one.close()


BEARER = f"Authorization: Bearer {TOKEN}"


def test_a_token_of_a_file_is_not_printed(server):
    assert TOKEN not in server.log.read_text()


@pytest.mark.parametrize(
    "cookie", ["a{}b=1", "=", "softib_token", "\x80=1;;;,", "x=" + "y" * 4000, 'softib_token="', "a b c; d[]=1"]
)
def test_a_malformed_cookie_is_no_error_of_the_server(server, cookie):
    before = server.log.read_text()
    assert server.answer(f"Cookie: {cookie}").startswith(b"HTTP/1.1 401 ")
    assert server.answer(f"Cookie: {cookie}", BEARER).startswith(b"HTTP/1.1 200 ")
    assert server.answer(f"Cookie: {cookie}; softib_token={TOKEN}").startswith(b"HTTP/1.1 200 ")
    assert server.log.read_text() == before


@pytest.mark.slow
def test_half_sent_requests_beyond_all_descriptors_leave_room_for_whole_ones(server):
    """Twice as many connections as the process may have descriptors, none of which ever sends a whole request."""
    with contextlib.ExitStack() as stack:
        half = [stack.enter_context(server.connect()) for _ in range(2 * DESCRIPTORS)]
        for i, one in enumerate(half):
            with contextlib.suppress(OSError):  # many are gone by now
                one.sendall(b"GET / HTTP/1.1\r\nHost: lo"[: i % 25])
        assert len(os.listdir(f"/proc/{server.process.pid}/fd")) < DESCRIPTORS
        for _ in range(3):
            assert server.answer(BEARER).startswith(b"HTTP/1.1 200 ")
        # The youngest is let be for some seconds, then answered.
        assert half[-1].recv(100).startswith(b"HTTP/1.1 408 ")
    lines = server.log.read_text().splitlines()
    assert len(lines) < 5 and not any("Traceback" in line or "accept" in line for line in lines)


def test_it_ends_by_sigterm_though_clients_hold_connections(tmp_path):
    server = Server(tmp_path)
    try:
        with server.connect() as half, server.connect() as idle:
            half.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            idle.sendall(f"GET /api/v1/fabric HTTP/1.1\r\nHost: localhost\r\n{BEARER}\r\n\r\n".encode())
            assert idle.recv(20).startswith(b"HTTP/1.1 200 ")
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(10) == 0
    finally:
        server.close()
    assert "Traceback" not in server.log.read_text()
