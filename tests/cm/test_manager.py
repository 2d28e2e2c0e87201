"""Connections between two hosts: set up, released, refused, lost messages, dead programs, hostile MADs."""

from __future__ import annotations

import errno
import itertools
import random

import pytest

from softib.cm.endpoint import Event, Param, QpType, State
from softib.iba.cm import CmAttr
from softib.iba.mad_codec import Head
from tests.cm.lab import Wire, connected


def test_connect_and_disconnect():
    wire = Wire()
    a, b = connected(wire)
    one, two = wire.hosts.values()
    one.cm.disconnect(a)
    wire.carry()
    assert two.seen()[-1] is Event.DISCONNECTED and one.seen()[-1] is Event.CONNECT_RESPONSE
    two.cm.disconnect(b)
    wire.carry()
    assert one.seen()[-1] is Event.DISCONNECTED
    assert wire.carried == [CmAttr.REQ, CmAttr.REP, CmAttr.RTU, CmAttr.DREQ, CmAttr.DREP]
    wire.wait(5000)
    assert one.seen()[-1] is two.seen()[-1] is Event.TIMEWAIT_EXIT
    assert not one.connections.by_id and not two.connections.by_id and not two.connections.by_peer


@pytest.mark.parametrize("attr", [CmAttr.REQ, CmAttr.REP, CmAttr.RTU])
def test_each_message_may_be_lost_once(attr):
    lost: list[int] = []

    def lose(mad: bytes) -> bool:
        if Head(mad).attr != attr or lost:
            return False
        lost.append(attr)
        return True

    connected(Wire(lose))
    assert lost


@pytest.mark.parametrize("seed", range(20))
def test_a_bad_wire(seed):
    """Half of all messages are lost; whatever comes of it, no event comes twice and nothing is left behind."""
    rng = random.Random(seed)
    wire = Wire(lambda mad: rng.random() < 0.5)
    one, two = wire.hosts.values()
    two.listen()
    a = one.active()
    one.cm.connect(a, Param(qpn=1), b"")
    answered = ready = False
    for _ in range(300):
        wire.carry()
        wire.wait(120)
        if not answered and two.seen():
            two.cm.accept(two.events[0][0], Param(qpn=2))
            answered = True
        if not ready and Event.CONNECT_RESPONSE in one.seen():
            one.cm.ready(a)
            ready = True
    for host in (one, two):
        assert all(host.seen().count(event) == 1 for event in host.seen()), host.seen()
    if answered:
        two.cm.destroy(two.events[0][0])
    one.cm.destroy(a)
    assert not one.connections.by_id and not two.connections.by_id and not two.connections.by_peer
    assert two.listener is not None and two.listener.waiting == 0


def test_nobody_there_is_unreachable_after_all_retries():
    wire = Wire(lambda mad: True)
    one = wire.hosts[1]
    one.cm.connect(one.active(), Param(), b"")
    wire.wait(2 * 4 - 1)
    assert not one.events
    wire.wait(1)
    ((_, event, status, _),) = one.events
    assert (event, status) == (Event.UNREACHABLE, -errno.ETIMEDOUT)
    assert wire.carried == [CmAttr.REQ] * 4 + [CmAttr.REJ]


def test_nobody_listens():
    wire = Wire()
    one = wire.hosts[1]
    one.cm.connect(one.active(), Param(), b"")
    wire.carry()
    wire.wait(1)
    assert [(event, status) for _, event, status, _ in one.events] == [(Event.REJECTED, 8)]


def test_another_transport_is_refused():
    wire = Wire()
    one, two = wire.hosts.values()
    two.listen(QpType.RC)
    one.cm.connect(one.active(QpType.UC), Param(), b"")
    wire.carry()
    assert [(event, status) for _, event, status, _ in one.events] == [(Event.REJECTED, 9)] and not two.events


def test_a_slow_program_holds_the_other_side_with_mra():
    wire = Wire()
    one, two = wire.hosts.values()
    two.listen()
    a = one.active()
    one.cm.connect(a, Param(), b"")
    wire.carry()
    wire.wait(100)
    assert CmAttr.MRA in wire.carried and not one.events
    two.cm.accept(two.events[0][0], Param(qpn=3))
    wire.carry()
    assert one.seen() == [Event.CONNECT_RESPONSE]


