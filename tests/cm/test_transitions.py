"""Every state and every input, against a second statement of the rules, written from IBA 12.9 and 12.11 and Linux' cm.c.

States are reached by messages and commands alone. What :data:`EXPECTED` does not name must change nothing: no MAD, no
event, the same state (IBA 12.9.8: a message that is not expected is dropped).
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from softib.cm import transitions
from softib.cm.connections import Timing
from softib.cm.endpoint import Endpoint, Event, Param, QpType, State
from softib.cm.transitions import ROWS, Input
from softib.iba.cm import CmAttr
from softib.iba.mad_codec import Head, cm_mad, head_of
from tests.cm.lab import MS, SERVICE, Host, Wire

DOCS = Path(__file__).resolve().parents[2] / "docs" / "rdma-cm.md"
TIMING = Timing(response=9, retries=1)
LAP, APR = 0x19, 0x1A
MESSAGES = {**{attr.name: int(attr) for attr in CmAttr}, "LAP": LAP, "APR": APR}
COMMANDS = ("ACCEPT", "READY", "NOTIFY", "REJECT", "DISCONNECT", "DESTROY")
TIMES = ("TIMEOUT", "EXPIRED")

# what leaves, what the program is told, where it ends
NONE: list[str] = []
EXPECTED: dict[tuple[str, str], tuple[list[str], list[Event], State]] = {
    # IBA 12.9.7, active
    ("REQ_SENT", "REP"): (NONE, [Event.CONNECT_RESPONSE], State.REP_RCVD),
    ("REQ_SENT", "REJ"): (NONE, [Event.REJECTED], State.IDLE),
    ("REQ_SENT", "REJECT"): (["REJ"], [], State.IDLE),
    ("REQ_SENT", "DESTROY"): (["REJ"], [], State.IDLE),
    ("REQ_SENT", "TIMEOUT"): (["REQ"], [], State.REQ_SENT),
    ("REQ_SENT", "EXPIRED"): (["REJ"], [Event.UNREACHABLE], State.IDLE),
    ("REP_RCVD", "READY"): (["RTU"], [], State.ESTABLISHED),
    ("REP_RCVD", "REP"): (["MRA"], [], State.REP_RCVD),
    ("REP_RCVD", "REJ"): (NONE, [Event.REJECTED], State.IDLE),
    ("REP_RCVD", "REJECT"): (["REJ"], [], State.IDLE),
    ("REP_RCVD", "DESTROY"): (["REJ"], [], State.IDLE),
    # IBA 12.9.7, passive; the program of a request that it has not accepted hears nothing of its end
    ("REQ_RCVD", "REQ"): (["MRA"], [], State.REQ_RCVD),
    ("REQ_RCVD", "REJ"): (NONE, [], State.IDLE),
    ("REQ_RCVD", "ACCEPT"): (["REP"], [], State.REP_SENT),
    ("REQ_RCVD", "REJECT"): (["REJ"], [], State.IDLE),
    ("REQ_RCVD", "DESTROY"): (["REJ"], [], State.IDLE),
    ("REP_SENT", "REQ"): (["REP"], [], State.REP_SENT),
    ("REP_SENT", "RTU"): (NONE, [Event.ESTABLISHED], State.ESTABLISHED),
    ("REP_SENT", "NOTIFY"): (NONE, [Event.ESTABLISHED], State.ESTABLISHED),
    ("REP_SENT", "REJ"): (NONE, [Event.REJECTED], State.IDLE),
    ("REP_SENT", "DREQ"): (NONE, [Event.DISCONNECTED], State.DREQ_RCVD),
    ("REP_SENT", "REJECT"): (["REJ"], [], State.IDLE),
    ("REP_SENT", "DESTROY"): (["REJ"], [], State.IDLE),
    ("REP_SENT", "TIMEOUT"): (["REP"], [], State.REP_SENT),
    ("REP_SENT", "EXPIRED"): (["REJ"], [Event.UNREACHABLE], State.IDLE),
    # IBA 12.9.9
    ("ESTABLISHED", "REP"): (["RTU"], [], State.ESTABLISHED),
    ("ESTABLISHED_PASSIVE", "REJ"): (NONE, [Event.REJECTED], State.IDLE),
    ("ESTABLISHED_PASSIVE", "DREQ"): (NONE, [Event.DISCONNECTED], State.DREQ_RCVD),
    ("ESTABLISHED_PASSIVE", "DISCONNECT"): (["DREQ"], [], State.DREQ_SENT),
    ("ESTABLISHED_PASSIVE", "DESTROY"): (["DREQ"], [], State.IDLE),
    ("ESTABLISHED", "REJ"): (NONE, [Event.REJECTED], State.IDLE),
    ("ESTABLISHED", "DREQ"): (NONE, [Event.DISCONNECTED], State.DREQ_RCVD),
    ("ESTABLISHED", "DISCONNECT"): (["DREQ"], [], State.DREQ_SENT),
    ("ESTABLISHED", "DESTROY"): (["DREQ"], [], State.IDLE),
    ("ESTABLISHED_HELD_DREQ", "REJ"): (NONE, [Event.REJECTED], State.IDLE),
    ("ESTABLISHED_HELD_DREQ", "DISCONNECT"): (["DREP"], [Event.DISCONNECTED], State.TIMEWAIT),
    ("ESTABLISHED_HELD_DREQ", "DESTROY"): (["DREP"], [], State.IDLE),
    ("REP_SENT_HELD_DREQ", "REQ"): (["REP"], [], State.REP_SENT),
    ("REP_SENT_HELD_DREQ", "RTU"): (NONE, [Event.ESTABLISHED], State.ESTABLISHED),
    ("REP_SENT_HELD_DREQ", "NOTIFY"): (NONE, [Event.ESTABLISHED], State.ESTABLISHED),
    ("REP_SENT_HELD_DREQ", "REJ"): (NONE, [Event.REJECTED], State.IDLE),
    ("REP_SENT_HELD_DREQ", "DISCONNECT"): (["DREP"], [Event.DISCONNECTED], State.TIMEWAIT),
    ("REP_SENT_HELD_DREQ", "REJECT"): (["REJ"], [], State.IDLE),
    ("REP_SENT_HELD_DREQ", "DESTROY"): (["REJ"], [], State.IDLE),
    ("REP_SENT_HELD_DREQ", "TIMEOUT"): (["REP"], [], State.REP_SENT),
    ("REP_SENT_HELD_DREQ", "EXPIRED"): (["REJ"], [Event.UNREACHABLE], State.IDLE),
    ("DREQ_SENT", "DREP"): (NONE, [Event.DISCONNECTED], State.TIMEWAIT),
    ("DREQ_SENT", "DREQ"): (NONE, [Event.DISCONNECTED], State.DREQ_RCVD),
    ("DREQ_SENT", "REJ"): (NONE, [Event.REJECTED], State.IDLE),
    ("DREQ_SENT", "DESTROY"): (NONE, [], State.IDLE),
    ("DREQ_SENT", "TIMEOUT"): (["DREQ"], [], State.DREQ_SENT),
    ("DREQ_SENT", "EXPIRED"): (NONE, [Event.DISCONNECTED], State.TIMEWAIT),
    ("DREQ_RCVD", "DISCONNECT"): (["DREP"], [], State.TIMEWAIT),
    ("DREQ_RCVD", "DREP"): (NONE, [], State.TIMEWAIT),
    ("DREQ_RCVD", "REJ"): (NONE, [Event.REJECTED], State.IDLE),
    ("DREQ_RCVD", "DESTROY"): (["DREP"], [], State.IDLE),
    ("TIMEWAIT", "DREQ"): (["DREP"], [], State.TIMEWAIT),
    ("TIMEWAIT", "DESTROY"): (NONE, [], State.IDLE),
    ("TIMEWAIT", "EXPIRED"): (NONE, [Event.TIMEWAIT_EXIT], State.IDLE),
    # a request before its listener; nobody owns it, so no program commands it
    ("HELD", "REJ"): (NONE, [], State.IDLE),
    ("HELD", "EXPIRED"): (["REJ"], [], State.IDLE),
    ("HELD_SIDR", "EXPIRED"): (["SIDR_REP"], [], State.IDLE),
    # IBA 12.11
    ("SIDR_REQ_SENT", "SIDR_REP"): (NONE, [Event.ESTABLISHED], State.SIDR_DONE),
    ("SIDR_REQ_SENT", "REJ"): (NONE, [Event.REJECTED], State.IDLE),
    ("SIDR_REQ_SENT", "DESTROY"): (NONE, [], State.IDLE),
    ("SIDR_REQ_SENT", "TIMEOUT"): (["SIDR_REQ"], [], State.SIDR_REQ_SENT),
    ("SIDR_REQ_SENT", "EXPIRED"): (NONE, [Event.UNREACHABLE], State.IDLE),
    ("SIDR_REQ_RCVD", "ACCEPT"): (["SIDR_REP"], [], State.SIDR_DONE),
    ("SIDR_REQ_RCVD", "REJECT"): (["SIDR_REP"], [], State.SIDR_DONE),
    ("SIDR_REQ_RCVD", "DESTROY"): (["SIDR_REP"], [], State.IDLE),
    ("SIDR_DONE", "SIDR_REQ"): (["SIDR_REP"], [], State.SIDR_DONE),
    ("SIDR_DONE", "DESTROY"): (NONE, [], State.IDLE),
    # a listener; its child takes the request
    ("LISTEN", "REQ"): (NONE, [Event.CONNECT_REQUEST], State.LISTEN),
    ("LISTEN", "SIDR_REQ"): (["SIDR_REP"], [], State.LISTEN),
    ("LISTEN", "DREQ"): (["DREP"], [], State.LISTEN),
    ("LISTEN", "DESTROY"): (NONE, [], State.IDLE),
    ("LISTEN_SIDR", "REQ"): (["REJ"], [], State.LISTEN),
    ("LISTEN_SIDR", "SIDR_REQ"): (NONE, [Event.CONNECT_REQUEST], State.LISTEN),
    ("LISTEN_SIDR", "DREQ"): (["DREP"], [], State.LISTEN),
    ("LISTEN_SIDR", "DESTROY"): (NONE, [], State.IDLE),
    ("LISTEN_FULL", "REQ"): (NONE, [], State.LISTEN),
    ("LISTEN_FULL", "SIDR_REQ"): (["SIDR_REP"], [], State.LISTEN),
    ("LISTEN_FULL", "DREQ"): (["DREP"], [], State.LISTEN),
    ("LISTEN_FULL", "DESTROY"): (NONE, [], State.IDLE),
    ("LISTEN_SIDR_FULL", "REQ"): (["REJ"], [], State.LISTEN),
    ("LISTEN_SIDR_FULL", "DREQ"): (["DREP"], [], State.LISTEN),
    ("LISTEN_SIDR_FULL", "DESTROY"): (NONE, [], State.IDLE),
    # nobody: a DREQ of a dead connection is answered (Linux: cm_issue_drep); a REQ is held for a listener
    ("IDLE", "DREQ"): (["DREP"], [], State.IDLE),
    ("IDLE_SHORT_OF_TIME", "REQ"): (["REJ"], [], State.IDLE),
    ("IDLE_SHORT_OF_TIME", "SIDR_REQ"): (["SIDR_REP"], [], State.IDLE),
    ("IDLE_SHORT_OF_TIME", "DREQ"): (["DREP"], [], State.IDLE),
}
STRANGERS = {
    (state, "DREQ"): (["DREP"], [], State[state.removesuffix("_SIDR")])
    for state in ("HELD", "HELD_SIDR", "REQ_SENT", "SIDR_REQ_SENT", "SIDR_REQ_RCVD", "SIDR_DONE")
}
"""The peer has no comm ID of theirs, or they have none of its: a DREQ that names one is a stranger's."""
PASSIVE = (
    "REQ_RCVD",
    "REP_SENT",
    "REP_SENT_HELD_DREQ",
    "ESTABLISHED_PASSIVE",
    "ESTABLISHED_HELD_DREQ",
    "DREQ_RCVD",
    "TIMEWAIT",
)
TO_THE_LISTENER = {
    **{
        (state, "SIDR_REQ"): (["SIDR_REP"], [], State[state.split("_PASSIVE")[0].split("_HELD")[0]])
        for state in PASSIVE
    },
    **{(state, "REQ"): (["REJ"], [], State[state]) for state in ("SIDR_REQ_RCVD", "SIDR_DONE")},
}
"""A request of the other kind is no repetition: the listener refuses it, for it serves the first kind."""
EXPECTED |= STRANGERS | TO_THE_LISTENER
STATES = (
    *(state.name for state in State),
    "ESTABLISHED_PASSIVE",
    "ESTABLISHED_HELD_DREQ",
    "REP_SENT_HELD_DREQ",
    "HELD_SIDR",
    "LISTEN_SIDR",
    "LISTEN_FULL",
    "LISTEN_SIDR_FULL",
    "IDLE_SHORT_OF_TIME",
)


