"""Establishment of connections (IBA 12.9.7): REQ, REP and RTU, at both ends.

A message that is not answered in time is sent again (IBA 12.9.8). With an MRA, the receiver
requests that the sender wait longer (IBA 12.6.6).

A request for a service that has no listener waits briefly for one before it is rejected. Linux
rejects it at once (``cm_match_req`` of drivers/infiniband/core/cm.c: REJ 8, "invalid service ID").
But on Linux, a request arrives milliseconds after a program begins to connect, because the
neighbour's address, the path and the QP each take a round trip or a command of the device. In
softib, all of this takes microseconds. Programs that unknowingly depend on the delay would then
have a race that does not occur on hardware. For example, perftest's client requests its second
connection while its server is still switching from the first to the second.
"""

from __future__ import annotations

from typing import NamedTuple

from softib.cm.connections import Connections, Message, answered, code_ms
from softib.cm.endpoint import Endpoint, Event, Param, Path
from softib.cm.messages import Received, qp_types_of, rep_fields, req_fields
from softib.iba.cm import CmAttr
from softib.iba.mad_codec import cm_mad

__all__ = [
    "MOST_HELD",
    "Request",
    "backlog_is_full",
    "establish",
    "extend_timeout",
    "has_rtu",
    "hold_request",
    "is_child",
    "is_sidr",
    "may_wait",
    "other_transport",
    "repeat_answer",
    "resend",
    "send_mra_for_rep",
    "send_mra_for_req",
    "send_rep",
    "send_req",
    "send_rtu",
    "spawn_child",
    "take_rep",
    "take_req",
]

MOST_HELD = 1024
"""Maximum number of requests, for all ports together, that wait for a listener; it is the longest
backlog. Further requests are rejected at once, as by Linux."""


class Request(NamedTuple):
    """The parameters of a program's connect call. ``head`` are the bytes of the CMA header, in
    front of the private data."""

    param: Param
    head: bytes


# -- the active side --


def send_req(cm: Connections, e: Endpoint, request: Request) -> None:
    """Request a connection."""
    assert e.path is not None
    e.qpn = request.param.qpn
    cm.name(e)
    fields = req_fields(e, request.param, request.head, cm.node_guid(e.port), cm.timing)
    cm.post_until_answered(e, cm_mad(CmAttr.REQ, e.comm_id, request.param.ece_options, **fields))


def take_rep(cm: Connections, e: Endpoint, m: Message) -> None:
    """Handle a REP: the passive side accepted, and now the program must bring its QP to RTS."""
    cm.timers.stop(e)
    e.peer_comm_id, e.peer_qpn = m.fields["local_comm_id"], m.fields["local_qpn"]
    e.peer_guid = m.fields["local_ca_guid"]
    cm.report(e, Event.CONNECT_RESPONSE, 0, m.fields | {"ece_options": m.head.modifier})


def send_rtu(cm: Connections, e: Endpoint, _: None) -> None:
    """Send the RTU, because the program's QP is ready."""
    e.last_mad = cm_mad(CmAttr.RTU, e.comm_id, local_comm_id=e.comm_id, remote_comm_id=e.peer_comm_id)
    cm.post(e, e.last_mad)


def has_rtu(cm: Connections, e: Endpoint, m: Message) -> bool:
    """Return whether the endpoint is the active side and has sent its RTU."""
    return bool(e.last_mad)


# -- the passive side --


def other_transport(cm: Connections, listener: Endpoint, m: Message) -> bool:
    """Return whether a QP of the listener's type cannot answer this REQ."""
    return listener.qp_type not in qp_types_of(m.fields)


def backlog_is_full(cm: Connections, listener: Endpoint, m: Message) -> bool:
    """Return whether the listener's backlog is full. The REQ is then dropped, and the peer will
    repeat it."""
    return listener.waiting >= listener.backlog


def spawn_child(cm: Connections, listener: Endpoint, m: Message) -> Endpoint:
    """Create the id that handles the request, and return it."""
    return cm.new_child(listener)


def is_child(cm: Connections, e: Endpoint, m: Message) -> bool:
    """Return whether a listener created ``e`` for this request."""
    return e.listener is not None


