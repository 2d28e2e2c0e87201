"""The server of ibsim's protocol: stock programs under ``libumad2sim.so`` run on a fabric's ports.

    router = MadRouter(AgentPlane(fabric))
    server = IbsimServer(router, UnixSockets("pod"), selector)
    loop = EventLoop(selector, router, server)
    while True:
        loop.step(timeout_s=0.1)

Nothing blocks: a message that does not fit into a client's queue waits until it does. Every request
is at once answered or returned with status 110, because the stock library waits for an answer
without limit.
"""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from softib.errors import InputError
from softib.fabric.node_finder import NodeFinder
from softib.live.admission import Credentials
from softib.live.clock import clock_ps
from softib.live.ibsim.client import Client
from softib.live.ibsim.control import IbsimControl
from softib.live.ibsim.kernels import FD, NUMBER, PORT, pump, read_frames
from softib.live.ibsim.sockets import ServerSockets
from softib.live.ibsim.wire import CONTROL_SIZE, ClientInfo, Control, ControlType, buffers_of
from softib.live.mad_router import BATCH, MadRouter
from softib.live.proc import has_ended

__all__ = ["IbsimServer"]

CHECK_PS = 10**12
"""Interval in ps at which the server checks whether its clients are alive."""
PUMP_WAIT_MS = 2
"""Time for which the kernel waits for the next request of a client that has just sent one, while no
other socket is ready."""
ROUNDS = 8
"""Number of batches of one client in a row before other clients are served."""