def reach(state: str) -> tuple[Wire, Host, Endpoint]:
    """An endpoint in ``state``, its host, and the wire between both hosts. Host 1 is active, host 2 passive."""
    timing = Timing(response=8 if state == "IDLE_SHORT_OF_TIME" else 9, retries=1)
    wire = Wire(timing=timing)
    one, two = wire.hosts.values()
    qp_type = QpType.UD if "SIDR" in state else QpType.RC
    if state.startswith("IDLE"):
        return wire, two, two.active()
    if state.startswith("LISTEN"):
        return wire, two, two.listen(qp_type, backlog=0 if "FULL" in state else 4)
    a = one.active(qp_type)
    if not state.startswith("HELD"):
        two.listen(qp_type)
    one.cm.connect(a, Param(qpn=0x11), b"")
    if state in ("REQ_SENT", "SIDR_REQ_SENT"):
        return wire, one, a
    wire.carry()
    if state.startswith("HELD"):
        (b,) = two.connections.early
        return wire, two, b
    b = two.events[0][0]
    if state in ("REQ_RCVD", "SIDR_REQ_RCVD"):
        return wire, two, b
    two.cm.accept(b, Param(qpn=0x22))
    if state.startswith("REP_SENT"):
        if state.endswith("HELD_DREQ"):
            hold_dreq(wire, two, b)
        return wire, two, b
    wire.carry()
    if state == "SIDR_DONE":
        return wire, two, b
    if state == "REP_RCVD":
        return wire, one, a
    one.cm.ready(a)
    wire.carry()
    if state == "ESTABLISHED":
        return wire, one, a
    if state.endswith("HELD_DREQ"):
        hold_dreq(wire, two, b)
    if state.startswith("ESTABLISHED"):
        return wire, two, b
    one.cm.disconnect(a)
    if state == "DREQ_SENT":
        return wire, one, a
    wire.carry()
    if state == "DREQ_RCVD":
        return wire, two, b
    assert state == "TIMEWAIT"
    two.cm.disconnect(b)
    return wire, two, b


