"""What calls itself a Prometheus server and is none, or a hostile one: one line of error, in bounded time, for a bounded number of bytes."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

import softib
from softib.errors import SoftibError
from softib.monitor import prometheus_answers
from softib.monitor.exporter.names import PORT_COUNTERS

Answer = Callable[[socket.socket], None]


class Server:
    """Answers every request with ``answer``; ``sent`` bytes of bodies."""

    def __init__(self, answer: Answer):
        self.answer, self.asked, self.over = answer, [], threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            with peer, contextlib.suppress(OSError):
                self.asked.append(peer.recv(65536).split(b"\r\n")[0])
                self.answer(peer)
                peer.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.over.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(5)
        assert not self.thread.is_alive()


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], Server]]:
    servers: list[Server] = []

    def of(answer: Answer) -> Server:
        servers.append(Server(answer))
        return servers[-1]

    yield of
    for one in servers:
        one.close()


def body(data: bytes, head: str = "HTTP/1.1 200 OK", more: str = "") -> Answer:
    def answer(peer: socket.socket) -> None:
        peer.sendall(f"{head}\r\nContent-Length: {len(data)}\r\n{more}\r\n".encode() + data)

    return answer


def series(*results: object, **more: object) -> Answer:
    """A document of these series; in place of a series anything."""
    return body(
        json.dumps({"status": "success", "data": {"resultType": "matrix", "result": list(results)} | more}).encode()
    )


def refused(url: str) -> str:
    """What softib says, in one printable line of bounded length."""
    with pytest.raises(SoftibError) as found:
        softib.observe(url, rounds=2, every=1.0)
    line = str(found.value)
    assert line.isprintable() and len(line) < 500 and line.startswith(url)
    return line


LABELS = {
    "__name__": "infiniband_switch_port_symbol_error_total",
    "guid": "0x1",
    "port": "1",
    "switch": "s",
    "job": "j",
    "instance": "i",
}
NAME = f"infiniband_switch_port_{next(c.treydock for c in PORT_COUNTERS if c.field == 'symbol_error_counter')}_total"
LABELS["__name__"] = NAME


def of(values: list[object], **labels: object) -> dict[str, object]:
    return {"metric": LABELS | labels, "values": values}


@pytest.mark.parametrize("document", [
    b"", b"{", b"null", b"[]", b"7", b'"x"', b"\xff\xfe", b'{"data": 1}', b'{"data": {"result": {}}}', b'{"data": {"result": "abc"}}', b'{"data": {"result": [1]}}',
    b'{"data": {"result": [{}]}}', b'{"data": {"result": [{"metric": []}]}}', b'{"data": {"result": [{"metric": {"guid": 7}, "values": []}]}}',
    b'{"data": {"result": [{"metric": {}, "values": 3}]}}', b'{"data": {"result": [{"metric": {}, "values": [[1]]}]}}', b'{"data": {"result": [{"metric": {}, "value": [1, []]}]}}',
    b'{"data": {"result": [{"metric": {}, "value": [{}, "1"]}]}}', b'{"data": {"result": [' + b"[" * 100_000, b'{"data": {"result": [' + b"1" * 5000 + b"]}}",
    b'{"data": {"result": [{"metric": {}, "value": [1, "' + b"9" * 5000 + b'x"]}]}}',
])  # fmt: skip # a packed list of short values
def test_what_is_no_answer_of_prometheus_is_refused_in_a_line(serve, document):
    refused(serve(body(document)).url)


@pytest.mark.parametrize(
    "values",
    [
        [[1, "NaN"], [2, "NaN"]],
        [[1, "+Inf"], [2, "-Inf"]],
        [[1, "-5"], [2, "-7"]],
        [[1, "1e300"], [2, "1e301"]],
        [["NaN", "1"], ["Inf", "2"]],
        [[-1e300, "1"], [1e300, "2"]],
        [[1e18, "1"]],
    ],
)
def test_samples_that_no_counter_reads_are_left_out(serve, values):
    assert "two are needed" in refused(serve(series(of(values))).url)


@pytest.mark.parametrize(
    "labels",
    [
        {"guid": "0x" + "f" * 17},
        {"guid": "-1"},
        {"guid": "1_0"},
        {"port": "²"},
        {"port": "9" * 5000},
        {"port": "256"},
        {"port": "-1"},
        {"guid": ""},
    ],
)
def test_ports_that_cannot_be_are_left_out(serve, labels):
    assert "two are needed" in refused(serve(series(of([[1, "1"], [2, "2"]], **labels))).url)


def test_names_that_command_a_terminal_or_have_no_end_are_shown_printable_and_short(serve):
    """The same answer to every query: uplinks and rates with hostile labels too."""
    evil = "\x1b]0;owned\x07‮leaf\x9b31m" + "A" * 1_000_000
    server = serve(
        series(of([[1, "1"], [2, "5"]], switch=evil, uplink_lid="9" * 17, uplink_guid="0x1", uplink_port="1"))
    )
    ports = softib.observe(server.url, rounds=2, every=1.0).observations.ports
    assert len(ports) == 1 and ports.node[0].isprintable() and len(ports.node[0]) <= 128 and 0 <= ports.lid[0] < 0xC000


def test_redirects_are_named_and_never_followed(serve, tmp_path):
    (tmp_path / "secret").write_text(json.dumps({"data": {"result": []}}))
    other = serve(series())
    for where in (f"file://{tmp_path}/secret", other.url, "ftp://127.0.0.1/x", "\x1b[31mx", "x" * 5000):
        server = serve(body(b"", "HTTP/1.1 302 Found", f"Location: {where}\r\n"))
        line = refused(server.url)
        assert "redirects to" in line and len(server.asked) == 1
    assert other.asked == []


def test_errors_of_http_are_one_line(serve):
    assert "503" in refused(serve(body(b"x" * 10_000, "HTTP/1.1 503 \x1b[2Jdown")).url)
    refused(serve(lambda peer: peer.sendall(b"SSH-2.0-OpenSSH\r\n")).url)
    refused(serve(lambda peer: peer.sendall(b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 10_000)).url)
    refused(serve(lambda peer: peer.sendall(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000)).url)
    refused(serve(lambda peer: None).url)
    refused(serve(lambda peer: peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}")).url)
    refused(serve(lambda peer: peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")).url)


def test_a_packed_answer_is_not_unpacked(serve):
    bomb = gzip.compress(b"[" * 50_000_000)
    assert "compressed" in refused(serve(body(bomb, more="Content-Encoding: gzip\r\n")).url)


def test_an_endless_answer_ends(serve):
    """Read up to the limit, whatever the length that is stated."""
    for head in (b"HTTP/1.0 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n"):
        sent = [0]

        def endless(peer: socket.socket, head: bytes = head, sent: list[int] = sent) -> None:
            peer.sendall(head)
            while True:
                peer.sendall(b"[" * 65536)
                sent[0] += 65536

        assert "more than 128 MiB" in refused(serve(endless).url)
        assert sent[0] < prometheus_answers.MOST_OCTETS + (32 << 20)


def test_many_empty_objects_are_not_made(serve):
    """Each would take 64 bytes and more of memory for three of the answer."""
    assert "parts" in refused(serve(body(b"[" + b"{}," * 10_000_000 + b"{}]")).url)


@pytest.mark.parametrize("where", ["head", "body", "nothing"])
def test_a_server_that_sends_a_byte_now_and_then_is_given_up(serve, monkeypatch, where):
    monkeypatch.setattr(prometheus_answers, "PATIENCE_S", 1.5)
    stop = threading.Event()

    def slow(peer: socket.socket) -> None:
        if where == "body":
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        elif where == "head":
            peer.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        while not stop.wait(0.2):
            if where != "nothing":
                peer.sendall(b"[")

    began, threads = time.monotonic(), threading.active_count()
    server = serve(slow)
    assert "in 1.5 s" in refused(server.url)
    assert time.monotonic() - began < 10
    stop.set()
    server.close()
    assert threading.active_count() <= threads  # no timer is left


def test_series_that_no_exporter_scrapes_are_refused(serve):
    """Each port at times of its own, or a thousand exporters: readings that would be ports times times."""
    apart = [of([[i, "1"], [i + 0.5, "2"]], port=str(i % 250), guid=hex(1 + i // 250)) for i in range(3000)]
    assert "too much data" in refused(serve(series(*apart)).url)
    many = [of([[1, "1"], [2, "2"]], instance=str(i)) for i in range(2000)]
    assert "2,000 exporters" in refused(serve(series(*many)).url)


@pytest.mark.slow
def test_a_million_series_are_refused_and_a_hundred_thousand_read(serve):
    """By processor time: linear in the series, whatever else runs."""
    one = json.dumps(of([[1, "1"], [2, "2"]])).encode()
    assert "more than 128 MiB" in refused(
        serve(body(b'{"data": {"result": [' + b",".join([one] * 1_000_000) + b"]}}")).url
    )
    results = [of([[1, "1"], [2, "2"]], port=str(i % 250), guid=hex(1 + i // 250)) for i in range(100_000)]
    server, began = serve(series(*results)), time.process_time()
    assert len(softib.observe(server.url, rounds=2, every=1.0).observations.ports) == 100_000
    assert time.process_time() - began < 60


def test_a_history_of_serve_that_lies_is_one_line(serve):
    from softib.web.past_server import PastServer

    for answer in (body(b"null"), series(1), body(b"[" * 1000), series(of([[1, "NaN"]]))):
        with pytest.raises(SoftibError) as found:
            PastServer(serve(answer).url)
        assert str(found.value).isprintable()
    odd = PastServer(serve(series(of([[time.time() - 60, "1e308"], [time.time(), "1e-300"]]))).url)
    sample = odd.at(time.time())
    assert sample is None or not len(sample.load) or float(sample.load.max()) <= 16
    odd.of_port(1, 1, 0.0, time.time() + 9)
    odd.maps.at(time.time())
    odd.observations(time.time())
