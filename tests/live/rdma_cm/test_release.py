"""The end of a connection comes behind its data: a DREQ waits for completions that its receiver's program has not taken."""

from __future__ import annotations

import os

import numpy as np
import pytest

from softib.cm.connections import Timing
from softib.cm.endpoint import Event, Param, State
from softib.iba.cm import CmAttr
from softib.live.verbs.shared_heap import HEADER, SharedHeap, UnreadCompletions, constant, types
from tests.cm.lab import Wire, connected

PATIENT = Timing(response=20, retries=3)
LIMIT_MS = PATIENT.unread_ms


def ended(unread: int = 1):
    """One side has ended a connection whose other program has ``unread`` completions to take."""
    wire = Wire(timing=PATIENT)
    a, b = connected(wire)
    one, two = wire.hosts.values()
    two.completions[b.qpn] = unread
    one.cm.disconnect(a)
    wire.carry()
    return wire, one, two, a, b


def test_it_waits_until_the_last_completion_was_taken():
    wire, one, two, _a, b = ended(unread=2)
    wire.wait(20)
    assert Event.DISCONNECTED not in two.seen() and b.state is State.ESTABLISHED
    two.completions.clear()
    wire.wait(1)
    assert two.seen()[-1] is Event.DISCONNECTED and b.state is State.DREQ_RCVD
    two.cm.disconnect(b)
    wire.carry()
    assert one.seen()[-1] is Event.DISCONNECTED and wire.carried[-2:] == [CmAttr.DREQ, CmAttr.DREP]


def test_nothing_unread_waits_for_nothing():
    _, _, two, _, _ = ended(unread=0)
    assert two.seen()[-1] is Event.DISCONNECTED


def test_a_program_that_never_polls_is_told_in_the_end():
    wire, _one, two, _a, _b = ended()
    wire.wait(LIMIT_MS - 1)
    assert Event.DISCONNECTED not in two.seen()
    wire.wait(1)
    assert two.seen()[-1] is Event.DISCONNECTED
    wire.wait(2 * LIMIT_MS)
    assert two.seen().count(Event.DISCONNECTED) == 1


def test_a_program_that_ends_it_too_is_told_at_once():
    wire, one, two, _a, b = ended()
    two.cm.disconnect(b)
    wire.carry()
    for host in (one, two):
        assert host.seen().count(Event.DISCONNECTED) == 1
    wire.wait(2 * LIMIT_MS)
    assert two.seen().count(Event.DISCONNECTED) == 1 and not two.connections.held_dreqs


def test_a_program_that_dies_answers_at_once():
    wire, one, two, _a, b = ended()
    two.cm.destroy(b)
    wire.carry()
    assert one.seen()[-1] is Event.DISCONNECTED and not two.connections.held_dreqs
    wire.wait(2 * LIMIT_MS)
    assert not two.connections.by_id


def test_a_repeated_one_waits_once():
    wire, one, two, a, _b = ended()
    one.connections.post(a, a.last_mad)
    wire.carry()
    two.completions.clear()
    wire.wait(2)
    assert two.seen().count(Event.DISCONNECTED) == 1


def test_the_receiver_may_still_be_establishing():
    """The RTU is lost: its own timer for the answer goes on beside the one of the DREQ."""
    wire = Wire(lose=lambda mad: int.from_bytes(mad[16:18], "big") == CmAttr.RTU, timing=PATIENT)
    one, two = wire.hosts.values()
    two.listen()
    a = one.active()
    one.cm.connect(a, Param(qpn=0x11), b"")
    wire.carry()
    b = two.events[0][0]
    two.cm.accept(b, Param(qpn=0x22))
    wire.carry()
    one.cm.ready(a)
    wire.carry()
    assert b.state is State.REP_SENT
    two.completions[0x22] = 1
    one.cm.disconnect(a)
    wire.carry()
    two.cm.notify(b)
    assert two.seen()[-1] is Event.ESTABLISHED
    two.completions.clear()
    wire.wait(1)
    assert two.seen()[-1] is Event.DISCONNECTED


# -- what the daemon reads --


@pytest.fixture
def memory(tmp_path):
    made = SharedHeap(tmp_path / "verbs")
    yield made
    made.close()


def put(memory: SharedHeap, at: int, kind: str, **fields: int) -> int:
    one = np.zeros(1, types()[kind])
    for name, value in fields.items():
        one[name] = value
    os.pwrite(memory.fd, one.tobytes(), at)
    return at


def queue_pair(memory: SharedHeap, qpn: int, **fields: int) -> None:
    at = put(memory, constant("HEAP") + 4096, "softib_qp", **{"is": HEADER.macro("SOFTIB_IS_QP"), "qpn": qpn}, **fields)
    memory.numbers[qpn] = 1 << 48 | at
    memory.head["number_high"] = qpn + 1


def test_unread_completions_are_those_before_the_look(memory):
    unread = UnreadCompletions(memory)
    sends, receives = constant("HEAP") + 8192, constant("HEAP") + 12288
    queue_pair(memory, 77, send_cq=sends, recv_cq=receives)
    put(memory, sends, "softib_cq", producer=5, consumer=5)
    put(memory, receives, "softib_cq", producer=9, consumer=9)
    assert unread(77) is None and unread(78) is None and unread(0xFFFFFF) is None
    put(memory, sends, "softib_cq", producer=1, consumer=0xFFFFFFFF)  # they count round
    still = unread(77)
    assert still is not None and still()
    put(memory, sends, "softib_cq", producer=1, consumer=0)
    assert still()
    put(memory, sends, "softib_cq", producer=3, consumer=1)
    assert not still(), "those that came later are not waited for"
    memory.numbers[77] = 0
    assert unread(77) is None, "the QP is gone"


def test_of_an_xrc_target_the_shared_receive_queue_has_the_completions(memory):
    shared, cq = constant("HEAP") + 8192, constant("HEAP") + 12288
    queue_pair(memory, 77, srq=shared)
    put(memory, shared, "softib_srq", cq=cq)
    put(memory, cq, "softib_cq", producer=1, consumer=0)
    assert UnreadCompletions(memory)(77) is not None


def test_what_a_program_scribbles_there_does_no_harm(memory):
    unread = UnreadCompletions(memory)
    for at in (0, 1, constant("SIZE") - 1, (1 << 48) - 1):
        memory.head["number_high"] = 0xFFFFFFFF
        memory.numbers[77] = 1 << 48 | at
        assert unread(77) is None
        queue_pair(memory, 77, send_cq=at, recv_cq=at, srq=at)
        assert unread(77) is None