def hold_dreq(wire: Wire, host: Host, e: Endpoint) -> None:
    host.completions[e.qpn] = 1
    send(wire, host, e, CmAttr.DREQ)


def send(wire: Wire, host: Host, e: Endpoint, attr: int) -> None:
    """A message with the IDs of the connection of ``e``, as its peer would write them, reaches ``host``."""
    peer = 3 - host.lid
    if attr in (LAP, APR):
        ids = (e.peer_comm_id or 1).to_bytes(4, "big") + (e.comm_id or 1).to_bytes(4, "big")
        mad = (head_of(7, 2, 3, 5, attr) + ids).ljust(256, b"\0")
    elif attr in (CmAttr.SIDR_REQ, CmAttr.SIDR_REP):
        ours = e.peer_comm_id if attr == CmAttr.SIDR_REQ else e.comm_id
        mad = cm_mad(attr, 5, request_id=ours or 77, service_id=SERVICE)
    elif attr == CmAttr.REQ:
        mad = cm_mad(
            attr,
            5,
            local_comm_id=e.peer_comm_id or 77,
            local_ca_guid=e.peer_guid if e.peer_guid > 0 else peer * 0x100,
            service_id=SERVICE,
            primary_local_lid=peer,
            primary_remote_lid=host.lid,
            remote_cm_response_timeout=host.connections.timing.response,
        )
    else:
        named = {} if attr != CmAttr.REJ or e.comm_id else {"reason": 4, "ari": max(e.peer_guid, 0).to_bytes(8, "big")}
        mad = cm_mad(attr, 5, local_comm_id=e.peer_comm_id or 77, remote_comm_id=e.comm_id or 88, **named)
    host.cm.receive(host.lid, peer, mad)


