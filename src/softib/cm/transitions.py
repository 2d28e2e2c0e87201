"""The state machine of communication management as a table (IBA 12.9.7; SIDR 12.11).

A row means: if the endpoint is in this state, gets this input, and the guard is true, the action is
executed and the endpoint enters the next state. Rows are tried in order, and the first one whose
guard is true is used. An input without a row changes nothing and gets no answer. Examples are a
program's command in a wrong state, and an unexpected message, which IBA 12.9.8 drops. (LAP and APR
are always dropped, because softib has no alternate paths.)

Every row states its source. ``cm_…`` and ``ib_…`` are functions of Linux'
drivers/infiniband/core/cm.c; softib answers repeated and late messages as they do, where the
specification leaves a choice.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum, auto
from typing import Any, NamedTuple

from softib.cm import connect, release, sidr
from softib.cm.connections import Connections
from softib.cm.endpoint import Endpoint, State

__all__ = ["ROWS", "TRANSITIONS", "Input", "Transition", "fire"]


class Input(IntEnum):
    """Events of an endpoint: a message, a command of its program, an expired timer."""

    REQ = auto()
    MRA = auto()
    REJ = auto()
    REP = auto()
    RTU = auto()
    DREQ = auto()
    DREP = auto()
    SIDR_REQ = auto()
    SIDR_REP = auto()
    LISTEN = auto()
    CONNECT = auto()
    RESOLVE = auto()  # connect with a UD QP
    ACCEPT = auto()
    READY = auto()  # the QP of the active side is in RTS
    NOTIFY = auto()  # the QP of the passive side received a packet (the verbs event COMM_EST)
    REJECT = auto()
    DISCONNECT = auto()
    DESTROY = auto()
    LISTENER_CAME = auto()  # there is now a listener for a held request
    TIMEOUT = auto()  # no answer yet, and a retry is left
    EXPIRED = auto()  # a timer expired, and no retry is left
    DREQ_CHECK = auto()  # a check of a held DREQ, every millisecond


Action = Callable[[Connections, Endpoint, Any], "Endpoint | None"]
Guard = Callable[[Connections, Endpoint, Any], bool]


class Transition(NamedTuple):
    """A row of the state table. ``action`` returns an endpoint that gets the same input next (the
    child of a listener), or None. It is executed in the ``next`` state; if that is IDLE, messages
    and timers no longer refer to the endpoint."""

    state: State
    input: Input
    action: Action
    next: State
    when: Guard | None
    rule: str


def nothing(cm: Connections, e: Endpoint, _: object) -> None:
    """Do nothing, because this transition needs no answer."""


S, I = State, Input  # noqa: E741
DATA_FIRST, EARLY = "softib.cm.release", "softib.cm.connect"
"""Modules that explain why softib's CM differs from Linux in these rows."""
ROWS: tuple[Transition, ...] = tuple(
    Transition(state, what, action, then, when, rule)  # type: ignore[arg-type]
    for state, what, when, action, then, rule in (
        # endpoints that listen
        (S.IDLE, I.LISTEN, None, nothing, S.LISTEN, "IBA 12.9.7"),
        (S.LISTEN, I.REQ, connect.other_transport, release.refuse_transport, S.LISTEN, "IBA 12.6.7.2, reason 9"),
        (S.LISTEN, I.REQ, connect.backlog_is_full, nothing, S.LISTEN, "cma.c: the peer repeats its REQ"),
        (S.LISTEN, I.REQ, None, connect.spawn_child, S.LISTEN, "IBA 12.9.7"),
        (S.LISTEN, I.SIDR_REQ, sidr.listener_connects, sidr.refuse_unserved, S.LISTEN, "IBA 12.11.2, status 1"),
        (S.LISTEN, I.SIDR_REQ, connect.backlog_is_full, nothing, S.LISTEN, "cma.c: the peer repeats its SIDR_REQ"),
        (S.LISTEN, I.SIDR_REQ, None, connect.spawn_child, S.LISTEN, "IBA 12.11"),
        # a first message
        (S.IDLE, I.REQ, connect.is_child, connect.take_req, S.REQ_RCVD, "IBA 12.9.7"),
        (S.IDLE, I.REQ, connect.may_wait, connect.hold_request, S.HELD, EARLY),
        (S.IDLE, I.REQ, None, release.refuse_service_id, S.IDLE, "IBA 12.6.7.2, reason 8"),
        (S.IDLE, I.SIDR_REQ, connect.is_child, sidr.take_sidr_req, S.SIDR_REQ_RCVD, "IBA 12.11"),
        (S.IDLE, I.SIDR_REQ, connect.may_wait, connect.hold_request, S.HELD, EARLY),
        (S.IDLE, I.SIDR_REQ, None, sidr.refuse_unserved, S.IDLE, "IBA 12.11.2, status 1"),
        (S.IDLE, I.DREQ, None, release.answer_stray_dreq, S.IDLE, "cm_issue_drep"),
        # a request that waits for its listener
        (S.HELD, I.LISTENER_CAME, None, nothing, S.IDLE, EARLY),
        (S.HELD, I.EXPIRED, connect.is_sidr, sidr.refuse_unserved, S.IDLE, "IBA 12.11.2, status 1"),
        (S.HELD, I.EXPIRED, None, release.refuse_service_id, S.IDLE, "IBA 12.6.7.2, reason 8"),
        (S.HELD, I.REJ, None, release.take_rej, S.IDLE, "IBA 12.9.7: the peer withdraws it"),
        # the active side
        (S.IDLE, I.CONNECT, None, connect.send_req, S.REQ_SENT, "IBA 12.9.7"),
        (S.REQ_SENT, I.REP, None, connect.take_rep, S.REP_RCVD, "IBA 12.9.7"),
        (S.REQ_SENT, I.MRA, None, connect.extend_timeout, S.REQ_SENT, "IBA 12.6.6"),
        (S.REQ_SENT, I.REJ, None, release.take_rej, S.IDLE, "IBA 12.9.7"),
        (S.REQ_SENT, I.TIMEOUT, None, connect.resend, S.REQ_SENT, "IBA 12.9.8"),
        (S.REQ_SENT, I.EXPIRED, None, release.give_up, S.IDLE, "IBA 12.9.8"),
        (S.REQ_SENT, I.REJECT, None, release.withdraw_req, S.IDLE, "ib_send_cm_rej"),
        (S.REQ_SENT, I.DESTROY, None, release.withdraw_req, S.IDLE, "cm_destroy_id: reason 4"),
        (S.REP_RCVD, I.READY, None, connect.send_rtu, S.ESTABLISHED, "IBA 12.9.7"),
        (S.REP_RCVD, I.REP, None, connect.send_mra_for_rep, S.REP_RCVD, "cm_dup_rep_handler"),
        (S.REP_RCVD, I.REJ, None, release.take_rej, S.IDLE, "IBA 12.9.7"),
        (S.REP_RCVD, I.REJECT, None, release.reject_rep, S.IDLE, "IBA 12.9.7"),
        (S.REP_RCVD, I.DESTROY, None, release.reject_rep, S.IDLE, "cm_destroy_id: reason 28"),
        # the passive side
        (S.REQ_RCVD, I.REQ, None, connect.send_mra_for_req, S.REQ_RCVD, "cm_dup_req_handler"),
        (S.REQ_RCVD, I.ACCEPT, None, connect.send_rep, S.REP_SENT, "IBA 12.9.7"),
        (S.REQ_RCVD, I.REJ, None, release.take_rej, S.IDLE, "IBA 12.9.7: the peer withdraws it"),
        (S.REQ_RCVD, I.REJECT, None, release.reject_req, S.IDLE, "IBA 12.9.7"),
        (S.REQ_RCVD, I.DESTROY, None, release.reject_req, S.IDLE, "cm_destroy_id: reason 28"),
        (S.REP_SENT, I.REQ, None, connect.repeat_answer, S.REP_SENT, "cm_dup_req_handler"),
        (S.REP_SENT, I.RTU, None, connect.establish, S.ESTABLISHED, "IBA 12.9.7"),
        (S.REP_SENT, I.NOTIFY, None, connect.establish, S.ESTABLISHED, "IBA 12.9.7; cm_establish"),
        (S.REP_SENT, I.MRA, None, connect.extend_timeout, S.REP_SENT, "IBA 12.6.6"),
        (S.REP_SENT, I.REJ, None, release.take_rej, S.IDLE, "IBA 12.9.7"),
        (S.REP_SENT, I.DREQ, release.dreq_is_held, nothing, S.REP_SENT, "the peer repeats its DREQ"),
        (S.REP_SENT, I.DREQ, release.has_unread, release.hold_dreq, S.REP_SENT, DATA_FIRST),
        (S.REP_SENT, I.DREQ, None, release.take_dreq, S.DREQ_RCVD, "cm_dreq_handler: the RTU was lost"),
        (S.REP_SENT, I.DREQ_CHECK, release.dreq_must_wait, release.schedule_check, S.REP_SENT, DATA_FIRST),
        (S.REP_SENT, I.DREQ_CHECK, None, release.take_held_dreq, S.DREQ_RCVD, DATA_FIRST),
        (S.REP_SENT, I.DISCONNECT, release.dreq_is_held, release.take_held_dreq_at_end, S.TIMEWAIT, DATA_FIRST),
        (S.REP_SENT, I.TIMEOUT, None, connect.resend, S.REP_SENT, "IBA 12.9.8"),
        (S.REP_SENT, I.EXPIRED, None, release.give_up, S.IDLE, "IBA 12.9.8"),
        (S.REP_SENT, I.REJECT, None, release.withdraw_rep, S.IDLE, "ib_send_cm_rej"),
        (S.REP_SENT, I.DESTROY, None, release.withdraw_rep, S.IDLE, "cm_destroy_id: reason 28"),
        # a connection, and its end
        (S.ESTABLISHED, I.REP, connect.has_rtu, connect.repeat_answer, S.ESTABLISHED, "cm_dup_rep_handler"),
        (S.ESTABLISHED, I.REJ, None, release.take_rej, S.IDLE, "cm_rej_handler"),
        (S.ESTABLISHED, I.DREQ, release.dreq_is_held, nothing, S.ESTABLISHED, "the peer repeats its DREQ"),
        (S.ESTABLISHED, I.DREQ, release.has_unread, release.hold_dreq, S.ESTABLISHED, DATA_FIRST),
        (S.ESTABLISHED, I.DREQ, None, release.take_dreq, S.DREQ_RCVD, "IBA 12.9.9"),
        (S.ESTABLISHED, I.DREQ_CHECK, release.dreq_must_wait, release.schedule_check, S.ESTABLISHED, DATA_FIRST),
        (S.ESTABLISHED, I.DREQ_CHECK, None, release.take_held_dreq, S.DREQ_RCVD, DATA_FIRST),
        (S.ESTABLISHED, I.DISCONNECT, release.dreq_is_held, release.take_held_dreq_at_end, S.TIMEWAIT, DATA_FIRST),
        (S.ESTABLISHED, I.DISCONNECT, None, release.send_dreq, S.DREQ_SENT, "IBA 12.9.9"),
        (S.ESTABLISHED, I.DESTROY, release.dreq_is_held, release.send_drep, S.IDLE, "cm_destroy_id"),
        (S.ESTABLISHED, I.DESTROY, None, release.send_last_dreq, S.IDLE, "cm_destroy_id"),
        (S.DREQ_SENT, I.DREP, None, release.take_drep, S.TIMEWAIT, "IBA 12.9.9"),
        (S.DREQ_SENT, I.DREQ, None, release.take_dreq, S.DREQ_RCVD, "cm_dreq_handler: both sides end it"),
        (S.DREQ_SENT, I.REJ, None, release.take_rej, S.IDLE, "cm_rej_handler"),
        (S.DREQ_SENT, I.TIMEOUT, None, connect.resend, S.DREQ_SENT, "IBA 12.9.8"),
        (S.DREQ_SENT, I.EXPIRED, None, release.release_unanswered, S.TIMEWAIT, "IBA 12.9.9"),
        (S.DREQ_RCVD, I.DISCONNECT, None, release.answer_dreq, S.TIMEWAIT, "IBA 12.9.9"),
        (S.DREQ_RCVD, I.DREP, None, release.enter_timewait, S.TIMEWAIT, "cm_drep_handler: both sides end it"),
        (S.DREQ_RCVD, I.REJ, None, release.take_rej, S.IDLE, "cm_rej_handler"),
        (S.DREQ_RCVD, I.DESTROY, None, release.send_drep, S.IDLE, "cm_destroy_id"),
        (S.TIMEWAIT, I.DREQ, None, release.send_drep, S.TIMEWAIT, "IBA 12.9.9"),
        (S.TIMEWAIT, I.EXPIRED, None, release.timewait_over, S.IDLE, "IBA 12.9.9"),
        # resolution of service IDs
        (S.IDLE, I.RESOLVE, None, sidr.send_sidr_req, S.SIDR_REQ_SENT, "IBA 12.11"),
        (S.SIDR_REQ_SENT, I.SIDR_REP, None, sidr.take_sidr_rep, S.SIDR_DONE, "IBA 12.11"),
        (S.SIDR_REQ_SENT, I.REJ, None, release.take_rej, S.IDLE, "cm_rej_handler"),
        (S.SIDR_REQ_SENT, I.TIMEOUT, None, connect.resend, S.SIDR_REQ_SENT, "IBA 12.11"),
        (S.SIDR_REQ_SENT, I.EXPIRED, None, sidr.sidr_unanswered, S.IDLE, "IBA 12.11"),
        (S.SIDR_REQ_RCVD, I.ACCEPT, None, sidr.send_sidr_rep, S.SIDR_DONE, "IBA 12.11"),
        (S.SIDR_REQ_RCVD, I.REJECT, None, sidr.reject_sidr_req, S.SIDR_DONE, "IBA 12.11.2, status 2"),
        (S.SIDR_REQ_RCVD, I.DESTROY, None, sidr.reject_sidr_req, S.IDLE, "cm_destroy_id: status 2"),
        (S.SIDR_DONE, I.SIDR_REQ, None, sidr.resend_sidr_rep, S.SIDR_DONE, "IBA 12.11"),
        # an id without a waiting peer
        *(
            (s, I.DESTROY, None, nothing, S.IDLE, "cm_destroy_id")
            for s in (S.IDLE, S.LISTEN, S.DREQ_SENT, S.TIMEWAIT, S.SIDR_REQ_SENT, S.SIDR_DONE)
        ),
    )
)
"""The table, in the order in which guards are tried."""

TRANSITIONS: dict[tuple[State, Input], tuple[Transition, ...]] = {
    key: tuple(t for t in ROWS if (t.state, t.input) == key) for key in dict.fromkeys((t.state, t.input) for t in ROWS)
}
"""Rows of the table by (state, input)."""


def fire(cm: Connections, e: Endpoint, trigger: Input, arg: Any = None) -> None:
    """Handle the input ``trigger`` of ``e``. ``arg`` is the message, the program's parameters, or None."""
    for row in TRANSITIONS.get((e.state, trigger), ()):
        if row.when is None or row.when(cm, e, arg):
            break
    else:
        return
    if row.next is State.IDLE:
        cm.forget(e)
    e.state = row.next
    child = row.action(cm, e, arg)
    if child is not None:
        fire(cm, child, trigger, arg)
