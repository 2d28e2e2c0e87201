"""The network of a node of a running fabric: the first ``softib run --net`` on the node creates it, and later ones join
it.

``FOLDER/net`` of the running fabric contains, for each node whose network is up, the socket and the log of its
``softib-ipoib``. A program that uses the network stays connected to this socket. ``softib-ipoib`` ends when no program
is connected and no process is in the namespace.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from softib.errors import InputError
from softib.foreign_text import shown
from softib.live.c_header import CHeader
from softib.live.control import Attached
from softib.live.instances import Instance
from softib.live.launch.preload import built_libraries
from softib.preload.build import IPOIB, why_no_ipoib
from softib.ulp.ipoib.addresses import net_address, ports_of, row_of
from softib.ulp.ipoib.namespace import entering, make_namespace

__all__ = ["CONTROL", "Network", "join"]

CONTROL = CHeader("ipoib/control.h", "IPOIB_")
ANSWER_S = 30.0
"""Time limit for the start of a network. ``softib-ipoib`` waits half of this time for the subnet administrator."""
BACKLOG = 128
LONGEST = 8192


@dataclass
class Network:
    """A node's network that this process uses. The network exists at least until ``sock`` is closed. ``net`` and
    ``user`` (-1: none) are its namespaces; ``connected``: it is in connected mode; ``problems`` has the reason for each
    parent interface without a broadcast group. (A child interface without one is no problem, because not every
    partition carries IP.)"""

    sock: socket.socket
    net: int
    user: int
    addresses: list[str]
    problems: list[str]
    connected: bool

    def totals(self) -> dict[str, int]:
        """Return the traffic of the network's interfaces."""
        ask(self.sock, "TOTALS")
        layout = CONTROL.layout("softib_ipoib_totals")
        return dict(layout.unpack(self.sock.recv(LONGEST))._asdict())

    def entering(self) -> Callable[[], None]:
        """Enter the network's namespaces; called in a child process."""
        return entering(self.net, self.user)

    def close(self) -> None:
        """Stop using the network."""
        self.sock.close()
        for fd in (self.net, self.user):
            if fd >= 0:
                os.close(fd)


def ask(sock: socket.socket, op: str) -> None:
    """Send the request ``op`` to ``softib-ipoib``."""
    fields = {"magic": CONTROL.constant("MAGIC"), "op": CONTROL.constant(f"ASK_{op}")}
    sock.sendall(CONTROL.layout("softib_ipoib_ask").pack(fields))


def join(instance: Instance, attached: Attached, connected: bool = False) -> Network:
    """Return the network of the node described by ``attached`` (the daemon's reply to ``attach``). ``connected``:
    use connected mode (RFC 4755); the first program on the node determines the mode. On failure, clean up and raise
    :class:`InputError` with one line."""
    view = attached.view
    if attached.ethernet:
        raise InputError(f"{attached.place}: --net needs InfiniBand, but the link layer is Ethernet; leave out --net")
    rows = [row_of(address) for address in attached.addresses]
    if not rows:
        raise InputError(f"{attached.place}: --net needs queue pairs, which a switch does not have; use a host")
    folder = instance.folder / "net"
    folder.mkdir(mode=0o700, exist_ok=True)
    place = folder / f"{view.name}.sock"
    with _alone(folder / f"{view.name}.lock"):
        network = _joined(place, attached)
        if network is None:
            ports = [f"{device},{number},{row}" for (device, number), row in zip(ports_of(view), rows, strict=False)]
            _start(place, ports, attached.env, connected)
            network = _joined(place, attached)
    if network is None:
        raise InputError(f"{attached.place}: {_last_line(place)}")
    if connected and not network.connected:
        network.close()
        raise InputError(
            f"{attached.place}: the network of this node already runs in datagram mode; end its programs, or leave out "
            f"--connected"
        )
    return network


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _joined(path: Path, attached: Attached) -> Network | None:
    """Return the network at the socket ``path``; None if it has ended."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(ANSWER_S)
    try:
        sock.connect(str(path))
    except OSError:
        sock.close()
        return None
    return _greeted(sock, attached)


def _greeted(sock: socket.socket, attached: Attached) -> Network | None:
    """Receive the first messages from the ``softib-ipoib`` at the other end of ``sock``. Return its network; None if it
    ended before it was ready."""
    try:
        message, fds, _, _ = socket.recv_fds(sock, LONGEST, 2)
    except OSError:
        message, fds = b"", []
    if not message:
        sock.close()
        return None
    head, each = CONTROL.layout("softib_ipoib_ready"), CONTROL.layout("softib_ipoib_interface")
    ready = head.unpack(message)
    rows = [each.unpack(message[head.size + n * each.size :]) for n in range(ready.interfaces)]
    addresses = [net_address(a) for a in attached.addresses]
    problems = [f"{_text(row.name)}: {_text(row.problem)}" for row in rows if not row.mtu and b"." not in row.name]
    network = Network(sock, fds[0], fds[1] if len(fds) > 1 else -1, addresses, problems, bool(ready.connected))
    if problems and not any(row.mtu for row in rows):
        network.close()
        raise InputError(f"{attached.place}: no network: {problems[0]}")
    return network


def _text(field: bytes) -> str:
    return shown(field.split(b"\0")[0].decode("utf-8", "replace"))


def _last_line(place: Path) -> str:
    lines = place.with_suffix(".log").read_text(errors="replace").strip().splitlines()
    return shown(lines[-1]) if lines else f"{IPOIB.name} ended; its log is empty"


def _start(place: Path, ports: Sequence[str], env: dict[str, str], connected: bool) -> None:
    """Start ``softib-ipoib`` for these ports; it listens at ``place``."""
    if not IPOIB.is_file():
        raise InputError(why_no_ipoib())
    limit = CONTROL.constant("INTERFACES")
    namespace = make_namespace(limit)
    place.unlink(missing_ok=True)
    try:
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening,
            open(place.with_suffix(".log"), "wb") as log,
        ):
            listening.bind(str(place))
            os.chmod(place, 0o600)
            listening.listen(BACKLOG)
            n = namespace
            numbers = (listening.fileno(), n.net, n.user, n.socket, n.six, n.netlink)
            fds = [fd for fd in (*numbers, *namespace.taps) if fd >= 0]
            arguments = [*map(str, numbers), ",".join(map(str, namespace.taps)), str(int(connected)), *ports[:limit]]
            subprocess.Popen(
                [IPOIB, *arguments],
                env={**env, "PATH": os.defpath, "LD_PRELOAD": " ".join(map(str, built_libraries()))},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=fds,
                start_new_session=True,
                cwd="/",
            )
    finally:
        namespace.close()
