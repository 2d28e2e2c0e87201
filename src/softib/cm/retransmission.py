"""Messages that are not answered in time are sent again (IBA 12.9.8); an MRA asks the sender for
patience (IBA 12.6.6)."""

from __future__ import annotations

from softib.cm.connections import Connections, Message
from softib.cm.endpoint import Endpoint
from softib.cm.messages import Received
from softib.cm.timers import code_ms
from softib.iba.cm import CmAttr
from softib.iba.mad_codec import cm_mad

__all__ = ["extend_timeout", "resend", "send_mra_for_rep", "send_mra_for_req"]


def resend(cm: Connections, e: Endpoint, _: object) -> None:
    """The time is over, and a retry is left."""
    e.retries_left -= 1
    cm.post(e, e.last_mad)
    cm.timers.start(e, cm.timing.response_ms)


def _send_mra(cm: Connections, e: Endpoint, received: Received) -> None:
    ids = {"local_comm_id": e.comm_id, "remote_comm_id": e.peer_comm_id}
    timeout = cm.timing.service_timeout
    cm.post(e, cm_mad(CmAttr.MRA, e.comm_id, message=received, service_timeout=timeout, **ids))


def send_mra_for_req(cm: Connections, e: Endpoint, m: Message) -> None:
    """The peer repeats its REQ while the program has not answered yet."""
    _send_mra(cm, e, Received.REQ)


def send_mra_for_rep(cm: Connections, e: Endpoint, m: Message) -> None:
    """The peer repeats its REP while the program's QP is not ready yet."""
    _send_mra(cm, e, Received.REP)


def extend_timeout(cm: Connections, e: Endpoint, m: Message) -> None:
    """The peer's program takes longer."""
    cm.timers.start(e, code_ms(m.fields["service_timeout"]) + cm.timing.response_ms)
