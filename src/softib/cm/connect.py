"""The active side of a connection (IBA 12.9.7): REQ out, REP in, RTU out."""

from __future__ import annotations

from typing import NamedTuple

from softib.cm.connections import Connections, Message
from softib.cm.endpoint import Endpoint, Event, Param
from softib.cm.messages import req_fields
from softib.iba.cm import CmAttr
from softib.iba.mad_codec import cm_mad

__all__ = ["Request", "has_rtu", "resend_rtu", "send_req", "send_rtu", "take_rep"]


class Request(NamedTuple):
    """What a program connects with; ``head`` are the CMA's bytes before the private data."""

    param: Param
    head: bytes


def send_req(cm: Connections, e: Endpoint, request: Request) -> None:
    """Ask for a connection."""
    assert e.path is not None
    e.qpn = request.param.qpn
    cm.name(e)
    fields = req_fields(e, request.param, request.head, cm.node_guid(e.port), cm.timing)
    cm.post_until_answered(e, cm_mad(CmAttr.REQ, e.comm_id, request.param.ece_options, **fields))


def take_rep(cm: Connections, e: Endpoint, m: Message) -> None:
    """The passive side accepted: the program brings its QP up next."""
    cm.timers.stop(e)
    e.peer_comm_id, e.peer_qpn = m.fields["local_comm_id"], m.fields["local_qpn"]
    e.peer_guid = m.fields["local_ca_guid"]
    cm.report(e, Event.CONNECT_RESPONSE, 0, m.fields | {"ece_options": m.head.modifier})


def send_rtu(cm: Connections, e: Endpoint, _: None) -> None:
    """The program's QP is ready."""
    e.last_mad = cm_mad(CmAttr.RTU, e.comm_id, local_comm_id=e.comm_id, remote_comm_id=e.peer_comm_id)
    cm.post(e, e.last_mad)


def has_rtu(cm: Connections, e: Endpoint, m: Message) -> bool:
    """It is the active side, whose last message was an RTU."""
    return bool(e.last_mad)


def resend_rtu(cm: Connections, e: Endpoint, m: Message) -> None:
    """The peer repeats its REP: the RTU was lost."""
    cm.post(e, e.last_mad)
