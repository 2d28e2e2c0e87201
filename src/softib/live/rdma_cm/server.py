"""Serves programs under ``libsoftib-verbs.so``: the daemon does the work that the kernel's rdma_cm does on real hosts.

Messages of communication management travel over the fabric as MADs (class 0x07, QP1), by LID and
P_Key; queries go to the subnet administrator whose LID the port has recorded.
"""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from softib.cm.connections import TIMING, Timing, Unread, nothing_unread
from softib.cm.endpoint import Endpoint, Event
from softib.fabric.node_finder import default_port
from softib.iba.constants import GSI_QP, RESPONSE_BIT, MgmtClass
from softib.iba.mad_codec import CM_CLASS
from softib.iba.smp import CLASS_AT, METHOD_AT, TID_AT, PortInfo
from softib.live.clock import clock_ps
from softib.live.mad_router import MadRouter
from softib.live.rdma_cm.address import Addresses
from softib.live.rdma_cm.sa_client import SaClient
from softib.live.rdma_cm.ucma import Ucma
from softib.live.rdma_cm.wire import constant, hello_of, reply, request_of, request_size
from softib.live.sysfs.views import Views
from softib.live.unix_server import SendQueue, SeqpacketServer, receive
from softib.mad.batch import MadBatch

__all__ = ["RdmaCmServer"]

LONGEST = 2048
ROUNDS = 32
"""Maximum number of requests from one process before the loop serves other processes."""
OPS = (
    "DESTROY",
    "BIND",
    "RESOLVE_ADDR",
    "RESOLVE_ROUTE",
    "LISTEN",
    "CONNECT",
    "ACCEPT",
    "READY",
    "REJECT",
    "DISCONNECT",
    "NOTIFY",
    "JOIN",
    "LEAVE",
    "MIGRATE",
    "POST",
    "SET_PATH",
    "WRITE_EVENT",
)
LAST_NUMBER, FIRST_NUMBER = 0xFFFE, 0x8000
EVENTS, EVENTS_OF_ID = 1024, 16
"""Maximum number of unread events of a process, and the additional number for each of its ids.
Beyond it, requests that could add an event fail with ENOMEM."""
WITHOUT_EVENTS = ("DESTROY", "LEAVE", "MIGRATE")


class EventChannel:
    """An open rdma_cm device of a program. Events that do not fit into its socket wait, and are counted as unread
    events of its process."""

    def __init__(self, number: int, sock: socket.socket, process: CmProcess, selector: selectors.BaseSelector):
        self.number, self.sock, self.process = number, sock, process
        self._queue = SendQueue(sock, selector)

    def send(self, event: bytes) -> None:
        """Send ``event`` after those that wait."""
        self._counted(lambda: self._queue.send(event))

    def flush(self) -> None:
        """Send waiting events now that the socket has room."""
        self._counted(self._queue.flush)

    def clear(self) -> None:
        """Drop the events that wait."""
        self._counted(self._queue.clear)

    def _counted(self, change: Callable[[], None]) -> None:
        before = len(self._queue)
        change()
        self.process.unread += len(self._queue) - before


class CmProcess:
    """A program: the ports that it sees, its ids and channels by number, and the number of events
    that it has not read (beyond those in its sockets)."""

    def __init__(self, number: int, sock: socket.socket, ports: tuple[int, ...]):
        self.number, self.sock, self.ports = number, sock, ports
        self.endpoints: dict[int, Endpoint] = {}
        self.channels: dict[int, EventChannel] = {}
        self.unread = 0
        self._children = 0

    @property
    def room(self) -> int:
        """Return the number of further events that may wait for the program. Each id adds a few, so that a program may
        stop reading for a while."""
        return EVENTS + EVENTS_OF_ID * len(self.endpoints)

    def child_number(self) -> int:
        """See :class:`softib.live.rdma_cm.ucma.Owner`."""
        self._children = (self._children + 1) % constant("CHILD")
        return constant("CHILD") | self._children


class RdmaCmStation:
    """Takes the SA's answers to a port's queries (a :class:`softib.live.mad_router.Station`)."""

    issm = False

    def __init__(self, number: int, port: int, sa: SaClient):
        self.number, self.port, self.sa = number, port, sa
        self.classes = np.zeros(256, np.uint8)

    def takes(self, mad: np.ndarray) -> bool:
        """Return whether this is an answer for which a query waits."""
        if not mad[METHOD_AT] & RESPONSE_BIT or mad[CLASS_AT] != MgmtClass.SUBN_ADM:
            return False
        return int.from_bytes(mad[TID_AT : TID_AT + 8].tobytes(), "big") in self.sa.waiting

    def deliver(self, batch: MadBatch) -> None:
        """Deliver answers to their queries."""
        for mad in batch.mad:
            self.sa.answer(mad.tobytes())


