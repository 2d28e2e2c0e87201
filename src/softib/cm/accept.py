"""The passive side of a connection (IBA 12.9.7): REQ in, REP out, RTU in."""

from __future__ import annotations

from softib.cm.connections import Connections, Message, answered
from softib.cm.endpoint import Endpoint, Event, Param
from softib.cm.messages import qp_types_of, rep_fields
from softib.cm.path import Path
from softib.iba.cm import CmAttr
from softib.iba.mad_codec import cm_mad

__all__ = [
    "backlog_is_full",
    "establish",
    "is_child",
    "other_transport",
    "resend_rep",
    "send_rep",
    "spawn_child",
    "take_req",
]


def other_transport(cm: Connections, listener: Endpoint, m: Message) -> bool:
    """The listener's type of QP cannot answer this REQ."""
    return listener.qp_type not in qp_types_of(m.fields)


def backlog_is_full(cm: Connections, listener: Endpoint, m: Message) -> bool:
    """As many requests wait for the listener's program as it allows: the REQ is dropped, and the
    peer will repeat it."""
    return listener.waiting >= listener.backlog


def spawn_child(cm: Connections, listener: Endpoint, m: Message) -> Endpoint:
    """The id that takes the request next."""
    return cm.new_child(listener)


def is_child(cm: Connections, e: Endpoint, m: Message) -> bool:
    """``e`` was made for this request by its listener."""
    return e.listener is not None


def take_req(cm: Connections, e: Endpoint, m: Message) -> None:
    """A request for the listener's program."""
    assert e.listener is not None
    req, path = m.fields, Path.back(m.fields)
    e.port, e.path, e.sgid, e.dgid = m.port, path, path.sgid, path.dgid
    e.peer_comm_id, e.peer_guid, e.peer_qpn = req["local_comm_id"], req["local_ca_guid"], req["local_qpn"]
    e.events_enabled = False
    cm.name(e)
    cm.know_peer(e)
    e.listener.waiting += 1
    cm.report(e, Event.CONNECT_REQUEST, 0, m.fields | {"ece_options": m.head.modifier})


def send_rep(cm: Connections, e: Endpoint, p: Param) -> None:
    """The program accepts."""
    answered(e)
    e.events_enabled, e.qpn = True, p.qpn
    cm.post_until_answered(e, cm_mad(CmAttr.REP, e.comm_id, p.ece_options, **rep_fields(e, p, cm.node_guid(e.port))))


def resend_rep(cm: Connections, e: Endpoint, m: Message) -> None:
    """The peer repeats its REQ: the REP was lost."""
    cm.post(e, e.last_mad)


def establish(cm: Connections, e: Endpoint, _: object) -> None:
    """The peer is ready: by its RTU, or because its first packet came before it (IBA 12.9.7,
    communication established)."""
    cm.timers.stop(e)
    e.last_mad = b""
    cm.report(e, Event.ESTABLISHED, 0, {})
