"""Communication management between ports (IBA chapter 12). Actions of programs and MADs are inputs
of the state table.

There is no I/O: :attr:`CommunicationManager.outbox` collects MADs to send,
:meth:`CommunicationManager.receive` handles arriving ones, and the time is an argument. Events are
reported through a function. Timeouts and numbers of retries are those of the kernel's rdma_cm.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from softib.cm.connect import Request
from softib.cm.connections import Connections, Message, OutgoingMad, Timer, stray
from softib.cm.endpoint import Endpoint, Param
from softib.cm.release import Rejection
from softib.cm.transitions import Input, fire
from softib.iba.cm import CmAttr, RejectReason
from softib.iba.mad_codec import parse_cm

__all__ = ["CommunicationManager"]


def _by_comm_id(cm: Connections, m: Message) -> Endpoint | None:
    return cm.by_id.get(m.fields["remote_comm_id"])


def _of_req(cm: Connections, m: Message) -> Endpoint | None:
    e = cm.by_peer.get((m.fields["local_ca_guid"], m.fields["local_comm_id"]))
    return e or cm.find_listener(m.port, m.service_id)


def _of_sidr_req(cm: Connections, m: Message) -> Endpoint | None:
    e = cm.by_peer.get((-m.slid, m.fields["request_id"]))
    return e or cm.find_listener(m.port, m.service_id)


def _of_rej(cm: Connections, m: Message) -> Endpoint | None:
    """Return the endpoint to which a REJ belongs. A peer that gave up may not know the comm ID of
    this side; it then identifies itself in the ARI (IBA 12.6.7.2, reason 4)."""
    e = _by_comm_id(cm, m)
    if e is None and m.fields["reason"] == RejectReason.TIMEOUT:
        return cm.by_peer.get((int.from_bytes(m.fields["ari"][:8], "big"), m.fields["local_comm_id"]))
    return e


def _of_dreq(cm: Connections, m: Message) -> Endpoint | None:
    e = _by_comm_id(cm, m)
    return e if e is not None and e.peer_comm_id == m.fields["local_comm_id"] else None


def _of_sidr_rep(cm: Connections, m: Message) -> Endpoint | None:
    return cm.by_id.get(m.fields["request_id"])


RECEIVERS: dict[CmAttr, tuple[Input, Callable[[Connections, Message], Endpoint | None]]] = {
    CmAttr.REQ: (Input.REQ, _of_req),
    CmAttr.MRA: (Input.MRA, _by_comm_id),
    CmAttr.REJ: (Input.REJ, _of_rej),
    CmAttr.REP: (Input.REP, _by_comm_id),
    CmAttr.RTU: (Input.RTU, _by_comm_id),
    CmAttr.DREQ: (Input.DREQ, _of_dreq),
    CmAttr.DREP: (Input.DREP, _by_comm_id),
    CmAttr.SIDR_REQ: (Input.SIDR_REQ, _of_sidr_req),
    CmAttr.SIDR_REP: (Input.SIDR_REP, _of_sidr_rep),
}
"""The input for each message, and the function that finds its endpoint (None: it is unknown)."""


class CommunicationManager:
    """All connections of the fabric's hosts (:class:`Connections`)."""

    def __init__(self, connections: Connections):
        self.connections = connections
        self.outbox: deque[OutgoingMad] = connections.outbox
        """MADs to send, in the order of the list."""

    # -- actions of programs --

    def listen(self, e: Endpoint) -> None:
        """Let ``e`` listen. Requests that waited for it are handled first, in their order."""
        cm = self.connections
        fire(cm, e, Input.LISTEN)
        for held, message in list(cm.early.items()):
            if cm.find_listener(held.port, message.service_id) is e:
                fire(cm, held, Input.LISTENER_CAME)
                self._dispatch(message)

    def connect(self, e: Endpoint, p: Param, head: bytes) -> None:
        """Request a connection, or the QP of a service. ``head`` are the bytes of the CMA header,
        in front of the private data."""
        fire(self.connections, e, Input.RESOLVE if e.is_ud else Input.CONNECT, Request(p, head))

    def accept(self, e: Endpoint, p: Param) -> None:
        """Answer a request."""
        fire(self.connections, e, Input.ACCEPT, p)

    def ready(self, e: Endpoint) -> None:
        """Record that the program's QP is ready."""
        fire(self.connections, e, Input.READY)

    def notify(self, e: Endpoint) -> None:
        """Record that the program's QP received a packet: the peer is ready, even if its RTU was
        lost."""
        fire(self.connections, e, Input.NOTIFY)

    def reject(self, e: Endpoint, reason: int, private_data: bytes = b"") -> None:
        """Reject a request, or reject the peer's answer to a request of this side."""
        fire(self.connections, e, Input.REJECT, Rejection(reason, private_data))

    def disconnect(self, e: Endpoint) -> None:
        """End a connection, or answer the peer that ended it. Each side gets the event DISCONNECTED
        once."""
        fire(self.connections, e, Input.DISCONNECT)

    def destroy(self, e: Endpoint) -> None:
        """Destroy the id. The peer is informed in the same way as by the kernel."""
        fire(self.connections, e, Input.DESTROY)

    # -- time --

    def set_time(self, now_ps: int) -> None:
        """Set the time before commands and messages are handled, because timers start at this
        time."""
        self.connections.timers.now_ps = now_ps

    def deadline_ps(self) -> int | None:
        """Return the time at which :meth:`tick` has work to do; None if no timer runs."""
        return self.connections.timers.deadline_ps()

    def tick(self, now_ps: int) -> None:
        """Send unanswered messages again, or abandon them if no retry is left."""
        cm = self.connections
        cm.timers.now_ps = now_ps
        while (due := cm.timers.pop()) is not None:
            e, timer = due
            if timer is Timer.DREQ_CHECK:
                fire(cm, e, Input.DREQ_CHECK)
            else:
                fire(cm, e, Input.TIMEOUT if e.retries_left else Input.EXPIRED, cm.early.get(e))

    # -- arriving messages --

    def receive(self, port: int, slid: int, mad: bytes) -> None:
        """Handle a MAD of this class that reached ``port`` from ``slid``. Unknown messages are dropped (IBA 12.9.8)."""
        parsed = parse_cm(mad)
        if parsed is not None:
            self._dispatch(Message(port, slid, *parsed))

    def _dispatch(self, m: Message) -> None:
        trigger, find = RECEIVERS[CmAttr(m.head.attr)]
        e = find(self.connections, m)
        fire(self.connections, stray(m) if e is None else e, trigger, m)