def take_req(cm: Connections, e: Endpoint, m: Message) -> None:
    """Handle a request: report it to the listener's program."""
    assert e.listener is not None
    req, path = m.fields, Path.back(m.fields)
    e.port, e.path, e.sgid, e.dgid = m.port, path, path.sgid, path.dgid
    e.peer_comm_id, e.peer_guid, e.peer_qpn = req["local_comm_id"], req["local_ca_guid"], req["local_qpn"]
    e.events_enabled, e.peer_tid = False, m.head.tid
    cm.name(e)
    cm.know_peer(e)
    e.listener.waiting += 1
    cm.report(e, Event.CONNECT_REQUEST, 0, m.fields | {"ece_options": m.head.modifier})


def send_rep(cm: Connections, e: Endpoint, p: Param) -> None:
    """Send a REP, because the program accepts the request."""
    answered(e)
    e.events_enabled, e.qpn = True, p.qpn
    cm.post_until_answered(e, cm_mad(CmAttr.REP, e.peer_tid, p.ece_options, **rep_fields(e, p, cm.node_guid(e.port))))


def establish(cm: Connections, e: Endpoint, _: object) -> None:
    """Handle that the peer is ready: its RTU arrived, or its first packet arrived before the RTU
    (IBA 12.9.7, communication established)."""
    cm.timers.stop(e)
    e.last_mad = b""
    cm.report(e, Event.ESTABLISHED, 0, {})


# -- repetitions --


def repeat_answer(cm: Connections, e: Endpoint, m: Message) -> None:
    """Send the answer (REP or RTU) again. The peer repeated its message, so it did not get the
    answer."""
    cm.post(e, e.last_mad)


def resend(cm: Connections, e: Endpoint, _: object) -> None:
    """Send the message again, because the timer expired and a retry is left."""
    e.retries_left -= 1
    cm.post(e, e.last_mad)
    cm.timers.start(e, cm.timing.response_ms)


def _send_mra(cm: Connections, e: Endpoint, received: Received) -> None:
    ids = {"local_comm_id": e.comm_id, "remote_comm_id": e.peer_comm_id}
    timeout = cm.timing.service_timeout
    cm.post(e, cm_mad(CmAttr.MRA, e.peer_tid or e.comm_id, message=received, service_timeout=timeout, **ids))


def send_mra_for_req(cm: Connections, e: Endpoint, m: Message) -> None:
    """Send an MRA: the peer repeated its REQ, but the program has not answered yet."""
    _send_mra(cm, e, Received.REQ)


def send_mra_for_rep(cm: Connections, e: Endpoint, m: Message) -> None:
    """Send an MRA: the peer repeated its REP, but the program's QP is not ready yet."""
    _send_mra(cm, e, Received.REP)


def extend_timeout(cm: Connections, e: Endpoint, m: Message) -> None:
    """Extend the timeout, because the peer's program needs more time."""
    cm.timers.start(e, code_ms(m.fields["service_timeout"]) + cm.timing.response_ms)


# -- requests that wait for a listener --


def _hold_ms(cm: Connections, m: Message) -> int:
    """Return the time for which the request is held. It is at most half the time for which the
    sender waits for an answer (REQ.RemoteCMResponseTimeout, IBA 12.7.11), so no MRA is due before,
    and the sender does not repeat the request. A SIDR_REQ states no time, so Linux' value is
    used."""
    return cm.timing.hold_ms(m.fields.get("remote_cm_response_timeout", cm.timing.response))


def may_wait(cm: Connections, e: Endpoint, m: Message) -> bool:
    """Return whether the request can be held: there is space, and the sender waits long enough."""
    return len(cm.early) < MOST_HELD and _hold_ms(cm, m) >= 1


def hold_request(cm: Connections, e: Endpoint, m: Message) -> None:
    """Hold the request ``m``: ``e`` represents its sender until a listener arrives or the time expires."""
    e.events_enabled = False
    cm.know_peer(e)
    cm.early[e] = m
    cm.timers.start(e, _hold_ms(cm, m))


def is_sidr(cm: Connections, e: Endpoint, m: Message) -> bool:
    """Return whether the held request resolves a service ID."""
    return e.is_ud