class IbsimServer:
    """Serves the fabric of ``router`` below ``sockets``, as a :class:`~softib.live.daemon.Peer` of the loop;
    ``on_change`` is called when clients connect or leave.

    Raises :class:`InputError` if another server has the name or port.
    """

    def __init__(
        self,
        router: MadRouter,
        sockets: ServerSockets,
        selector: selectors.BaseSelector | None = None,
        on_change: Callable[[], None] = lambda: None,
    ):
        self.router, self.sockets, self.on_change = router, sockets, on_change
        self.selector = selector or selectors.DefaultSelector()
        self.finder, self.control_requests = NodeFinder(router.fabric), IbsimControl(router.plane)
        self.finder.prepare()
        self.clients: dict[int, Client] = {}
        self.buffers = buffers_of()
        self._tables = router.plane.tables, router.cells, router.requests, router.answers, router.exchange, self.buffers
        self._warm()
        self.control = sockets.control()
        self.selector.register(self.control, selectors.EVENT_READ, self._control_ready)
        self._next = 1
        self._check_at_ps = clock_ps() + CHECK_PS

    # -- time --

    def wait_s(self, now_ps: int) -> float:
        """Return the seconds until clients are checked again."""
        return max(0.0, (self._check_at_ps - now_ps) / 1e12)

    def tick(self, now_ps: int) -> None:
        """Remove the clients whose programs have ended."""
        if now_ps >= self._check_at_ps:
            self._check_at_ps = now_ps + CHECK_PS
            for client in self.clients.values():
                client.lost |= not self.sockets.is_held(client.peer)
        for client in list(self.clients.values()):
            if client.closed:
                self.drop(client)

    def close(self) -> None:
        """Close every socket. Clients notice at their next send."""
        for client in list(self.clients.values()):
            self.drop(client)
        self.selector.unregister(self.control)
        self.control.close()

    # -- data --

    def _ready(self, client: Client) -> Callable[[int], None]:
        def ready(events: int) -> None:
            if client.closed:
                return
            try:
                if events & selectors.EVENT_WRITE:
                    client.queue.flush()
                if events & selectors.EVENT_READ:
                    self.serve(client)
            except Exception:
                self.router.report_bug(f"serving pid {client.pid}")
                client.lost = True

        return ready

    def serve(self, client: Client) -> None:
        """Handle what ``client`` has sent, up to a limit, so that others do not wait too long."""
        if self.router.pumps and not client.queue:
            now_ps = clock_ps()
            self.router.pumped(client, lambda rounds: self._pump(client, now_ps, rounds), now_ps)
            return
        for _ in range(ROUNDS):
            n = client.receive(self.buffers.frames)
            if n:
                read_frames(self.buffers.frames, n, self.router.requests)
                self.router.handle(client, n, clock_ps())
            if n < BATCH or client.closed or client.queue:
                return

    def _pump(self, client: Client, now_ps: int, rounds: int) -> None:
        sender = self.buffers.client
        sender[PORT], sender[NUMBER], sender[FD] = client.port, client.number, client.sock.fileno()
        pump(*self._tables, client.classes, now_ps, int(self.router.alone), rounds)

    def _warm(self) -> None:
        """Compile now, so that the first client does not have to wait."""
        read_frames(self.buffers.frames, 0, self.router.requests)
        if self.router.pumps:
            pump(*self._tables, np.zeros(256, np.uint8), 0, 0, 0)

    # -- control --

    def _control_ready(self, events: int) -> None:
        for _ in range(BATCH):
            try:
                message, source, sender = self.sockets.receive(self.control, CONTROL_SIZE + 1)
            except OSError:  # no more datagrams, or an ICMP error because a UDP client has left
                return
            request = Control.parse(message)
            if request is None or not source:
                continue
            try:  # the stock library waits for an answer without end, so refused users get an answer too
                answer = self._answer(request, source, sender) if self.sockets.admits(sender) else request.refuse()
            except Exception:
                self.router.report_bug("answering on the control channel")
                answer = request.refuse()
            self._reply(answer, source)

    def _reply(self, message: bytes, source: Any) -> None:
        with contextlib.suppress(OSError):  # the client has ended, or does not read its answers, which are then lost
            self.control.sendto(message, source)

    def _answer(self, request: Control, source: Any, sender: Credentials | None) -> bytes:
        if request.type == ControlType.CONNECT:
            info = self._connect(ClientInfo.parse(request.body), source, sender)
            return request.answer(info.pack()) if info else request.refuse()
        client = self.clients.get(request.client)
        if client is None or client.source != source:
            # A client that was dropped still sends a disconnect, and waits for the answer.
            return request.answer(request.body) if request.type == ControlType.DISCONNECT else request.refuse()
        if request.type == ControlType.DISCONNECT:
            self.drop(client)
            return request.answer(request.body)
        if request.type == ControlType.SET_ISSM:
            self._set_issm(client, bool(struct.unpack_from("=I", request.body)[0]))
            return request.answer(request.body)
        body = self.control_requests.answer(request.type, client.port, request.body)
        return request.refuse() if body is None else request.answer(body)

    def _set_issm(self, client: Client, issm: bool) -> None:
        client.issm = issm
        self.router.announce(client.port)
        self.on_change()

    def _connect(self, info: ClientInfo, source: Any, sender: Credentials | None) -> ClientInfo | None:
        try:
            port = self.finder.port(info.node.decode("utf-8", "replace"))
        except InputError:
            return None
        for other in list(self.clients.values()):
            if other.source == source:  # the same program connects again, or a new program has the pid of a dead one
                self.drop(other)
        node_of = self.router.fabric.port_node
        if info.issm and any(s.issm and node_of[s.port] == node_of[port] for s in self.router.stations.values()):
            return None  # the port already has a manager: refuse, as ibsim does
        opened = self._open(info, source)
        if opened is None:
            return None
        number, sock, peer = opened
        if sender is not None and sender.pid and has_ended(sender.pid):
            sock.close()  # the client's address was unbound for a moment, so another user's program may have bound it
            return None
        fabric = self.router.fabric
        name = fabric.node_name(int(fabric.port_node[port]))
        client = Client(number, port, sock, peer, source, name, info.id, self.selector)
        client.issm = bool(info.issm)
        client.wait_up_to(PUMP_WAIT_MS)
        self.clients[number] = client
        self.selector.register(sock, selectors.EVENT_READ, self._ready(client))
        self.router.join(client)
        self.on_change()
        # The client prints a warning if the node is not the requested one.
        return ClientInfo(number, info.qp, info.issm, info.node or name.encode())

    def _open(self, info: ClientInfo, source: Any) -> tuple[int, socket.socket, Any] | None:
        """Return the next free number and its data socket. Numbers begin at 1 (0 in a TID means that it has no client
        number) and are not reused soon, because MADs in transit have them in their TIDs."""
        last = self.sockets.last_client
        for _ in range(last):
            number, self._next = self._next, self._next % last + 1
            if number in self.router.stations:
                continue
            try:
                return number, *self.sockets.data(number, source, info.id)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    return None  # the program no longer exists, or the daemon has no descriptor left
        return None

    def drop(self, client: Client) -> None:
        """Forget ``client``; if its port has IsSM set for this client, the bit is cleared."""
        if self.clients.pop(client.number, None) is None:
            return
        self.selector.unregister(client.sock)
        client.close()
        self.router.leave(client)
        self.on_change()
