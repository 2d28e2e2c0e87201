"""Runs a program in a network of its own, whose one TCP connection at PORT of 127.0.0.1 goes through the Unix socket SOCKET.

tcp_relay.py server|client PORT SOCKET PROGRAM ARGUMENT...
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time


def pump(one: socket.socket, two: socket.socket) -> None:
    """All that ``one`` says, to ``two``."""
    try:
        while data := one.recv(65536):
            two.sendall(data)
        two.shutdown(socket.SHUT_WR)
    except OSError:
        pass


said: list[threading.Thread] = []
"""Pass on the words of the program here, which must arrive after it has ended, too."""


def join(one: socket.socket, two: socket.socket) -> None:
    """Both directions, in threads."""
    for pair in ((one, two), (two, one)):
        thread = threading.Thread(target=pump, args=pair, daemon=True)
        if pair[0].family == socket.AF_INET:
            said.append(thread)
        thread.start()


def connected(family: int, address: object) -> socket.socket:
    """A connection, as soon as somebody listens there."""
    end = time.monotonic() + 60
    while True:
        sock = socket.socket(family)
        try:
            sock.connect(address)
            return sock
        except OSError:
            sock.close()
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def relay(listener: socket.socket, family: int, address: object) -> None:
    """Every connection that ``listener`` takes, to ``address``."""
    while True:
        one, _ = listener.accept()
        join(one, connected(family, address))


def main(role: str, port: int, path: str, *program: str) -> int:
    tcp, unix = (socket.AF_INET, ("127.0.0.1", port)), (socket.AF_UNIX, path)
    heard, to = (unix, tcp) if role == "server" else (tcp, unix)
    listener = socket.socket(heard[0])
    listener.bind(heard[1])
    listener.listen()
    threading.Thread(target=relay, args=(listener, *to), daemon=True).start()
    code = subprocess.run(program).returncode
    for thread in said:
        thread.join(10)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
