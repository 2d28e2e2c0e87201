"""Two hosts, a wire that may lose messages, and a clock that the test turns: communication management without sockets."""

from __future__ import annotations

from collections.abc import Callable

from softib.cm.connections import Connections, Timing
from softib.cm.endpoint import Endpoint, Event, Param, Path, QpType
from softib.cm.manager import CommunicationManager
from softib.iba.mad_codec import Head

MS = 10**9
SERVICE = 0x0106 << 16 | 7471
QUICK = Timing(response=9, retries=3)
"""An answer may take 2 ms: no request waits for a listener for more than 1."""
GIDS = {1: bytes(15) + b"\1", 2: bytes(15) + b"\2"}


class Host:
    """One kernel, at LID and port ``lid``."""

    def __init__(self, wire: Wire, lid: int, timing: Timing):
        self.wire, self.lid = wire, lid
        self.events: list[tuple[Endpoint, Event, int, dict]] = []
        self.listener: Endpoint | None = None
        self.completions: dict[int, int] = {}
        """By QPN: those that the program has not taken yet."""
        self.connections = Connections(
            lambda port, service: self.listener if service == SERVICE else None,
            self.child,
            self.report,
            lambda port: port * 0x100,
            timing,
            self.unread,
        )
        self.cm = CommunicationManager(self.connections)

    def listen(self, qp_type: int = QpType.RC, backlog: int = 4) -> Endpoint:
        self.listener = Endpoint(self, 1, 0, 0x0106, qp_type, backlog=backlog)
        self.cm.listen(self.listener)
        return self.listener

    def child(self, listener: Endpoint) -> Endpoint:
        return Endpoint(self, 2, 0, listener.ps, listener.qp_type, listener=listener)

    def report(self, e: Endpoint, event: Event, status: int, fields: dict) -> None:
        self.events.append((e, event, status, fields))

    def active(self, qp_type: int = QpType.RC) -> Endpoint:
        other = 3 - self.lid
        path = Path.of_fields(
            sgid=GIDS[self.lid],
            dgid=GIDS[other],
            slid=self.lid,
            dlid=other,
            pkey=0xFFFF,
            sl=0,
            mtu=5,
            rate=16,
            life_time=18,
        )
        return Endpoint(self, 9, 0, 0x0106, qp_type, port=self.lid, path=path, target_service=SERVICE)

    def unread(self, qpn: int) -> Callable[[], bool] | None:
        return (lambda: bool(self.completions.get(qpn))) if self.completions.get(qpn) else None

    def seen(self) -> list[Event]:
        return [event for _, event, _, _ in self.events]


class Wire:
    def __init__(self, lose=lambda mad: False, timing: Timing = QUICK):
        self.hosts = {lid: Host(self, lid, timing) for lid in (1, 2)}
        self.lose, self.now_ps = lose, 0
        self.carried: list[int] = []
        self.lost = 0

    def carry(self) -> None:
        while any(h.cm.outbox for h in self.hosts.values()):
            for lid, host in self.hosts.items():
                while host.cm.outbox:
                    out = host.cm.outbox.popleft()
                    self.carried.append(Head(out.mad).attr)
                    if self.lose(out.mad):
                        self.lost += 1
                    elif out.dlid in self.hosts:  # else the sender lied about its LID
                        self.hosts[out.dlid].cm.receive(out.dlid, lid, out.mad)

    def wait(self, ms: int) -> None:
        """Time passes, a millisecond at a time."""
        for _ in range(ms):
            self.now_ps += MS
            for host in self.hosts.values():
                host.cm.tick(self.now_ps)
            self.carry()


def connected(wire: Wire) -> tuple[Endpoint, Endpoint]:
    one, two = wire.hosts.values()
    two.listen()
    a = one.active()
    one.cm.connect(a, Param(qpn=0x11, psn=5, private_data=b"hi", retry_count=3, rnr_retry_count=2), b"")
    finish(wire)
    (b, event, _, fields) = two.events[0]
    assert event is Event.CONNECT_REQUEST and fields["private_data"][:2] == b"hi" and fields["local_qpn"] == 0x11
    two.cm.accept(b, Param(qpn=0x22, psn=6))
    finish(wire)
    assert one.seen() == [Event.CONNECT_RESPONSE]
    one.cm.ready(a)
    finish(wire)
    assert two.seen() == [Event.CONNECT_REQUEST, Event.ESTABLISHED]
    assert (a.peer_qpn, b.peer_qpn) == (0x22, 0x11)
    return a, b


def finish(wire: Wire) -> None:
    """Carry on until what was lost has been sent again."""
    lost = wire.lost
    wire.carry()
    wire.wait(3 if wire.lost > lost else 0)
