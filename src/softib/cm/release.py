"""The end of a connection, or of an attempt to connect: REJ (IBA 12.6.7: rejected, withdrawn and
abandoned requests), DREQ and DREP (IBA 12.9.9), and TimeWait, in which packets of an ended
connection may still arrive.

Data that was sent before a DREQ must be seen first. So a DREQ waits until the receiving program has
taken its completions of the connection (:mod:`softib.live.verbs.shared_heap`), but at most
``Timing.unread_ms``.
"""

from __future__ import annotations

import errno
from typing import NamedTuple

from softib.cm.connections import MS_PS, Connections, HeldDreq, Message, Timer, code_ms, stray
from softib.cm.endpoint import Endpoint, Event, ack_timeout
from softib.cm.messages import Received, rej_fields
from softib.iba.cm import CmAttr, RejectReason
from softib.iba.mad_codec import cm_mad

__all__ = [
    "Rejection",
    "answer_dreq",
    "answer_stray_dreq",
    "dreq_is_held",
    "dreq_must_wait",
    "enter_timewait",
    "give_up",
    "has_unread",
    "hold_dreq",
    "refuse_service_id",
    "refuse_transport",
    "reject_rep",
    "reject_req",
    "release_unanswered",
    "schedule_check",
    "send_drep",
    "send_dreq",
    "send_last_dreq",
    "take_drep",
    "take_dreq",
    "take_held_dreq",
    "take_held_dreq_at_end",
    "take_rej",
    "timewait_over",
    "withdraw_rep",
    "withdraw_req",
]


class Rejection(NamedTuple):
    """The reason and private data of a REJ that a program sends. The defaults are those that the
    kernel sends if a program destroys its id or dies."""

    reason: int = RejectReason.CONSUMER_DEFINED
    private_data: bytes = b""


def _send_rej(cm: Connections, e: Endpoint, rejected: Received, rejection: Rejection) -> None:
    fields = rej_fields(e, rejected, rejection.reason, rejection.private_data, cm.node_guid(e.port))
    cm.post(e, cm_mad(CmAttr.REJ, e.peer_tid or e.comm_id, **fields))


def reject_req(cm: Connections, e: Endpoint, rejection: Rejection | None) -> None:
    """Reject a request, because its program rejects it or its id is destroyed."""
    _send_rej(cm, e, Received.REQ, rejection or Rejection())


def reject_rep(cm: Connections, e: Endpoint, rejection: Rejection | None) -> None:
    """Reject the answer to a request, because the requesting program rejects it or its id is
    destroyed."""
    _send_rej(cm, e, Received.REP, rejection or Rejection())


def withdraw_rep(cm: Connections, e: Endpoint, rejection: Rejection | None) -> None:
    """Withdraw this side's message before the peer has answered it."""
    _send_rej(cm, e, Received.NONE, rejection or Rejection())


def withdraw_req(cm: Connections, e: Endpoint, rejection: Rejection | None) -> None:
    """Withdraw this side's REQ. If the id is destroyed, the REJ has the reason "timeout" and
    contains the NodeGUID, because the peer has not sent its comm ID yet."""
    _send_rej(cm, e, Received.NONE, rejection or Rejection(RejectReason.TIMEOUT))


def give_up(cm: Connections, e: Endpoint, _: object) -> None:
    """Abandon the connection, because no answer came after all retries (IBA 12.9.8: REJ, reason
    "timeout")."""
    _send_rej(cm, e, Received.NONE, Rejection(RejectReason.TIMEOUT))
    cm.report(e, Event.UNREACHABLE, -errno.ETIMEDOUT, {})


def refuse_service_id(cm: Connections, e: Endpoint, m: Message) -> None:
    """Reject a request for a service ID without a listener."""
    _send_rej(cm, stray(m), Received.REQ, Rejection(RejectReason.INVALID_SERVICE_ID))


def refuse_transport(cm: Connections, listener: Endpoint, m: Message) -> None:
    """Reject a request for another type of QP than that of the listener."""
    _send_rej(cm, stray(m), Received.REQ, Rejection(RejectReason.INVALID_TRANSPORT))


def take_rej(cm: Connections, e: Endpoint, m: Message) -> None:
    """Handle a REJ: the peer rejected, withdrew or abandoned the request. If this side's program
    had not accepted a request yet, it gets no event."""
    if e.events_enabled:
        cm.report(e, Event.REJECTED, m.fields["reason"], m.fields)


CHECK_MS = 1
"""Interval in ms at which softib checks whether the program has taken its completions."""


def _dreq(e: Endpoint) -> bytes:
    ids = {"local_comm_id": e.comm_id, "remote_comm_id": e.peer_comm_id}
    return cm_mad(CmAttr.DREQ, e.comm_id, **ids, remote_qpn=e.peer_qpn)


