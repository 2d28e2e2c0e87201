"""Resolution of service IDs (IBA 12.11). UD has no connections, so a client only queries the QP
that serves an ID."""

from __future__ import annotations

import errno

from softib.cm.connect import Request
from softib.cm.connections import Connections, Message, answered
from softib.cm.endpoint import Endpoint, Event, Param, qkey_of
from softib.cm.release import Rejection
from softib.iba.cm import CmAttr, SidrStatus
from softib.iba.mad_codec import cm_mad

__all__ = [
    "listener_connects",
    "refuse_unserved",
    "reject_sidr_req",
    "resend_sidr_rep",
    "send_sidr_rep",
    "send_sidr_req",
    "sidr_unanswered",
    "take_sidr_rep",
    "take_sidr_req",
]


def send_sidr_req(cm: Connections, e: Endpoint, request: Request) -> None:
    """Query the QP that serves an ID."""
    assert e.path is not None
    e.qpn = request.param.qpn
    cm.name(e)
    fields = {"request_id": e.comm_id, "pkey": e.path.pkey, "service_id": e.target_service}
    private = request.head + request.param.private_data
    cm.post_until_answered(e, cm_mad(CmAttr.SIDR_REQ, e.comm_id, **fields, private_data=private))


def listener_connects(cm: Connections, listener: Endpoint, m: Message) -> bool:
    """Return whether the listener serves connections, instead of datagrams."""
    return not listener.is_ud


def take_sidr_req(cm: Connections, e: Endpoint, m: Message) -> None:
    """Handle a request for the listener's program."""
    assert e.listener is not None
    e.port, e.peer_slid, e.peer_comm_id, e.peer_guid = m.port, m.slid, m.fields["request_id"], -m.slid
    e.service_id, e.events_enabled = m.service_id, False
    cm.know_peer(e)
    e.listener.waiting += 1
    cm.report(e, Event.CONNECT_REQUEST, 0, m.fields)


def _send_answer(cm: Connections, e: Endpoint, status: SidrStatus, p: Param) -> None:
    answered(e)
    e.last_mad = cm_mad(
        CmAttr.SIDR_REP,
        e.peer_comm_id,
        request_id=e.peer_comm_id,
        status=status,
        qpn=p.qpn,
        qkey=p.qkey or qkey_of(e.ps),
        service_id=e.service_id,
        private_data=p.private_data,
    )
    cm.post_pathless(e.port, e.peer_slid, e.last_mad)


def send_sidr_rep(cm: Connections, e: Endpoint, p: Param) -> None:
    """Answer with the program's QP."""
    _send_answer(cm, e, SidrStatus.VALID, p)


def reject_sidr_req(cm: Connections, e: Endpoint, rejection: Rejection | None) -> None:
    """Reject the request, because the program rejects it or its id is destroyed."""
    _send_answer(cm, e, SidrStatus.REJECTED, Param(private_data=(rejection or Rejection()).private_data))


def resend_sidr_rep(cm: Connections, e: Endpoint, m: Message) -> None:
    """Send the SIDR_REP again. The peer repeated its SIDR_REQ, so it did not get the SIDR_REP."""
    cm.post_pathless(m.port, m.slid, e.last_mad)


def refuse_unserved(cm: Connections, e: Endpoint, m: Message) -> None:
    """Reject the request, because no one serves the ID."""
    fields = {"request_id": m.fields["request_id"], "service_id": m.service_id}
    mad = cm_mad(CmAttr.SIDR_REP, m.head.tid, status=SidrStatus.INVALID_SERVICE_ID, **fields)
    cm.post_pathless(m.port, m.slid, mad)


def take_sidr_rep(cm: Connections, e: Endpoint, m: Message) -> None:
    """Handle the answer, which completes the request."""
    cm.forget(e)
    valid = m.fields["status"] == SidrStatus.VALID
    cm.report(e, Event.ESTABLISHED if valid else Event.UNREACHABLE, m.fields["status"], m.fields)


def sidr_unanswered(cm: Connections, e: Endpoint, _: object) -> None:
    """Report failure, because no SIDR_REP came after all retries."""
    cm.report(e, Event.UNREACHABLE, -errno.ETIMEDOUT, {})
