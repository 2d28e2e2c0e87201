"""Requests for a service that nobody serves yet: they wait a moment for a listener before they are
refused.

Linux refuses at once (``cm_match_req`` of drivers/infiniband/core/cm.c: REJ 8, "invalid service
ID"). But its requests come milliseconds after a program begins to connect: the neighbour's address,
the path and the QP each take a round trip or a command of the device. Here all that takes
microseconds, and programs that depend on it, unknowingly, meet a race that no hardware shows:
perftest's client asks for its second connection while its server still goes from the first to the
second.
"""

from __future__ import annotations

from softib.cm.connections import Connections, Message
from softib.cm.endpoint import Endpoint

__all__ = ["MOST", "hold_request", "is_sidr", "may_wait"]

MOST = 1024
"""Requests that wait, of all ports: as many as the longest backlog. Those beyond are refused at
once, as by Linux."""


def _hold_ms(cm: Connections, m: Message) -> int:
    """No longer than half the time that the sender gives for an answer
    (REQ.RemoteCMResponseTimeout, IBA 12.7.11): then no MRA is owed, and nothing is sent twice. A
    SIDR_REQ does not name a time; Linux' own is taken."""
    return cm.timing.hold_ms(m.fields.get("remote_cm_response_timeout", cm.timing.response))


def may_wait(cm: Connections, e: Endpoint, m: Message) -> bool:
    """There is room and time to hold the request."""
    return len(cm.early) < MOST and _hold_ms(cm, m) >= 1


def hold_request(cm: Connections, e: Endpoint, m: Message) -> None:
    """``e`` stands for the sender of ``m`` until a listener comes or the time is over."""
    e.events_enabled = False
    cm.know_peer(e)
    cm.early[e] = m
    cm.timers.start(e, _hold_ms(cm, m))


def is_sidr(cm: Connections, e: Endpoint, m: Message) -> bool:
    """The held request resolves a service ID."""
    return e.is_ud
