"""libfabric's name server for datagrams: one a host (prov/util/src/util_ns.c), so one a node of the fabric."""

from __future__ import annotations

import subprocess
import sys

import pytest

from softib.live.launch.tuning import NAME_SERVER_PORT
from tests.preload.verbs.applications import A, B

pytestmark = pytest.mark.slow

SERVER = """
import errno, socket, sys
port, other = map(int, sys.argv[1:])
def listen(port):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("", port))
    s.listen()
    return s
server = listen(port)
here = server.getsockname()[0]
reached = socket.create_connection(("127.0.0.1", port)).getpeername()[0]
try:
    listen(port)
    second = "bound"
except OSError as error:
    second = errno.errorcode[error.errno]
print(here, reached, second, listen(other).getsockname()[0], flush=True)
sys.stdin.read()
"""


def test_two_nodes_listen_on_its_port_and_find_their_own(apps):
    """A second process of the same node must still be refused: libfabric takes EADDRINUSE for a server that is there."""
    running = []
    for node in (A, B):
        command = apps.on(node, sys.executable, "-c", SERVER, NAME_SERVER_PORT, str(next(apps.ports)))
        running.append(
            subprocess.Popen(command, env=apps.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
    told = [one.stdout.readline().split() for one in running]
    for one in running:
        one.communicate(timeout=20)
    for node, (here, reached, second, elsewhere) in zip((A, B), told, strict=True):
        assert here == reached == apps.address(node) and second == "EADDRINUSE"
        assert elsewhere == "0.0.0.0"  # no other port is touched
