"""Establishment of connections (IBA 12.9.7): REQ, REP and RTU, at both ends.

An unanswered message is sent again when its time expires (IBA 12.9.8); an MRA requests more time from the sender (IBA
12.6.6).

A request for a service without a listener waits briefly for one before it is refused. Linux
refuses at once (``cm_match_req`` of drivers/infiniband/core/cm.c: REJ 8, "invalid service ID"). But with Linux, a
request arrives milliseconds after a program begins to connect: the neighbour's address, the path and the QP each take a
round trip or a command of the device. Here all of that takes microseconds. Programs that unknowingly depend on the
delay then show a race that no hardware has: perftest's client requests its second connection while its server still
switches from the first to the second.
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
"""Largest number of requests, of all ports together, that wait for a listener: the longest backlog. Further ones are
refused at once, as by Linux."""


class Request(NamedTuple):
    """The parameters of a program's connect call; ``head`` are the CMA's bytes before the private
    data."""

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
    """Handle a REP: the passive side accepted, and the program now brings its QP up."""
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
    """Return whether the listener's type of QP cannot answer this REQ."""
    return listener.qp_type not in qp_types_of(m.fields)


def backlog_is_full(cm: Connections, listener: Endpoint, m: Message) -> bool:
    """Return whether the listener's backlog is full: the REQ is then dropped, and the peer will repeat it."""
    return listener.waiting >= listener.backlog


def spawn_child(cm: Connections, listener: Endpoint, m: Message) -> Endpoint:
    """Return the id that handles the request next."""
    return cm.new_child(listener)


def is_child(cm: Connections, e: Endpoint, m: Message) -> bool:
    """Return whether a listener created ``e`` for this request."""
    return e.listener is not None


def take_req(cm: Connections, e: Endpoint, m: Message) -> None:
    """Handle a request for the listener's program."""
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
    """Send a REP: the program accepts."""
    answered(e)
    e.events_enabled, e.qpn = True, p.qpn
    cm.post_until_answered(e, cm_mad(CmAttr.REP, e.peer_tid, p.ece_options, **rep_fields(e, p, cm.node_guid(e.port))))


def establish(cm: Connections, e: Endpoint, _: object) -> None:
    """Handle that the peer is ready: its RTU arrived, or its first packet came before the RTU (IBA 12.9.7,
    communication established)."""
    cm.timers.stop(e)
    e.last_mad = b""
    cm.report(e, Event.ESTABLISHED, 0, {})


# -- repetitions --


def repeat_answer(cm: Connections, e: Endpoint, m: Message) -> None:
    """Send the answer (REP or RTU) again: the peer repeats its message, so the answer was lost."""
    cm.post(e, e.last_mad)


def resend(cm: Connections, e: Endpoint, _: object) -> None:
    """Send the message again: the timer expired, and a retry is left."""
    e.retries_left -= 1
    cm.post(e, e.last_mad)
    cm.timers.start(e, cm.timing.response_ms)


def _send_mra(cm: Connections, e: Endpoint, received: Received) -> None:
    ids = {"local_comm_id": e.comm_id, "remote_comm_id": e.peer_comm_id}
    timeout = cm.timing.service_timeout
    cm.post(e, cm_mad(CmAttr.MRA, e.peer_tid or e.comm_id, message=received, service_timeout=timeout, **ids))


def send_mra_for_req(cm: Connections, e: Endpoint, m: Message) -> None:
    """Send an MRA: the peer repeats its REQ while the program has not answered yet."""
    _send_mra(cm, e, Received.REQ)


def send_mra_for_rep(cm: Connections, e: Endpoint, m: Message) -> None:
    """Send an MRA: the peer repeats its REP while the program's QP is not ready yet."""
    _send_mra(cm, e, Received.REP)


def extend_timeout(cm: Connections, e: Endpoint, m: Message) -> None:
    """Extend the timeout: the peer's program needs more time."""
    cm.timers.start(e, code_ms(m.fields["service_timeout"]) + cm.timing.response_ms)


# -- requests that wait for a listener --


def _hold_ms(cm: Connections, m: Message) -> int:
    """Return the time to hold a request, at most half the time that the sender allows for an answer
    (REQ.RemoteCMResponseTimeout, IBA 12.7.11): no MRA is due before that, and nothing is sent twice. A SIDR_REQ states
    no time, so Linux' time applies."""
    return cm.timing.hold_ms(m.fields.get("remote_cm_response_timeout", cm.timing.response))


def may_wait(cm: Connections, e: Endpoint, m: Message) -> bool:
    """Return whether there is room and time to hold the request."""
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