def command(host: Host, e: Endpoint, name: str) -> None:
    args = {"ACCEPT": (Param(),), "REJECT": (28,)}.get(name, ())
    getattr(host.cm, name.lower())(e, *args)


def run_out(host: Host, e: Endpoint, last: bool) -> None:
    """The endpoint's time is over, with a retry left or none; other timers stand still."""
    e.retries_left = 0 if last or not e.retries_left else 1
    what = Input.TIMEOUT if e.retries_left else Input.EXPIRED
    if not last and what is Input.EXPIRED:
        return  # it has nothing to repeat
    transitions.fire(host.connections, e, what, host.connections.early.get(e))


def happens(state: str, what: str) -> tuple[list[str], list[Event], State]:
    wire, host, e = reach(state)
    if state not in ("IDLE", "IDLE_SHORT_OF_TIME"):
        assert e.state.name == state.split("_HELD")[0].split("_PASSIVE")[0].split("_FULL")[0] or "_SIDR" in state
    host.cm.outbox.clear()
    host.events.clear()
    if what in MESSAGES:
        send(wire, host, e, MESSAGES[what])
    elif what in COMMANDS:
        command(host, e, what)
    else:
        run_out(host, e, what == "EXPIRED")
    return [CmAttr(Head(out.mad).attr).name for out in host.cm.outbox], host.seen(), e.state