def test_a_full_backlog_drops_and_the_other_side_asks_again():
    wire = Wire()
    one, two = wire.hosts.values()
    two.listen(backlog=1)
    first, second = one.active(), one.active()
    for e in (first, second):
        one.cm.connect(e, Param(), b"")
        wire.carry()
    assert two.seen() == [Event.CONNECT_REQUEST]
    two.cm.reject(two.events[0][0], 28, b"no")
    wire.carry()
    assert [(e is first, event, status) for e, event, status, _ in one.events] == [(True, Event.REJECTED, 28)]
    assert one.events[0][3]["private_data"][:2] == b"no"
    wire.wait(3)
    assert two.seen() == [Event.CONNECT_REQUEST] * 2


STATES = ("REQ_SENT", "REQ_RCVD", "REP_RCVD", "REP_SENT", "ESTABLISHED", "DREQ_SENT", "DREQ_RCVD")


@pytest.mark.parametrize("state", STATES)
def test_the_peer_hears_of_a_program_that_dies_in_any_state(state):
    """What `destroy` does for a dead program's id: the other side hears at once, and nothing stays."""
    wire = Wire()
    one, two = wire.hosts.values()
    two.listen()
    a = one.active()
    one.cm.connect(a, Param(), b"")
    wire.carry()
    b = two.events[0][0]
    if state not in ("REQ_SENT", "REQ_RCVD"):
        two.cm.accept(b, Param())
        wire.carry()
    if state in ("ESTABLISHED", "DREQ_SENT", "DREQ_RCVD"):
        one.cm.ready(a)
        wire.carry()
    if state.startswith("DREQ"):
        one.cm.disconnect(a)
        wire.carry()
    dead, host, other, peer = (
        (a, one, two, b) if state in ("REQ_SENT", "REP_RCVD", "ESTABLISHED", "DREQ_SENT") else (b, two, one, a)
    )
    assert dead.state is State[state]
    host.cm.destroy(dead)
    wire.carry()
    wanted = {
        "REQ_SENT": None,
        "REQ_RCVD": Event.REJECTED,
        "REP_RCVD": Event.REJECTED,
        "REP_SENT": Event.REJECTED,
        "ESTABLISHED": Event.DISCONNECTED,
        "DREQ_SENT": Event.DISCONNECTED,
        "DREQ_RCVD": Event.DISCONNECTED,
    }[state]
    if wanted is None:
        assert not peer.events_enabled and peer.state is State.IDLE  # it was never accepted: its program hears nothing
    else:
        assert other.seen()[-1] is wanted
    assert not host.connections.by_id and not host.connections.by_peer
    if peer.state is State.DREQ_RCVD:
        other.cm.disconnect(peer)
        wire.carry()
    wire.wait(5000)
    assert not other.connections.by_id and not other.connections.by_peer


def test_service_id_resolution():
    wire = Wire()
    one, two = wire.hosts.values()
    two.listen(QpType.UD)
    a = one.active(QpType.UD)
    one.cm.connect(a, Param(private_data=b"who"), b"head")
    wire.carry()
    b, event, _, fields = two.events[0]
    assert event is Event.CONNECT_REQUEST and fields["private_data"][:7] == b"headwho"
    two.cm.accept(b, Param(qpn=0x1234, qkey=0x55))
    wire.carry()
    _, event, status, fields = one.events[0]
    assert (event, status, fields["qpn"], fields["qkey"]) == (Event.ESTABLISHED, 0, 0x1234, 0x55)


@pytest.mark.parametrize(("serves", "status"), [(False, 1), (True, 2)])
def test_service_id_refused(serves, status):
    wire = Wire()
    one, two = wire.hosts.values()
    if serves:
        two.listen(QpType.UD)
    one.cm.connect(one.active(QpType.UD), Param(), b"")
    wire.carry()
    wire.wait(1)
    if serves:
        two.cm.reject(two.events[0][0], 28)
        wire.carry()
    assert [(event, s) for _, event, s, _ in one.events] == [(Event.UNREACHABLE, status)]


def test_any_octets_in_any_state():
    """Hostile MADs: all attributes, right and wrong names of the connection, random octets."""
    rng = random.Random(5)
    for attr, right in itertools.product(range(0x0F, 0x1B), (False, True)):
        for _ in range(20):
            wire = Wire()
            a, b = connected(wire)
            two = wire.hosts[2]
            mad = bytearray(rng.randbytes(256))
            mad[:4] = 1, 7, 2, 3
            mad[16:18] = attr.to_bytes(2, "big")
            if right:
                mad[24:32] = a.comm_id.to_bytes(4, "big") + b.comm_id.to_bytes(4, "big")
            two.cm.receive(2, 1, bytes(mad))
            two.cm.outbox.clear()
            wire.wait(1)