class RdmaCmServer(SeqpacketServer):
    """Server on the socket ``rdma_cm`` in ``folder``. :meth:`tick` must be called after the time that :meth:`wait_s`
    returns."""

    def __init__(
        self,
        router: MadRouter,
        folder: Path,
        selector: selectors.BaseSelector,
        views: Views,
        timing: Timing = TIMING,
        unread: Unread = nothing_unread,
    ):
        super().__init__(folder / "rdma_cm", selector)
        self.router, self.views = router, views
        self.addresses = Addresses(router.fabric)
        self.sa = SaClient(self._send_to_sa, self._station_number)
        self.ucma = Ucma(self.addresses, self.sa, self._post, timing, unread)
        self.processes: dict[int, CmProcess] = {}
        self.stations: dict[int, RdmaCmStation] = {}
        self._ops = {constant(name): name for name in OPS}
        self._next = 0
        self._warm()

    def _warm(self) -> None:
        """Compile now, so that the first program does not wait. The message used for this is not a valid MAD, so it is
        not sent."""
        self.router.plane.exchange(MadBatch.zeros(1), default_port(self.router.fabric))

    def close(self) -> None:
        """Close every socket; programs lose their devices."""
        for process in list(self.processes.values()):
            self._end(process)
        super().close()

    # -- processes and channels --

    def greeted(self, sock: socket.socket, message: bytes) -> None:
        """Handle the start of a program, or a new channel."""
        hello = hello_of(message)
        error, number = errno.EPROTO, 0
        if hello is not None and hello.kind == constant("PROCESS"):
            error, number = self._begin(sock, hello)
        elif hello is not None and hello.kind == constant("CHANNEL"):
            error, number = self._open(sock, hello)
        with contextlib.suppress(OSError):
            sock.send(reply({"error": error, "number": number}))
        if error:
            sock.close()

    def refusal(self, error: int) -> bytes:
        """See :class:`SeqpacketServer`."""
        return reply({"error": error})

    def _begin(self, sock: socket.socket, hello: Any) -> tuple[int, int]:
        view = self.views.known.get(hello.view.split(b"\0")[0].decode("utf-8", "replace"))
        if view is None:
            return errno.ENODEV, 0
        f = self.router.fabric
        ports = tuple(p for p in view.umads if f.port_num[p] and not f.is_switch[f.port_node[p]])
        self._next += 1
        process = self.processes[self._next] = CmProcess(self._next, sock, ports)
        self.selector.register(sock, selectors.EVENT_READ, lambda events: self._read(process))
        return 0, process.number

    def _open(self, sock: socket.socket, hello: Any) -> tuple[int, int]:
        process = self.processes.get(hello.process)
        if process is None:
            return errno.ENODEV, 0
        self._next += 1
        channel = process.channels[self._next] = EventChannel(self._next, sock, process, self.selector)
        self.selector.register(sock, selectors.EVENT_READ, lambda events: self._watch(channel, events))
        return 0, channel.number

    def _watch(self, channel: EventChannel, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            channel.flush()
        if (
            events & selectors.EVENT_READ and receive(channel.sock, LONGEST) == b""
        ):  # otherwise the program may write over its descriptor
            self._shut(channel)
            self._send_outbox()

    def _shut(self, channel: EventChannel) -> None:
        if channel.process.channels.pop(channel.number, None) is None:
            return
        self.selector.unregister(channel.sock)
        channel.sock.close()
        channel.clear()
        for e in [e for e in channel.process.endpoints.values() if e.channel == channel.number]:
            self.ucma.destroy(e)

    def _end(self, process: CmProcess) -> None:
        if self.processes.pop(process.number, None) is None:
            return
        self.selector.unregister(process.sock)
        process.sock.close()
        for channel in list(process.channels.values()):
            self._shut(channel)
        for e in list(process.endpoints.values()):
            self.ucma.destroy(e)

    # -- requests --

    def _read(self, process: CmProcess) -> None:
        self._set_clock()
        for _ in range(ROUNDS):
            message = receive(process.sock, LONGEST)
            if message is None:
                return
            request = request_of(message)
            if request is None:
                self._end(process)  # the connection was closed, or the program is not libsoftib-verbs.so
                self._send_outbox()
                return
            self._answer(process, request, message)
            self._send_outbox()

    def _answer(self, process: CmProcess, request: Any, message: bytes) -> None:
        op = self._ops.get(request.op, "")
        if op == "POST":  # the event was counted when it was first sent
            channel = process.channels.get(request.channel)
            if channel is not None:
                self._take_back(channel, message[request_size() :])
            self._reply(process, request, {})
            return
        if process.unread > process.room and op not in WITHOUT_EVENTS:
            self._reply(process, request, {"error": errno.ENOMEM, "number": request.number})
            return
        error, e = self.ucma.run(process, op, request)
        values = self.ucma.describe(e) | {"sent": e.sent} if e is not None else {}
        self._reply(process, request, values | {"error": error, "number": request.number})

    @staticmethod
    def _reply(process: CmProcess, request: Any, values: dict[str, Any]) -> None:
        """Send a reply; a program that does not read its replies loses them."""
        if request.answer:
            with contextlib.suppress(OSError):
                process.sock.send(reply(values))

    def _take_back(self, channel: EventChannel, event: bytes) -> None:
        """Deliver again an event that a program has received but cannot use yet."""
        if len(event) == len(reply({})) and channel.process.unread <= 2 * channel.process.room:
            channel.send(event)

    # -- events --

    def _post(self, e: Endpoint, fields: dict[str, Any]) -> None:
        counted = e
        if fields["event"] == Event.CONNECT_REQUEST:
            assert e.listener is not None
            counted = e.listener
            fields["listener"] = counted.number
        channel = e.owner.channels.get(counted.channel)
        if channel is not None:
            counted.sent += 1
            e.channel = counted.channel
            channel.send(reply(fields))

    # -- MADs --

    def _send_outbox(self) -> None:
        """Send the CM's MADs, and then the MADs that they cause, until there are no more."""
        cm = self.ucma.cm
        while cm.outbox:
            out = cm.outbox.popleft()
            index = self.addresses.pkey_index(out.port, out.pkey) if out.pkey else 0
            if index is not None:
                self._exchange(out.port, out.dlid, out.sl, index, out.mad)

    def _exchange(self, port: int, dlid: int, sl: int, pkey_index: int, mad: bytes) -> None:
        batch = MadBatch.zeros(1)
        batch.mad[0] = np.frombuffer(mad, np.uint8)
        batch.dlid[0], batch.sl[0], batch.pkey_index[0], batch.dqp[0], batch.sqp[0] = (
            dlid,
            sl,
            pkey_index,
            GSI_QP,
            GSI_QP,
        )
        batch.tid[0] = int.from_bytes(mad[TID_AT : TID_AT + 8], "big")
        _, delivery = self.router.plane.exchange(batch, port, clock_ps())
        if delivery is None:
            return
        if mad[CLASS_AT] == CM_CLASS:
            self.ucma.cm.receive(int(delivery.ports[0]), int(delivery.batch.slid[0]), delivery.batch.mad[0].tobytes())
        else:
            self.router.deliver(delivery)

    def _send_to_sa(self, port: int, mad: bytes) -> bool:
        info = self.router.fabric.port_info[port]
        lid = int(PortInfo.master_sm_lid.get(info))
        if not lid or not self.addresses.lid_of(port):
            return False
        self._exchange(port, lid, int(PortInfo.master_sm_sl.get(info)), 0, mad)
        return True

    def _station_number(self, port: int) -> int:
        station = self.stations.get(port)
        if station is None:
            free = (n for n in range(LAST_NUMBER, FIRST_NUMBER, -1) if n not in self.router.stations)
            station = self.stations[port] = RdmaCmStation(next(free), port, self.sa)
            self.router.join(station)
        return station.number

    # -- time --

    def _set_clock(self) -> None:
        self.sa.now_ps = clock_ps()
        self.ucma.cm.set_time(self.sa.now_ps)

    def wait_s(self, now_ps: int) -> float:
        """Return the seconds until :meth:`tick` has work."""
        due = [d for d in (self.ucma.cm.deadline_ps(), self.sa.deadline_ps()) if d is not None]
        return max(0.0, (min(due) - now_ps) / 1e12) if due else 3600.0

    def tick(self, now_ps: int) -> None:
        """Send unanswered messages again, or abandon them; send the messages that the SA's answers make possible."""
        self.ucma.cm.tick(now_ps)
        self.sa.tick(now_ps)
        self._send_outbox()
