"""REJ out and in (IBA 12.6.7): refusals, withdrawn requests, and attempts that are given up."""

from __future__ import annotations

import errno
from typing import NamedTuple

from softib.cm.connections import Connections, Message, stray
from softib.cm.endpoint import Endpoint, Event
from softib.cm.messages import Received, rej_fields
from softib.iba.cm import CmAttr, RejectReason
from softib.iba.mad_codec import cm_mad

__all__ = [
    "Rejection",
    "give_up",
    "refuse_service_id",
    "refuse_transport",
    "reject_rep",
    "reject_req",
    "take_rej",
    "withdraw_rep",
    "withdraw_req",
]


class Rejection(NamedTuple):
    """What a program rejects with; the default is what the kernel sends for a program that destroys
    its id or dies."""

    reason: int = RejectReason.CONSUMER_DEFINED
    private_data: bytes = b""


def _send_rej(cm: Connections, e: Endpoint, rejected: Received, rejection: Rejection) -> None:
    fields = rej_fields(e, rejected, rejection.reason, rejection.private_data, cm.node_guid(e.port))
    cm.post(e, cm_mad(CmAttr.REJ, e.comm_id, **fields))


def reject_req(cm: Connections, e: Endpoint, rejection: Rejection | None) -> None:
    """The program refuses a request, or its id is destroyed."""
    _send_rej(cm, e, Received.REQ, rejection or Rejection())


def reject_rep(cm: Connections, e: Endpoint, rejection: Rejection | None) -> None:
    """The program refuses the answer to its request, or its id is destroyed."""
    _send_rej(cm, e, Received.REP, rejection or Rejection())


def withdraw_rep(cm: Connections, e: Endpoint, rejection: Rejection | None) -> None:
    """The program takes back what it sent, before the peer answered."""
    _send_rej(cm, e, Received.NONE, rejection or Rejection())


def withdraw_req(cm: Connections, e: Endpoint, rejection: Rejection | None) -> None:
    """As :func:`withdraw_rep`; where the id is destroyed, with the reason "timeout" and the
    NodeGUID: the peer has not sent its comm ID yet."""
    _send_rej(cm, e, Received.NONE, rejection or Rejection(RejectReason.TIMEOUT))


def give_up(cm: Connections, e: Endpoint, _: object) -> None:
    """No answer after all retries (IBA 12.9.8: REJ, reason "timeout")."""
    _send_rej(cm, e, Received.NONE, Rejection(RejectReason.TIMEOUT))
    cm.report(e, Event.UNREACHABLE, -errno.ETIMEDOUT, {})


def refuse_service_id(cm: Connections, e: Endpoint, m: Message) -> None:
    """Nobody listens."""
    _send_rej(cm, stray(m), Received.REQ, Rejection(RejectReason.INVALID_SERVICE_ID))


def refuse_transport(cm: Connections, listener: Endpoint, m: Message) -> None:
    """Another type of QP listens."""
    _send_rej(cm, stray(m), Received.REQ, Rejection(RejectReason.INVALID_TRANSPORT))


def take_rej(cm: Connections, e: Endpoint, m: Message) -> None:
    """The peer refused, withdrew or gave up. A request that its program has not accepted ends
    silently."""
    if e.events_enabled:
        cm.report(e, Event.REJECTED, m.fields["reason"], m.fields)