def enter_timewait(cm: Connections, e: Endpoint, _: object) -> None:
    """Wait until no packet of the connection can travel any more."""
    assert e.path is not None
    e.retries_left = 0
    cm.timers.start(e, code_ms(ack_timeout(e.path.life_time)))


# -- actions of the local program --


def send_dreq(cm: Connections, e: Endpoint, _: None) -> None:
    """Send a DREQ: the program ends the connection."""
    cm.post_until_answered(e, _dreq(e))


def answer_dreq(cm: Connections, e: Endpoint, _: None) -> None:
    """Answer the peer that ended the connection."""
    send_drep(cm, e, None)
    enter_timewait(cm, e, None)


def take_held_dreq_at_end(cm: Connections, e: Endpoint, _: None) -> None:
    """Handle a held DREQ when the program itself ends the connection: the DREQ need not wait any
    longer, and is answered."""
    take_held_dreq(cm, e, None)
    answer_dreq(cm, e, None)


def send_last_dreq(cm: Connections, e: Endpoint, _: None) -> None:
    """Send one DREQ because the id is destroyed."""
    cm.post(e, _dreq(e))


# -- a DREQ --


def has_unread(cm: Connections, e: Endpoint, m: Message) -> bool:
    """Return whether the program has completions of the connection to take."""
    return cm.unread(e.qpn) is not None


def dreq_is_held(cm: Connections, e: Endpoint, _: object) -> bool:
    """Return whether a DREQ for ``e`` is already waiting."""
    return e in cm.held_dreqs


def hold_dreq(cm: Connections, e: Endpoint, m: Message) -> None:
    """Hold the DREQ with a separate timer. A timer that is already waiting for a reply keeps
    running."""
    e.peer_tid = m.head.tid
    unread = cm.unread(e.qpn) or (lambda: False)
    cm.held_dreqs[e] = HeldDreq(unread, cm.timers.now_ps + cm.timing.unread_ms * MS_PS)
    schedule_check(cm, e, None)


def schedule_check(cm: Connections, e: Endpoint, _: None) -> None:
    """Schedule a check in a millisecond."""
    cm.timers.start(e, CHECK_MS, Timer.DREQ_CHECK)


def dreq_must_wait(cm: Connections, e: Endpoint, _: None) -> bool:
    """Return whether the DREQ must still wait: the completions are still there, and its time has
    not expired."""
    held = cm.held_dreqs[e]
    return cm.timers.now_ps < held.until_ps and held.unread()


def take_dreq(cm: Connections, e: Endpoint, m: Message | None) -> None:
    """Handle a DREQ: the peer ended the connection. The program's answer is :func:`answer_dreq`."""
    cm.timers.stop(e)
    if m is not None:
        e.peer_tid = m.head.tid
    cm.report(e, Event.DISCONNECTED, 0, {})


def take_held_dreq(cm: Connections, e: Endpoint, _: None) -> None:
    """Handle a DREQ that was held, as :func:`take_dreq` does."""
    del cm.held_dreqs[e]
    cm.timers.stop(e, Timer.DREQ_CHECK)
    take_dreq(cm, e, None)


def send_drep(cm: Connections, e: Endpoint, m: object) -> None:
    """Send a DREP, in two cases: the peer repeated its DREQ because it did not get the first DREP, or the program
    destroys the id of an ended connection."""
    tid = m.head.tid if isinstance(m, Message) else e.peer_tid or e.comm_id
    cm.post(e, cm_mad(CmAttr.DREP, tid, local_comm_id=e.comm_id, remote_comm_id=e.peer_comm_id))


def answer_stray_dreq(cm: Connections, e: Endpoint, m: Message) -> None:
    """Answer a DREQ for an unknown connection, so that the peer need not retry."""
    ids = {"local_comm_id": m.fields["remote_comm_id"], "remote_comm_id": m.fields["local_comm_id"]}
    cm.post_pathless(m.port, m.slid, cm_mad(CmAttr.DREP, m.head.tid, **ids))


# -- the end --


def take_drep(cm: Connections, e: Endpoint, m: Message) -> None:
    """Handle a DREP: the peer has answered."""
    enter_timewait(cm, e, None)
    cm.report(e, Event.DISCONNECTED, 0, {})


def release_unanswered(cm: Connections, e: Endpoint, _: object) -> None:
    """Release the connection, because no DREP came after all retries."""
    enter_timewait(cm, e, None)
    cm.report(e, Event.DISCONNECTED, -errno.ETIMEDOUT, {})


def timewait_over(cm: Connections, e: Endpoint, _: object) -> None:
    """End TimeWait: packets of the connection can no longer arrive."""
    cm.report(e, Event.TIMEWAIT_EXIT, 0, {})
