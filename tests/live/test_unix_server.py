"""The daemon's Unix sockets: greetings, descriptors, and messages that wait for room."""

from __future__ import annotations

import os
import selectors
import socket
import stat

import pytest

from softib.errors import InputError
from softib.live import unix_server
from softib.live.admission import Credentials, peer_of
from softib.live.control import ControlServer
from softib.live.unix_server import SendQueue, SeqpacketServer, UnixServer, receive, receive_fds


class Echo(SeqpacketServer):
    """Answers the greeting and hangs up."""

    def greeted(self, sock, message):
        self.greetings = [*getattr(self, "greetings", []), message]
        if message:
            sock.send(message)
        sock.close()

    def refusal(self, error):
        return b"%d" % error


@pytest.fixture
def selector():
    made = selectors.DefaultSelector()
    yield made
    made.close()


@pytest.fixture
def echo(tmp_path, selector):
    made = Echo(tmp_path / "echo", selector)
    yield made
    if made.path.exists():
        made.close()


def serve(selector: selectors.BaseSelector) -> None:
    while ready := selector.select(0):
        for key, events in ready:
            key.data(events)


def client(echo: Echo) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(10)
    sock.connect(str(echo.path))
    return sock


def test_only_its_user_may_connect(echo):
    assert stat.S_IMODE(os.stat(echo.path).st_mode) == 0o600


def test_a_greeting_that_is_there_and_one_that_comes_later(echo, selector):
    early, late = client(echo), client(echo)
    early.send(b"early")
    serve(selector)
    assert early.recv(99) == b"early" and echo.greetings == [b"early"]
    late.send(b"late")
    serve(selector)
    assert late.recv(99) == b"late" and peer_of(late) == Credentials(os.getpid(), os.getuid())


def test_a_client_that_hangs_up_before_its_greeting(echo, selector):
    client(echo).close()
    serve(selector)
    assert echo.greetings == [b""] and len(selector.get_map()) == 1


def test_closing_hangs_up_on_clients_that_have_not_greeted(echo, selector):
    waiting = client(echo)
    serve(selector)
    echo.close()
    assert waiting.recv(99) == b"" and not echo.path.exists() and not selector.get_map()


def test_a_connection_that_says_nothing_is_closed_in_time(echo, selector, monkeypatch):
    monkeypatch.setattr(unix_server, "GREETING_S", 0.0)
    silent, speaks = client(echo), client(echo)
    serve(selector)
    speaks.send(b"late")  # said before its time was looked at: it is heard
    echo.expire()
    assert silent.recv(99) == b"" and speaks.recv(99) == b"late" and not echo.visitors


def test_the_oldest_of_too_many_silent_connections_is_closed(echo, selector, monkeypatch):
    monkeypatch.setattr(unix_server, "MOST_VISITORS", 3)
    clients = []
    for _ in range(5):
        clients.append(client(echo))
        serve(selector)
    assert [c.recv(99) for c in clients[:2]] == [b"", b""] and len(echo.visitors) == 3
    clients[2].send(b"here")
    serve(selector)
    assert clients[2].recv(99) == b"here"


@pytest.fixture
def pair(selector):
    """The daemon's end, registered, with little room, and the program's."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    theirs.setblocking(False)
    selector.register(ours, selectors.EVENT_READ, lambda events: None)
    yield ours, theirs
    ours.close()
    theirs.close()


def drain(queue: SendQueue, sock: socket.socket) -> list[int]:
    """What arrives while the queue is flushed as often as there is room."""
    got: list[int] = []
    while True:
        while message := receive(sock, 4096):
            got.append(int.from_bytes(message[:4], "big"))
        if not len(queue):
            return got
        queue.flush()


def message(n: int) -> bytes:
    return n.to_bytes(4, "big") * 64


def test_messages_wait_for_room_and_keep_their_order(pair, selector):
    ours, theirs = pair
    queue = SendQueue(ours, selector)
    for n in range(500):
        queue.send(memoryview(message(n)))
    assert 0 < len(queue) < 500 and selector.get_key(ours).events & selectors.EVENT_WRITE
    assert drain(queue, theirs) == list(range(500))
    assert selector.get_key(ours).events == selectors.EVENT_READ and queue.lost == 0


@pytest.mark.parametrize("keep_newest", [False, True])
def test_a_full_queue_loses_the_newest_or_the_oldest(pair, selector, keep_newest):
    ours, theirs = pair
    queue = SendQueue(ours, selector, 10, keep_newest)
    for n in range(500):
        queue.send(message(n))
    in_socket = 500 - 10 - queue.lost
    assert len(queue) == 10
    first = range(in_socket)
    rest = range(490, 500) if keep_newest else range(in_socket, in_socket + 10)
    assert drain(queue, theirs) == [*first, *rest]


def test_descriptors_wait_with_their_message_and_are_closed(pair, selector, tmp_path):
    ours, theirs = pair
    before = len(os.listdir("/proc/self/fd"))
    queue = SendQueue(ours, selector)
    with open(tmp_path / "whole", "w+b") as file:
        file.write(b"whole message")
        file.flush()
        for n in range(200):
            queue.send(message(n), file.fileno())
    assert len(queue)
    seen = 0
    while seen < 200:
        got, fds = receive_fds(theirs, 4096)
        if got is None:
            queue.flush()
            continue
        (fd,) = fds
        assert got == message(seen) and os.pread(fd, 99, 0) == b"whole message"
        os.close(fd)
        seen += 1
    assert len(os.listdir("/proc/self/fd")) == before
    queue.send(message(0), theirs.fileno())
    queue.clear()


def test_a_reader_that_is_gone(pair, selector):
    ours, theirs = pair
    queue = SendQueue(ours, selector)
    for n in range(500):
        queue.send(message(n))
    theirs.close()
    queue.flush()
    assert queue.broken and not len(queue)
    queue.send(message(1))
    assert not len(queue)


def test_a_path_that_no_socket_can_have_is_one_line(tmp_path):
    """sun_path holds 108 bytes (unix(7)): a long XDG_RUNTIME_DIR is the user's to shorten."""
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    with pytest.raises(InputError, match="set XDG_RUNTIME_DIR to a shorter directory"):
        UnixServer(folder / "control", selectors.DefaultSelector())


def test_a_full_file_system_is_answered_with_what_to_do(tmp_path, selector):
    """An operation writes to /dev/full; the answer is a line."""

    def write(_request):
        with open("/dev/full", "w") as full:
            full.write("x")

    control = ControlServer(tmp_path / "control", selector, {"write": write})
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(tmp_path / "control"))
        sock.sendall(b'{"op": "write"}\n')
        for _ in range(2):  # the connection, then its line
            for chosen, events in selector.select(10):
                chosen.data(events)
        answer = sock.recv(4096).decode()
    control.close()
    assert "No space left on device; enlarge that file system, or set XDG_RUNTIME_DIR" in answer