CASES = [
    (state, what)
    for state, what in itertools.product(STATES, [*MESSAGES, *COMMANDS, *TIMES])
    if not (what in COMMANDS and state.startswith("HELD"))  # no program owns a held request
]


@pytest.mark.parametrize(("state", "what"), CASES)
def test_every_state_and_every_input(state, what):
    if (state, what) in (("IDLE", "DESTROY"), ("IDLE_SHORT_OF_TIME", "DESTROY")):
        expected = (NONE, [], State.IDLE)
    elif (state, what) in EXPECTED:
        expected = EXPECTED[state, what]
    else:
        _, _, e = reach(state)
        expected = (NONE, [], e.state)
    assert happens(state, what) == expected


@pytest.mark.parametrize("state", ["REQ_SENT", "REP_SENT"])
def test_an_mra_gives_the_peer_its_time(state):
    """IBA 12.6.6: 4.096 us * 2^16 = 256 ms, and the time of an answer; without it the message is repeated after 2 ms."""
    _, host, e = reach(state)
    mad = cm_mad(CmAttr.MRA, 5, local_comm_id=9, remote_comm_id=e.comm_id, service_timeout=16)
    host.cm.receive(host.lid, 1, mad)
    assert host.cm.deadline_ps() == (256 + 2) * MS and e.state.name == state


# -- the table itself --


def test_every_row_is_walked(monkeypatch):
    """The walk above, and the few inputs that it has not: no row is there that nothing can reach."""
    walked = set()

    def traced(row):
        def action(cm, e, arg):
            walked.add(ROWS.index(row))
            return row.action(cm, e, arg)

        return row._replace(action=action)

    traced_rows = {key: tuple(map(traced, rows)) for key, rows in transitions.TRANSITIONS.items()}
    monkeypatch.setattr(transitions, "TRANSITIONS", traced_rows)
    for state, what in CASES:
        happens(state, what)
    for state in ("ESTABLISHED_HELD_DREQ", "REP_SENT_HELD_DREQ"):  # looked at once with completions there, once without
        wire, host, e = reach(state)
        wire.wait(1)
        host.completions.clear()
        transitions.fire(host.connections, e, Input.DREQ_CHECK)
        assert e.state is State.DREQ_RCVD
    for state in ("HELD", "HELD_SIDR"):
        wire, host, e = reach(state)
        host.listen(QpType(e.qp_type))
        assert host.seen() == [Event.CONNECT_REQUEST]
    assert [ROWS[i] for i in sorted(set(range(len(ROWS))) - walked)] == []


def test_guards_come_before_the_row_without_one():
    for rows in transitions.TRANSITIONS.values():
        assert all(row.when for row in rows[:-1]), rows
        assert len({row.when for row in rows}) == len(rows)


def test_every_state_can_be_reached_and_left():
    arrows = {(row.state, row.next) for row in ROWS}
    reached = {State.IDLE}
    while more := {b for a, b in arrows if a in reached} - reached:
        reached |= more
    assert reached == set(State)
    assert {a for a, b in arrows if b is State.IDLE} == set(State)


def test_the_page_shows_the_table():
    """docs/rdma-cm.md has the table that the code runs; ``python -m tests.cm.test_transitions`` writes it."""
    assert diagram() in DOCS.read_text("utf-8")


BEGIN, END = "<!-- state diagram: from softib.cm.transitions -->", "<!-- end -->"


def diagram() -> str:
    """Mermaid's text of the table: the arrows between states, and the inputs that each takes."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for row in ROWS:
        if row.state is not row.next and row.input is not Input.DESTROY:
            labels = arrows.setdefault((row.state.name, row.next.name), [])
            if row.input.name not in labels:
                labels.append(row.input.name)
    lines = [f"    {a} --> {b}: {', '.join(names)}" for (a, b), names in arrows.items()]
    return "\n".join([BEGIN, "```mermaid", "stateDiagram-v2", "    [*] --> IDLE", *lines, "```", END])


if __name__ == "__main__":
    text = DOCS.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    DOCS.write_text(before + diagram() + rest.partition(END)[2], "utf-8")
